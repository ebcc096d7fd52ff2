"""claim_alone.lua, drop_suspects.lua, and what the worker of such a claim gets meanwhile."""

from typing import Any

import pytest

from jqmaster.domain.ids import new_id
from jqmaster.domain.jobs.job import JobState
from jqmaster.domain.jobs.outcome import Decision
from jqmaster.errors import StaleEpochError
from jqmaster.store import layout
from jqmaster.store.jobs.claims import Claim, ClaimedJob, NotClaimed
from tests.support.constraints import ConstrainedWorld
from tests.support.store import LEASE_MS, OFFER_MS, StoreWorld

pytestmark = pytest.mark.req("M3")

LOST = Decision(JobState.RETRYING, "lost", delay_ms=60_000, is_loss=True)


@pytest.fixture
def constraints(world: StoreWorld) -> ConstrainedWorld:
    return ConstrainedWorld(world)


async def suspect(world: StoreWorld, name: str = "work", **fields: Any) -> str:
    """Create a job under which a worker was lost, so that it waits for a worker to itself."""
    _, job = await world.running(name, **fields)
    world.pass_ms(LEASE_MS)
    record = await world.get(job.job_id)
    assert await world.leases.reclaim(world.epoch, [world.settlement(record, job.token, LOST)]) == [True]
    return job.job_id


async def take(world: StoreWorld, worker: str, job_id: str) -> ClaimedJob:
    claim = await world.claims.claim_alone(world.epoch, worker, job_id)
    assert isinstance(claim, Claim), claim
    (job,) = claim.jobs
    return job


async def test_a_lost_job_that_is_to_run_alone_waits_for_it(world: StoreWorld) -> None:
    job_id = await suspect(world)
    found = await world.get(job_id)
    assert (found.state, found.losses, found.failures, found.token) == (JobState.RETRYING, 1, 0, "")
    assert found.due_at_ms == world.now_ms + 60_000
    assert await world.claims.suspects(10) == [job_id]
    # A failure that is retried does not count as a loss.
    worker, job = await world.running("other")
    await world.fail(worker, job, Decision(JobState.RETRYING, "failure", delay_ms=5, is_counted=True))
    assert await world.claims.suspects(10) == [job_id]


async def test_it_is_claimed_as_any_job_is(world: StoreWorld) -> None:
    job_id = await suspect(world, argument=[1, 2])
    worker = await world.worker()
    before = await world.get(job_id)
    claim = await world.claims.claim_alone(world.epoch, worker, job_id)
    assert isinstance(claim, Claim)
    (job,) = claim.jobs
    assert (claim.busy, claim.now_ms, claim.not_after_ms, claim.lease_until_ms) == (
        1, world.now_ms, world.now_ms + OFFER_MS, world.now_ms + LEASE_MS,
    )  # fmt: skip
    assert (job.job_id, job.record.attempt, job.record.name, job.record.argument) == (
        job_id,
        2,
        "work",
        b"\x92\x01\x02",
    )
    found = await world.get(job_id)
    assert (found.state, found.attempt, found.losses) == (JobState.RUNNING, 2, 1)
    assert (found.token, found.fence, found.worker_id) == (job.token, job.fence, worker)
    assert (found.started_at_ms, found.not_after_ms, found.due_at_ms) == (world.now_ms, claim.not_after_ms, 0)
    assert found.fence > before.fence
    assert await world.claims.suspects(10) == []
    assert (await world.findings()) == []
    assert await world.settlements.settle_success(worker, [(job_id, job.token, b"\xc0")]) == [True]


@pytest.mark.req("D11")
async def test_its_worker_gets_no_other_job_until_it_has_ended(world: StoreWorld) -> None:
    job_id = await suspect(world)
    worker = await world.worker(max_jobs=10)
    job = await take(world, worker, job_id)
    await world.enqueue_many(3)
    async with world.unchanged():
        assert await world.claims.claim(world.epoch, worker, ["work"], 5) is NotClaimed.FULL
    others = await world.worker()
    assert len(await world.claim(others, limit=1)) == 1
    await world.settlements.settle_success(worker, [(job_id, job.token, b"\xc0")])
    assert len(await world.claim(worker)) == 2
    assert len(await world.claim(worker)) == 0, "and what it holds now are others"


async def test_a_worker_that_holds_another_job_does_not_get_it(world: StoreWorld) -> None:
    job_id = await suspect(world)
    worker, _ = await world.running("other")
    async with world.unchanged():
        assert await world.claims.claim_alone(world.epoch, worker, job_id) is NotClaimed.BUSY


