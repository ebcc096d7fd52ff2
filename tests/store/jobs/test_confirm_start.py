import pytest

from tests.store.jobs.test_claim import damage
from tests.support.store import LEASE_MS, StoreWorld


@pytest.mark.req("M3")
async def test_only_the_holder_of_the_claim_may_start(world: StoreWorld) -> None:
    worker, job = await world.running()
    other = await world.worker()
    async with world.unchanged():
        assert await world.settlements.confirm_start(other, [(job.job_id, job.token)]) == [False]
        assert await world.settlements.confirm_start(worker, [(job.job_id, "0" * 32)]) == [False]
        assert await world.settlements.confirm_start(worker, [(world.spec().id, job.token)]) == [False]
    assert await world.settlements.confirm_start(worker, [(job.job_id, job.token)]) == [True]
    assert (await world.get(job.job_id)).is_confirmed
    # A confirmed start is no longer an offer, and confirming it again is harmless.
    async with world.unchanged():
        assert await world.settlements.confirm_start(worker, [(job.job_id, job.token)]) == [True]
        await world.leases.return_offers(world.epoch, worker, [(job.job_id, job.token)])


@pytest.mark.req("M3")
async def test_a_claim_whose_lease_is_over_does_not_start(world: StoreWorld) -> None:
    """Nobody has reclaimed it yet, but the next look may do so."""
    worker, job = await world.running()
    world.now_ms += LEASE_MS - 1
    assert await world.settlements.confirm_start(worker, [(job.job_id, job.token)]) == [True]
    world.now_ms += 1
    async with world.unchanged():
        assert await world.settlements.confirm_start(worker, [(job.job_id, job.token)]) == [False]
    await world.workers.renew(worker, [(job.job_id, job.token)], 9)
    assert await world.settlements.confirm_start(worker, [(job.job_id, job.token)]) == [True]


@pytest.mark.parametrize("is_result", [False, True])
async def test_a_job_that_is_over_does_not_start(world: StoreWorld, is_result: bool) -> None:
    """The job was canceled, or a result overtook the request: this also counts as its start."""
    worker, job = await world.running()
    if is_result:
        assert await world.settlements.settle_success(worker, [(job.job_id, job.token, b"")]) == [True]
    else:
        await world.operator_actions.cancel(job.job_id)
    async with world.unchanged():
        assert await world.settlements.confirm_start(worker, [(job.job_id, job.token)]) == [False]


async def test_more_than_one_call_holds_some_damaged(world: StoreWorld) -> None:
    await world.enqueue_many(510)
    worker = await world.worker(max_jobs=1000)
    jobs = await world.claim(worker, limit=500) + await world.claim(worker)
    bad = jobs[1].job_id
    await damage(world, bad, "wrong type")
    expected = [job.job_id != bad for job in jobs]
    assert await world.settlements.confirm_start(worker, [(j.job_id, j.token) for j in jobs]) == expected
    await world.leases.set_aside(world.epoch, [bad])
    # Their lane is no longer known.
    world.never_counted_out["work"] = 1
    await world.operator_actions.delete(bad)
