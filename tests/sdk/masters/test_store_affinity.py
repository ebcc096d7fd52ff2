"""Answers from a master of another store at one of our addresses are not believed."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.sdk.fake_master import FakeMaster
from tests.support import real_time
from tests.support.waiting import wait_until
from worker_sdk import Context, Pusher, SyncPusher, UnavailableError, Worker
from worker_sdk.masters import store_affinity
from worker_sdk.masters.store_affinity import StoreAffinity

pytestmark = real_time.WORKER

A, B = "http://a:1", "http://b:1"


@pytest.fixture
async def foreign() -> AsyncIterator[FakeMaster]:
    """A master of another store."""
    one = FakeMaster()
    one.store = "theirs"
    try:
        yield one
        assert one.faults == []
    finally:
        one.close()


@pytest.fixture
def own(master: FakeMaster) -> FakeMaster:
    master.store = "ours"
    return master


class Asked:
    """A Home that receives answers at a time set by the test."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.affinity = StoreAffinity(patience_s=15.0, now_s=lambda: self.now_s)

    def hears(self, address: str, store: str, *, is_ok: bool = True) -> bool:
        return self.affinity.admits(address, store, is_ok=is_ok, addresses=[A, B])


def test_the_first_master_that_grants_a_call_tells_the_store() -> None:
    asked = Asked()
    assert asked.hears(A, "theirs", is_ok=False)
    assert asked.affinity.store == ""
    assert asked.hears(B, "ours")
    assert asked.affinity.store == "ours"
    assert not asked.hears(A, "theirs")
    assert not asked.hears(A, "theirs", is_ok=False)


def test_masters_that_name_no_store_are_believed() -> None:
    asked = Asked()
    assert asked.hears(A, "")
    assert asked.hears(B, "ours")
    assert asked.hears(A, "")


def test_another_store_is_believed_when_all_masters_have_belonged_to_it_for_long() -> None:
    asked = Asked()
    asked.hears(A, "ours")
    assert not asked.hears(A, "new")
    asked.now_s += 60
    assert not asked.hears(A, "new"), "B may still be of ours"
    assert not asked.hears(B, "new")
    assert asked.affinity.store == "new"
    assert asked.hears(A, "new")


def test_one_answer_from_our_own_store_is_enough_to_stay() -> None:
    asked = Asked()
    asked.hears(A, "ours")
    for _ in range(10):
        asked.now_s += 10
        assert not asked.hears(B, "theirs")
        assert asked.hears(A, "ours")
    assert asked.affinity.store == "ours"


def test_two_different_strangers_are_no_new_store() -> None:
    asked = Asked()
    asked.hears(A, "ours")
    for _ in range(4):
        asked.now_s += 10
        assert not asked.hears(A, "theirs")
        assert not asked.hears(B, "somebody's")
    assert asked.affinity.store == "ours"


def test_each_address_is_warned_of_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    asked = Asked()
    asked.hears(A, "ours")
    for _ in range(13):
        asked.hears(B, "theirs")
        asked.now_s += 10
    warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert len(warnings) == 3
    assert "http://b:1 belongs to another store (theirs, not ours)" in warnings[0]


@pytest.mark.req("M8")
@pytest.mark.parametrize("pull", [False, True], ids=["push", "pull"])
async def test_a_stranger_at_a_masters_address_gets_no_results_and_gives_no_orders(
    own: FakeMaster, foreign: FakeMaster, pull: bool
) -> None:
    worker = Worker([own.url, foreign.url], token=own.token, grace_s=0.2, max_jobs=4, pull=pull)
    may_end = asyncio.Event()
    stopped = 0

    @worker.handler("work")
    async def work(argument: Any, ctx: Context) -> str:
        nonlocal stopped
        try:
            await may_end.wait()
        except asyncio.CancelledError:
            stopped += 1
            raise
        return "done"

    async with worker.running():
        await wait_until(lambda: worker.worker_id and own.beats)
        worker_id = worker.worker_id
        job = own.dispatch("work")
        if pull:
            own.mail.append([job])
        else:
            assert (await own.push(job))["accepted"] == [job["job_id"]]
        named = [{"job_id": job["job_id"], "token": job["token"]}]
        await wait_until(lambda: own.beats[-1]["running"] == named)
        own.stop()
        may_end.set()
        await wait_until(
            lambda: foreign.count("/heartbeat") + foreign.count("/claim") and foreign.count("/results")
        )
        assert (foreign.beats, dict(foreign.results), foreign.polls, foreign.workers) == ([], {}, [], {})
        own.start()
        result = await wait_until(lambda: own.result(job["job_id"]))
        assert (result["token"], result["result"]) == (job["token"], "done")
        assert (worker.worker_id, stopped) == (worker_id, 0)


