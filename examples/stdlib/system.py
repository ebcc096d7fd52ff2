"""Run a master with its own Valkey and one worker, as real processes. They end together with the process that started
them."""

import asyncio
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx

# How long the processes may take to start on a busy machine. A start that takes longer than `SLOW_S` is reported.
SERVES_WITHIN_S = 600.0
SLOW_S = 30.0
ENDS_WITHIN_S = 30.0
MAX_LOG_SHOWN_BYTES = 3000

_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Child:
    """A process and its log."""

    name: str
    process: "subprocess.Popen[bytes]"
    log: Path

    def check_alive(self) -> None:
        """Raise SystemExit with the end of its log if the process has ended."""
        if (status := self.process.poll()) is not None:
            raise SystemExit(f"the {self.name} has ended (status {status}):\n{self.log_end()}")

    def log_end(self) -> str:
        return self.log.read_bytes()[-MAX_LOG_SHOWN_BYTES:].decode(errors="replace")


@dataclass(frozen=True)
class System:
    url: str
    children: tuple[Child, ...]

    def check_alive(self) -> None:
        """Raise SystemExit if one of the processes has ended."""
        for child in self.children:
            child.check_alive()


@contextlib.asynccontextmanager
async def running_system(
    directory: Path, port: int, *, worker: str = "examples.stdlib.tasks:tasks", max_jobs: int = 16
) -> AsyncIterator[System]:
    """Run a system as in production, only smaller. Yield when the worker has registered. Raise SystemExit if that
    fails. `max_jobs`: how many jobs the worker runs at once."""
    url = f"http://127.0.0.1:{port}"
    data = directory / "data"
    with ending(data) as children:
        master = start(
            "master", directory, "-m", "jqmaster", "serve", "--port", str(port), "--data-dir", str(data)
        )
        children.append(master)
        async with httpx.AsyncClient(
            base_url=url, headers={"Accept": "application/json"}, trust_env=False
        ) as client:

            async def is_ready() -> bool:
                return (await client.get("/readyz")).status_code == 200

            async def is_registered() -> bool:
                return bool((await client.get("/api/workers")).json()["workers"])

            await _until(is_ready, master, "is not ready")
            options = ("--max-jobs", str(max_jobs), "--master", url)
            children.append(start("worker", directory, "-m", "jqmaster", "worker", worker, *options))
            await _until(is_registered, children[-1], "has not registered with the master")
        system = System(url, tuple(children))
        try:
            yield system
        except Exception:
            # If a process has ended, show its log, which tells why the call failed.
            system.check_alive()
            raise


def start(
    name: str, directory: Path, *arguments: str, env: Mapping[str, str] | None = None, nice: int = 0
) -> Child:
    """Start `python ARGUMENTS`. Ctrl-C in the terminal does not reach the process, so that it can be ended in the right
    order. Call this only from the main thread, because the process ends when this thread ends. `env`: further
    environment variables. `nice`: the increment of the nice value."""
    ends_with_parent = end_with_parent()

    def prepare() -> None:
        ends_with_parent()
        os.nice(nice)

    log = directory / f"{name}.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
            preexec_fn=prepare,  # noqa: PLW1509 - one thread, as yet
        )
    return Child(name, process, log)


def end_with_parent(number: signal.Signals = signal.SIGTERM) -> Callable[[], None]:
    """Return a function for a new process to call. After the call, the new process gets a signal when the process that
    started it ends."""
    parent = os.getpid()

    def call() -> None:
        # Let the kernel end this process when its parent ends: after a SIGKILL, the parent cannot end it.
        _LIBC.prctl(_PR_SET_PDEATHSIG, number)
        if os.getppid() != parent:
            os._exit(1)

    return call


@contextlib.contextmanager
def ending(data: Path) -> Iterator[list[Child]]:
    """At the end of the block, end the processes in the list. The last process ends first, so that a worker can hand
    back its jobs to a running master."""
    children: list[Child] = []
    try:
        yield children
    finally:
        for child in reversed(children):
            child.process.terminate()
            try:
                child.process.wait(ENDS_WITHIN_S)
            except subprocess.TimeoutExpired:
                child.process.kill()
                child.process.wait()
        _kill_store(data)


def _kill_store(data: Path) -> None:
    """Kill the Valkey of the master. A killed master leaves its Valkey to the next master, but here there is no next
    master."""
    with contextlib.suppress(OSError, ValueError):
        pid = int((data / "valkey.pid").read_text())
        # Check the folder, too: the process ID may belong to another process by now.
        if Path(f"/proc/{pid}/cwd").resolve() == data.resolve():
            os.kill(pid, signal.SIGKILL)


async def _until(is_so: Callable[[], Awaitable[bool]], child: Child, trouble: str) -> None:
    began_s, is_told = time.monotonic(), False
    while (waited_s := time.monotonic() - began_s) < SERVES_WITHIN_S:
        child.check_alive()
        if waited_s > SLOW_S and not is_told:
            is_told = True
            print(f"the {child.name} {trouble} after {waited_s:.0f} s; it still starts. Is the machine busy?")
        with contextlib.suppress(httpx.HTTPError):
            if await is_so():
                return
        await asyncio.sleep(0.1)
    raise SystemExit(
        f"the {child.name} {trouble} after {SERVES_WITHIN_S:.0f} s; is the machine busy?\n{child.log_end()}"
    )
