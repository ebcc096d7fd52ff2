"""A leader checks the store again and again, and repairs what is certain."""

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from jqmaster.domain.jobs.job import JobState
from jqmaster.errors import StoreUnavailableError
from jqmaster.runtime.duties import repair as module
from jqmaster.runtime.duties.repair import RepairLoop
from jqmaster.store.health.repair import Repair, RepairPage
from tests.support import real_time
from tests.support.admin import admin_of
from tests.support.clock import ManualClock
from tests.support.master import master_on
from tests.support.server import StoreServer
from tests.support.store import TIMES, StoreWorld
from tests.support.waiting import wait_until

pytestmark = real_time.LOOPS


def repair_of(world: StoreWorld) -> Repair:
    return Repair(world.shard, world.epoch, who="master m", times=TIMES)


class EagerClock:
    """Time advances as soon as somebody waits for it."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic_s(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        await asyncio.sleep(0)


class BusyClock(EagerClock):
    """Each look at it shows 0.1 s more of work."""

    def __init__(self) -> None:
        super().__init__()
        self.rests_s: list[float] = []

    def monotonic_s(self) -> float:
        self.now_s += 0.1
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.rests_s.append(seconds)
        await super().sleep(seconds)


class Run:
    """A repair loop that never has to wait."""

    def __init__(self, world: StoreWorld, clock: EagerClock | None = None) -> None:
        self.stale = 0
        self.repair_loop = RepairLoop(repair_of(world), clock or EagerClock(), on_stale=self._on_stale)

    def _on_stale(self) -> None:
        self.stale += 1

    async def __aenter__(self) -> "Run":
        await self.repair_loop.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.repair_loop.stop()

    async def until_done(self) -> None:
        await wait_until(lambda: self.repair_loop.is_done or self.stale, timeout_s=20)


async def test_nine_tenths_of_the_stores_time_are_left_to_jobs(world: StoreWorld) -> None:
    clock = BusyClock()
    async with Run(world, clock) as run:
        await run.until_done()
    _before_it_begins, *rests_s = clock.rests_s
    assert rests_s
    assert min(rests_s) >= 0.9 - 1e-9


async def test_it_goes_through_once_and_tells_what_it_did(
    world: StoreWorld, caplog: pytest.LogCaptureFixture
) -> None:
    ids = await world.enqueue_many(30, delay_ms=9)
    await world.redis.delete(world.shard.keys.scheduled)
    async with Run(world) as run:
        await run.until_done()
    assert run.repair_loop.repaired == 30
    assert await world.findings() == []
    assert [await world.state(job_id) for job_id in ids] == [JobState.SCHEDULED] * 30
    named = [r.message for r in caplog.records if r.message.startswith("repaired: ")]
    assert len(named) == module.MAX_NAMED
    assert any("30 inconsistencies" in r.message and r.levelno == logging.WARNING for r in caplog.records)


async def test_a_sound_store_is_left_alone_and_not_spoken_of(
    world: StoreWorld, caplog: pytest.LogCaptureFixture
) -> None:
    await world.enqueue_many(3)
    async with world.unchanged(), Run(world) as run:
        await run.until_done()
    assert run.repair_loop.repaired == 0
    assert [r for r in caplog.records if r.levelno >= logging.WARNING] == []


class HourlyClock(EagerClock):
    """Stands still after each round until the test starts the next one."""

    def __init__(self) -> None:
        super().__init__()
        self.next_round = asyncio.Event()
        self.next_round_s = 0.0

    async def sleep(self, seconds: float) -> None:
        if seconds > module.ROUND_S / 2:
            await self.next_round.wait()
            self.next_round.clear()
            self.next_round_s = self.now_s + seconds
        await super().sleep(seconds)


@pytest.mark.req("M1")
@pytest.mark.parametrize("is_stray", [False, True])
async def test_it_goes_through_again_every_hour(
    world: StoreWorld, is_stray: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = HourlyClock()
    if is_stray:
        monkeypatch.setattr(module, "STRAYS_EVERY_S", module.ROUND_S)
    async with Run(world, clock) as run:
        began_s = clock.now_s
        await run.until_done()
        job_id = await world.enqueue(delay_ms=9)
        if is_stray:
            # No index names the job any more.
            await world.redis.delete(world.shard.keys.scheduled)
        else:
            await world.redis.zadd(world.shard.keys.retrying, {job_id: world.now_ms})
        clock.next_round.set()
        await wait_until(lambda: run.repair_loop.repaired)
        assert run.repair_loop.repaired == 1
    assert clock.next_round_s - began_s == pytest.approx(module.ROUND_S, abs=module.BEGINS_AFTER_S)
    assert await world.findings() == []


def test_rounds_after_the_first_take_little_of_the_stores_time() -> None:
    assert 1 / (1 + module.LATER_REST) <= 0.005


class RestlessClock(ManualClock):
    """The test moves it from look to look; the short pauses within a round end at once."""

    def __init__(self) -> None:
        super().__init__()
        self.sleepers = 0

    async def sleep(self, seconds: float) -> None:
        if seconds < 1:
            await asyncio.sleep(0)
            return
        self.sleepers += 1
        try:
            await super().sleep(seconds)
        finally:
            self.sleepers -= 1


class Lookout:
    """A repair loop that looks when the test says so. `left` holds the names whose jobs wait beside free workers."""

    def __init__(self, repair: Repair) -> None:
        self.clock = RestlessClock()
        self.left: set[str] = set()
        self.asked = 0
        self.repair_loop = RepairLoop(
            repair, self.clock, on_stale=lambda: None, unclaimed_jobs=self._left_lying
        )

    async def _left_lying(self) -> set[str]:
        self.asked += 1
        return self.left

    async def looks(self, times: int) -> None:
        for _ in range(times):
            before = self.asked
            # An unfinished look would sleep from a later instant on, which time would then not reach.
            await wait_until(lambda: self.clock.sleepers == 2, what="both loops sleep")
            await self.clock.pass_s(module.LOOK_S)
            await wait_until(lambda: self.asked > before)  # noqa: B023


@pytest.mark.req("M1")
async def test_jobs_that_no_claim_finds_are_found_within_a_minute(world: StoreWorld) -> None:
    job_id = await world.enqueue()
    lookout = Lookout(repair_of(world))
    repair_loop = lookout.repair_loop
    await repair_loop.start()
    await lookout.looks(1)
    await wait_until(lambda: repair_loop.is_done)
    for key in await world.redis.keys(f"{world.shard.keys.tag}open*"):
        await world.redis.delete(key)
    worker = await world.worker()
    assert await world.claim(worker) == []
    lookout.left.add("work")
    await lookout.looks(3)
    assert repair_loop.repaired == 0, "they may be claimed any moment, as far as can be told"
    await lookout.looks(1)
    await wait_until(lambda: repair_loop.repaired)
    await repair_loop.stop()
    assert [job.job_id for job in await world.claim(worker)] == [job_id]
    assert await world.findings() == []


async def test_jobs_that_a_constraint_holds_back_are_not_looked_at_all_the_time(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = 0
    repair = repair_of(world)
    steps = repair.order_steps

    async def counted(*, finds_strays: bool = True) -> AsyncIterator[RepairPage]:
        nonlocal rounds
        rounds += 1
        async for step in steps(finds_strays=finds_strays):
            yield step

    monkeypatch.setattr(repair, "order_steps", counted)
    lookout = Lookout(repair)
    await lookout.repair_loop.start()
    await lookout.looks(1)
    await wait_until(lambda: lookout.repair_loop.is_done)
    assert rounds == 1, "with the first look through all"
    lookout.left.add("work")
    await lookout.looks(4)
    await wait_until(lambda: rounds == 2)
    await lookout.looks(55)
    assert rounds == 2
    await lookout.looks(7)
    await wait_until(lambda: rounds == 3)
    await lookout.repair_loop.stop()


async def test_under_another_leadership_it_ends(world: StoreWorld) -> None:
    await world.enqueue(delay_ms=9)
    await world.redis.delete(world.shard.keys.scheduled)
    run = Run(world)
    await world.reelect()
    async with run:
        await run.until_done()
    assert (run.stale, run.repair_loop.repaired) == (1, 0)
    async with Run(world) as successor:
        await successor.until_done()
    assert successor.repair_loop.repaired == 1


async def test_an_outage_of_the_store_ends_nothing(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.enqueue(delay_ms=9)
    await world.redis.delete(world.shard.keys.scheduled)
    run_once, fails = world.shard.client.run, 2

    async def sometimes(*args: object, **options: object) -> object:
        nonlocal fails
        if fails:
            fails -= 1
            raise StoreUnavailableError("away", retry_after_s=1)
        return await run_once(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(world.shard.client, "run", sometimes)
    async with Run(world) as run:
        await run.until_done()
    assert (fails, run.repair_loop.repaired) == (0, 1)


@pytest.mark.req("M1")
async def test_a_new_leader_puts_the_store_right(store_server: StoreServer) -> None:
    async with master_on(store_server.url) as (master, api):
        job_id = await api.enqueue("work", delay=3600)
        keys, redis = master.shard.services.link.keys, admin_of(master.shard.services.link.client)
        await master.shard.leader.stop()
        await redis.zrem(keys.scheduled, job_id)
        await master.shard.leader.start()

        async def is_back() -> bool:
            return await redis.zscore(keys.scheduled, job_id) is not None

        await wait_until(is_back, timeout_s=15)
        assert await api.state(job_id) == "scheduled"
        _, answer = await api.call("GET", "/api/audit")
        assert [(e["who"], e["action"]) for e in answer["entries"]] == [(f"master {master.id}", "repair")]


async def test_repaired_jobs_run_before_the_rest_of_the_store_was_checked(world: StoreWorld) -> None:
    await world.enqueue()
    await world.redis.delete(world.ready())
    rests: list[tuple[int, list[str]]] = []

    class RestingClock(EagerClock):
        async def sleep(self, seconds: float) -> None:
            rests.append((run.repair_loop.repaired, list(words)))
            await super().sleep(seconds)

    with world.leading_here() as words:
        run = Run(world, RestingClock())
        await run.repair_loop._repair_in_steps(repair_of(world).steps(), 1)
    first = next(said for count, said in rests if count)
    assert "ready" in first
    assert len(rests) > 3
