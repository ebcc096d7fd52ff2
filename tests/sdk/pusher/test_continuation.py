"""A worker that learns that it was detached asks three times, then continues or gives up."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.sdk.fake_master import FakeMaster
from tests.support import real_time
from tests.support.waiting import wait_until
from worker_sdk import Context, Worker

pytestmark = [pytest.mark.req("D13"), real_time.WORKER]


@pytest.fixture
def stopped(worker: Worker) -> asyncio.Event:
    """Set once `hold`, which never ends by itself, has been stopped."""
    event = asyncio.Event()

    @worker.handler("hold")
    async def hold(argument: Any) -> None:
        try:
            await asyncio.sleep(600)
        finally:
            event.set()

    return event


async def test_one_that_is_confirmed_goes_on(
    master: FakeMaster, worker: Worker, stopped: asyncio.Event, up: Callable[[], Any]
) -> None:
    await up()
    job = await master.run("hold")
    old = worker.worker_id

    def confirm(body: Any) -> None:
        if body.get("asks_to_continue"):
            master.detached = False

    master.hooks["heartbeat"] = confirm
    master.detached = True
    await wait_until(lambda: not master.detached)
    beats = len(master.beats)
    await wait_until(lambda: len(master.beats) > beats + 5)
    assert (worker.worker_id, master.questions, stopped.is_set()) == (old, 1, False)
    assert [claim["token"] for claim in master.beats[-1]["running"]] == [job["token"]]


async def test_one_that_is_refused_stops_its_jobs_and_joins_under_a_new_id(
    master: FakeMaster, worker: Worker, stopped: asyncio.Event, up: Callable[[], Any]
) -> None:
    await up()
    job = await master.run("hold")
    old = worker.worker_id
    asked: list[float] = []

    def refuse(body: Any) -> None:
        if body.get("asks_to_continue"):
            asked.append(time.monotonic())

    master.hooks["heartbeat"] = refuse
    master.detached = True
    await asyncio.wait_for(stopped.wait(), 10)
    assert master.questions == 3
    assert asked[1] - asked[0] >= 0.25
    assert asked[2] - asked[1] >= 0.25
    master.detached = False
    await wait_until(lambda: worker.worker_id not in (None, old))
    await wait_until(lambda: master.beats[-1] == {"running": [], "free": 4})
    assert master.result(job["job_id"]) is None


async def test_one_that_is_not_answered_gives_up_after_three_questions(
    master: FakeMaster, worker: Worker, stopped: asyncio.Event, up: Callable[[], Any]
) -> None:
    await up()
    await master.run("hold")
    asked = 0

    def silent(body: Any) -> Any:
        nonlocal asked
        if not body.get("asks_to_continue"):
            return None
        asked += 1
        return 503, {"code": "store_unavailable"}, {}

    master.hooks["heartbeat"] = silent
    began = time.monotonic()
    master.detached = True
    await asyncio.wait_for(stopped.wait(), 10)
    # The stop comes long before its lease of 5 s ends, because it knows that the masters count it as gone.
    assert time.monotonic() - began < 4
    assert asked == 3
    master.detached = False


@pytest.mark.req("M6")
async def test_one_that_merely_hears_nothing_asks_nothing_and_goes_on(
    master: FakeMaster, worker: Worker, stopped: asyncio.Event, up: Callable[[], Any]
) -> None:
    await up()
    await master.run("hold")
    master.hooks["heartbeat"] = lambda body: (503, {"code": "store_unavailable"}, {})
    calls = master.count("/heartbeat")
    await wait_until(lambda: master.count("/heartbeat") > calls + 3)
    assert (master.questions, stopped.is_set()) == (0, False)
    del master.hooks["heartbeat"]
    beats = len(master.beats)
    await wait_until(lambda: len(master.beats) > beats + 2)
    assert not stopped.is_set()


@pytest.mark.req("M6")
async def test_it_joins_anew_only_when_its_jobs_have_ended(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    """Registration at its address frees their jobs at once, so they must not run here any more."""
    release = threading.Event()

    @worker.handler("stubborn")
    def stubborn(argument: Any, ctx: Context) -> None:
        release.wait(30)

    master.lease_s = 60.0
    await up()
    await master.run("stubborn")
    old = worker.worker_id
    master.detached = True
    await wait_until(lambda: worker.worker_id is None)
    master.detached = False
    registrations = master.count("/api/workers")
    beats = len(master.beats)
    await asyncio.sleep(0.5)  # ten looks
    assert (worker.worker_id, master.count("/api/workers"), len(master.beats)) == (None, registrations, beats)
    release.set()
    await wait_until(lambda: worker.worker_id not in (None, old))


@pytest.mark.req("M6")
async def test_it_does_not_wait_for_a_thread_beyond_its_lease(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    release = threading.Event()

    @worker.handler("stubborn")
    def stubborn(argument: Any, ctx: Context) -> None:
        release.wait(30)

    master.lease_s = 1.0
    await up()
    await master.run("stubborn")
    old = worker.worker_id
    master.detached = True
    await wait_until(lambda: worker.worker_id is None)
    master.detached = False
    await wait_until(lambda: worker.worker_id not in (None, old))
    release.set()


@pytest.mark.req("D12")
async def test_leases_that_are_not_renewed_end_when_they_were_to_end(
    master: FakeMaster, worker: Worker, stopped: asyncio.Event, up: Callable[[], Any]
) -> None:
    """`lease_until_ms` equal to the store's time means this; it must not stop the jobs at once either."""
    await up()
    await master.run("hold")
    await wait_until(lambda: master.beats[-1]["running"])
    (run,) = worker._node.executor.owed_runs()  # type: ignore[union-attr]
    master.lease_s = 0.0
    beats = len(master.beats)
    await wait_until(lambda: len(master.beats) > beats + 2)
    ends_s = run.lease_end_s
    beats = len(master.beats)
    await wait_until(lambda: len(master.beats) > beats + 2)
    assert run.lease_end_s == ends_s
    assert not stopped.is_set()
    master.lease_s = 5.0


# --- orders by push


@pytest.mark.req("D14")
async def test_an_order_makes_it_report_at_once(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    worker.handler("note")(lambda argument: None)
    master.heartbeat_interval_s = 30.0
    await up()
    await wait_until(lambda: master.beats)
    for route, is_drained in (("/drain", True), ("/resume", False), ("/detach", False)):
        beats = len(master.beats)
        master.drain = is_drained
        assert (await master.send("POST", route, {"epoch": master.epoch})).status_code == 200
        await wait_until(lambda: len(master.beats) > beats)  # noqa: B023
        assert worker._node.identity.is_drain_ordered is is_drained  # type: ignore[union-attr]
    for route in ("/drain", "/resume", "/detach"):
        assert (await master.send("POST", route, {"epoch": master.epoch - 1})).status_code == 409
        assert (await master.send("POST", route, {"epoch": "1"})).status_code == 422
