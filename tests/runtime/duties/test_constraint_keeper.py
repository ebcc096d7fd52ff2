"""The keeper follows changes up by itself, and wakes what closed gates hold when their time comes."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from jqmaster.domain.constraints.constraint import gate_id
from jqmaster.errors import StoreUnavailableError
from jqmaster.runtime.duties import constraint_keeper as module
from jqmaster.runtime.duties.constraint_keeper import PRUNE_EVERY_S, ConstraintKeeper
from jqmaster.store.constraints.lanes import Moved
from jqmaster.store.jobs.claims import Claim, NotClaimed
from jqmaster.store.leadership.leadership import Leadership
from jqmaster.store.operations.looks import LookStore
from tests.support import long, real_time
from tests.support.clock import ManualClock
from tests.support.constraints import ConstrainedWorld, constraint
from tests.support.store import StoreWorld
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("J13"), real_time.LOOPS]

BY_KEY = {"field": "argument", "op": "exists"}
# Several steps of a relocation.
MANY = long.size(8_000, 20_000)
MINUTE_MS = 60_000


class Keeping:
    """A keeper on a real store. It polls so rarely that no effect within the test's time is due to a poll."""

    def __init__(self, world: StoreWorld) -> None:
        self.world = world
        self.constraints = ConstrainedWorld(world)
        self.clock = ManualClock()
        self.ready = self.stale = 0
        # The sleep after each finished round, unless something wakes it.
        self.sleeps_ms: list[int] = []
        self.keeper = self.another()

    def another(self) -> ConstraintKeeper:
        """Return a keeper for the current leadership."""

        def on_ready() -> None:
            self.ready += 1

        def on_stale() -> None:
            self.stale += 1

        keeper = ConstraintKeeper(
            Leadership(self.world.epoch, "master-1"), self.world.constraints, self.clock,
            lanes=self.world.lanes, gates=self.world.gates,
            on_ready=on_ready, on_stale=on_stale,
        )  # fmt: skip
        follow = keeper._follow

        async def recorded() -> int:
            self.sleeps_ms.append(await follow())
            return self.sleeps_ms[-1]

        keeper._follow = recorded  # type: ignore[method-assign]
        return keeper

    async def start(self) -> None:
        self.world.leader.connect(lambda message: self.keeper.wake())
        await self.keeper.start()

    async def stop(self) -> None:
        self.world.leader.disconnect()
        await self.keeper.stop()

    async def idle(self) -> None:
        """Wait until everything is followed up."""

        async def is_idle() -> bool:
            constraints = await self.world.rule_store.load()
            edition = constraints.constraint_set.edition
            return (
                constraints.settled_edition == edition
                and not await self.world.lanes.older_lanes(edition)
                and not await self.world.gates.reopened()
                and bool(self.sleeps_ms)
                and self.sleeps_ms[-1] > 0
            )

        await wait_until(is_idle, what="the keeper has nothing left to do")

    async def try_to_claim(self, worker_id: str, limit: int = 100) -> list[str]:
        """Return the jobs that a dispatcher would get now: none while the rules are not in force."""
        edition = (await self.world.constraints.reload()).constraint_set.edition
        claim = await self.world.claims.claim(self.world.epoch, worker_id, ("work",), limit, edition)
        assert isinstance(claim, Claim) or claim in (NotClaimed.STALE_CONSTRAINTS, NotClaimed.FULL)
        return [job.job_id for job in claim.jobs] if isinstance(claim, Claim) else []


@pytest.fixture
async def keeping(world: StoreWorld, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Keeping]:
    monkeypatch.setattr(module, "POLL_MS", 600_000)
    one = Keeping(world)
    yield one
    await one.stop()


async def test_a_look_finds_a_change_that_only_this_process_has_read(keeping: Keeping) -> None:
    """Requests read the constraints, too. That does not follow up on a change whose message was lost."""
    world, looks = keeping.world, LookStore(keeping.world.shard)
    await keeping.start()
    await keeping.idle()
    assert keeping.keeper.due_ms(await looks.look(world.epoch)) > 0
    world.leader.disconnect()
    assert await keeping.constraints.change("limit", constraint("limit", BY_KEY, concurrency=5))
    known = await world.constraints.reload()
    look = await looks.look(world.epoch)
    assert look.edition == known.editions
    assert keeping.keeper.due_ms(look) == 0
    keeping.keeper.wake()

    async def is_followed() -> bool:
        return keeping.keeper.due_ms(await looks.look(world.epoch)) > 0

    await wait_until(is_followed, what="the change is in force")
    known = await world.constraints.reload()
    assert known.settled_edition == known.constraint_set.edition


