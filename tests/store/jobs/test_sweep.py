import pytest

from jqmaster.domain.jobs.job import JobState
from jqmaster.errors import StaleEpochError
from tests.store.jobs.test_operator_actions import FINISHED, job_in
from tests.support.store import StoreWorld


@pytest.mark.parametrize("state", FINISHED)
async def test_a_finished_job_goes_when_its_retention_is_over(world: StoreWorld, state: JobState) -> None:
    job = await job_in(world, state, expires_at_ms=world.now_ms + 900_000) if (
        state is not JobState.SKIPPED
    ) else await job_in(world, state)  # fmt: skip
    world.now_ms = job.finished_at_ms + 4_999
    async with world.unchanged():
        assert await world.retention.sweep(world.epoch, state, retention_ms=5_000, max_jobs=10) == 0
    world.pass_ms(1)
    assert await world.retention.sweep(world.epoch, state, retention_ms=5_000, max_jobs=10) == 1
    k = world.shard.keys
    left = set(await world.dump())
    assert not left & {k.job(job.id), k.history(job.id), k.index(state), k.expiring}


async def test_the_oldest_go_first_when_there_are_too_many(world: StoreWorld) -> None:
    jobs = [await job_in(world, JobState.FAILED) for _ in range(5)]
    assert await world.retention.sweep(world.epoch, JobState.FAILED, retention_ms=10**9, max_jobs=3) == 2
    left = [job.id for job in jobs if await world.records.get(job.id)]
    assert left == [job.id for job in jobs[2:]]
    async with world.unchanged():
        assert await world.retention.sweep(world.epoch, JobState.FAILED, retention_ms=10**9, max_jobs=3) == 0
    assert await world.retention.sweep(world.epoch, JobState.FAILED, retention_ms=10**9, max_jobs=0) == 3


async def test_only_jobs_of_the_state_go(world: StoreWorld) -> None:
    failed = await job_in(world, JobState.FAILED)
    running = await job_in(world, JobState.RUNNING)
    world.pass_ms(10**6)
    assert await world.retention.sweep(world.epoch, JobState.SUCCEEDED, retention_ms=0, max_jobs=0) == 0
    assert [await world.state(j.id) for j in (failed, running)] == [JobState.FAILED, JobState.RUNNING]


async def test_an_old_leader_removes_nothing(world: StoreWorld) -> None:
    await job_in(world, JobState.FAILED)
    old = await world.reelect()
    async with world.unchanged():
        with pytest.raises(StaleEpochError):
            await world.retention.sweep(old, JobState.FAILED, retention_ms=0, max_jobs=0)


@pytest.mark.parametrize("by", ["time", "count"])
async def test_many_go_in_steps(world: StoreWorld, by: str) -> None:
    await world.enqueue_many(1_100, delay_ms=1, expires_at_ms=world.now_ms + 1)
    world.pass_ms(1)
    for _ in range(3):
        await world.due.expire(world.epoch)
    limits = (
        {"retention_ms": 0, "max_jobs": 10**6} if by == "time" else {"retention_ms": 10**9, "max_jobs": 50}
    )
    steps = [await world.retention.sweep(world.epoch, JobState.SKIPPED, **limits) for _ in range(4)]
    assert steps == ([500, 500, 100, 0] if by == "time" else [500, 500, 50, 0])
