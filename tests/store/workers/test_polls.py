"""Polls of workers that pull: what is claimed for them, and that they are told of it exactly as often as needed."""

import pytest

from jqmaster.domain.jobs.job import JobState
from jqmaster.domain.jobs.outcome import Decision
from jqmaster.errors import StaleEpochError
from jqmaster.store import codec
from jqmaster.store.jobs.claims import Claim, NotClaimed
from jqmaster.store.workers.polls import NoPoll, PollReply, reply_of
from tests.support.store import LEASE_MS, OFFER_MS, StoreWorld

pytestmark = pytest.mark.req("M8")

WAIT_MS = 20_000


async def opened(world: StoreWorld, worker_id: str, poll_id: str = "p1", max_jobs: int = 10) -> PollReply:
    reply = await world.polls.open(worker_id, poll_id, max_jobs, WAIT_MS)
    assert isinstance(reply, PollReply)
    return reply


async def taken(
    world: StoreWorld, worker_id: str, poll_id: str = "p1", *, ends: bool = False
) -> list[tuple[str, str]]:
    reply = await world.polls.take(worker_id, poll_id, ends=ends)
    assert isinstance(reply, PollReply)
    return given(reply)


def given(reply: PollReply) -> list[tuple[str, str]]:
    return [(offer.job.job_id, offer.job.token) for offer in reply.offers]


async def puller(world: StoreWorld, max_jobs: int = 10) -> str:
    return await world.worker(url=None, max_jobs=max_jobs)


async def test_nothing_is_claimed_for_a_worker_that_does_not_ask(world: StoreWorld) -> None:
    await world.enqueue()
    worker_id = await puller(world)
    async with world.unchanged():
        assert await world.claims.claim(world.epoch, worker_id, ["work"], 10) is NotClaimed.NO_POLL
    await opened(world, worker_id)
    world.pass_ms(WAIT_MS)
    async with world.unchanged():
        assert await world.claims.claim(world.epoch, worker_id, ["work"], 10) is NotClaimed.NO_POLL


async def test_one_claim_answers_a_poll_with_as_many_as_it_asked_for(world: StoreWorld) -> None:
    job_ids = await world.enqueue_many(5)
    worker_id = await puller(world)
    assert given(await opened(world, worker_id, max_jobs=3)) == []
    claimed = await world.claim(worker_id)
    assert [job.job_id for job in claimed] == job_ids[:3]
    assert await world.claims.claim(world.epoch, worker_id, ["work"], 10) is NotClaimed.NO_POLL
    assert await taken(world, worker_id) == [(job.job_id, job.token) for job in claimed]


async def test_a_poll_is_told_what_a_push_would_say(world: StoreWorld) -> None:
    await world.enqueue(argument={"a": 1}, headers={"h": "v"}, timeout_ms=7_000)
    worker_id = await puller(world)
    await opened(world, worker_id)
    claim = await world.claims.claim(world.epoch, worker_id, ["work"], 10)
    assert isinstance(claim, Claim)
    world.pass_ms(100)
    reply = await world.polls.take(worker_id, "p1", ends=False)
    assert isinstance(reply, PollReply)
    (offer,) = reply.offers
    assert offer.job == claim.jobs[0]
    assert offer.job.record.attempt == 1
    assert (offer.not_after_ms, offer.lease_until_ms) == (claim.not_after_ms, claim.lease_until_ms)
    assert offer.lease_until_ms == world.now_ms - 100 + LEASE_MS
    assert (reply.now_ms, reply.epoch) == (world.now_ms, int(world.epoch.split(":")[0]))


async def test_the_same_poll_again_is_given_the_same_jobs_at_once(world: StoreWorld) -> None:
    """The answer was lost, or the master died that held the poll."""
    await world.enqueue()
    worker_id = await puller(world)
    await opened(world, worker_id)
    (job,) = await world.claim(worker_id)
    for _ in range(3):
        assert given(await opened(world, worker_id)) == [(job.job_id, job.token)]
    assert (await world.get(job.job_id)).attempt == 1


async def test_another_poll_says_that_the_answer_was_heard(world: StoreWorld) -> None:
    await world.enqueue_many(2)
    worker_id = await puller(world)
    await opened(world, worker_id, max_jobs=1)
    await world.claim(worker_id)
    assert len(await taken(world, worker_id)) == 1
    assert given(await opened(world, worker_id, "p2")) == []
    (second,) = await world.claim(worker_id)
    assert await taken(world, worker_id, "p2") == [(second.job_id, second.token)]
    assert await world.polls.take(worker_id, "p1", ends=True) is NoPoll.OVER


async def test_jobs_that_no_poll_was_told_of_are_for_the_next(world: StoreWorld) -> None:
    """The poll ended, or its master died, just when the claim was made."""
    await world.enqueue()
    worker_id = await puller(world)
    await opened(world, worker_id)
    (job,) = await world.claim(worker_id)
    assert given(await opened(world, worker_id, "p2")) == [(job.job_id, job.token)]
    assert given(await opened(world, worker_id, "p3")) == [], "p2 was told"