async def test_a_change_is_in_force_for_all_jobs_without_further_ado(keeping: Keeping) -> None:
    constraints, world = keeping.constraints, keeping.world
    jobs = await constraints.enqueue_many(range(30))
    worker = await world.worker(max_jobs=100)
    assert await constraints.take(worker, limit=3) == jobs[:3]
    await keeping.start()
    one = constraint("limit", BY_KEY, concurrency=5)
    assert await constraints.change("limit", one)
    await keeping.idle()
    assert keeping.ready
    assert await constraints.slots(one) == {gate_id(one.cid, None): set(jobs[:3])}
    assert await constraints.take(worker) == jobs[3:5]
    assert await constraints.change("limit", None)
    await keeping.idle()
    assert await constraints.take(worker) == jobs[5:]


@pytest.mark.sized
async def test_dispatch_goes_on_while_many_thousand_waiting_jobs_follow_a_change(keeping: Keeping) -> None:
    constraints, world = keeping.constraints, keeping.world
    jobs = await constraints.enqueue_many([n % 400 for n in range(MANY)])
    worker = await world.worker(max_jobs=100_000)
    await keeping.start()
    await keeping.idle()
    one = constraint("limit", BY_KEY, key="argument", concurrency=3)
    assert await constraints.change("limit", one)
    got: list[str] = []
    claims_between = 0
    while await world.lanes.older_lanes(1):
        claimed = await keeping.try_to_claim(worker, limit=50)
        claims_between += bool(claimed)
        got += claimed
    assert claims_between >= 5
    await keeping.idle()
    while more := await keeping.try_to_claim(worker):
        got += more
    # These are the oldest jobs of each key, and no further ones.
    assert sorted(got) == jobs[:1200]


async def test_a_limit_that_is_raised_lets_the_next_through_at_once(keeping: Keeping) -> None:
    constraints = keeping.constraints
    one = await constraints.limit(concurrency=1)
    jobs = await constraints.enqueue_many(range(3))
    worker = await keeping.world.worker()
    assert await constraints.take(worker) == jobs[:1]
    await keeping.start()
    await keeping.idle()
    ready = keeping.ready
    assert await constraints.change("limit", constraint("limit", concurrency=2, cid=one.cid))
    await keeping.idle()
    assert keeping.ready > ready
    assert await constraints.take(worker) == jobs[1:2]


async def test_it_sleeps_until_the_next_gate_opens_and_then_wakes_the_dispatcher(keeping: Keeping) -> None:
    constraints, world = keeping.constraints, keeping.world
    await constraints.limit(rate=(1, MINUTE_MS))
    jobs = await constraints.enqueue_many(range(2))
    worker = await world.worker()
    assert await constraints.take(worker) == jobs[:1]
    await keeping.start()
    await wait_until(lambda: keeping.sleeps_ms and keeping.sleeps_ms[-1] == MINUTE_MS + 1)
    ready = keeping.ready
    world.pass_ms(MINUTE_MS)
    keeping.keeper.wake()
    await wait_until(lambda: keeping.sleeps_ms[-1] == 1)
    assert keeping.ready == ready
    world.pass_ms(1)
    # The keeper's sleep of a millisecond ends by real time; store time has passed by then.
    await wait_until(lambda: keeping.ready > ready)
    assert await constraints.take(worker) == jobs[1:]


