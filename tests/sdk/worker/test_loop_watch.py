"""Handlers that block the event loop, or all threads, are named in the log."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.sdk.fake_master import FakeMaster
from tests.support import real_time
from tests.support.waiting import wait_until
from worker_sdk import Worker
from worker_sdk.worker.loop_watch import LoopWatch
from worker_sdk.worker.registry import Registry
from worker_sdk.worker.run import JobRun

pytestmark = real_time.WORKER


def run_of(task: "asyncio.Task[Any] | None") -> JobRun:
    registry = Registry()
    registry.add("photo.resize", lambda argument: None)
    handler = registry.get("photo.resize")
    assert handler is not None
    dispatch: Any = {
        "job_id": "j1", "token": "t", "attempt": 1, "fence": 1, "argument": None, "headers": {}, "timeout": 60,
    }  # fmt: skip
    run = JobRun(dispatch, handler, 99.0)
    run.task = task
    return run


class Clocks:
    wall_s = 0.0
    cpu_s = 0.0

    def watch(self, *runs: JobRun) -> LoopWatch:
        return LoopWatch(
            asyncio.get_running_loop(), lambda: runs, now_s=lambda: self.wall_s, cpu_s=lambda: self.cpu_s
        )


async def test_a_blocked_loop_is_told_once_with_its_line_and_job_and_so_is_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clocks = Clocks()
    watch = clocks.watch(run_of(asyncio.current_task()))
    # These calls stand for those of the heartbeat thread: meanwhile the loop does not run.
    for wall_s in (0, 4, 5, 9):
        clocks.wall_s = wall_s
        watch.look()
    (told,) = caplog.messages
    assert "the event loop has been blocked for 5 s, in test_loop_watch.py:" in told
    assert "(photo.resize, job j1)" in told
    await asyncio.sleep(0)
    assert caplog.messages[1:] == ["the event loop runs again, after 9 s"]


async def test_a_loop_that_runs_is_not_named_however_rarely_it_is_looked_at(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clocks = Clocks()
    watch = clocks.watch()
    for _ in range(3):
        clocks.wall_s += 60
        watch.look()
        await asyncio.sleep(0)
    assert caplog.messages == []


def test_a_loop_that_has_ended_is_not_blocked(caplog: pytest.LogCaptureFixture) -> None:
    clocks = Clocks()

    async def made() -> LoopWatch:
        return clocks.watch()

    with asyncio.Runner() as runner:
        watch = runner.run(made())
        for clocks.wall_s in (0, 60, 120):
            watch.look()
    clocks.wall_s = 180
    watch.look()
    assert caplog.messages == []


@pytest.mark.parametrize(("used_s", "is_told"), [(19.0, True), (0.1, False)])
async def test_native_code_that_holds_the_global_lock_is_told_apart_from_a_machine_that_stood_still(
    caplog: pytest.LogCaptureFixture, used_s: float, is_told: bool
) -> None:
    clocks = Clocks()
    watch = clocks.watch(run_of(None))
    clocks.wall_s, clocks.cpu_s = 20.0, used_s
    watch.look(late_s=19.5)
    assert [("20 s" in text, "photo.resize (job j1)" in text) for text in caplog.messages] == [
        (True, True)
    ] * is_told


async def test_a_worker_names_the_line_that_blocks_its_loop(
    master: FakeMaster,
    worker: Worker,
    up: Callable[[], Any],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("worker_sdk.worker.loop_watch.BLOCKED_S", 0.5)
    caplog.set_level(logging.WARNING, "worker_sdk.worker.loop_watch")

    @worker.handler("blocky")
    async def block(argument: float) -> None:
        time.sleep(argument)

    line = block.__code__.co_firstlineno + 2
    await up()
    job = await master.run("blocky", 2.0)
    await wait_until(lambda: master.result(job["job_id"]))
    (told,) = [text for text in caplog.messages if "has been blocked" in text]
    assert f"in test_loop_watch.py:{line} (blocky, job {job['job_id']})" in told
    await wait_until(lambda: any("runs again" in text for text in caplog.messages))
