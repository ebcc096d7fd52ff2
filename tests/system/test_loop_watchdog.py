"""A process whose event loop stands still ends; one that was merely stopped, or has no processor, does not."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from jqmaster.cli.process.loop_watchdog import EXIT_CODE, tell_systemd, watched_loop
from tests.support.embedded import servers_on
from tests.support.ports import free_port
from tests.support.waiting import wait_until

pytestmark = pytest.mark.req("M1")

ROOT = Path(__file__).parents[2]
LIMIT_S = 1.0
FROZEN = {
    # Native code that holds the interpreter's lock: no Python thread runs beside it.
    "native code": "re.fullmatch('(a+)+', 'a' * 60 + 'b')",
    "python code": "exec('while True: pass')",
    "a lock": "threading.Event().wait()",
    "a pipe that nobody writes": "os.read(os.pipe()[0], 1)",
}
PROGRAM = """
import asyncio, os, re, sys, threading, uvloop
from jqmaster.cli.process.loop_watchdog import watched_loop
async def main():
    async with watched_loop({limit_s}):
        print("runs", flush=True)
        await asyncio.sleep({limit_s} * 2.5)
        print("ran on", flush=True)
        {then}
uvloop.run(main())
"""


@contextlib.contextmanager
def running(then: str, limit_s: float = LIMIT_S) -> Iterator[subprocess.Popen[bytes]]:
    program = PROGRAM.format(limit_s=limit_s, then=then)
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"runs\n"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("kind", FROZEN)
def test_a_loop_that_stands_still_ends_the_process_and_says_where(kind: str) -> None:
    with running(FROZEN[kind]) as process:
        _, said = process.communicate(timeout=60)
    assert process.returncode in (-signal.SIGPROF, EXIT_CODE)
    assert b"<module>" in said


def test_a_process_that_was_stopped_runs_on() -> None:
    with running("return") as process:
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(3 * LIMIT_S)
        os.kill(process.pid, signal.SIGCONT)
        said, errors = process.communicate(timeout=60)
    assert (process.returncode, said, errors) == (0, b"ran on\n", b"")


def test_a_process_without_processor_time_runs_on() -> None:
    # Others take all of one processor, which is the only one that it may use. The tests beside this one keep the rest.
    processor = min(os.sched_getaffinity(0))
    hog = f"import os; os.sched_setaffinity(0, [{processor}])\nwhile True: pass"
    with running("return") as process, contextlib.ExitStack() as others:
        for thread in Path(f"/proc/{process.pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), [processor])
            os.sched_setscheduler(int(thread.name), os.SCHED_IDLE, os.sched_param(0))
        for _ in range(3):
            other = others.enter_context(subprocess.Popen([sys.executable, "-S", "-c", hog]))
            others.callback(other.kill)
        time.sleep(3 * LIMIT_S)
        others.close()
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, b"")


def test_a_master_that_is_frozen_ends_though_nothing_in_it_answers(tmp_path: Path) -> None:
    port = free_port()
    program = (
        "import re, sys\n"
        "from jqmaster.api.operations import health\n"
        "async def freeze(call): re.fullmatch('(a+)+', 'a' * 60 + 'b')\n"
        "health.healthz = freeze\n"
        "from jqmaster.cli import main\n"
        f"sys.argv = ['jqmaster', 'serve', '--port', '{port}', '--data-dir', {str(tmp_path / 'data')!r}]\n"
        "main()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "JQMASTER_LOOP_WATCHDOG_S": "2"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            assert process.stdout is not None
            while b"serves on" not in (line := process.stdout.readline()):
                assert line, "it did not start"
            with contextlib.suppress(httpx.HTTPError):
                httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=0.5, trust_env=False)
            # It no longer ends in good order.
            process.terminate()
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
            # Its store outlives a master that does not end in good order.
            for pid in servers_on(tmp_path / "data"):
                os.kill(pid, signal.SIGKILL)
    assert process.returncode == -signal.SIGPROF
    assert b"freeze" in said


class Manager:
    """The end of systemd: a socket that receives what a service says of itself."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.socket.setblocking(False)
        self.said: list[bytes] = []

    def has_heard(self, message: bytes) -> bool:
        with contextlib.suppress(BlockingIOError):
            while True:
                self.said.append(self.socket.recv(100))
        return message in self.said


async def test_systemd_is_told_that_a_process_is_ready_and_runs(tmp_path: Path) -> None:
    manager = Manager(tmp_path / "notify")
    environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "90000000"}
    with contextlib.closing(manager.socket):
        tell_systemd("READY=1", environment)
        assert manager.has_heard(b"READY=1")
        async with watched_loop(0, environment={**environment, "WATCHDOG_PID": str(os.getpid())}):
            await wait_until(lambda: manager.has_heard(b"WATCHDOG=1"))
        manager.said.clear()
        # The children of a service leave it to their parent.
        for others in ({**environment, "WATCHDOG_PID": "1"}, {"NOTIFY_SOCKET": str(tmp_path / "notify")}):
            async with watched_loop(0, environment=others):
                await asyncio.sleep(0)
            assert not manager.has_heard(b"WATCHDOG=1")
    # A manager that is gone harms nobody.
    tell_systemd("READY=1", environment)
    tell_systemd("READY=1", {})
