"""fsck and repair compare the index of `expires_at` with the records (lib/jobs/expiry.lua)."""

from collections.abc import Awaitable, Callable

import pytest

from jqmaster.domain.jobs.job import Job, JobState
from jqmaster.store.keys import Keys
from tests.store.health.test_repair import repaired
from tests.store.jobs.test_operator_actions import job_in
from tests.support.store import StoreWorld

pytestmark = pytest.mark.req("S7")

HOUR_MS = 3_600_000
Harm = Callable[[StoreWorld, Job, Keys], Awaitable[object]]
HARMS: dict[str, Harm] = {
    "lost": lambda w, j, k: w.redis.zrem(k.expiring, j.id),
    "late": lambda w, j, k: w.redis.zincrby(k.expiring, 1_000 * HOUR_MS * 24 * 365, j.id),
    "early": lambda w, j, k: w.redis.zincrby(k.expiring, -1, j.id),
}
WAITING = [JobState.SCHEDULED, JobState.READY, JobState.RETRYING, JobState.AWAITING_JOBS]


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("state", [*WAITING, JobState.RUNNING, JobState.AWAITING_CALLBACK])
async def test_a_lost_or_wrong_expiry_is_found_and_put_right(
    world: StoreWorld, state: JobState, harm: str
) -> None:
    job = await job_in(world, state, expires_at_ms=world.now_ms + HOUR_MS)
    k = world.shard.keys
    await HARMS[harm](world, job, k)
    async with world.unchanged():
        assert [(f.rule, f.key) for f in await world.findings()] == [("expiry", k.job(job.id))]
    assert [f.rule for f in await repaired(world)] == ["expiry"]
    assert await world.findings() == []
    assert await world.redis.zscore(k.expiring, job.id) == job.expires_at_ms
    async with world.unchanged():
        assert await repaired(world) == []


async def test_a_job_that_never_expires_leaves_the_index_before_it_is_skipped(world: StoreWorld) -> None:
    job_id = await world.enqueue()
    k = world.shard.keys
    await world.redis.zadd(k.expiring, {job_id: world.now_ms})
    assert [f.rule for f in await repaired(world)] == ["expiry"]
    await world.due.expire(world.epoch)
    assert (await world.get(job_id)).state is JobState.READY


async def test_a_job_that_expired_while_it_ran_is_looked_at_again_and_healthy(world: StoreWorld) -> None:
    job = await job_in(world, JobState.RUNNING, expires_at_ms=world.now_ms + 1_000)
    world.pass_ms(1_000)
    await world.due.expire(world.epoch)
    score = await world.redis.zscore(world.shard.keys.expiring, job.id)
    assert score is not None
    assert score > job.expires_at_ms
    assert await world.findings() == []
    async with world.unchanged():
        assert await repaired(world) == []


async def test_remains_of_a_job_that_is_over_are_no_fault(world: StoreWorld) -> None:
    job = await job_in(world, JobState.SUCCEEDED, expires_at_ms=world.now_ms + HOUR_MS)
    assert await world.redis.zscore(world.shard.keys.expiring, job.id) == job.expires_at_ms
    assert await world.findings() == []
