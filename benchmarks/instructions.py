"""Count instructions of the master and of the store with Valgrind.

On a shared machine, the CPU time of a rare event varies by a factor of two to four, because other programs fill the
caches in between. The number of instructions does not depend on other programs. Valgrind makes a process 20 to 50 times
slower. So a run counts only one process, and pushes jobs slowly.
"""

import asyncio
import contextlib
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import psutil
import redis

from benchmarks.load import System, free_port, running_system, started
from benchmarks.scenario import Figures, Scenario
from benchmarks.shards import open_namespaces
from jqmaster.embedded.binary import wheel_binary
from worker_sdk import SyncPusher

# SETTLE_S: how long to wait until new namespaces are quiet and the first check of their data is over. LONE_S: how long
# to wait until a lone job is over.
SETTLE_S: Final = 200.0
LONE_S: Final = 0.3
_TOTAL: Final = re.compile(r"^(?:totals|summary): (\d+)", re.MULTILINE)


class Counted:
    """A process that runs under Valgrind. `directory`: the folder for its counts."""

    def __init__(self, process: psutil.Process, directory: Path) -> None:
        self._process = process
        self._directory = directory

    def instructions(self, act: Callable[[], object]) -> tuple[int, float]:
        """Run an action. Return the number of instructions that the process executes meanwhile, and the seconds that
        the action takes."""
        self._tell("--instr=on")
        self._tell("--zero")
        began_s = time.perf_counter()
        act()
        passed_s = time.perf_counter() - began_s
        before = set(self._directory.glob("counts.*"))
        self._tell("--dump")
        self._tell("--instr=off")
        (dump,) = set(self._directory.glob("counts.*")) - before
        found = _TOTAL.search(dump.read_text(errors="replace"))
        assert found
        return int(found.group(1)), passed_s

    def _tell(self, order: str) -> None:
        subprocess.run(
            ["callgrind_control", order, str(self._process.pid)], check=True, capture_output=True, timeout=300
        )


@contextlib.contextmanager
def counting(counted: str, **options: Any) -> Iterator[tuple[System, Counted]]:
    """Run a system with its master or its store under Valgrind. `counted`: `master` or `store`. `options`: the options
    of `running_system`."""
    with tempfile.TemporaryDirectory(prefix="jqmaster-bench-") as name, contextlib.ExitStack() as stack:
        directory = Path(name)
        under = [
            "valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={directory}/counts",
            f"--log-file={directory}/valgrind.log",
        ]  # fmt: skip
        port = free_port()
        url = f"redis://127.0.0.1:{port}"
        words = [
            str(wheel_binary()), "--port", str(port), "--bind", "127.0.0.1", "--dir", name, "--save", "",
            "--appendonly", "yes", "--appendfsync", "always", "--busy-reply-threshold", "60000",
        ]  # fmt: skip
        command = [*under, *words] if counted == "store" else words
        store = started(command, {}, directory / "log", stack)
        _until_answered(url)
        system = stack.enter_context(
            running_system(
                store=store,
                store_url=url,
                store_timeout_s=30,
                under=under if counted == "master" else (),
                **options,
            )
        )
        yield system, Counted(store if counted == "store" else system.master, directory)


def quiet(
    *, counted: str = "store", namespaces: int = 20, seconds: float = 30, settle_s: float = SETTLE_S
) -> Figures:
    """Count the instructions that each quiet namespace costs in a second."""
    with counting(counted, workers=0) as (system, process):

        def rest() -> None:
            time.sleep(seconds)

        time.sleep(settle_s)
        without, without_s = process.instructions(rest)
        asyncio.run(open_namespaces(system, namespaces))
        time.sleep(settle_s)
        with_them, with_s = process.instructions(rest)
    per_s = with_them / with_s - without / without_s
    return {
        f"{counted}_instructions_per_s": per_s / namespaces,
        f"idle_{counted}_instructions_per_s": without / without_s,
    }


def of_a_job(
    *,
    counted: str = "store",
    kind: str = "lone",
    namespaces: int = 1,
    jobs: int = 100,
    seconds: float = 20,
) -> Figures:
    """Count the instructions that a job costs while there are this many namespaces. The cost of all idle namespaces is
    not included. `kind`: `lone` or `bulk`."""
    with counting(counted) as (system, process):
        if namespaces > 1:
            asyncio.run(open_namespaces(system, namespaces - 1))
        time.sleep(min(SETTLE_S, seconds))
        push = _one_by_one if kind == "lone" else _in_bulk
        push(system, max(1, jobs // 5))
        system.until_over()
        idle, idle_s = process.instructions(lambda: time.sleep(seconds))
        found, passed_s = process.instructions(lambda: push(system, jobs))
        system.until_over()
    return {f"{counted}_instructions_per_job": (found - idle * passed_s / idle_s) / jobs}


def _one_by_one(system: System, jobs: int) -> None:
    with SyncPusher(system.url) as pusher:
        for number in range(jobs):
            pusher.enqueue("noop", number)
            time.sleep(LONE_S)


def _in_bulk(system: System, jobs: int) -> None:
    system.push("bulk", count=jobs, argument_bytes=100)
    system.until_over()


def _until_answered(url: str) -> None:
    for _ in range(600):
        with contextlib.suppress(redis.RedisError), redis.Redis.from_url(url) as client:
            client.ping()
            return
        time.sleep(0.1)
    raise SystemExit("the store did not come up")


SCENARIOS: Final = [
    Scenario(
        "instructions_of_quiet",
        quiet,
        [{"counted": counted} for counted in ("store", "master")],
        quick={"namespaces": 2, "seconds": 1, "settle_s": 1},
        group="instructions",
    ),
    Scenario(
        "instructions_of_job",
        of_a_job,
        [
            {"counted": counted, "kind": "lone"} for counted in ("store", "master")
        ]
        + [
            {"counted": counted, "kind": "bulk", "namespaces": count, "jobs": 2_000}
            for counted in ("store", "master")
            for count in (1, 10, 100)
        ],
        quick={"namespaces": 2, "jobs": 20, "seconds": 1},
        group="instructions",
    ),
]  # fmt: skip
