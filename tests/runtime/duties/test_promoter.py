from collections.abc import AsyncIterator

import pytest

from jqmaster.clock import SystemClock
from jqmaster.domain.jobs.job import Cause, JobState
from jqmaster.domain.jobs.outcome import Decision
from jqmaster.runtime.duties import promoter as module
from jqmaster.runtime.duties.promoter import Promoter
from jqmaster.store.jobs.timers import TimerRound
from jqmaster.store.leadership.leadership import Leadership
from tests.support import real_time
from tests.support.clock import ManualClock
from tests.support.store import StoreWorld
from tests.support.waiting import wait_until

pytestmark = real_time.LOOPS


class Promoting:
    def __init__(self, world: StoreWorld) -> None:
        self.world = world
        self.ready = self.stale = 0
        # The sleep after each finished round, unless something wakes it.
        self.sleeps_ms: list[int] = []

        def on_ready() -> None:
            self.ready += 1

        def on_stale() -> None:
            self.stale += 1

        self.promoter = Promoter(
            Leadership(world.epoch, "m"), world.due, SystemClock(), on_ready=on_ready, on_stale=on_stale
        )
        promote = self.promoter._promote

        async def recorded() -> int:
            self.sleeps_ms.append(await promote())
            return self.sleeps_ms[-1]

        self.promoter._promote = recorded  # type: ignore[method-assign]

    async def until(self, job_id: str, state: JobState) -> None:
        async def reached() -> bool:
            return await self.world.state(job_id) == state

        await wait_until(reached, what=f"the job is {state}")


@pytest.fixture
async def promoting(world: StoreWorld, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Promoting]:
    # No effect within the test's time is due to a poll.
    monkeypatch.setattr(module, "POLL_MS", 600_000)
    one = Promoting(world)
    yield one
    await one.promoter.stop()


@pytest.mark.req("J12")
async def test_due_jobs_become_ready_and_the_dispatcher_is_told(promoting: Promoting) -> None:
    world = promoting.world
    due = await world.enqueue(delay_ms=10)
    later = await world.enqueue(delay_ms=1_000_000)
    world.pass_ms(10)
    await promoting.promoter.start()
    await promoting.until(due, JobState.READY)
    await wait_until(lambda: promoting.ready)
    assert await world.state(later) == JobState.SCHEDULED


@pytest.mark.req("J5")
async def test_a_retry_becomes_ready_when_its_backoff_is_over(promoting: Promoting) -> None:
    world = promoting.world
    worker, job = await world.running()
    await world.fail(
        worker, job, Decision(JobState.RETRYING, "failure", delay_ms=50, cause=Cause.ERROR, is_counted=True)
    )
    world.pass_ms(50)
    await promoting.promoter.start()
    await promoting.until(job.job_id, JobState.READY)


async def test_it_sleeps_until_the_next_is_due(promoting: Promoting) -> None:
    world = promoting.world
    job_id = await world.enqueue(delay_ms=300)
    await promoting.promoter.start()
    await wait_until(lambda: promoting.sleeps_ms)
    assert promoting.sleeps_ms == [300]
    world.pass_ms(300)
    # The promoter's sleep of 300 ms ends by real time; store time has passed by then.
    await promoting.until(job_id, JobState.READY)


async def test_an_earlier_due_time_wakes_it(promoting: Promoting) -> None:
    world = promoting.world
    await world.enqueue(delay_ms=500_000)
    await promoting.promoter.start()
    await wait_until(lambda: promoting.sleeps_ms)
    world.leader.connect(lambda message: promoting.promoter.wake())
    job_id = await world.enqueue(delay_ms=100)
    world.leader.disconnect()
    await wait_until(lambda: len(promoting.sleeps_ms) == 2)
    assert promoting.sleeps_ms == [500_000, 100]
    world.pass_ms(100)
    await promoting.until(job_id, JobState.READY)


async def test_a_crowd_that_is_due_at_once_is_promoted_whole(promoting: Promoting) -> None:
    world = promoting.world
    ids = await world.enqueue_many(1300, delay_ms=5)
    world.pass_ms(5)
    await promoting.promoter.start()
    await promoting.until(ids[-1], JobState.READY)
    jobs = await world.records.get_without_argument(ids)
    assert {job.state for job in jobs.values()} == {JobState.READY}


@pytest.mark.req("M2")
async def test_waiting_jobs_whose_time_has_passed_are_skipped(promoting: Promoting) -> None:
    world = promoting.world
    job_id = await world.enqueue(delay_ms=1000, expires_at_ms=world.now_ms + 10)
    world.pass_ms(10)
    await promoting.promoter.start()
    await promoting.until(job_id, JobState.SKIPPED)
    assert (await world.get(job_id)).cause == Cause.EXPIRED


@pytest.mark.req("D2", "D4")
async def test_under_a_stale_epoch_nothing_is_promoted(promoting: Promoting) -> None:
    world = promoting.world
    job_id = await world.enqueue(delay_ms=5)
    world.pass_ms(5)
    await world.reelect()
    await promoting.promoter.start()
    await wait_until(lambda: promoting.stale)
    assert (await world.state(job_id), promoting.ready) == (JobState.SCHEDULED, 0)


async def test_claims_are_expected_to_go_along_when_a_job_is_due_and_not_before(
    promoting: Promoting, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, expected = promoting.world, []
    come_due = world.due.come_due

    async def noted(epoch: str, *, expects_some: bool = False) -> TimerRound | None:
        expected.append(expects_some)
        return await come_due(epoch, expects_some=expects_some)

    monkeypatch.setattr(world.due, "come_due", noted)
    due = await world.enqueue(delay_ms=50)
    await promoting.promoter.start()
    await wait_until(lambda: promoting.sleeps_ms)
    assert not expected[0]
    world.pass_ms(50)
    await promoting.until(due, JobState.READY)
    assert expected[1]


@pytest.mark.req("S6")
async def test_a_slow_answer_begins_no_round_without_a_look(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, come_due = ManualClock(), world.due.come_due

    async def slow(epoch: str, *, expects_some: bool = False) -> TimerRound:
        answer = await come_due(epoch, expects_some=expects_some)
        clock.jump(0.02)
        return answer

    monkeypatch.setattr(world.due, "come_due", slow)
    promoter = Promoter(
        Leadership(world.epoch, "m"), world.due, clock, on_ready=lambda: None, on_stale=lambda: None
    )
    promoter.follow_looks()
    assert await promoter._round() >= promoter.poll_s
