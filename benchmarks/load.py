"""Runs the processes of a benchmark, and measures what they cost."""

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
import redis

from jqmaster.embedded import url_of_running
from jqmaster.runtime.duties.repair import BEGINS_AFTER_S

ROOT = Path(__file__).parents[1]
UP_WITHIN_S = 180.0
# The minimum and the maximum pause between two checks of how many jobs are left.
MIN_LOOK_S, MAX_LOOK_S = 0.02, 0.25
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class System:
    """A system of real processes: masters, workers, and one Valkey, which the first master owns. `url`: the URL of the
    first master."""

    urls: list[str]
    masters: list[psutil.Process]
    store: psutil.Process
    directory: Path
    spawn: Callable[..., psutil.Process]
    store_url: str
    workers: list[psutil.Process] = field(default_factory=list)
    # The CPU seconds of each ended worker, and of each ended pusher.
    ended_s: list[float] = field(default_factory=list)
    pushers_s: list[float] = field(default_factory=list)
    http: httpx.Client = field(default_factory=lambda: httpx.Client(trust_env=False, timeout=30))

    @property
    def url(self) -> str:
        return self.urls[0]

    @property
    def waits_file(self) -> Path:
        """Return the file in which the handler `latency` notes how long each job waited: the seconds, as doubles."""
        return self.directory.parent / "waits"

    @property
    def master(self) -> psutil.Process:
        return self.masters[0]

    def start_worker(self, *, pull: bool = False) -> psutil.Process:
        """Start one more worker, and do not wait for its registration."""
        options = [part for url in self.urls for part in ("--master", url)]
        worker = self.spawn("worker", "benchmarks.worker:worker", *options, *(["--pull"] if pull else []))
        self.workers.append(worker)
        return worker

    def end_worker(self, worker: psutil.Process) -> None:
        """End a worker, and wait until it has finished its running jobs."""
        worker.terminate()
        self.ended_s.append(cpu_s(worker))
        self.workers.remove(worker)
        worker.wait(30)

    def kill_workers(self) -> None:
        for worker in self.workers:
            worker.kill()

    def until_workers(self, count: int) -> None:
        _until(lambda: len(self.get("/api/workers")["workers"]) == count, self.directory.parent / "log")

    def push(self, kind: str, **options: Any) -> dict[str, Any]:
        """Push from a separate process of `benchmarks.pushing`, and return its report. The CPU time of the process
        counts as the pusher's."""
        pushing = self.start_push(kind, **options)
        return self.end_push(pushing)

    def start_push(self, kind: str, **options: Any) -> "subprocess.Popen[str]":
        order = json.dumps({"kind": kind, "urls": self.urls, **options})
        return subprocess.Popen(
            [sys.executable, "-m", "benchmarks.pushing", order],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=_end_with_parent,  # noqa: PLW1509 - one thread, as yet
        )

    def end_push(self, pushing: "subprocess.Popen[str]") -> dict[str, Any]:
        output, _ = pushing.communicate()
        if pushing.returncode:
            raise SystemExit("the pushing process failed")
        told: dict[str, Any] = json.loads(output)
        self.pushers_s.append(told["cpu_s"])
        return told

    def get(self, path: str) -> Any:
        # Use one client for all calls. The creation of a client takes longer than the master's answer, and would be
        # measured, too.
        response = self.http.get(self.url + path, headers={"Accept": "application/json"})
        return response.raise_for_status().json()

    def counts(self) -> dict[str, int]:
        found: dict[str, int] = self.get("/api/jobs?limit=1&state=running")["counts"]
        return found

    def unfinished(self) -> int:
        counts = self.counts()
        return sum(counts[state] for state in ("scheduled", "ready", "retrying", "running"))

    def until_over(self, left: int = 0, *, timeout_s: float = 600) -> None:
        """Wait until at most this many jobs wait or run. Succeeded jobs are not counted, because only a limited number
        of them is kept."""
        began_s = time.monotonic()
        first = now = self.unfinished()
        while now > left:
            passed_s = time.monotonic() - began_s
            if passed_s > timeout_s:
                raise SystemExit("the jobs did not come to an end")
            # A check costs the master and the store more than many jobs do. So wait for half of the expected rest
            # before the next check.
            rest_s = passed_s * (now - left) / (first - now) if first > now else 0.0
            time.sleep(min(max(MIN_LOOK_S, rest_s / 2), MAX_LOOK_S))
            now = self.unfinished()

    def file_bytes(self) -> int:
        """Return the size of the store's append-only file, in bytes. The size drops when the store rewrites the
        file."""
        return sum(path.stat().st_size for path in self.directory.rglob("*.aof"))

    def cpu_s(self) -> dict[str, float]:
        """Return the CPU seconds so far of each kind of process. `pusher`: this process, and the processes that it has
        started to push."""
        return {
            "pusher": cpu_s(psutil.Process()) + sum(self.pushers_s),
            "master": sum(map(cpu_s, self.master_processes())),
            "worker": sum(map(cpu_s, self.workers)) + sum(self.ended_s),
            "store": cpu_s(self.store),
        }

    def master_processes(self) -> list[psutil.Process]:
        """Return the masters, and the processes that they have started because of `--processes`."""
        found = list(self.masters)
        for master in self.masters:
            found += [child for child in master.children() if child.pid != self.store.pid]
        return found

    def store_client(self) -> "redis.Redis":
        return redis.Redis.from_url(self.store_url)

    def store_calls(self) -> dict[str, int]:
        """Return the numbers of calls so far. `scripts`: calls of scripts. `commands`: all commands, including those
        that scripts call."""
        with contextlib.closing(self.store_client()) as client:
            stats: Any = client.info("commandstats")
        calls = {name.removeprefix("cmdstat_"): int(told["calls"]) for name, told in stats.items()}
        return {
            "scripts": calls.get("evalsha", 0) + calls.get("eval", 0),
            "commands": sum(calls.values()),
        }

    def store_memory(self) -> int:
        with contextlib.closing(self.store_client()) as client:
            told: Any = client.info("memory")
            return int(told["used_memory"])


