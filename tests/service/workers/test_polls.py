"""The polls that a master holds, on a real store. Only the test leads here."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from jqmaster.errors import ConflictError, NotFoundError, OverloadedError, RateLimitedError
from jqmaster.service.workers import polls
from jqmaster.service.workers.polls import Ask, HeldPolls
from jqmaster.store.jobs.claims import Claim, ClaimedJob
from jqmaster.store.workers.polls import NoPoll, PollReply, reply_of
from tests.support import real_time
from tests.support.store import StoreWorld
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("M8"), real_time.LOOPS]


async def never() -> None:
    await asyncio.Event().wait()


@pytest.fixture
async def held(world: StoreWorld) -> AsyncIterator[HeldPolls]:
    one = HeldPolls(world.polls, world.leases, world.progress, world.challenges, world.predecessors)
    await one.start()
    yield one
    await one.stop()


async def hanging(
    world: StoreWorld, held: HeldPolls, worker_id: str, poll_id: str = "p", wait_s: float = 30
) -> "asyncio.Task[PollReply]":
    poll = asyncio.create_task(held.poll(worker_id, Ask(10, wait_s, poll_id), never))

    await wait_until(lambda: held.holds(worker_id) and held._hanging[worker_id].opened.is_set())
    return poll


@contextlib.asynccontextmanager
async def another_master(world: StoreWorld) -> AsyncIterator[HeldPolls]:
    one = HeldPolls(world.polls, world.leases, world.progress, world.challenges, world.predecessors)
    await one.start()
    yield one
    await one.stop()


async def test_the_leader_in_this_process_hands_over_what_it_claimed(
    world: StoreWorld, held: HeldPolls
) -> None:
    worker_id = await world.worker(url=None)
    poll = await hanging(world, held, worker_id)
    await world.enqueue()
    assert held.holds(worker_id)
    claim = await world.claims.claim(world.epoch, worker_id, ["work"], 10, polls_here=True)
    assert isinstance(claim, Claim)
    held.answer(worker_id, reply_of(7, claim))
    reply = await poll
    assert ([offer.job for offer in reply.offers], reply.epoch) == (claim.jobs, 7)
    assert not held.holds(worker_id)


async def test_a_leader_elsewhere_is_heard_of_by_a_message(world: StoreWorld, held: HeldPolls) -> None:
    worker_id = await world.worker(url=None)
    poll = await hanging(world, held, worker_id)
    await world.enqueue()
    (job,) = await world.claim(worker_id)
    held.look("somebody")
    held.look(worker_id)
    assert [offer.job for offer in (await poll).offers] == [job]


async def test_jobs_that_no_message_told_of_are_found_by_checking(
    world: StoreWorld, held: HeldPolls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polls, "LOOK_S", 0.05)
    quick = HeldPolls(world.polls, world.leases, world.progress, world.challenges, world.predecessors)
    await quick.start()
    worker_id = await world.worker(url=None)
    poll = await hanging(world, quick, worker_id)
    await world.enqueue()
    (job,) = await world.claim(worker_id)
    assert [offer.job for offer in (await poll).offers] == [job]
    await quick.stop()


async def test_jobs_claimed_while_the_caller_hung_up_are_for_the_next_poll(
    world: StoreWorld, held: HeldPolls
) -> None:
    worker_id = await world.worker(url=None)
    left = asyncio.Event()

    async def gone() -> None:
        await left.wait()

    poll = asyncio.create_task(held.poll(worker_id, Ask(10, 30, "p"), gone))
    await wait_until(lambda: held.holds(worker_id))

    async def is_open() -> bool:
        worker = await world.workers.get(worker_id)
        return worker is not None and worker.polls_until_ms > 0

    await wait_until(is_open)
    await world.enqueue()
    claim = await world.claims.claim(world.epoch, worker_id, ["work"], 10, polls_here=True)
    assert isinstance(claim, Claim)
    left.set()
    assert not (await poll).offers
    held.answer(worker_id, reply_of(7, claim))
    reply = await held.poll(worker_id, Ask(10, 30, "q"), never)
    assert [offer.job for offer in reply.offers] == claim.jobs


async def test_jobs_without_a_waiting_poll_are_for_the_next_poll(world: StoreWorld, held: HeldPolls) -> None:
    worker_id = await world.worker(url=None)
    await world.polls.open(worker_id, "p", 10, 30_000)
    await world.enqueue()
    claim = await world.claims.claim(world.epoch, worker_id, ["work"], 10, polls_here=True)
    assert isinstance(claim, Claim)
    held.answer(worker_id, reply_of(7, claim))
    await wait_until(lambda: not held._drops)
    reply = await held.poll(worker_id, Ask(10, 30, "q"), never)
    assert [offer.job for offer in reply.offers] == claim.jobs


async def test_a_later_poll_of_the_same_worker_ends_the_one_before(
    world: StoreWorld, held: HeldPolls
) -> None:
    worker_id = await world.worker(url=None)
    first = await hanging(world, held, worker_id, "p1")
    second = asyncio.create_task(held.poll(worker_id, Ask(10, 0.3, "p2"), never))
    with pytest.raises(RateLimitedError):
        await first
    assert not (await second).offers


async def test_the_newest_of_many_polls_gets_the_jobs_however_slowly_the_first_is_opened(
    world: StoreWorld, held: HeldPolls, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker_id = await world.worker(url=None)
    may_open, opened, open_at_once = asyncio.Event(), list[str](), world.polls.open

    async def open_late(
        worker_id: str, poll_id: str, max_jobs: int, wait_ms: int, *, call_id: str
    ) -> PollReply | NoPoll:
        opened.append(poll_id)
        if poll_id == "first":
            await may_open.wait()
        return await open_at_once(worker_id, poll_id, max_jobs, wait_ms, call_id=call_id)

    monkeypatch.setattr(world.polls, "open", open_late)

    async def hanging_here(poll_id: str) -> "asyncio.Task[PollReply]":
        poll = asyncio.create_task(held.poll(worker_id, Ask(10, 30, poll_id), never))
        await wait_until(lambda: worker_id in held._hanging and held._hanging[worker_id].id == poll_id)
        return poll

    polls_of_one = [await hanging_here(poll_id) for poll_id in ("first", "second", "third")]
    may_open.set()
    for replaced in polls_of_one[:2]:
        with pytest.raises(RateLimitedError):
            await replaced
    await wait_until(lambda: len(opened) == 2)
    # The second poll never asked the store.
    assert opened == ["first", "third"]
    await world.enqueue()

    async def claimed() -> list[ClaimedJob]:
        return await world.claim(worker_id)

    (job,) = await wait_until(claimed)
    held.look(worker_id)
    assert [offer.job for offer in (await polls_of_one[2]).offers] == [job]


async def test_a_poll_that_another_master_took_over_ends_when_it_looks(
    world: StoreWorld, held: HeldPolls
) -> None:
    worker_id = await world.worker(url=None)
    poll = await hanging(world, held, worker_id, "p1")
    await world.polls.open(worker_id, "p2", 10, 30_000)
    held.look_all()
    with pytest.raises(RateLimitedError):
        await poll


async def test_a_call_that_the_client_left_does_not_end_the_poll_that_it_repeats_at_another_master(
    world: StoreWorld, held: HeldPolls
) -> None:
    """The first master was suspended, for example, and notices only afterwards that the client has left."""
    worker_id = await world.worker(url=None)
    left = asyncio.Event()

    async def gone() -> None:
        await left.wait()

    first = asyncio.create_task(held.poll(worker_id, Ask(10, 30, "p"), gone))
    await wait_until(lambda: held.holds(worker_id) and held._hanging[worker_id].opened.is_set())
    async with another_master(world) as other:
        second = await hanging(world, other, worker_id)
        left.set()
        assert not (await first).offers
        await world.enqueue()
        (job,) = await world.claim(worker_id)
        other.look(worker_id)
        assert [offer.job for offer in (await second).offers] == [job]


async def test_a_call_whose_wait_is_over_does_not_end_the_poll_that_was_repeated_at_another_master(
    world: StoreWorld, held: HeldPolls
) -> None:
    worker_id = await world.worker(url=None)
    first = await hanging(world, held, worker_id, wait_s=0.3)
    async with another_master(world) as other:
        second = await hanging(world, other, worker_id)
        assert not (await first).offers
        await world.enqueue()
        (job,) = await world.claim(worker_id)
        other.look(worker_id)
        assert [offer.job for offer in (await second).offers] == [job]


async def test_a_poll_whose_jobs_were_returned_gets_others(world: StoreWorld, held: HeldPolls) -> None:
    worker_id = await world.worker(url=None)
    poll = await hanging(world, held, worker_id)
    await world.enqueue()
    (job,) = await world.claim(worker_id)
    await world.leases.refuse_offers(worker_id, [(job.job_id, job.token)])
    held.look(worker_id)

    async def claimed_again() -> list[ClaimedJob]:
        claim = await world.claims.claim(world.epoch, worker_id, ["work"], 10)
        return claim.jobs if isinstance(claim, Claim) else []

    (again,) = await wait_until(claimed_again)
    held.look(worker_id)
    assert [offer.job for offer in (await poll).offers] == [again]


async def test_a_claim_for_a_poll_that_has_moved_to_another_master_is_found_there_at_once(
    world: StoreWorld, held: HeldPolls
) -> None:
    worker_id = await world.worker(url=None)
    async with another_master(world) as other:
        poll = await hanging(world, other, worker_id)
        await world.enqueue()
        claim = await world.claims.claim(world.epoch, worker_id, ["work"], 10, polls_here=True)
        assert isinstance(claim, Claim)
        async with world.published(world.shard.keys.wake_channel, f"mail:{worker_id}"):
            held.answer(worker_id, reply_of(7, claim))
            await wait_until(lambda: not held._drops)
        other.look(worker_id)
        assert [offer.job for offer in (await poll).offers] == claim.jobs


async def test_its_end_answers_all_and_lets_nobody_in(world: StoreWorld, held: HeldPolls) -> None:
    waiting = [await hanging(world, held, await world.worker(url=None)) for _ in range(3)]
    with_job = await world.worker("other", url=None)
    poll = await hanging(world, held, with_job)
    await world.enqueue("other")
    (job,) = await world.claim(with_job, "other")
    await held.stop()
    assert not [offer for one in waiting for offer in (await one).offers]
    assert [offer.job for offer in (await poll).offers] == [job]
    with pytest.raises(OverloadedError):
        await held.poll(with_job, Ask(1, 0), never)
    assert [worker.polls_until_ms for worker in await world.workers.all()] == [0, 0, 0, 0]


async def test_a_worker_that_cannot_poll_is_told_why(world: StoreWorld, held: HeldPolls) -> None:
    with pytest.raises(NotFoundError):
        await held.poll("nobody", Ask(1, 0), never)
    with pytest.raises(ConflictError, match="pushed"):
        await held.poll(await world.worker(), Ask(1, 0), never)
    worker_id = await world.worker(url=None)
    with pytest.raises(ConflictError, match="newest"):
        await held.poll(worker_id, Ask(1, 0, "p", withdraws=True), never)


@pytest.mark.req("P6", "J8")
async def test_a_job_that_is_canceled_between_the_claim_of_its_callback_and_the_answer_is_not_given(
    world: StoreWorld, held: HeldPolls
) -> None:
    _, job, request = await world.awaiting()
    _, other, other_request = await world.awaiting()
    worker_id = await world.worker(url=None)
    poll = await hanging(world, held, worker_id)
    await world.call_back(request)
    await world.call_back(other_request)
    claim = await world.claims.claim(world.epoch, worker_id, ["work"], 10, polls_here=True)
    assert isinstance(claim, Claim)
    assert len(claim.jobs) == 2
    await world.operator_actions.cancel(job.job_id)
    held.answer(worker_id, reply_of(7, claim))
    (offer,) = (await poll).offers
    assert (offer.job.job_id, offer.job.callbacks[0].body) == (other.job_id, b"done")
