"""The example runs to its end with the expected results, and leaves nothing behind."""

import contextlib
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from examples.stdlib import system as module
from examples.stdlib.__main__ import sort_out
from examples.stdlib.system import Child, running_system
from tests.support import long, real_time
from tests.support.ports import free_port
from tests.support.processes import ROOT
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.system, real_time.PROCESSES]


@pytest.mark.timeout(200)
def test_the_example_ends_well_and_shows_its_summary() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.stdlib", "--once", "--port", str(free_port())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=ROOT,
        timeout=150,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    lines = done.stdout.splitlines()
    # Nothing that a newcomer looks for scrolls away, and the last figure is that of the queue itself.
    assert re.match(r"Web UI: http://127\.0\.0\.1:\d+/$", lines[1]), lines[:4]
    assert re.search(r"1,000 jobs in [\d.]+ s: [\d,]+ jobs/s", done.stdout), done.stdout[-3000:]
    assert "longest files" in done.stdout, done.stdout[-3000:]
    assert lines[-1] == "All jobs are done."


@dataclass(frozen=True)
class Example:
    """A running example and the processes it started."""

    process: "subprocess.Popen[bytes]"
    family: list[psutil.Process]
    out: Path

    def ends(self) -> int:
        """Return its exit status, and assert that no process is left."""
        status = self.process.wait(60)
        _, alive = psutil.wait_procs(self.family, 60)
        assert alive == [], self.out.read_text()
        return status


@contextlib.asynccontextmanager
async def running_example(directory: Path, *, ignored: bool = False) -> AsyncIterator[Example]:
    """Start the example. With `ignored`, SIGINT and SIGHUP are ignored, as under nohup or in the background of a shell.
    Otherwise they are not, even if the tests were started that way."""
    out = directory / "out"
    inherited = signal.SIG_IGN if ignored else signal.SIG_DFL
    before = {number: signal.signal(number, inherited) for number in (signal.SIGINT, signal.SIGHUP)}
    try:
        with out.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "examples.stdlib", "--port", str(free_port())],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                cwd=ROOT,
                start_new_session=True,
            )
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    family: list[psutil.Process] = []

    def all_three_are_there() -> bool:
        assert process.poll() is None, out.read_text()
        family[:] = psutil.Process(process.pid).children(recursive=True)
        return len(family) >= 3

    try:
        await wait_until(all_three_are_there, timeout_s=60, what="master, Valkey and worker run")
        yield Example(process, family, out)
    finally:
        process.kill()
        process.wait()
        for member in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()


@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGINT, 0), (signal.SIGKILL, -9), *long.left_out((signal.SIGTERM, 143), (signal.SIGHUP, 143))],
)
async def test_nothing_outlives_the_example(number: signal.Signals, status: int, tmp_path: Path) -> None:
    async with running_example(tmp_path) as example:
        example.process.send_signal(number)
        assert example.ends() == status, example.out.read_text()


@pytest.mark.timeout(200)
async def test_an_example_in_the_background_outlives_its_terminal_and_still_ends_on_an_interrupt(
    tmp_path: Path,
) -> None:
    async with running_example(tmp_path, ignored=True) as example:
        example.process.send_signal(signal.SIGHUP)
        example.process.send_signal(signal.SIGINT)
        # If the first signal had taken effect, the status would be 143.
        assert example.ends() == 0, example.out.read_text()


async def test_a_worker_that_does_not_start_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"the worker has ended \(status 2\):\n(?s:.*)no module nothing"):
        async with running_system(tmp_path, free_port(), worker="nothing:worker"):
            pass


async def test_the_wait_for_a_process_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never() -> bool:
        return False

    monkeypatch.setattr(module, "SERVES_WITHIN_S", 0.1)
    log = tmp_path / "log"
    log.write_text("its last words")
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            with pytest.raises(
                SystemExit, match=r"the worker is not there after 0 s; is the machine busy\?\nits last words"
            ):
                await module._until(never, Child("worker", process, log), "is not there")
        finally:
            process.kill()


def test_only_files_that_are_not_python_may_fail() -> None:
    def ended(kind: str, state: str = "failed") -> dict[str, object]:
        return {"state": state, "attempts": [{"error": {"type": kind}, "message": f"{kind}: no"}]}

    jobs: dict[str, dict[str, Any]] = {
        "good": {"state": "succeeded", "attempts": []},
        "python2": ended("SyntaxError", "discarded"),
        "indented": ended("IndentationError", "discarded"),
        "lost": {"state": "failed", "attempts": [{"error": None, "message": "the worker was lost"}]},
        "locked": ended("PermissionError"),
        "waiting": {"state": "retrying", "attempts": []},
    }
    unparsable, faults = sort_out((Path(name), job) for name, job in jobs.items())
    assert unparsable == [Path("python2"), Path("indented")]
    assert faults == [
        "lost failed: the worker was lost",
        "locked failed: PermissionError: no",
        "waiting is retrying",
    ]
