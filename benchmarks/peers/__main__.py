"""`make bench-peers`: run 20,000 no-op jobs in each queue. The queues take turns, for several rounds.

The store is Debian's `redis-server` with an append-only file that is synced every second. beanstalkd has a binlog of
its own instead, which is also synced every second. Each queue has one worker process. Queues that are not installed are
left out, and the output names them.
"""

import argparse
import contextlib
import json
import os
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.__main__ import commit, write_record
from benchmarks.load import ROOT, System, cpu_s, free_port, loop_ns, running_system, started
from benchmarks.scenario import Figures, Meter

REDIS: Final = "/usr/bin/redis-server"
HERE: Final = Path(__file__).parent
JOBS: Final = 20_000
WARM_UP: Final = 1_000
UP_WITHIN_S: Final = 60.0
DONE_WITHIN_S: Final = 120.0


@dataclass(frozen=True)
class Peer:
    """Another queue, with which this one is compared.

    * `needs`: returns whether everything that the queue needs is installed.
    * `worker`, `push`: the commands that run jobs and push them.
    * `store`: `redis` or `beanstalkd`.
    """

    name: str
    needs: Callable[[], bool]
    worker: Sequence[str]
    push: Sequence[str]
    store: str = "redis"


def _has_module(name: str) -> Callable[[], bool]:
    def has() -> bool:
        import importlib.util

        return importlib.util.find_spec(name) is not None

    return has


def _has_command(*names: str) -> Callable[[], bool]:
    return lambda: all(shutil.which(name) for name in names)


PEERS: Final = [
    Peer(
        "huey",
        _has_module("huey"),
        (sys.executable, "-m", "huey.bin.huey_consumer", "benchmarks.peers.huey_app.huey", "-w", "4",
         "-k", "thread", "-n", "-q"),
        (sys.executable, "-m", "benchmarks.peers.huey_app"),
    ),
    Peer(
        "taskiq",
        _has_module("taskiq_redis"),
        (sys.executable, "-m", "taskiq", "worker", "benchmarks.peers.taskiq_app:broker", "--workers", "1",
         "--log-level", "WARNING"),
        (sys.executable, "-m", "benchmarks.peers.taskiq_app"),
    ),
    Peer(
        "sidekiq",
        _has_command("sidekiq", "ruby"),
        ("sidekiq", "-r", str(HERE / "sidekiq_app.rb"), "-c", "10"),
        ("ruby", str(HERE / "sidekiq_app.rb")),
    ),
    Peer(
        "beanstalkd",
        _has_command("beanstalkd"),
        (sys.executable, "-m", "benchmarks.peers.beanstalk_app", "work"),
        (sys.executable, "-m", "benchmarks.peers.beanstalk_app"),
        store="beanstalkd",
    ),
]  # fmt: skip


class Running:
    """A peer with its store and, once it is started, its worker."""

    def __init__(self, peer: Peer, directory: Path, stack: contextlib.ExitStack) -> None:
        self._peer = peer
        self._stack = stack
        self._directory = directory
        self._count_file = directory / "count"
        self._count_file.write_bytes(bytes(8))
        self.waits_file = directory / "waits"
        port = free_port()
        self._environment = {
            **os.environ,
            "COUNT_FILE": str(self._count_file),
            "WAITS_FILE": str(self.waits_file),
            "REDIS_URL": f"redis://127.0.0.1:{port}",
            "BEANSTALK_PORT": str(port),
        }
        self.store = self._start(
            ["beanstalkd", "-l", "127.0.0.1", "-p", str(port), "-b", str(directory), "-f", "1000"]
            if peer.store == "beanstalkd"
            else redis_command(port, directory)
        )
        _wait(lambda: _listens(port))
        self.worker: psutil.Process | None = None

    def start_worker(self) -> None:
        self.worker = self._start(self._peer.worker)

    def push(self, count: int, *rate: str) -> dict[str, Any]:
        done = subprocess.run(
            [*self._peer.push, str(count), *rate], cwd=ROOT, env=self._environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"{self._peer.name} did not push: {done.stderr[-2000:]}")
        told: dict[str, Any] = json.loads(done.stdout)
        return told

    @property
    def count(self) -> int:
        data = self._count_file.read_bytes()
        return int(struct.unpack("<q", data)[0]) if len(data) == 8 else 0

    def until(self, count: int) -> None:
        deadline = time.monotonic() + DONE_WITHIN_S
        while self.count < count:
            if time.monotonic() > deadline:
                log = (self._directory / "log").read_text(errors="replace")
                raise SystemExit(f"{self._peer.name}: {self.count} of {count} jobs were run\n{log[-2000:]}")
            time.sleep(0.005)

    def cpu_s(self) -> dict[str, float]:
        return {"worker": tree_cpu_s(self.worker) if self.worker else 0.0, "store": cpu_s(self.store)}

    def _start(self, command: Sequence[str]) -> psutil.Process:
        return started(command, self._environment, self._directory / "log", self._stack)


def redis_command(port: int, directory: Path) -> list[str]:
    return [
        REDIS, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(directory), "--save", "",
        "--appendonly", "yes", "--appendfsync", "everysec",
    ]  # fmt: skip


def tree_cpu_s(process: psutil.Process) -> float:
    """Return the CPU time of a process and its children. The main process of some workers only watches its children."""
    return cpu_s(process) + sum(map(cpu_s, process.children(recursive=True)))


