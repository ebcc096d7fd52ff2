from dataclasses import replace

import pytest

from jqmaster.domain.jobs.job import JobState
from jqmaster.errors import StaleEpochError
from tests.store.jobs.test_claim import damage
from tests.support.store import StoreWorld


@pytest.mark.req("M2")
async def test_a_returned_offer_is_as_if_it_had_not_been_made(world: StoreWorld) -> None:
    job_id = await world.enqueue(priority=3)
    before = await world.get(job_id)
    worker = await world.worker()
    (job,) = await world.claim(worker)
    await world.leases.return_offers(world.epoch, worker, [(job_id, job.token)])
    assert await world.get(job_id) == replace(
        before, returned_offers=1, not_after_ms=world.now_ms + 5_000, fence=job.fence
    )
    assert await world.score(world.ready(), job_id) == 3
    assert await world.score(world.shard.keys.running, job_id) is None
    assert not await world.redis.exists(world.shard.keys.claims(worker))
    assert await world.records.history(job_id) == []


async def test_the_token_of_a_returned_offer_is_dead(world: StoreWorld) -> None:
    worker, job = await world.running()
    await world.leases.return_offers(world.epoch, worker, [(job.job_id, job.token)])
    async with world.unchanged():
        assert await world.settlements.settle_success(worker, [(job.job_id, job.token, b"")]) == [False]
        assert await world.fail(worker, job) is False
        assert await world.settlements.confirm_start(worker, [(job.job_id, job.token)]) == [False]
        await world.leases.return_offers(world.epoch, worker, [(job.job_id, job.token)])


async def test_a_returned_job_keeps_its_place(world: StoreWorld) -> None:
    first, second = await world.enqueue(), await world.enqueue()
    worker = await world.worker()
    (job,) = await world.claim(worker, limit=1)
    await world.leases.return_offers(world.epoch, worker, [(job.job_id, job.token)])
    assert [job.job_id for job in await world.claim(worker)] == [first, second]


async def test_an_old_leader_returns_nothing(world: StoreWorld) -> None:
    worker, job = await world.running()
    old = await world.reelect()
    async with world.unchanged():
        with pytest.raises(StaleEpochError):
            await world.leases.return_offers(old, worker, [(job.job_id, job.token)])


async def test_a_job_that_is_no_longer_an_offer_stays(world: StoreWorld) -> None:
    """The claim is confirmed, the token is another one, the job is over, or it never existed."""
    worker, confirmed = await world.running()
    await world.workers.renew(worker, [(confirmed.job_id, confirmed.token)], 9)
    await world.enqueue()
    (done,) = await world.claim(worker)
    await world.settlements.settle_success(worker, [(done.job_id, done.token, b"")])
    await world.enqueue()
    (other,) = await world.claim(worker)
    claims = [
        (confirmed.job_id, confirmed.token),
        (done.job_id, done.token),
        (other.job_id, "0" * 32),
        (world.spec().id, other.token),
    ]
    async with world.unchanged():
        await world.leases.return_offers(world.epoch, worker, claims)
    assert await world.state(other.job_id) is JobState.RUNNING


async def test_many_offers_some_of_them_damaged(world: StoreWorld) -> None:
    await world.enqueue_many(620)
    worker = await world.worker(max_jobs=1000)
    jobs = await world.claim(worker) + await world.claim(worker, limit=1000) + await world.claim(worker)
    bad = [jobs[0].job_id, jobs[300].job_id, jobs[610].job_id]
    for job_id, how in zip(bad, ("gone", "wrong type", "half a name"), strict=True):
        await damage(world, job_id, how)
    await world.leases.return_offers(world.epoch, worker, [(j.job_id, j.token) for j in jobs])
    k = world.shard.keys
    assert await world.redis.zcard(world.ready()) == 617
    assert await world.redis.zcard(k.running) == 3
    assert await world.leases.set_aside(world.epoch, bad) == 3
    # The lane of two of them is no longer known.
    world.never_counted_out["work"] = 2
    for job_id in bad:
        await world.operator_actions.delete(job_id)


async def test_the_leader_counts_returned_offers(world: StoreWorld) -> None:
    worker, job = await world.running()
    for n in range(1, 4):
        await world.leases.return_offers(world.epoch, worker, [(job.job_id, job.token)])
        assert (await world.get(job.job_id)).returned_offers == n
        (job,) = await world.claim(worker)
    # The counter has 16 bits and stops at its maximum.
    await world.redis.setrange(world.shard.keys.job(job.job_id), 14, b"\xff\xff")
    await world.leases.return_offers(world.epoch, worker, [(job.job_id, job.token)])
    assert (await world.get(job.job_id)).returned_offers == 65_535