async def test_a_claim_of_the_master_that_holds_the_poll_counts_as_told_until_it_is_dropped(
    world: StoreWorld,
) -> None:
    await world.enqueue()
    worker_id = await puller(world)
    await opened(world, worker_id)
    async with world.published(world.shard.keys.wake_channel):
        claim = await world.claims.claim(world.epoch, worker_id, ["work"], 10, polls_here=True)
    assert isinstance(claim, Claim)
    assert claim.is_ours_to_tell
    await world.polls.drop(worker_id, "another")
    await world.polls.drop(worker_id, "p1")
    (job,) = claim.jobs
    assert given(await opened(world, worker_id, "p2")) == [(job.job_id, job.token)]


async def test_a_claim_elsewhere_tells_whom_the_poll_hangs_at(world: StoreWorld) -> None:
    await world.enqueue()
    worker_id = await puller(world)
    channel = world.shard.keys.wake_channel
    async with world.published(channel, f"polls:{worker_id}:{WAIT_MS}"):
        await opened(world, worker_id)
    async with world.published(channel, f"mail:{worker_id}"):
        await world.claim(worker_id)


async def test_a_poll_that_ends_is_given_nothing_more(world: StoreWorld) -> None:
    worker_id = await puller(world)
    await opened(world, worker_id)
    assert await taken(world, worker_id, ends=True) == []
    await world.enqueue()
    assert await world.claims.claim(world.epoch, worker_id, ["work"], 10) is NotClaimed.NO_POLL
    assert await world.polls.answered([worker_id]) == [worker_id]


async def test_a_poll_that_hangs_is_not_answered(world: StoreWorld) -> None:
    await world.enqueue()
    worker_id = await puller(world)
    await opened(world, worker_id)
    assert await taken(world, worker_id) == []
    assert await world.polls.answered([worker_id]) == []
    await world.claim(worker_id)
    assert await world.polls.answered([worker_id]) == [worker_id]


@pytest.mark.req("M3")
async def test_an_offer_that_is_over_is_not_told_any_more(world: StoreWorld) -> None:
    await world.enqueue()
    worker_id = await puller(world)
    await opened(world, worker_id)
    await world.claim(worker_id)
    world.pass_ms(OFFER_MS + 1)
    assert given(await opened(world, worker_id)) == []


@pytest.mark.req("M3")
async def test_only_what_the_worker_still_holds_and_has_not_begun_is_told(world: StoreWorld) -> None:
    await world.enqueue_many(3)
    worker_id = await puller(world)
    await opened(world, worker_id)
    begun, ended, left = await world.claim(worker_id)
    await world.workers.renew(worker_id, [(begun.job_id, begun.token)], 1)
    assert await world.fail(worker_id, ended)
    assert await taken(world, worker_id) == [(left.job_id, left.token)]


async def test_a_job_that_comes_back_with_another_claim_is_told_once(world: StoreWorld) -> None:
    await world.enqueue()
    worker_id = await puller(world)
    await opened(world, worker_id)
    (first,) = await world.claim(worker_id)
    assert await world.fail(worker_id, first, Decision(JobState.READY, "handed_back"))
    await opened(world, worker_id, "p2")
    (second,) = await world.claim(worker_id)
    assert await taken(world, worker_id, "p2") == [(second.job_id, second.token)]


async def test_refused_offers_go_back_as_if_never_given(world: StoreWorld) -> None:
    await world.enqueue()
    worker_id = await puller(world)
    await opened(world, worker_id)
    (job,) = await world.claim(worker_id)
    channel = world.shard.keys.wake_channel
    async with world.published(channel, f"freed:{worker_id}:1", "ready"):
        await world.leases.refuse_offers(worker_id, [(job.job_id, job.token)])
    found = await world.get(job.job_id)
    assert (found.state, found.attempt, found.losses, found.failures) == (JobState.READY, 0, 0, 0)
    async with world.unchanged():
        await world.leases.refuse_offers(worker_id, [(job.job_id, job.token)])


async def test_nobody_refuses_for_another_and_nothing_that_was_begun(world: StoreWorld) -> None:
    await world.enqueue()
    worker_id, other = await puller(world), await puller(world)
    await opened(world, worker_id)
    (job,) = await world.claim(worker_id)
    async with world.unchanged():
        await world.leases.refuse_offers(other, [(job.job_id, job.token)])
    await world.workers.renew(worker_id, [(job.job_id, job.token)], 1)
    async with world.unchanged():
        await world.leases.refuse_offers(worker_id, [(job.job_id, job.token)])


