import pytest

from jqmaster.domain.jobs.job import JobState
from jqmaster.live_value import LiveValue
from jqmaster.runtime.duties import sweeper as module
from jqmaster.runtime.duties.sweeper import Sweeper
from jqmaster.store.jobs.retention import Retention
from jqmaster.store.leadership.leadership import Leadership
from tests.support import real_time
from tests.support.clock import ManualClock
from tests.support.store import RESULT_TTL_MS, StoreWorld
from tests.support.waiting import wait_until

pytestmark = real_time.LOOPS


class Sweeping:
    def __init__(self, world: StoreWorld, **retention: tuple[int, int]) -> None:
        self.clock = ManualClock(lambda seconds: world.pass_ms(round(seconds * 1000)))
        self.stale = 0

        def on_stale() -> None:
            self.stale += 1

        self.sweeper = Sweeper(
            Leadership(world.epoch, "m"),
            world.retention,
            self.clock,
            retention=LiveValue({JobState(state): Retention(*limits) for state, limits in retention.items()}),
            on_stale=on_stale,
        )


async def finished(world: StoreWorld, count: int) -> list[str]:
    ids = await world.enqueue_many(count, keep_result=True)
    worker = await world.worker(max_jobs=count)
    for _ in range(0, count, 500):
        jobs = await world.claim(worker, limit=500)
        await world.settlements.settle_success(worker, [(j.job_id, j.token, b"\xc0") for j in jobs])
    return ids


@pytest.mark.req("M1")
async def test_it_removes_what_is_over_its_retention_and_nothing_unfinished(world: StoreWorld) -> None:
    old = await finished(world, 3)
    waiting = await world.enqueue("another")
    world.pass_ms(10_000)
    young = await _one_finished(world)
    sweeping = Sweeping(world, succeeded=(10_000, 100))
    await sweeping.sweeper.start()
    await sweeping.clock.asleep()
    assert [await world.records.get(job_id) for job_id in old] == [None] * 3
    assert await world.state(waiting) == JobState.READY
    assert await world.state(young) == JobState.SUCCEEDED
    await sweeping.sweeper.stop()


async def test_a_step_is_bounded_and_the_rest_follows(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_STEPS", 2)
    await finished(world, 1600)
    world.pass_ms(10)
    sweeping = Sweeping(world, succeeded=(1, 100_000))
    await sweeping.sweeper.start()
    await sweeping.clock.asleep()
    key = world.shard.keys.finished(JobState.SUCCEEDED)
    assert await world.redis.zcard(key) == 600
    await sweeping.clock.pass_s(1)
    assert await world.redis.zcard(key) == 0
    await sweeping.sweeper.stop()


async def test_the_oldest_go_first_where_there_are_too_many(world: StoreWorld) -> None:
    old = await _one_finished(world)
    world.pass_ms(5)
    young = await _one_finished(world)
    sweeping = Sweeping(world, succeeded=(1_000_000, 1))
    await sweeping.sweeper.start()
    await sweeping.clock.asleep()
    assert await world.records.get(old) is None
    assert await world.state(young) == JobState.SUCCEEDED
    await sweeping.sweeper.stop()


@pytest.mark.req("J14")
async def test_results_that_nobody_fetched_are_discarded(world: StoreWorld) -> None:
    job_id = await _one_finished(world)
    sweeping = Sweeping(world, succeeded=(10**12, 1000))
    await sweeping.sweeper.start()
    await sweeping.clock.asleep()
    assert await world.results.fetch_result(job_id, watch=False)
    world.pass_ms(RESULT_TTL_MS)
    await sweeping.clock.pass_s(1)
    assert await world.results.fetch_result(job_id, watch=False) is None
    await sweeping.sweeper.stop()


@pytest.mark.req("D2", "D4")
async def test_under_a_stale_epoch_nothing_is_removed(world: StoreWorld) -> None:
    job_id = await _one_finished(world)
    world.pass_ms(10)
    sweeping = Sweeping(world, succeeded=(1, 100))
    await world.reelect()
    await sweeping.sweeper.start()
    await wait_until(lambda: sweeping.stale)
    assert await world.state(job_id) == JobState.SUCCEEDED
    await sweeping.sweeper.stop()


async def _one_finished(world: StoreWorld) -> str:
    (job_id,) = await finished(world, 1)
    return job_id
