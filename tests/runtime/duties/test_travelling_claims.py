"""Claims that travel in the round trip of the write that makes them possible."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from jqmaster.domain.challenges.challenge import CallbackAnswer
from jqmaster.domain.jobs.job import JobState
from jqmaster.errors import OutcomeUnknownError, StoreUnavailableError
from jqmaster.service.workers.polls import Ask
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.scripts import ScriptCall
from tests.runtime.conftest import Dispatching
from tests.support import real_time
from tests.support.fake_worker import FakeWorker
from tests.support.waiting import wait_until

pytestmark = real_time.LOOPS

Trips = list[list[str]]


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> Trips:
    """Record the scripts of each round trip that concerns jobs."""
    found: Trips = []
    replies = StoreClient._replies

    async def noted(self: StoreClient, calls: Sequence[ScriptCall], replicas: int | None) -> list[Any]:
        names = [call.script.name for call in calls]
        if {"enqueue", "claim", "settle_success", "take_callback"} & {*names}:
            found.append(names)
        return await replies(self, calls, replicas)

    monkeypatch.setattr(StoreClient, "_replies", noted)
    return found


async def never() -> None:
    await asyncio.Event().wait()


async def at_rest(dispatching: Dispatching, worker: FakeWorker) -> None:
    """Wait until the worker is known and nothing is left to claim."""
    await wait_until(lambda: dispatching.fleet.get(worker.id) is not None)
    count = len(worker.started)
    await dispatching.world.enqueue()
    await wait_until(lambda: len(worker.started) > count)
    await wait_until(lambda: not dispatching.member(worker).pushes)


@pytest.mark.req("S6")
async def test_a_job_is_claimed_in_the_round_trip_of_its_push(dispatching: Dispatching, trips: Trips) -> None:
    worker = await dispatching.worker()
    await dispatching.start()
    await at_rest(dispatching, worker)
    trips.clear()
    job_id = await dispatching.world.enqueue()
    await wait_until(lambda: worker.started[-1][0] == job_id)
    assert trips[0] == ["enqueue", "claim"]
    assert trips[1:] in ([], [["claim"]]), "no more than what the clock asks for"


@pytest.mark.req("S6")
async def test_what_a_result_frees_is_claimed_in_its_round_trip(
    dispatching: Dispatching, trips: Trips
) -> None:
    worker = await dispatching.worker(max_jobs=1)
    await dispatching.start()
    await at_rest(dispatching, worker)
    job_id = await dispatching.world.enqueue()
    trips.clear()
    await worker.succeed(dispatching.world.settlements, worker.started[-1])
    assert trips == [["settle_success", "claim"]]
    await wait_until(lambda: worker.started[-1][0] == job_id)


async def test_a_delayed_job_is_claimed_in_the_round_trip_that_makes_it_ready(
    dispatching: Dispatching, trips: Trips
) -> None:
    world = dispatching.world
    worker = await dispatching.worker()
    await dispatching.start()
    await at_rest(dispatching, worker)
    job_id = await world.enqueue(delay_ms=50)
    world.pass_ms(50)
    trips.clear()
    due = await dispatching.world.due.come_due(world.epoch, expects_some=True)
    assert due
    assert (due.moved, due.is_told) == (1, True)
    assert trips == [["expire", "promote", "promote", "claim"]]
    await wait_until(lambda: worker.started[-1][0] == job_id)


@pytest.mark.req("P2", "S6")
@pytest.mark.parametrize("is_pulled", [False, True])
async def test_a_callback_is_claimed_in_the_round_trip_that_stores_it(
    dispatching: Dispatching, trips: Trips, *, is_pulled: bool
) -> None:
    world = dispatching.world
    opener, job, request = await world.awaiting()
    await world.workers.forget(opener)
    await dispatching.start()
    if is_pulled:
        worker_id = await world.worker(url=None)
        poll = asyncio.create_task(dispatching.held_polls.poll(worker_id, Ask(10, 30, "p"), never))

        def asks_and_has_its_answer() -> bool:
            member = dispatching.fleet.get(worker_id)
            return member is not None and member.polls_until_s > 0 and not member.claims

        await wait_until(asks_and_has_its_answer)
    else:
        worker = await dispatching.worker()
        await at_rest(dispatching, worker)
    trips.clear()
    assert await world.call_back(request) is CallbackAnswer.TAKEN
    assert trips[0] == ["take_callback", "claim"]
    if is_pulled:
        (offer,) = (await poll).offers
        assert (offer.job.job_id, offer.job.callbacks[0].body) == (job.job_id, b"done")
    else:
        await wait_until(lambda: worker.started[-1][0] == job.job_id)
        assert worker.pushes[-1].jobs[0]["callback"]["body"] == b"done"
    assert trips[1:] in ([], [["claim"]]), "no more than what the clock asks for"


async def test_who_has_no_room_and_who_knows_another_name_costs_no_claim(
    dispatching: Dispatching, trips: Trips
) -> None:
    worker = await dispatching.worker(max_jobs=1)
    await dispatching.start()
    await at_rest(dispatching, worker)
    trips.clear()
    await dispatching.world.enqueue(name="other")
    await dispatching.world.enqueue()
    assert trips[:2] == [["enqueue"], ["enqueue"]]


@pytest.mark.parametrize("loses_lead", [False, True])
@pytest.mark.req("D2")
async def test_a_leader_that_is_none_any_more_accepts_the_job_and_gives_it_to_nobody(
    dispatching: Dispatching, trips: Trips, *, loses_lead: bool
) -> None:
    worker = await dispatching.worker()
    await dispatching.start()
    await at_rest(dispatching, worker)
    trips.clear()
    if loses_lead:
        # The leader does not know yet that it lost the lead.
        await dispatching.world.reelect()
    else:
        dispatching.is_trusted = False
    job_id = await dispatching.world.enqueue()
    assert trips[0] == (["enqueue", "claim"] if loses_lead else ["enqueue"])
    if loses_lead:
        assert dispatching.stale
        assert await dispatching.world.state(job_id) == JobState.READY
    assert len(worker.started) == 1


@pytest.mark.parametrize("kind", ["lost", "refused"])
async def test_the_trouble_of_a_push_ends_its_claims_too_and_the_worker_goes_on(
    dispatching: Dispatching, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    worker = await dispatching.worker()
    await dispatching.start()
    await at_rest(dispatching, worker)
    replies, faults = StoreClient._replies, iter([True])

    async def troubled(self: StoreClient, calls: Sequence[ScriptCall], replicas: int | None) -> list[Any]:
        if calls[0].script.name == "enqueue" and next(faults, False):
            if kind == "refused":
                raise StoreUnavailableError("the store cannot be reached", retry_after_s=1)
            await replies(self, calls, replicas)
            raise OutcomeUnknownError("the store did not answer", retry_after_s=1)
        return await replies(self, calls, replicas)

    monkeypatch.setattr(StoreClient, "_replies", troubled)
    with pytest.raises((StoreUnavailableError, OutcomeUnknownError)):
        await dispatching.world.enqueue()
    assert not dispatching.member(worker).claims
    job_id = await dispatching.world.enqueue()
    await wait_until(lambda: worker.started[-1][0] == job_id)


async def test_a_claim_that_the_store_cannot_do_takes_nothing_from_the_push_with_it(
    dispatching: Dispatching, trips: Trips, caplog: pytest.LogCaptureFixture
) -> None:
    world = dispatching.world
    worker = await dispatching.worker()
    await dispatching.start()
    await at_rest(dispatching, worker)
    key = world.shard.keys.claims(worker.id)
    aside = f"{key}-aside"
    await world.redis.rename(key, aside)
    await world.redis.set(key, "damaged")
    trips.clear()
    job_id = await world.enqueue()
    assert trips[0] == ["enqueue", "claim"]
    assert await world.state(job_id) == JobState.READY
    assert "not of its type" in caplog.text
    await world.redis.rename(aside, key)


@pytest.mark.parametrize("nonsense", [[b"nonsense"], [b"ok", 1], 7])
async def test_an_answer_without_sense_to_a_claim_ends_it_and_the_worker_goes_on(
    dispatching: Dispatching, monkeypatch: pytest.MonkeyPatch, nonsense: object
) -> None:
    world = dispatching.world
    worker = await dispatching.worker()
    await dispatching.start()
    await at_rest(dispatching, worker)
    replies, faults = StoreClient._replies, iter([True])

    async def garbled(self: StoreClient, calls: Sequence[ScriptCall], replicas: int | None) -> list[Any]:
        answers = await replies(self, calls, replicas)
        if calls[0].script.name == "enqueue" and next(faults, False):
            answers[-1] = nonsense
        return answers

    monkeypatch.setattr(StoreClient, "_replies", garbled)
    taken = await world.enqueue()
    assert not dispatching.member(worker).claims
    job_id = await world.enqueue()
    await wait_until(lambda: worker.started[-1][0] == job_id)
    assert await world.state(taken) == JobState.RUNNING, "until its lease ends"


async def test_stop_waits_for_claims_under_way_and_gives_back_what_they_took(
    dispatching: Dispatching, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = dispatching.world
    worker = await dispatching.worker()
    dispatcher = await dispatching.start()
    await at_rest(dispatching, worker)
    done, goes_on = asyncio.Event(), asyncio.Event()
    replies: Callable[..., Any] = StoreClient._replies

    async def slow(self: StoreClient, calls: Sequence[ScriptCall], replicas: int | None) -> list[Any]:
        answers: list[Any] = await replies(self, calls, replicas)
        if calls[0].script.name == "enqueue":
            done.set()
            await goes_on.wait()
        return answers

    monkeypatch.setattr(StoreClient, "_replies", slow)
    pushing = asyncio.create_task(world.enqueue())
    await done.wait()
    dispatching.is_trusted = False
    stopping = asyncio.create_task(dispatcher.stop())
    await asyncio.sleep(0)
    goes_on.set()
    job_id = await pushing
    await stopping
    assert (await world.state(job_id), len(worker.started)) == (JobState.READY, 1)
