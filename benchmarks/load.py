"""The processes of a benchmark, and what they cost."""

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil

ROOT = Path(__file__).parents[1]
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class System:
    """A master on its own Valkey (`appendfsync always`) and workers, all as real processes."""

    url: str
    master: psutil.Process
    store: psutil.Process
    directory: Path
    spawn: Callable[..., psutil.Process]
    workers: list[psutil.Process] = field(default_factory=list)
    # CPU seconds of workers that have ended.
    ended_s: list[float] = field(default_factory=list)

    def start_worker(self, *, pull: bool = False) -> psutil.Process:
        """One more; it works as soon as it is registered."""
        options = ("--master", self.url, *(["--pull"] if pull else []))
        worker = self.spawn("worker", "benchmarks.worker:worker", *options)
        self.workers.append(worker)
        return worker

    def end_worker(self, worker: psutil.Process) -> None:
        """Returns when it has finished what it runs."""
        worker.terminate()
        self.ended_s.append(_cpu_s(worker))
        self.workers.remove(worker)
        worker.wait(30)

    def kill_workers(self) -> None:
        for worker in self.workers:
            worker.kill()

    def file_bytes(self) -> int:
        """What the store has written for good so far; less after it has rewritten its file."""
        return sum(path.stat().st_size for path in self.directory.rglob("*.aof"))

    def cpu_s(self) -> dict[str, float]:
        """CPU seconds so far of each kind of process; `pusher` is this one."""
        return {
            "pusher": _cpu_s(psutil.Process()),
            "master": _cpu_s(self.master),
            "worker": sum(map(_cpu_s, self.workers)) + sum(self.ended_s),
            "store": _cpu_s(self.store),
        }


@contextlib.contextmanager
def running_system(*, workers: int = 1, max_jobs: int = 200, pull: bool = False) -> Iterator[System]:
    """Defaults everywhere, as a user gets them; the log level alone is lower."""
    with tempfile.TemporaryDirectory(prefix="jqmaster-bench-") as name, contextlib.ExitStack() as stack:
        directory = Path(name)
        port = _free_port()
        url = f"http://127.0.0.1:{port}"
        environment = {**os.environ, "JQMASTER_LOG_LEVEL": "warning", "BENCH_MAX_JOBS": str(max_jobs)}

        def spawn(*arguments: str) -> psutil.Process:
            log = stack.enter_context((directory / "log").open("ab"))
            process = subprocess.Popen(
                [sys.executable, "-m", "jqmaster", *arguments],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C is for the benchmark alone, which ends them in their order.
                start_new_session=True,
                preexec_fn=_end_with_parent,  # noqa: PLW1509 - one thread, as yet
            )
            stack.callback(_end, process)
            return psutil.Process(process.pid)

        stack.callback(_kill_stores, directory)
        master = spawn("serve", "--port", str(port), "--data-dir", str(directory / "data"))
        _until(lambda: httpx.get(f"{url}/readyz", trust_env=False).status_code == 200, directory / "log")
        store = next(p for p in master.children(recursive=True) if "valkey" in p.name())
        system = System(url, master, store, directory / "data", spawn)
        for _ in range(workers):
            system.start_worker(pull=pull)
        _until(
            lambda: (
                len(
                    httpx.get(
                        f"{url}/api/workers", headers={"Accept": "application/json"}, trust_env=False
                    ).json()["workers"]
                )
                == workers
            ),
            directory / "log",
        )
        yield system


def loop_ns() -> float:
    """CPU time of one step of a fixed loop: how fast this machine is at this moment."""
    began = time.process_time()
    total = 0
    for number in range(5_000_000):
        total += number
    return (time.process_time() - began) / 5_000_000 * 1e9


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _kill_stores(directory: Path) -> None:
    """A master that had to be killed, or was, leaves its Valkey to the next master. Here there is none."""
    for process in psutil.process_iter(["name", "cwd"]):
        if "valkey" in process.info["name"] and Path(process.info["cwd"] or "/").is_relative_to(directory):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
                process.wait(10)


def _end_with_parent() -> None:
    # However the benchmark ends: a SIGKILL leaves it no time to end anybody.
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _until(is_true: "object", log: Path) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with contextlib.suppress(httpx.HTTPError, KeyError):
            if is_true():  # type: ignore[operator]
                return
        time.sleep(0.05)
    raise SystemExit(f"the system did not come up:\n{log.read_text()}")


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])
