"""A new leader looks through the store once, and puts right what is certain."""

import asyncio
import logging

import pytest

from jqmaster.domain.job import JobState
from jqmaster.errors import StoreUnavailableError
from jqmaster.runtime import mender as module
from jqmaster.runtime.mender import Mender
from jqmaster.store.repair import Repair
from tests.support.admin import admin_of
from tests.support.master import master_on
from tests.support.server import StoreServer
from tests.support.store import LEASE_MS, RESULT_TTL_MS, StoreWorld
from tests.support.waiting import wait_until


def repair_of(world: StoreWorld) -> Repair:
    return Repair(world.shard, world.epoch, who="master m", lease_ms=LEASE_MS, result_ttl_ms=RESULT_TTL_MS)


class EagerClock:
    """Time moves as soon as somebody waits for it."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic_s(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        await asyncio.sleep(0)


class BusyClock(EagerClock):
    """Each look at it finds that 0.1 s of work have passed."""

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
    """A mender that need not wait."""

    def __init__(self, world: StoreWorld, clock: EagerClock | None = None) -> None:
        self.stale = 0
        self.mender = Mender(repair_of(world), clock or EagerClock(), on_stale=self._on_stale)

    def _on_stale(self) -> None:
        self.stale += 1

    async def __aenter__(self) -> "Run":
        await self.mender.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.mender.stop()

    async def until_done(self) -> None:
        await wait_until(lambda: self.mender.is_done or self.stale, timeout_s=20)


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
    assert run.mender.repaired == 30
    assert await world.findings() == []
    assert [await world.state(job_id) for job_id in ids] == [JobState.SCHEDULED] * 30
    named = [r.message for r in caplog.records if r.message.startswith("put right")]
    assert len(named) == module.MOST_NAMED
    assert any("30 disagreements" in r.message and r.levelno == logging.WARNING for r in caplog.records)


async def test_a_sound_store_is_left_alone_and_not_spoken_of(
    world: StoreWorld, caplog: pytest.LogCaptureFixture
) -> None:
    await world.enqueue_many(3)
    async with world.unchanged(), Run(world) as run:
        await run.until_done()
    assert run.mender.repaired == 0
    assert [r for r in caplog.records if r.levelno >= logging.WARNING] == []


async def test_under_another_leadership_it_ends(world: StoreWorld) -> None:
    await world.enqueue(delay_ms=9)
    await world.redis.delete(world.shard.keys.scheduled)
    run = Run(world)
    await world.reelect()
    async with run:
        await run.until_done()
    assert (run.stale, run.mender.repaired) == (1, 0)
    async with Run(world) as successor:
        await successor.until_done()
    assert successor.mender.repaired == 1


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
    assert (fails, run.mender.repaired) == (0, 1)


@pytest.mark.req("D1")
async def test_a_new_leader_puts_the_store_right(store_server: StoreServer) -> None:
    async with master_on(store_server.url) as (master, api):
        job_id = await api.enqueue("work", delay=3600)
        keys, redis = master._shard.keys, admin_of(master._shard.client)
        await master.leader.stop()
        await redis.zrem(keys.scheduled, job_id)
        await master.leader.start()

        async def is_back() -> bool:
            return await redis.zscore(keys.scheduled, job_id) is not None

        await wait_until(is_back, timeout_s=15)
        assert await api.state(job_id) == "scheduled"
        _, answer = await api.call("GET", "/api/audit")
        assert [(e["who"], e["action"]) for e in answer["entries"]] == [(f"master {master.id}", "repair")]
