"""Waiting jobs move from the lanes of older constraints to the lanes of the present ones, while others work."""

import contextlib
import logging
from collections.abc import AsyncIterator

import pytest

from jqmaster.domain.constraints.constraint import gate_id
from jqmaster.domain.jobs.job import JobState
from jqmaster.errors import StaleEpochError
from jqmaster.runtime.duties import relocation as module
from jqmaster.runtime.duties.relocation import Relocation
from jqmaster.store.constraints.lanes import LaneStore
from jqmaster.store.jobs.claims import Claim
from tests.support import long
from tests.support.constraints import ConstrainedWorld, constraint
from tests.support.store import StoreWorld

pytestmark = pytest.mark.req("J13")

# Every job matches, and each value has its own gate: all lanes are new.
BY_KEY = {"field": "argument", "op": "exists"}
MANY = long.size(5_000, 20_000)


@pytest.fixture
def constraints(world: StoreWorld) -> ConstrainedWorld:
    return ConstrainedWorld(world)


async def begun(constraints: ConstrainedWorld) -> Relocation:
    """Create a constraint that applies to running jobs, before any waiting job is moved."""
    assert await constraints.settle()
    await constraints.open_gates()
    return Relocation(constraints.lanes, constraints.world.epoch, await constraints.constraints.reload())


async def older(constraints: ConstrainedWorld) -> int:
    """Return the number of lanes of older rules."""
    return len(
        await constraints.lanes.older_lanes((await constraints.constraints.reload()).constraint_set.edition)
    )


async def end(relocation: Relocation, most_steps: int = 1000) -> int:
    """Run the relocation until it is over, and return how many jobs it moved."""
    moved = 0
    for _ in range(most_steps):
        if relocation.is_over:
            return moved
        moved += await relocation.step()
    raise AssertionError("it goes on for ever")


