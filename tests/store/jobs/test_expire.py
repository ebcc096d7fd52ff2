from dataclasses import replace

import pytest

from jqmaster.domain.jobs.job import Cause, JobState
from jqmaster.domain.jobs.outcome import Decision
from jqmaster.errors import StaleEpochError
from tests.store.jobs.test_claim import damage
from tests.store.jobs.test_operator_actions import WAITING, job_in
from tests.store.jobs.test_settle import RETRYING
from tests.support.store import StoreWorld


@pytest.mark.req("M2")
@pytest.mark.parametrize("state", WAITING)
async def test_a_waiting_job_is_skipped_when_its_time_is_over(world: StoreWorld, state: JobState) -> None:
    job = await job_in(world, state, expires_at_ms=world.now_ms + 5_000)
    await world.results.fetch_result(job.id, watch=True)
    world.now_ms = job.expires_at_ms - 1
    async with world.unchanged():
        assert await world.due.expire(world.epoch) == (0, 1)
    world.pass_ms(1)
    async with world.published(world.shard.keys.finished_channel, job.id):
        assert await world.due.expire(world.epoch) == (1, -1)
    assert await world.get(job.id) == replace(
        job, state=JobState.SKIPPED, cause=Cause.EXPIRED, finished_at_ms=world.now_ms
    )
    assert await world.score(world.shard.keys.index(JobState.SKIPPED), job.id) == world.now_ms
    assert not await world.redis.exists(world.shard.keys.expiring)


async def test_a_running_job_runs_on_and_is_looked_at_again(world: StoreWorld) -> None:
    worker, claimed = await world.running(expires_at_ms=world.now_ms + 5_000, timeout_ms=600_000)
    job = await world.get(claimed.job_id)
    world.pass_ms(5_000)
    assert await world.due.expire(world.epoch) == (0, 60_000)
    assert await world.get(job.id) == job
    await world.fail(worker, claimed, Decision(JobState.READY, "handed_back"))
    world.pass_ms(60_000)
    assert await world.due.expire(world.epoch) == (1, -1)
    assert await world.state(job.id) is JobState.SKIPPED


async def test_a_job_that_is_over_does_not_expire(world: StoreWorld) -> None:
    worker, claimed = await world.running(expires_at_ms=world.now_ms + 5_000)
    await world.settlements.settle_success(worker, [(claimed.job_id, claimed.token, b"")])
    job = await world.get(claimed.job_id)
    world.pass_ms(5_000)
    assert await world.due.expire(world.epoch) == (0, -1)
    assert await world.get(job.id) == job


async def test_an_old_leader_skips_nothing(world: StoreWorld) -> None:
    await world.enqueue(expires_at_ms=world.now_ms + 1)
    world.pass_ms(1)
    old = await world.reelect()
    async with world.unchanged():
        with pytest.raises(StaleEpochError):
            await world.due.expire(old)


async def test_many_expire_in_steps_and_damaged_ones_hurt_only_themselves(world: StoreWorld) -> None:
    ids = await world.enqueue_many(700, delay_ms=60_000, expires_at_ms=world.now_ms + 1)
    last = await world.enqueue(expires_at_ms=world.now_ms + 31)
    for job_id, how in zip(ids, ("gone", "wrong type", "half a name"), strict=False):
        await damage(world, job_id, how)
    world.pass_ms(1)
    steps = [await world.due.expire(world.epoch) for _ in range(2)]
    assert steps == [(497, 0), (200, 30)]
    # They still wait for their time, and are set aside then.
    world.pass_ms(60_000)
    assert await world.due.promote(world.epoch, JobState.SCHEDULED) == (0, -1)
    # The lane of two of them is no longer known.
    world.never_counted_out["work"] = 2
    for job_id in ids[:3]:
        await world.operator_actions.delete(job_id)
    assert await world.state(last) is JobState.READY


async def test_a_retry_beyond_the_expiry_never_runs(world: StoreWorld) -> None:
    worker, claimed = await world.running(expires_at_ms=world.now_ms + 1_000)
    await world.fail(worker, claimed, RETRYING)
    world.pass_ms(1_500)
    assert await world.due.expire(world.epoch) == (1, -1)
    assert await world.due.promote(world.epoch, JobState.RETRYING) == (0, -1)
    assert await world.claim(worker) == []
