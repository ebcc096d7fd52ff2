"""The example runs to its end, all comes out as it expects, and nothing of it outlives it."""

import contextlib
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from examples.stdlib import system as module
from examples.stdlib.__main__ import sort_out
from examples.stdlib.system import Child, running_system
from tests.support.processes import ROOT, free_port
from tests.support.waiting import wait_until

pytestmark = pytest.mark.system


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
    assert "longest files" in done.stdout, done.stdout[-3000:]


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGINT, 0), (signal.SIGTERM, 143), (signal.SIGHUP, 143), (signal.SIGKILL, -9)],
)
async def test_nothing_outlives_the_example(number: signal.Signals, status: int, tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as out:
        example = subprocess.Popen(
            [sys.executable, "-m", "examples.stdlib", "--port", str(free_port())],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            cwd=ROOT,
            start_new_session=True,
        )
    family: list[psutil.Process] = []

    def all_three_are_there() -> bool:
        assert example.poll() is None, (tmp_path / "out").read_text()
        family[:] = psutil.Process(example.pid).children(recursive=True)
        return len(family) >= 3

    try:
        await wait_until(all_three_are_there, timeout_s=30, what="master, Valkey and worker run")
        example.send_signal(number)
        assert example.wait(60) == status, (tmp_path / "out").read_text()
        _, alive = psutil.wait_procs(family, 60)
        assert alive == []
    finally:
        for process in [example, *family]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


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
            with pytest.raises(SystemExit, match="the worker is not there after 0 s:\nits last words"):
                await module._until(never, Child("worker", process, log), "is not there")
        finally:
            process.kill()


def test_only_files_that_are_not_python_may_fail() -> None:
    def failed(kind: str) -> dict[str, object]:
        return {"state": "failed", "attempts": [{"error": {"type": kind}, "message": f"{kind}: no"}]}

    jobs = {
        "good": {"state": "succeeded", "attempts": []},
        "python2": failed("SyntaxError"),
        "indented": failed("IndentationError"),
        "lost": {"state": "failed", "attempts": [{"error": None, "message": "the worker was lost"}]},
        "locked": failed("PermissionError"),
        "waiting": {"state": "retrying", "attempts": []},
    }
    unparsable, faults = sort_out((Path(name), job) for name, job in jobs.items())
    assert unparsable == [Path("python2"), Path("indented")]
    assert faults == [
        "lost failed: the worker was lost",
        "locked failed: PermissionError: no",
        "waiting is retrying",
    ]