@contextlib.contextmanager
def running_system(
    *,
    workers: int = 1,
    max_jobs: int = 200,
    pull: bool = False,
    masters: int = 1,
    processes: int = 1,
    appendfsync: str = "always",
    store: psutil.Process | None = None,
    store_url: str = "",
    under: Sequence[str] = (),
    **settings: object,
) -> Iterator[System]:
    """Run a system with the defaults that a user gets, apart from a lower log level. `masters`: their number; each has
    its own port. `processes`: the number for each master. `appendfsync`: `everysec` lowers the durability. `store`,
    `store_url`: the store; without them, the first master starts its own. `under`: a command that runs the masters."""
    with tempfile.TemporaryDirectory(prefix="jqmaster-bench-") as name, contextlib.ExitStack() as stack:
        directory = Path(name)
        log_path = directory / "log"
        data = directory / "data"
        told: Mapping[str, object] = {
            "log_level": "warning",
            **({"processes": processes} if processes > 1 else {}),
            **({"durability": "besteffort"} if appendfsync != "always" else {}),
            **settings,
        }
        environment = {
            **os.environ,
            **{f"JQMASTER_{key.upper()}": str(value) for key, value in told.items()},
            "BENCH_MAX_JOBS": str(max_jobs),
            "BENCH_WAITS": str(directory / "waits"),
        }

        def spawn(*arguments: str, under: Sequence[str] = (), **more: str) -> psutil.Process:
            command = [*under, sys.executable, "-m", "jqmaster", *arguments]
            return started(command, {**environment, **more}, log_path, stack)

        def serve(*options: str, **more: str) -> psutil.Process:
            port = str(free_port())
            urls.append(f"http://127.0.0.1:{port}")
            process = spawn("serve", "--port", port, *options, under=under, **more)
            _until(
                lambda: httpx.get(f"{urls[-1]}/readyz", trust_env=False).status_code == 200,
                log_path,
            )
            return process

        stack.callback(_kill_stores, directory)
        urls: list[str] = []
        if store is None:
            first = serve("--data-dir", str(data))
            store = next(p for p in first.children(recursive=True) if "valkey" in p.name())
            store_url = url_of_running(data) or ""
            if appendfsync != "always":
                with contextlib.closing(redis.Redis.from_url(store_url)) as client:
                    client.config_set("appendfsync", appendfsync)
        else:
            first = serve(JQMASTER_REDIS_URL=store_url)
        system = System(urls, [first], store, data, spawn, store_url)
        stack.callback(system.http.close)
        for number in range(1, masters):
            system.masters.append(serve(JQMASTER_REDIS_URL=store_url, JQMASTER_NODE_ID=f"node-{number}"))
        for _ in range(workers):
            system.start_worker(pull=pull)
        system.until_workers(workers)
        # A new leader checks the whole store once. Wait until it has checked the empty store, so that this check is not
        # measured.
        time.sleep(BEGINS_AFTER_S + MIN_LOOK_S)
        yield system


def started(
    command: Sequence[str], environment: Mapping[str, str], log_path: Path, stack: contextlib.ExitStack
) -> psutil.Process:
    """Start a process. It is ended when the stack is closed, or when this process ends for any reason."""
    log = stack.enter_context(log_path.open("ab"))
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        # In a new session, the process gets no Ctrl-C. Only the benchmark gets it, and ends the processes in order.
        start_new_session=True,
        preexec_fn=_end_with_parent,  # noqa: PLW1509 - one thread, as yet
    )
    stack.callback(_end, process)
    return psutil.Process(process.pid)


def loop_ns() -> float:
    """Return the CPU time of one step of a fixed loop, in ns. It shows how fast this machine is now."""
    began = time.process_time()
    total = 0
    for number in range(5_000_000):
        total += number
    return (time.process_time() - began) / 5_000_000 * 1e9


def cpu_s(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _kill_stores(directory: Path) -> None:
    """Kill the embedded Valkeys. A killed master leaves its Valkey to the next master, but here no next master
    follows."""
    for process in psutil.process_iter(["name", "cwd"]):
        if "valkey" in process.info["name"] and Path(process.info["cwd"] or "/").is_relative_to(directory):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
                process.wait(10)


def _end_with_parent() -> None:
    # Let the kernel end this process together with the benchmark. After a SIGKILL, the benchmark cannot end it.
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _until(is_true: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + UP_WITHIN_S
    while time.monotonic() < deadline:
        with contextlib.suppress(httpx.HTTPError, KeyError):
            if is_true():
                return
        time.sleep(0.05)
    raise SystemExit(f"the system did not come up:\n{log.read_text()}")


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])
