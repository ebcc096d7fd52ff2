from dataclasses import replace

import pytest

from jqmaster.domain.jobs.job import JobState
from jqmaster.errors import StaleEpochError
from tests.store.jobs.test_claim import damage
from tests.store.jobs.test_settle import RETRYING
from tests.support.store import StoreWorld


@pytest.mark.req("J12", "M2")
async def test_a_due_job_becomes_ready_at_its_instant(world: StoreWorld) -> None:
    early = await world.enqueue(delay_ms=1_000, priority=-9)
    late = await world.enqueue(delay_ms=1_500)
    before = await world.get(early)
    world.pass_ms(999)
    async with world.unchanged():
        assert await world.due.promote(world.epoch, JobState.SCHEDULED) == (0, 1)
    world.pass_ms(1)
    assert await world.due.promote(world.epoch, JobState.SCHEDULED) == (1, 500)
    assert await world.get(early) == replace(before, state=JobState.READY)
    k = world.shard.keys
    assert await world.score(world.ready(), early) == -9
    assert await world.score(k.scheduled, early) is None
    assert await world.state(late) is JobState.SCHEDULED


@pytest.mark.req("J5")
async def test_a_retry_becomes_ready_when_its_backoff_is_over(world: StoreWorld) -> None:
    worker, job = await world.running()
    await world.fail(worker, job, RETRYING)
    before = await world.get(job.job_id)
    world.pass_ms(1_500)
    async with world.unchanged():
        assert await world.due.promote(world.epoch, JobState.SCHEDULED) == (0, -1)
    assert await world.due.promote(world.epoch, JobState.RETRYING) == (1, -1)
    assert await world.get(job.job_id) == replace(before, state=JobState.READY)


async def test_an_old_leader_promotes_nothing(world: StoreWorld) -> None:
    await world.enqueue(delay_ms=1)
    world.pass_ms(1)
    old = await world.reelect()
    async with world.unchanged():
        with pytest.raises(StaleEpochError):
            await world.due.promote(old, JobState.SCHEDULED)


async def test_a_name_that_nobody_knew_yet_is_known_by_then(world: StoreWorld) -> None:
    await world.enqueue("rare", delay_ms=1)
    world.pass_ms(1)
    await world.due.promote(world.epoch, JobState.SCHEDULED)
    assert await world.redis.sismember(world.shard.keys.names, "rare")


async def test_many_are_promoted_in_steps(world: StoreWorld) -> None:
    for n in range(3):
        await world.enqueue_many(400, f"name-{n}", delay_ms=5)
    world.pass_ms(5)
    steps = [await world.due.promote(world.epoch, JobState.SCHEDULED) for _ in range(3)]
    assert steps == [(500, 0), (500, 0), (200, -1)]
    assert (await world.inspector.counts())[JobState.READY] == 1_200


@pytest.mark.parametrize("how", ["gone", "wrong type", "half a name", "wrong state"])
async def test_a_damaged_record_hurts_only_itself(world: StoreWorld, how: str) -> None:
    ids = await world.enqueue_many(3, delay_ms=1)
    await damage(world, ids[1], how)
    world.pass_ms(1)
    assert await world.due.promote(world.epoch, JobState.SCHEDULED) == (2, -1)
    redis, k = world.redis, world.shard.keys
    assert await redis.smembers(k.damaged) == {ids[1].encode()}
    assert [f.key for f in await world.findings()] == [k.job(ids[1])]
    await world.operator_actions.delete(ids[1])
    # The record tells its lane.
    world.never_counted_out["work"] = how in ("gone", "wrong type")