def of_peer(peer: Peer, jobs: int) -> Figures:
    """Measure a peer end to end, and while it works off a backlog."""
    with tempfile.TemporaryDirectory(prefix="jqmaster-peer-") as name, contextlib.ExitStack() as stack:
        running = Running(peer, Path(name), stack)
        running.start_worker()
        running.push(WARM_UP)
        running.until(WARM_UP)
        before = running.cpu_s()
        told = running.push(jobs)
        running.until(WARM_UP + jobs)
        seconds, after = time.monotonic() - told["began_s"], running.cpu_s()
        split = {
            "cpu_us_pusher": told["cpu_s"] / jobs * 1e6,
            **{f"cpu_us_{kind}": (after[kind] - before[kind]) / jobs * 1e6 for kind in after},
        }
    with tempfile.TemporaryDirectory(prefix="jqmaster-peer-") as name, contextlib.ExitStack() as stack:
        running = Running(peer, Path(name), stack)
        pushed = running.push(jobs)
        running.start_worker()
        running.until(jobs // 10)
        began, first = time.monotonic(), running.count
        running.until(jobs)
        drain_per_s = (jobs - first) / max(1e-6, time.monotonic() - began)
    return {
        "jobs_per_s": jobs / seconds,
        "cpu_us": sum(split.values()),
        **split,
        "drain_per_s": drain_per_s,
        "enqueue_per_s": jobs / (pushed["ended_s"] - pushed["began_s"]),
    }


def of_ours(jobs: int, *, kind: str, options: Mapping[str, Any]) -> Figures:
    """Measure this queue in the same way, on the same store."""
    with our_system(workers=1) as system:
        system.push("bulk", count=WARM_UP, argument_bytes=100)
        system.until_over()
        meter = Meter(system)
        with meter.running():
            told = system.push(kind, count=jobs, argument_bytes=100, **options)
            system.until_over()
        figures = meter.figures(jobs, since_s=told["began_s"])
    with our_system(workers=0) as system:
        pushed = system.push(kind, count=jobs, argument_bytes=100, **options)
        system.start_worker()
        system.until_over(jobs - jobs // 10)
        began, left = time.monotonic(), system.unfinished()
        system.until_over()
        figures["drain_per_s"] = left / max(1e-6, time.monotonic() - began)
    return figures | {"enqueue_per_s": jobs / pushed["seconds"]}


@contextlib.contextmanager
def our_system(*, workers: int) -> Iterator[System]:
    with tempfile.TemporaryDirectory(prefix="jqmaster-peer-") as name, contextlib.ExitStack() as stack:
        port = free_port()
        store = started(redis_command(port, Path(name)), os.environ, Path(name) / "log", stack)
        _wait(lambda: _listens(port))
        with running_system(
            workers=workers, appendfsync="everysec", store=store, store_url=f"redis://127.0.0.1:{port}"
        ) as system:
            yield system


def _listens(port: int) -> bool:
    return any(
        c.status == psutil.CONN_LISTEN and c.laddr and c.laddr.port == port
        for c in psutil.net_connections("tcp")
    )


def _wait(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + UP_WITHIN_S
    while not is_true():
        if time.monotonic() > deadline:
            raise SystemExit("the store did not come up")
        time.sleep(0.02)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.peers", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument(
        "--quick", action="store_true", help="1,000 jobs: only shows that the benchmark works"
    )
    parser.add_argument("--only", action="append", metavar="NAME", help="may be repeated")
    parser.add_argument("--out", type=Path, metavar="FILE.jsonl", help="append the records to this file")
    options = parser.parse_args()
    jobs = 1_000 if options.quick else options.jobs
    measures: dict[str, Callable[[], Figures]] = {
        "jqmaster": lambda: of_ours(jobs, kind="bulk", options={}),
        "jqmaster single": lambda: of_ours(jobs, kind="single", options={"connections": 32}),
    }
    for peer in PEERS:
        if not peer.needs() or (peer.store == "redis" and not Path(REDIS).exists()):
            print(f"{peer.name} is not installed: left out", file=sys.stderr)
            continue
        measures[peer.name] = lambda peer=peer: of_peer(peer, jobs)
    if options.only:
        measures = {name: measure for name, measure in measures.items() if name in options.only}
    runs: dict[str, list[Figures]] = {name: [] for name in measures}
    state = commit()
    with contextlib.ExitStack() as stack:
        out = stack.enter_context(options.out.open("a")) if options.out else sys.stdout
        for round_number in range(1, options.rounds + 1):
            for name, measure in measures.items():
                print(f"round {round_number}: {name}", file=sys.stderr, flush=True)
                loop = loop_ns()
                figures = measure()
                runs[name].append(figures)
                write_record(out, "peer", {"peer": name, "jobs": jobs}, round_number, state, loop, figures)
    _print(runs)


def _print(runs: Mapping[str, list[Figures]]) -> None:
    table = Table(title="medians; ratio: of the rate to ours, in the same run")
    for title in ("system", "jobs/s", "ratio", "CPU µs a job", "drain/s", "enqueue/s"):
        table.add_column(title)
    ours = runs.get("jqmaster")
    for name, of_case in runs.items():
        median = {key: statistics.median(run[key] for run in of_case) for key in of_case[0]}
        ratio = (
            statistics.median(run["jobs_per_s"] / own["jobs_per_s"] for run, own in zip(of_case, ours, strict=True))
            if ours else 0.0
        )  # fmt: skip
        table.add_row(
            name, f"{median['jobs_per_s']:,.0f}", f"{ratio:.2f}", f"{median['cpu_us']:,.0f}",
            f"{median['drain_per_s']:,.0f}", f"{median['enqueue_per_s']:,.0f}",
        )  # fmt: skip
    Console(stderr=True, width=120).print(table)


if __name__ == "__main__":
    main()
