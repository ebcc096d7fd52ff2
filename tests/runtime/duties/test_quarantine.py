"""A job under which workers were lost gets a worker to itself, on a clock that the test moves."""

from collections.abc import AsyncIterator

import pytest

from jqmaster.domain.jobs.job import JobState
from jqmaster.domain.jobs.outcome import Decision
from jqmaster.live_value import LiveValue
from jqmaster.runtime.duties.fleet import Fleet, Member
from jqmaster.runtime.duties.quarantine import Quarantine
from jqmaster.store.jobs.claims import Claim
from jqmaster.store.leadership.leadership import Leadership
from jqmaster.store.operations.looks import LookStore
from tests.support.admin import admin_of
from tests.support.clock import ManualClock
from tests.support.store import LEASE_MS, StoreWorld

pytestmark = pytest.mark.req("M3")

LOST = Decision(JobState.RETRYING, "lost", delay_ms=60_000, is_loss=True)


class Giving:
    """`given` holds (worker ID, claim), in order."""

    def __init__(self, world: StoreWorld) -> None:
        self.world = world
        self.clock = ManualClock(lambda seconds: world.pass_ms(round(seconds * 1000)))
        self.fleet = Fleet(self.clock, stale_ms=LiveValue(5_000))
        self.given: list[tuple[str, Claim]] = []
        self.stale = 0
        self.workers: list[str] = []

        def give(member: Member, claim: Claim, sent_at_s: float) -> None:
            self.given.append((member.worker.id, claim))

        def on_stale() -> None:
            self.stale += 1

        self.alone = Quarantine(
            Leadership(world.epoch, "master-1"),
            world.constraints,
            self.fleet,
            self.clock,
            claims=world.claims,
            records=world.records,
            give=give,
            on_stale=on_stale,
        )

    async def suspect(self, name: str = "work", **fields: object) -> str:
        _, job = await self.world.running(name, **fields)
        self.world.pass_ms(LEASE_MS)
        record = await self.world.get(job.job_id)
        lost = self.world.settlement(record, job.token, LOST)
        assert await self.world.leases.reclaim(self.world.epoch, [lost]) == [True]
        return job.job_id

    async def worker(self, *names: str) -> str:
        worker_id = await self.world.worker(*(names or ("work",)))
        self.workers.append(worker_id)
        return worker_id

    async def round(self) -> None:
        """Do the dispatcher's work of one second, and then a round."""
        for worker_id in self.workers:
            await self.world.workers.renew(worker_id, [], 1)
        workers, now_ms = await self.world.workers.all_with_time()
        self.fleet.refresh(workers, now_ms)
        await self.clock.pass_s(0.5)

    def job_ids(self) -> list[str]:
        return [job.job_id for _, claim in self.given for job in claim.jobs]

    def candidates(self) -> set[str]:
        return {candidate.worker_id for candidate in self.fleet.candidates(set())}


@pytest.fixture
async def giving(world: StoreWorld) -> AsyncIterator[Giving]:
    one = Giving(world)
    await one.alone.start()
    try:
        yield one
    finally:
        await one.alone.stop()


async def test_an_empty_worker_takes_it_at_once(giving: Giving) -> None:
    job_id = await giving.suspect()
    worker = await giving.worker()
    await giving.round()
    assert [worker_id for worker_id, _ in giving.given] == [worker]
    assert giving.job_ids() == [job_id]
    assert giving.fleet.reserved is None
    found = await giving.world.get(job_id)
    assert (found.state, found.worker_id) == (JobState.RUNNING, worker)


async def test_a_busy_worker_gets_no_more_until_it_is_empty(giving: Giving) -> None:
    world = giving.world
    busy, busier = await giving.worker(), await giving.worker()
    await world.enqueue_many(3)
    (job,) = await world.claim(busy, limit=1)
    await world.claim(busier, limit=2)
    job_id = await giving.suspect()
    await giving.round()
    assert (giving.given, giving.fleet.reserved) == ([], busy)
    assert giving.candidates() == {busier}
    await world.settlements.settle_success(busy, [(job.job_id, job.token, b"")])
    await giving.round()
    assert giving.job_ids() == [job_id]
    assert giving.fleet.reserved is None


async def test_a_worker_is_kept_free_no_longer_than_the_job_waits(giving: Giving) -> None:
    world = giving.world
    worker = await giving.worker()
    await world.enqueue()
    await world.claim(worker)
    job_id = await giving.suspect()
    await giving.round()
    assert giving.candidates() == set()
    world.pass_ms(60_000)
    await world.due.promote(world.epoch, JobState.RETRYING)
    await giving.round()
    assert giving.candidates() == {worker}
    assert await world.state(job_id) is JobState.READY, "now it runs beside others"
    assert await world.claims.suspects(10) == []


async def test_a_worker_is_kept_free_for_no_suspect_that_a_failover_lost(giving: Giving) -> None:
    """Looks begin the rounds, and the next one frees the worker."""
    world = giving.world
    worker, looks = await giving.worker(), LookStore(world.shard)
    await world.enqueue()
    await world.claim(worker)
    await giving.suspect()
    await giving.round()
    assert giving.fleet.reserved == worker
    assert giving.alone.has_some(await looks.look(world.epoch))
    await admin_of(world.shard.client).delete(world.shard.keys.suspects)
    assert giving.alone.has_some(await looks.look(world.epoch))
    await giving.round()
    assert giving.candidates() == {worker}
    assert not giving.alone.has_some(await looks.look(world.epoch))


async def test_nobody_is_kept_free_for_a_name_that_he_does_not_know(giving: Giving) -> None:
    worker = await giving.worker("other")
    pulls = await giving.world.worker("work", url=None)
    await giving.suspect()
    await giving.round()
    assert (giving.given, giving.fleet.reserved) == ([], None)
    assert giving.candidates() == {worker}
    assert pulls


async def test_the_smallest_priority_first(giving: Giving) -> None:
    late, soon = await giving.suspect(priority=5), await giving.suspect(priority=-5)
    await giving.worker()
    await giving.round()
    assert giving.job_ids() == [soon]
    assert await giving.world.state(late) is JobState.RETRYING


async def test_a_quarter_of_the_fleet_runs_single_jobs_at_most(giving: Giving) -> None:
    """After an accident with many workers there are many of these jobs, and the others must go on."""
    for _ in range(12):
        await giving.worker()
    jobs = [await giving.suspect() for _ in range(6)]
    for _ in range(6):
        await giving.round()
    # The workers that were lost are silent, and do not count.
    allowed = 12 // 4
    assert len(giving.given) == allowed < len(jobs)
    assert len({worker_id for worker_id, _ in giving.given}) == allowed
    worker, claim = giving.given[0]
    await giving.world.settlements.settle_success(worker, [(claim.jobs[0].job_id, claim.jobs[0].token, b"")])
    await giving.round()
    assert len(giving.given) == allowed + 1


@pytest.mark.req("D2", "D4")
async def test_under_a_stale_epoch_nothing_is_given(giving: Giving) -> None:
    job_id = await giving.suspect()
    await giving.worker()
    await giving.world.reelect()
    workers, now_ms = await giving.world.workers.all_with_time()
    giving.fleet.refresh(workers, now_ms)
    with pytest.raises(AssertionError, match="nobody sleeps"):
        # The loop ends with the round that notices it.
        await giving.clock.pass_s(0.5, within_s=1)
    assert (giving.stale, giving.given) == (1, [])
    assert await giving.world.state(job_id) is JobState.RETRYING
