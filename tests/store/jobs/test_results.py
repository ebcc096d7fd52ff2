"""fetch_result.lua and sweep_results.lua: the life of a kept result."""

from typing import Any

import pytest

from jqmaster.domain.jobs.job import JobState
from jqmaster.errors import StaleEpochError
from tests.store.jobs.test_operator_actions import FINISHED, WAITING, job_in
from tests.support.store import RESULT_GRACE_MS, RESULT_TTL_MS, StoreWorld


async def succeeded(world: StoreWorld, **fields: Any) -> str:
    worker, job = await world.running(keep_result=True, **fields)
    await world.settlements.settle_success(worker, [(job.job_id, job.token, b"result")])
    return job.job_id


@pytest.mark.req("J14", "M10")
async def test_a_fetched_result_lives_on_for_the_grace_time(world: StoreWorld) -> None:
    job_id = await succeeded(world)
    world.pass_ms(1_000)
    assert await world.results.fetch_result(job_id, watch=False) == b"result"
    ends = world.now_ms + RESULT_GRACE_MS
    assert await world.score(world.shard.keys.results, job_id) == ends
    # A repeated fetch returns it again, and its end does not move.
    world.pass_ms(RESULT_GRACE_MS - 1)
    async with world.unchanged():
        assert await world.results.fetch_result(job_id, watch=True) == b"result"
    world.pass_ms(1)
    async with world.unchanged():
        assert await world.results.fetch_result(job_id, watch=True) is None


@pytest.mark.req("J14")
async def test_an_unfetched_result_ends_after_its_time(world: StoreWorld) -> None:
    job_id = await succeeded(world)
    world.pass_ms(RESULT_TTL_MS - 1)
    async with world.unchanged():
        assert await world.retention.sweep_results(world.epoch) == 0
    world.pass_ms(1)
    async with world.unchanged():
        assert await world.results.fetch_result(job_id, watch=False) is None
    assert await world.retention.sweep_results(world.epoch) == 1
    k = world.shard.keys
    assert not await world.redis.exists(k.results, k.result(job_id))
    assert await world.state(job_id) is JobState.SUCCEEDED


@pytest.mark.req("J14")
async def test_a_fetch_near_the_end_does_not_lengthen_the_life(world: StoreWorld) -> None:
    job_id = await succeeded(world)
    ends = world.now_ms + RESULT_TTL_MS
    world.now_ms = ends - 5
    async with world.unchanged():
        assert await world.results.fetch_result(job_id, watch=False) == b"result"
    assert await world.score(world.shard.keys.results, job_id) == ends


@pytest.mark.req("J6", "J14")
@pytest.mark.parametrize("state", FINISHED)
async def test_a_result_that_was_not_to_be_kept_is_nothing(world: StoreWorld, state: JobState) -> None:
    job = await job_in(world, state)
    async with world.unchanged():
        assert await world.results.fetch_result(job.id, watch=True) is None


async def test_a_failure_has_a_result_too(world: StoreWorld) -> None:
    job = await job_in(world, JobState.FAILED, keep_result=True)
    assert await world.results.fetch_result(job.id, watch=False) == b"failed result"


@pytest.mark.parametrize("state", [*WAITING, JobState.RUNNING])
async def test_the_answer_for_an_unfinished_job_is_its_state(world: StoreWorld, state: JobState) -> None:
    job = await job_in(world, state)
    async with world.unchanged():
        assert await world.results.fetch_result(job.id, watch=False) is state
    assert await world.results.fetch_result(job.id, watch=True) is state
    assert await world.get(job.id) == job
    async with world.unchanged():
        assert await world.results.fetch_result(job.id, watch=True) is state


async def test_an_unknown_job_has_nothing(world: StoreWorld) -> None:
    async with world.unchanged():
        assert await world.results.fetch_result(world.spec().id, watch=True) is None


async def test_someone_who_waits_is_remembered_over_retries(world: StoreWorld) -> None:
    job = await job_in(world, JobState.RETRYING, keep_result=True)
    await world.results.fetch_result(job.id, watch=True)
    await world.operator_actions.run_now(job.id)
    worker = await world.worker()
    (again,) = await world.claim(worker)
    async with world.published(world.shard.keys.finished_channel, job.id):
        await world.settlements.settle_success(worker, [(job.id, again.token, b"r")])


async def test_a_result_outlives_the_record_of_its_job(world: StoreWorld) -> None:
    job_id = await succeeded(world)
    world.pass_ms(10)
    assert await world.retention.sweep(world.epoch, JobState.SUCCEEDED, retention_ms=10, max_jobs=9) == 1
    assert await world.records.get(job_id) is None
    assert await world.results.fetch_result(job_id, watch=False) == b"result"
    world.pass_ms(RESULT_GRACE_MS)
    assert await world.retention.sweep_results(world.epoch) == 1


async def test_an_old_leader_discards_nothing(world: StoreWorld) -> None:
    await succeeded(world)
    world.pass_ms(RESULT_TTL_MS)
    old = await world.reelect()
    async with world.unchanged():
        with pytest.raises(StaleEpochError):
            await world.retention.sweep_results(old)


async def test_many_results_go_in_steps(world: StoreWorld) -> None:
    await world.enqueue_many(600, keep_result=True)
    worker = await world.worker(max_jobs=1_000)
    jobs = [job for _ in range(6) for job in await world.claim(worker)]
    await world.settlements.settle_success(worker, [(j.job_id, j.token, b"r") for j in jobs])
    world.pass_ms(RESULT_TTL_MS)
    assert [await world.retention.sweep_results(world.epoch) for _ in range(3)] == [500, 100, 0]


async def test_a_result_that_vanished_is_nothing(world: StoreWorld) -> None:
    job_id = await succeeded(world)
    await world.redis.delete(world.shard.keys.result(job_id))
    assert await world.results.fetch_result(job_id, watch=False) is None
    assert [f.rule for f in await world.findings()] == ["result"]
    await world.operator_actions.delete(job_id)


async def test_a_result_can_be_looked_at_without_fetching_it(world: StoreWorld) -> None:
    job_id = await succeeded(world)
    async with world.unchanged():
        assert await world.results.look_at_result(job_id) == b"result"
        assert await world.results.look_at_result("unknown") is None
