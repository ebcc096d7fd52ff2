"""The pytest plugin's fixtures, in a separate session."""

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import subprocess
import sys
import time

from worker_sdk import Tasks, Worker

tasks = Tasks()

@tasks.task("double", keep_result=True)
def double(number: int) -> int:
    return 2 * number

def test_recorded(recorded_jobs):
    double.enqueue(1)
    assert recorded_jobs.only(double).arguments == {"number": 1}

def test_inline(inline_jobs):
    assert double.enqueue(1).get() == 2

def test_live_in_one_thread(live_master):
    handle = double.enqueue(4)
    Worker(tasks=tasks).run_burst(idle_s=0.5)
    assert handle.get(timeout=10) == 8

async def test_live(live_master):
    async with Worker(tasks=tasks).running():
        handle = await double.aenqueue(21)
        assert await handle.aget(timeout=20) == 42
"""


@pytest.mark.req("S9")
def test_the_fixtures_record_run_inline_and_start_a_real_master(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["worker_sdk.testing.pytest_plugin"]\n', "utf-8")
    (tmp_path / "test_app.py").write_text(TESTS, "utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n", "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--durations=3", "--durations-min=0.01"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "4 passed" in done.stdout, done.stdout + done.stderr