@pytest.mark.sized
async def test_dispatch_goes_on_while_thousands_of_jobs_are_moved(
    constraints: ConstrainedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = constraints.world
    # Fewer jobs take as many steps.
    monkeypatch.setattr(module, "JOBS_PER_STEP", MANY // 5)
    jobs = await constraints.enqueue_many([n % 50 for n in range(MANY)])
    worker = await world.worker(max_jobs=100_000)
    assert len(await constraints.take(worker, limit=100)) == 100
    one = constraint("limit", BY_KEY, key="argument", concurrency=8)
    assert await constraints.change("limit", one)
    relocation = await begun(constraints)
    moved, claims_between = 0, 0
    running = {job_id: job_id for job_id in jobs[:100]}
    while not relocation.is_over:
        moved += await relocation.step()
        claimed = await constraints.take(worker, limit=100)
        claims_between += bool(claimed) and not relocation.is_over
        running.update(dict.fromkeys(claimed, ""))
        per_gate = [len(holders) for holders in (await constraints.slots(one)).values()]
        assert max(per_gate) <= 8
    assert moved == MANY - 100
    assert await older(constraints) == 0
    # The first step already made the next jobs available.
    assert claims_between >= 3
    assert len(running) == 50 * 8
    assert sorted(running) == jobs[: 50 * 8]


async def test_those_that_are_next_to_start_are_moved_first(constraints: ConstrainedWorld) -> None:
    later = await constraints.enqueue_many(range(3000), "later", priority=5)
    sooner = await constraints.enqueue_many(range(10), "sooner", priority=1)
    assert await constraints.change("limit", constraint("limit", BY_KEY, concurrency=50))
    relocation = await begun(constraints)
    worker = await constraints.world.worker("sooner", "later", max_jobs=50)
    assert await constraints.take(worker, "sooner", "later") == []
    while not await relocation.step():
        pass
    taken = await constraints.take(worker, "sooner", "later", limit=50)
    assert taken == sooner + later[:40]
    await end(relocation)


@pytest.mark.parametrize("steps", range(6))
async def test_rules_that_change_in_the_middle_end_one_relocation_and_begin_the_next(
    constraints: ConstrainedWorld, steps: int
) -> None:
    jobs = await constraints.enqueue_many(range(3000))
    await constraints.enqueue_many(range(100), delay_ms=1000)
    assert await constraints.change("limit", constraint("limit", BY_KEY, key="argument", concurrency=1))
    first = await begun(constraints)
    for _ in range(steps):
        await first.step()
    two = constraint("other", BY_KEY, concurrency=7)
    assert await constraints.change("other", two)
    # It may be in the middle of a step, but moves nothing any more.
    before = await constraints.structures()
    if not first.is_over:
        assert await end(first) == 0
    assert (await constraints.structures()).waiting == before.waiting
    await end(await begun(constraints))
    assert await older(constraints) == 0
    assert await constraints.take(await constraints.world.worker(max_jobs=50)) == jobs[:7]
    assert await constraints.slots(two) == {gate_id(two.cid, None): set(jobs[:7])}


@pytest.mark.parametrize("steps", range(6))
async def test_another_leader_finishes_what_one_began(constraints: ConstrainedWorld, steps: int) -> None:
    jobs = await constraints.enqueue_many(range(3000))
    assert await constraints.change("limit", constraint("limit", BY_KEY, key="argument", concurrency=1))
    first = await begun(constraints)
    for _ in range(steps):
        await first.step()
    await constraints.world.reelect()
    if not first.is_over:
        before = await constraints.structures()
        # There may have been nothing left to move.
        with contextlib.suppress(StaleEpochError):
            assert await end(first) == 0
        assert await constraints.structures() == before
    assert await constraints.settle()
    await end(Relocation(constraints.lanes, constraints.world.epoch, await constraints.constraints.reload()))
    assert await older(constraints) == 0
    assert await constraints.take(await constraints.world.worker(max_jobs=5000), limit=400) == jobs[:400]


class PromotingLanes(LaneStore):
    """Makes scheduled jobs due just before the relocation walks over them."""

    world: StoreWorld

    async def waiting_not_ready(self) -> AsyncIterator[list[str]]:
        await self.world.due.promote(self.world.epoch, JobState.SCHEDULED)
        async for page in super().waiting_not_ready():
            yield page


async def test_a_job_that_becomes_ready_between_two_looks_is_moved_all_the_same(world: StoreWorld) -> None:
    lanes = PromotingLanes(world.shard)
    lanes.world = world
    constraints = ConstrainedWorld(world, lanes=lanes)
    job_id = await constraints.enqueue(delay_ms=1000)
    assert await constraints.change("limit", constraint("limit", BY_KEY, concurrency=1))
    world.pass_ms(1000)
    assert await end(await begun(constraints)) == 1
    assert await older(constraints) == 0
    assert await constraints.take(await world.worker()) == [job_id]


async def test_jobs_that_change_while_they_are_moved_are_counted_once(constraints: ConstrainedWorld) -> None:
    """Jobs are canceled, deleted or claimed between the look and the move."""
    world = constraints.world
    jobs = await constraints.enqueue_many(range(2500))
    assert await constraints.change("limit", constraint("limit", BY_KEY, key="argument", max_backlog=5))
    relocation = await begun(constraints)
    await relocation.step()
    await world.operator_actions.cancel(jobs[0])
    await world.operator_actions.cancel(jobs[-1])
    await world.operator_actions.delete(jobs[-2])
    assert await end(relocation) == 2500 - 3
    there = await constraints.structures()
    assert sum(there.waiting.values()) == 2500 - 3
    assert sum(there.lane_jobs.values()) == 2500 - 3


async def test_a_lane_that_cannot_be_emptied_does_not_hold_the_others_up(
    constraints: ConstrainedWorld, caplog: pytest.LogCaptureFixture
) -> None:
    world = constraints.world
    jobs = await constraints.enqueue_many(range(10))
    k, redis = world.shard.keys, world.redis
    stuck = "00" * 8
    await redis.set(k.lane(stuck), f"gone\n0\n{stuck}\n\n\n\n0\n\n3")
    await redis.zadd(k.lanes("gone"), {stuck: 0})
    await redis.sadd(k.names, "gone")
    assert await constraints.change("limit", constraint("limit", BY_KEY, concurrency=50))
    with caplog.at_level(logging.ERROR):
        assert await end(await begun(constraints), most_steps=30) == 10
    assert "1 lanes of older constraints cannot be emptied" in caplog.text
    assert await constraints.take(await world.worker(max_jobs=50)) == jobs
    await redis.delete(k.lane(stuck), k.lanes("gone"))
    await redis.srem(k.names, "gone")


async def test_a_lane_with_jobs_that_are_no_longer_there_is_emptied(constraints: ConstrainedWorld) -> None:
    """Their records are gone or damaged: they are set aside, and the jobs behind them are moved."""
    world = constraints.world
    jobs = await constraints.enqueue_many(range(60))
    redis, k = world.redis, world.shard.keys
    for job_id in jobs[:40]:
        await redis.set(k.job(job_id), b"damaged")
    assert await constraints.change("limit", constraint("limit", BY_KEY, key="argument", concurrency=1))
    assert await end(await begun(constraints), most_steps=30) == 60
    assert await older(constraints) == 0
    assert await redis.scard(k.damaged) == 40
    assert await constraints.take(await world.worker(max_jobs=50)) == jobs[40:]
    for job_id in jobs[:40]:
        await world.operator_actions.delete(job_id)


async def test_claims_under_older_rules_get_nothing_of_what_was_moved(constraints: ConstrainedWorld) -> None:
    world = constraints.world
    await constraints.enqueue_many(range(5))
    worker = await world.worker()
    assert await constraints.change("limit", constraint("limit", BY_KEY, concurrency=1))
    await constraints.follow_up()
    assert not isinstance(await world.claims.claim(world.epoch, worker, ("work",), 5, 0), Claim)