async def test_a_stranger_is_asked_last(own: FakeMaster, foreign: FakeMaster) -> None:
    worker = Worker([own.url, foreign.url], token=own.token, grace_s=0.2)

    @worker.handler("work")
    async def work(argument: Any) -> None:
        pass

    async with worker.running():
        await wait_until(lambda: worker.worker_id and own.beats)
        own.script("heartbeat", 503)
        await wait_until(lambda: foreign.count("/heartbeat") == 1)
        beats = len(own.beats)
        for _ in range(3):
            own.script("heartbeat", 503)
        await wait_until(lambda: len(own.beats) > beats + 2)
        assert foreign.count("/heartbeat") == 1


async def test_a_worker_moves_to_a_store_that_was_begun_anew(
    own: FakeMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_affinity, "PATIENCE_S", 0.0)
    own.lease_s = 0.5
    worker = Worker(own.url, token=own.token, grace_s=0.2)

    @worker.handler("work")
    async def work(argument: Any) -> str:
        return "done"

    async with worker.running():
        former_id = await wait_until(lambda: worker.worker_id)
        own.store, own.workers = "anew", {}
        await wait_until(lambda: worker.worker_id not in (None, former_id), what="it registers there")
        job = await own.run("work")
        assert (await wait_until(lambda: own.result(job["job_id"])))["result"] == "done"


async def test_a_pusher_gives_no_job_to_a_stranger(
    own: FakeMaster, foreign: FakeMaster, caplog: pytest.LogCaptureFixture
) -> None:
    async with Pusher([own.url, foreign.url], token=own.token, max_wait_s=0.5) as pusher:
        await pusher.enqueue("work")
        own.stop()
        with pytest.raises(UnavailableError):
            await pusher.enqueue("work")
        own.start()
        await pusher.enqueue("work")
    assert (len(own.jobs), foreign.jobs) == (2, {})
    assert "belongs to another store" in caplog.text


def test_a_blocking_pusher_gives_no_job_to_a_stranger_either(own: FakeMaster, foreign: FakeMaster) -> None:
    with SyncPusher([own.url, foreign.url], token=own.token, max_wait_s=0.5) as pusher:
        pusher.enqueue("work")
        own.stop()
        with pytest.raises(UnavailableError):
            pusher.enqueue("work")
        own.start()
        pusher.enqueue("work")
    assert (len(own.jobs), foreign.jobs) == (2, {})


async def test_handlers_push_to_the_store_of_their_worker(
    own: FakeMaster, foreign: FakeMaster, up: Callable[[], Any]
) -> None:
    worker = Worker([own.url, foreign.url], token=own.token, grace_s=0.2)

    @worker.handler("parent")
    async def parent(argument: Any, ctx: Context) -> str:
        own.hooks["jobs"] = lambda body: (503, None, {})
        foreign_asked = foreign.count("/jobs")
        task = asyncio.ensure_future(ctx.enqueue("child"))
        await wait_until(lambda: foreign.count("/jobs") > foreign_asked)
        del own.hooks["jobs"]
        return await task

    async with worker.running():
        await wait_until(lambda: worker.worker_id)
        job = await own.run("parent")
        assert (await wait_until(lambda: own.result(job["job_id"])))["type"] == "success"
    assert (len(own.jobs), foreign.jobs) == (1, {})