async def test_a_worker_that_cannot_poll_is_told_why(world: StoreWorld) -> None:
    pushed, unknown, detached = (
        await world.worker(),
        "0198c3f4-5e6a-7b8c-9d0e-1f2a3b4c5d6e",
        await puller(world),
    )
    await world.workers.detach(detached, b"entry")
    async with world.unchanged():
        assert await world.polls.open(pushed, "p", 1, 1) is NoPoll.PUSHED
        assert await world.polls.open(unknown, "p", 1, 1) is NoPoll.UNKNOWN
        assert await world.polls.open(detached, "p", 1, 1) is NoPoll.DETACHED
        assert await world.polls.take(unknown, "p", ends=True) is NoPoll.UNKNOWN
        await world.polls.drop(unknown)


async def test_a_poll_ends_with_the_detachment_of_its_worker(world: StoreWorld) -> None:
    worker_id = await puller(world)
    await opened(world, worker_id)
    await world.workers.detach(worker_id, b"entry")
    assert await world.polls.take(worker_id, "p1", ends=False) is NoPoll.DETACHED
    (worker,) = await world.workers.all()
    assert (worker.is_pulling, worker.polls_until_ms) == (True, 0)


@pytest.mark.req("D4")
async def test_a_stale_leader_claims_nothing_for_a_poll(world: StoreWorld) -> None:
    await world.enqueue()
    worker_id = await puller(world)
    await opened(world, worker_id)
    old = await world.reelect()
    async with world.unchanged():
        with pytest.raises(StaleEpochError):
            await world.claims.claim(old, worker_id, ["work"], 10)
    assert len(await world.claim(worker_id)) == 1, "the next leader finds the poll"
    reply = await world.polls.take(worker_id, "p1", ends=False)
    assert isinstance(reply, PollReply)
    assert reply.epoch == int(world.epoch.split(":")[0])


@pytest.mark.req("M3")
async def test_a_suspect_runs_alone_on_a_worker_that_pulls(world: StoreWorld) -> None:
    _, job = await world.running()
    world.pass_ms(LEASE_MS)
    record = await world.get(job.job_id)
    lost = Decision(JobState.RETRYING, "lost", delay_ms=60_000, is_loss=True)
    assert await world.leases.reclaim(world.epoch, [world.settlement(record, job.token, lost)]) == [True]
    worker_id = await puller(world)
    async with world.unchanged():
        assert await world.claims.claim_alone(world.epoch, worker_id, job.job_id) is NotClaimed.NO_POLL
    await opened(world, worker_id)
    claim = await world.claims.claim_alone(world.epoch, worker_id, job.job_id)
    assert isinstance(claim, Claim)
    assert await taken(world, worker_id) == [(job.job_id, claim.jobs[0].token)]
    await world.enqueue()
    await opened(world, worker_id, "p2")
    assert await world.claims.claim(world.epoch, worker_id, ["work"], 10) is NotClaimed.FULL


async def test_damaged_mail_and_records_hurt_only_themselves(world: StoreWorld) -> None:
    await world.enqueue_many(2)
    worker_id = await puller(world)
    await opened(world, worker_id)
    damaged, whole = await world.claim(worker_id)
    redis, keys = world.shard.client.redis, world.shard.keys
    record = await redis.get(keys.job(damaged.job_id))
    assert isinstance(record, bytes)
    await redis.set(keys.job(damaged.job_id), record[:100])
    assert await taken(world, worker_id) == [(whole.job_id, whole.token)]
    await redis.set(keys.job(damaged.job_id), record)
    await redis.delete(keys.mail(worker_id))
    await redis.rpush(keys.mail(worker_id), "no mail")
    assert given(await opened(world, worker_id)) == []


async def test_an_answer_is_announced_to_the_master_at_which_the_poll_hangs(world: StoreWorld) -> None:
    async with world.published(world.shard.keys.wake_channel, "mail:w1"):
        await world.polls.notify("w1")


async def test_an_offer_whose_record_cannot_be_decoded_is_left_out(world: StoreWorld) -> None:
    await world.enqueue_many(2)
    worker_id = await puller(world)
    await opened(world, worker_id)
    damaged, whole = await world.claim(worker_id)
    redis, key = world.redis, world.shard.keys.job(damaged.job_id)
    record = await redis.get(key)
    # The head is sound, so the script hands the job over; the rest is not.
    await redis.set(key, record[: codec.HEAD_SIZE] + b"\xff")
    assert await taken(world, worker_id) == [(whole.job_id, whole.token)]
    await redis.set(key, record)


async def test_a_claim_that_was_just_made_answers_the_poll_of_this_master(world: StoreWorld) -> None:
    await world.enqueue()
    worker_id = await puller(world)
    await opened(world, worker_id)
    claim = await world.claims.claim(world.epoch, worker_id, ["work"], 5)
    assert isinstance(claim, Claim)
    reply = reply_of(7, claim)
    assert (reply.now_ms, reply.epoch, reply.is_draining) == (world.now_ms, 7, False)
    assert given(reply) == [(job.job_id, job.token) for job in claim.jobs]
    assert reply.offers[0].not_after_ms == world.now_ms + OFFER_MS