@pytest.mark.parametrize("flag", ["is_draining", "is_detached", None])
async def test_a_worker_that_takes_nothing_does_not_get_it(world: StoreWorld, flag: str | None) -> None:
    job_id = await suspect(world)
    worker = await world.worker()
    if flag:
        await world.redis.hset(world.shard.keys.worker(worker), flag, 1)
    async with world.unchanged():
        claim = await world.claims.claim_alone(world.epoch, worker if flag else new_id(), job_id)
        assert claim is NotClaimed.GONE


@pytest.mark.parametrize("how", ["promoted", "canceled", "expired", "deleted", "never"])
async def test_one_that_waits_no_more_is_not_taken_and_goes_off_the_list(world: StoreWorld, how: str) -> None:
    worker = await world.worker()
    fields: dict[str, Any] = {"expires_at_ms": world.now_ms + LEASE_MS + 10} if how == "expired" else {}
    job_id = await suspect(world, **fields)
    match how:
        case "promoted":
            world.pass_ms(60_000)
            await world.due.promote(world.epoch, JobState.RETRYING)
        case "canceled":
            await world.operator_actions.cancel(job_id)
        case "expired":
            world.pass_ms(10)
            assert await world.claims.claim_alone(world.epoch, worker, job_id) is NotClaimed.OVER
            await world.due.expire(world.epoch)
        case "deleted":
            await world.operator_actions.cancel(job_id)
            await world.operator_actions.delete(job_id)
        case "never":
            job_id = await world.enqueue()
    async with world.unchanged():
        assert await world.claims.claim_alone(world.epoch, worker, job_id) is NotClaimed.OVER
    kept = await suspect(world, "kept")
    await world.claims.drop_suspects(world.epoch, [job_id, kept])
    left = await world.claims.suspects(10)
    assert kept in left
    assert job_id not in left


async def test_nothing_of_it_under_a_stale_epoch_or_edition(world: StoreWorld) -> None:
    job_id = await suspect(world)
    worker = await world.worker()
    old = await world.reelect()
    async with world.unchanged():
        with pytest.raises(StaleEpochError):
            await world.claims.claim_alone(old, worker, job_id)
        with pytest.raises(StaleEpochError):
            await world.claims.drop_suspects(old, [job_id])
        assert await world.claims.claim_alone(world.epoch, worker, job_id, 7) is NotClaimed.STALE_CONSTRAINTS


@pytest.mark.req("J13")
@pytest.mark.parametrize("key", [None, "argument.host"])
async def test_it_obeys_constraints_and_holds_their_slots(
    constraints: ConstrainedWorld, key: str | None
) -> None:
    world = constraints.world
    one = await constraints.limit(key=key, concurrency=1)
    (job_id,) = await constraints.enqueue_many([{"host": "x"}])
    worker = await world.worker()
    (claimed,) = await constraints.claim(worker)
    world.pass_ms(LEASE_MS)
    lost = world.settlement(await world.get(job_id), claimed.token, LOST)
    assert await world.leases.reclaim(world.epoch, [lost]) == [True]
    (other,) = await constraints.enqueue_many([{"host": "x"}])
    (running,) = await constraints.claim(worker)
    assert running.job_id == other
    alone = await world.worker()
    edition = constraints.constraints.current.constraint_set.edition
    async with world.unchanged():
        assert await world.claims.claim_alone(world.epoch, alone, job_id, edition) is NotClaimed.CLOSED
    await constraints.succeed(worker, running)
    claim = await world.claims.claim_alone(world.epoch, alone, job_id, edition)
    assert isinstance(claim, Claim)
    slots = await constraints.slots(one)
    assert [job for gate in slots.values() for job in gate] == [job_id]
    (next_job,) = await constraints.enqueue_many([{"host": "x"}])
    assert await constraints.take(worker) == []
    await constraints.succeed(alone, claim.jobs[0])
    assert await constraints.take(worker) == [next_job]


async def test_its_wait_is_counted_from_its_time_and_not_at_all_if_nobody_knows_it(
    world: StoreWorld,
) -> None:
    job_id = await suspect(world)
    world.tally.take()
    world.pass_ms(61_000)
    await take(world, await world.worker(), job_id)
    assert world.tally.take().names["work"].wait.max_ms == 1_000
    other = await suspect(world)
    # An earlier release wrote no time into the record.
    at = layout._fields()["due_at_ms"]["offset"]
    await world.redis.setrange(world.shard.keys.job(other), at, bytes(8))
    world.tally.take()
    await take(world, await world.worker(), other)
    assert "work" not in world.tally.take().names