async def test_a_stale_epoch_ends_it_and_another_finishes_what_it_began(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    constraints, world = keeping.constraints, keeping.world
    jobs = await constraints.enqueue_many(range(5000))
    worker = await world.worker(max_jobs=100)
    await keeping.start()
    move, moves = world.lanes._relane, 0

    async def crash_in_the_middle(*arguments: object) -> object:
        nonlocal moves
        moves += 1
        if moves == 4:
            await world.reelect()
        return await move(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(world.lanes, "_relane", crash_in_the_middle)
    assert await constraints.change("limit", constraint("limit", BY_KEY, key="argument", concurrency=1))
    await wait_until(lambda: keeping.stale)
    assert await world.lanes.older_lanes(1)
    await keeping.stop()
    keeping.keeper = keeping.another()
    await keeping.start()
    await keeping.idle()
    assert await constraints.take(worker) == jobs[:100]


async def test_a_leader_that_dies_before_its_change_was_in_force_leaves_it_to_the_next(
    keeping: Keeping,
) -> None:
    constraints, world = keeping.constraints, keeping.world
    jobs = await constraints.enqueue_many(range(10))
    worker = await world.worker()
    running = await constraints.take(worker, limit=4)
    assert await constraints.change("limit", constraint("limit", BY_KEY, concurrency=2))
    assert await keeping.try_to_claim(worker) == []
    await world.reelect()
    keeping.keeper = keeping.another()
    await keeping.start()
    await keeping.idle()
    assert running == jobs[:4]
    assert await keeping.try_to_claim(worker) == []


async def test_rules_that_change_all_the_time_are_followed_in_the_end(keeping: Keeping) -> None:
    constraints, world = keeping.constraints, keeping.world
    jobs = await constraints.enqueue_many(range(3000))
    worker = await world.worker(max_jobs=100)
    await keeping.start()
    for n in range(12):
        name = f"limit{n % 3}"
        assert await constraints.change(
            name, constraint(name, BY_KEY, key="argument" if n % 2 else None, concurrency=9)
        )
        await asyncio.sleep(0)
    await keeping.idle()
    taken = await constraints.take(worker)
    assert taken == jobs[:9]


async def test_a_store_that_fails_once_is_asked_again(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    constraints, world = keeping.constraints, keeping.world
    jobs = await constraints.enqueue_many(range(5))
    settle, calls = world.lanes.settle, 0

    async def failing(*arguments: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise StoreUnavailableError("away", retry_after_s=1.0)
        return await settle(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(world.lanes, "settle", failing)
    await keeping.start()
    assert await constraints.change("limit", constraint("limit", BY_KEY, concurrency=2))
    await keeping.idle()
    assert calls == 2
    assert await constraints.take(await world.worker()) == jobs[:2]


async def test_lanes_and_gates_that_nobody_uses_go_within_a_while(keeping: Keeping) -> None:
    constraints, world = keeping.constraints, keeping.world
    await constraints.limit(key="argument", concurrency=1)
    jobs = await constraints.enqueue_many(["x", "y", "y"])
    worker = await world.worker()
    claimed = await constraints.claim(worker)
    await constraints.succeed(worker, *claimed)
    await world.operator_actions.cancel(jobs[2])
    for job_id in jobs:
        await world.operator_actions.delete(job_id)
    await keeping.start()
    await keeping.idle()
    keeping.clock.now_s += PRUNE_EVERY_S
    keeping.keeper.wake()

    k = world.shard.keys

    async def are_gone() -> bool:
        return not await world.redis.exists(k.names, k.lanes("work"))

    await wait_until(are_gone)
    await keeping.idle()
    there = await constraints.structures()
    assert (there.lanes, there.waiting) == ({}, {})


async def test_a_shard_without_lanes_and_constraints_is_not_pruned_until_jobs_come(keeping: Keeping) -> None:
    """A thousand quiet shards would otherwise read all their names once a minute."""
    world, looks = keeping.world, LookStore(keeping.world.shard)

    async def due_ms() -> int:
        return keeping.keeper.due_ms(await looks.look(world.epoch))

    await keeping.start()
    await keeping.idle()
    # An earlier leader may have left some.
    assert await due_ms() == 1000 * PRUNE_EVERY_S
    keeping.clock.now_s += PRUNE_EVERY_S
    keeping.keeper.wake()

    async def rests() -> bool:
        return await due_ms() == -1

    await wait_until(rests, what="nothing is left to prune")
    job_id = await world.enqueue()
    assert await due_ms() == 1000 * PRUNE_EVERY_S
    await world.operator_actions.cancel(job_id)
    # A job that came and ended between two looks is seen by what it left.
    keeping.keeper._may_have_lanes = False
    assert await due_ms() == 1000 * PRUNE_EVERY_S


async def test_jobs_that_a_relocation_gave_up_are_checked_again_within_a_while(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    constraints, world = keeping.constraints, keeping.world
    jobs = await constraints.enqueue_many(range(3))
    worker = await world.worker()
    move = world.lanes.move
    is_stuck = True

    async def stuck(*arguments: object) -> object:
        return Moved(0) if is_stuck and len(arguments) > 3 else await move(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(world.lanes, "move", stuck)
    assert await constraints.change("limit", constraint("limit", BY_KEY, concurrency=2))
    await keeping.start()
    await wait_until(lambda: keeping.sleeps_ms and keeping.sleeps_ms[-1] > 0)
    assert await keeping.try_to_claim(worker) == []
    is_stuck = False
    keeping.clock.now_s += PRUNE_EVERY_S
    keeping.keeper.wake()
    await keeping.idle()
    assert await constraints.take(worker) == jobs[:2]
