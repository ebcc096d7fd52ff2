"""The leader writes to the timeline what it sees, once, and reads nothing for it."""

from dataclasses import replace

import pytest

from jqmaster.domain.operations.timeline import LeaderCause, TimelineKind
from jqmaster.runtime.duties.timeline_keeper import TimelineKeeper
from jqmaster.store.leadership.leadership import Leadership
from jqmaster.store.operations.history import BacklogSample, Waiting
from jqmaster.store.operations.timeline import TimelineStore
from tests.support import real_time
from tests.support.clock import ManualClock
from tests.support.store import StoreWorld
from tests.support.waiting import wait_until

pytestmark = [real_time.LOOPS, pytest.mark.req("D21")]


class Keeping:
    """The keeper of one leadership, which looks only when the test says so."""

    def __init__(self, world: StoreWorld, master_id: str = "m1") -> None:
        self.world = world
        self.clock = ManualClock()
        self.outages: list[tuple[float, float]] = []
        self.backlog: BacklogSample | None = None
        self.asked: list[str] = []
        self.stale = 0
        self.store = TimelineStore(world.shard)

        def on_stale() -> None:
            self.stale += 1

        self.keeper = TimelineKeeper(
            Leadership(world.epoch, master_id), self.store, self.clock, label=f"rack:{master_id}",
            outages=lambda: self.outages, backlog=lambda: self.backlog, end_of_lead=self.end_of_lead,
            on_stale=on_stale,
        )  # fmt: skip

    async def end_of_lead(self, master_id: str) -> tuple[LeaderCause, str]:
        self.asked.append(master_id)
        return LeaderCause.DEMOTED, "ada"

    async def look(self) -> None:
        workers, _ = await self.world.workers.all_with_time()
        self.keeper.look(workers, self.world.now_ms)
        await self.keeper._round()

    async def kinds(self) -> list[str]:
        return [str(entry.kind) for entry in await self.store.entries()]


@pytest.fixture
def keeping(world: StoreWorld) -> Keeping:
    return Keeping(world)


async def test_nothing_is_written_before_the_workers_are_known_and_without_news(keeping: Keeping) -> None:
    await keeping.keeper._round()
    assert await keeping.store.known() is None
    await keeping.look()
    assert await keeping.store.known()
    async with keeping.world.unchanged():
        await keeping.look()


async def test_the_next_leader_names_the_one_before_and_the_outage_that_it_saw_itself(
    keeping: Keeping,
) -> None:
    await keeping.look()
    keeping.world.pass_ms(60_000)
    second = Keeping(keeping.world, "m2")
    second.outages = [(second.clock.monotonic_s() - 21, second.clock.monotonic_s() - 1)]
    await second.look()
    await second.look()
    away, leader = await second.store.entries()
    assert (away.kind, away.at_ms - away.began_ms) == (TimelineKind.STORE_AWAY, 20_000)
    assert away.at_ms == keeping.world.now_ms - 1_000
    assert (leader.subject, leader.before, leader.by) == ("m2", "rack:m1", "ada")
    assert second.asked == ["m1"]
    # Another master that saw the same outage leads next, and does not tell it again.
    third = Keeping(keeping.world, "m3")
    third.outages = second.outages
    await third.look()
    assert await third.kinds() == ["store_away", "leader_changed", "leader_changed"]


async def test_an_outage_is_told_once_although_the_clock_of_the_store_steps(keeping: Keeping) -> None:
    await keeping.look()
    keeping.world.pass_ms(60_000)
    keeping.outages = [(keeping.clock.monotonic_s() - 21, keeping.clock.monotonic_s() - 1)]
    for step_ms in (0, 3_600_000, 60_000):
        keeping.world.pass_ms(step_ms)
        await keeping.look()
    assert await keeping.kinds() == ["store_away"]


async def test_workers_and_versions_are_told_by_the_looks_of_the_failure_detector(keeping: Keeping) -> None:
    world = keeping.world
    worker_id, _ = await world.running()
    await keeping.look()
    world.pass_ms(10_000)
    assert await world.workers.detach_silent(world.epoch, worker_id, silent_ms=5_000)
    await keeping.look()
    (lost,) = await keeping.store.entries()
    assert (lost.kind, lost.subject, lost.count) == (TimelineKind.WORKER_LOST, worker_id, 1)
    assert lost.began_ms == world.now_ms - 10_000
    spec = (await world.workers.all_with_time())[0][0].spec
    await world.workers.register("new", replace(spec, url="http://new", version="2"))
    await keeping.look()
    assert await keeping.kinds() == ["worker_lost", "version_new"]


async def test_an_old_backlog_names_the_job_that_waits_longest(keeping: Keeping) -> None:
    await keeping.look()
    now_ms = keeping.world.now_ms
    old = Waiting(40, 0, now_ms - 60_000, "job-1")
    young = Waiting(2, 0, now_ms - 9_000, "job-2")
    keeping.backlog = BacklogSample(now_ms, replace(old, ready=42), {"young": young, "mail": old})
    await keeping.look()
    keeping.backlog = BacklogSample(now_ms, Waiting(0, 0), {})
    await keeping.look()
    grew, over = await keeping.store.entries()
    assert (grew.subject, grew.label, grew.count) == ("mail", "job-1", 42)
    assert over.kind is TimelineKind.BACKLOG_OVER


async def test_a_former_leader_steps_down_and_writes_nothing(keeping: Keeping) -> None:
    await keeping.look()
    world, former = keeping.world, keeping.world.epoch
    world.pass_ms(700_000)
    await world.redis.delete(world.shard.keys.leader)
    leadership = await world.leadership.elect("m2", "n", ttl_ms=600_000)
    assert leadership
    assert leadership.epoch != former
    await world.worker(worker_id="w1")
    workers, _ = await world.workers.all_with_time()
    keeping.keeper.look([replace(one, spec=replace(one.spec, version="9")) for one in workers], world.now_ms)
    await keeping.keeper.start()
    try:
        async with world.unchanged():
            await wait_until(lambda: keeping.stale == 1, what="the duty notices the newer leadership")
    finally:
        await keeping.keeper.stop()
    world.epoch = leadership.epoch
