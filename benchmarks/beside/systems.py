"""Run two systems of the tree in the working directory. The first is for single POSTs, and its worker asks for no jobs.
The second has a usual worker. For each line on the standard input, run a turn and print its figures.

All modules are those of the tree, however old it is. Only the worker's handlers are the same for all trees.
"""

import asyncio
import contextlib
import json
import os
import secrets
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Final

# The number of jobs in one turn, by kind of measurement.
TURNS: Final = {"single": 500, "bulk": 2_000, "drain": 2_000, "lone": 20}
PROCESSES: Final = ("pusher", "master", "worker", "store")


class _Turns:
    """Runs turns. In the system `filled`, no worker runs jobs. In the system `worked_off`, one worker runs them."""

    def __init__(self, runner: asyncio.Runner, filled: Any, worked_off: Any) -> None:
        self._runner = runner
        self._filled = filled
        self._worked_off = worked_off
        self._load: dict[str, Any] = {"argument_bytes": 100}

    def single(self, jobs: int) -> None:
        from benchmarks import pushing

        self._runner.run(pushing.single([self._filled.url], count=jobs, connections=32, **self._load))

    def bulk(self, jobs: int) -> None:
        self._push(jobs)
        # Wait for one more job, which ends after all others. A count of the unfinished jobs would take as long as many
        # jobs. Besides, a tree that had to count more often would look slower.
        self.lone(1)
        self._worked_off.until_over()

    def drain(self, jobs: int) -> None:
        self._change_worker("resume")
        self.lone(1)
        self._worked_off.until_over()

    def lone(self, jobs: int) -> list[float]:
        """Run this many jobs, one after another, and return the seconds that each of them took."""
        took_s = []
        url, http = f"{self._worked_off.url}/api/jobs", self._worked_off.http
        for _ in range(jobs):
            began_s = time.perf_counter()
            answer = http.post(url, json={"name": "noop"})
            result = f"{url}/{answer.raise_for_status().json()['id']}/result?wait=10"
            while http.get(result).raise_for_status().status_code != 200:
                pass
            took_s.append(time.perf_counter() - began_s)
        return took_s

    def take(self, kind: str) -> dict[str, float]:
        """Run one turn, and return its figures."""
        system, jobs = self._filled if kind == "single" else self._worked_off, TURNS[kind]
        if kind == "drain":
            self._change_worker("drain")
            self._push(jobs)
        before, began_s = _cpu_ns(system), time.perf_counter()
        each_s = getattr(self, kind)(jobs)
        took_s, after = time.perf_counter() - began_s, _cpu_ns(system)
        figures = {name: (after[name] - before[name]) / 1_000 / jobs for name in PROCESSES}
        figures |= {"all": sum(figures.values()), "wall": took_s / jobs * 1e6}
        if each_s:
            figures["p50"] = statistics.median(each_s) * 1e6
        return figures

    def _push(self, jobs: int) -> None:
        from benchmarks import pushing

        self._runner.run(pushing.bulk([self._worked_off.url], count=jobs, **self._load))

    def _change_worker(self, change: str) -> None:
        url, http = f"{self._worked_off.url}/api/workers", self._worked_off.http
        (worker,) = http.get(url).raise_for_status().json()["workers"]
        http.post(f"{url}/{worker['id']}/{change}").raise_for_status()


def serve() -> None:
    import uvloop

    from benchmarks.load import running_system

    # Send whatever libraries print to the standard error, because the standard output is for the answers only.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    durable: dict[str, Any] = {"appendfsync": "everysec"}
    with (
        running_system(workers=0, **durable) as filled,
        running_system(workers=0, **durable) as worked_off,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        # Register a worker for the name. Otherwise, the master would warn with each push that no worker has ever served
        # the name. Usual pushes do not have the cost of this warning.
        idle = {"url": None, "names": ["noop"], "max_jobs": 1, "secret": secrets.token_hex(32)}
        filled.http.post(f"{filled.url}/api/workers", json=idle).raise_for_status()
        worker = worked_off.spawn("worker", "beside_worker:worker", "--master", worked_off.url)
        worked_off.workers.append(worker)
        worked_off.until_workers(1)
        turns = _Turns(runner, filled, worked_off)
        print("ready", file=answers)
        for line in sys.stdin:
            print(json.dumps(turns.take(line.strip())), file=answers)


def _cpu_ns(system: Any) -> dict[str, int]:
    """Return the CPU time of each kind of process so far, in ns. `psutil` would report it only in steps of 10 ms."""
    pids = {
        "pusher": [os.getpid()],
        "master": [process.pid for process in system.master_processes()],
        "worker": [process.pid for process in system.workers],
        "store": [system.store.pid],
    }
    return {name: sum(map(_cpu_ns_of, of_name)) for name, of_name in pids.items()}


def _cpu_ns_of(pid: int) -> int:
    # A thread may end after the folder was read. Skip such a thread.
    spent = 0
    for file in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):
            spent += int(file.read_text().split()[0])
    return spent


if __name__ == "__main__":
    serve()
