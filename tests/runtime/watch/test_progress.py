"""The store shows a stall: jobs are ready, workers are free, and nobody claims."""

from dataclasses import dataclass
from typing import cast

import pytest

from jqmaster.domain.workers.worker import Worker
from jqmaster.live_value import LiveValue
from jqmaster.runtime.duties.dispatcher import Dispatcher
from jqmaster.runtime.duties.fleet import Fleet
from jqmaster.runtime.watch.progress import QUIET_S, ProgressWatch
from tests.support.clock import ManualClock
from tests.support.store import StoreWorld

URL = "http://127.0.0.1:1"
STALE_MS = 5_000


@dataclass
class Rounds:
    """The part of a dispatcher that progress looks at."""

    last_round_s: float
    claimed_at_s: float
    is_idle: bool = False


class Leading:
    def __init__(self, world: StoreWorld) -> None:
        self.world = world
        self.clock = ManualClock()
        self.fleet = Fleet(self.clock, stale_ms=LiveValue(STALE_MS))
        self.rounds: Rounds | None = Rounds(self.clock.now_s, self.clock.now_s)
        self.progress = ProgressWatch(
            world.inspector,
            world.workers,
            self.fleet,
            self.clock,
            dispatcher=lambda: cast(Dispatcher | None, self.rounds),
        )

    async def after_s(self, seconds: float) -> float:
        """Return the stall after this many more seconds with rounds but without claims."""
        for _ in range(round(seconds)):
            self.clock.jump(1)
            if self.rounds:
                self.rounds.last_round_s = self.clock.now_s
            stall = await self.progress.stall()
        return stall.seconds

    async def member(self, worker_id: str) -> Worker:
        workers, now_ms = await self.world.workers.all_with_time()
        self.fleet.refresh(workers, now_ms)
        (worker,) = [worker for worker in workers if worker.id == worker_id]
        return worker


@pytest.fixture
def leading(world: StoreWorld) -> Leading:
    return Leading(world)


async def test_without_rounds_it_stalls(leading: Leading) -> None:
    leading.clock.jump(7)
    assert leading.progress.round_s() == 7
    stall = await leading.progress.stall()
    assert (stall.seconds, stall.what) == (7, "the dispatcher has made no round")


async def test_a_master_that_does_not_lead_does_not_stall(leading: Leading) -> None:
    await leading.world.worker(url=URL)
    await leading.world.enqueue()
    leading.rounds = None
    assert (await leading.after_s(60), leading.progress.round_s()) == (0, 0)


async def test_jobs_that_nobody_asks_for_though_a_worker_is_free_are_a_stall(leading: Leading) -> None:
    await leading.world.worker(url=URL)
    await leading.world.enqueue_many(3)
    await leading.after_s(QUIET_S)
    assert await leading.after_s(20) == pytest.approx(20, abs=1)
    assert "3 work" in (await leading.progress.stall()).what
    assert leading.rounds
    leading.rounds.claimed_at_s = leading.clock.now_s
    assert (await leading.progress.stall()).seconds == 0


async def test_it_counts_from_when_there_was_work(leading: Leading) -> None:
    await leading.world.worker(url=URL)
    assert await leading.after_s(60) == 0
    await leading.world.enqueue()
    assert await leading.after_s(5) == pytest.approx(5, abs=1)


async def test_a_worker_that_the_leader_has_never_heard_of_counts_as_well(leading: Leading) -> None:
    known = await leading.world.worker("other", url=URL)
    await leading.member(known)
    await leading.world.worker(url=URL)
    await leading.world.enqueue()
    assert await leading.after_s(20) > 10


@pytest.mark.parametrize(
    "reason", ["no work", "another name", "full", "pulls", "silent", "draining", "breaker", "paused", "push"]
)
async def test_a_limit_that_keeps_jobs_from_workers_is_no_stall(leading: Leading, reason: str) -> None:
    world = leading.world
    worker_id = await world.worker(
        "other" if reason == "another name" else "work",
        max_jobs=1,
        url=None if reason == "pulls" else URL,
    )
    if reason == "full":
        await world.enqueue()
        await world.claim(worker_id)
    if reason != "no work":
        await world.enqueue()
    if reason == "draining":
        redis, keys = world.redis, world.shard.keys
        await redis.hset(keys.worker(worker_id), "is_draining", 1)
    await leading.member(worker_id)
    if reason == "silent":
        world.pass_ms(STALE_MS + 1)
    member = leading.fleet.get(worker_id)
    assert member
    if reason == "breaker":
        for _ in range(20):
            member.breaker.failed(leading.clock.now_s + 25)
    if reason == "paused":
        member.pause(leading.clock.now_s, 60)
    if reason == "push":
        member.pushes = 1
    assert await leading.after_s(20) == 0


@pytest.mark.req("S6")
async def test_the_store_is_not_asked_while_the_looks_find_no_ready_jobs(leading: Leading) -> None:
    await leading.world.worker(url=URL)
    await leading.world.enqueue()
    assert leading.rounds
    leading.rounds.is_idle = True
    assert await leading.after_s(60) == 0
    leading.rounds.is_idle = False
    assert await leading.after_s(60) > 0
