"""Shares of a constraint: shares of turns, reserved slots, and overrides by condition."""

import string
from collections import Counter
from dataclasses import replace
from typing import Any

import msgpack
import pytest

from jqmaster.domain.constraints.constraint import (
    ConditionalOverride,
    Constraint,
    GateLimits,
    Mode,
    Override,
)
from jqmaster.domain.constraints.limit_kinds import Reservation
from jqmaster.domain.constraints.turns import ProportionalTurns, TurnShare
from jqmaster.domain.constraints.weight import Weight
from jqmaster.domain.matching.matcher import Matcher, parse_matcher
from jqmaster.domain.matching.paths import parse_path
from jqmaster.store.constraints.why import WhyStore
from tests.support.constraints import ConstrainedWorld
from tests.support.store import StoreWorld

pytestmark = pytest.mark.req("D30")

TENANT = "argument.tenant"


@pytest.fixture
def constraints(world: StoreWorld) -> ConstrainedWorld:
    return ConstrainedWorld(world)


def turns(default: float = 1, **weights: float) -> ProportionalTurns:
    return ProportionalTurns(tuple(TurnShare(*one) for one in weights.items()), default)


def plan(name: str) -> Matcher:
    return parse_matcher({"field": "argument.plan", "op": "eq", "value": name})


def pro(concurrency: int, **limits: Any) -> ConditionalOverride:
    return ConditionalOverride(plan("pro"), GateLimits(concurrency, **limits))


async def served(constraints: ConstrainedWorld, worker: str, count: int, *, at_once: int = 1) -> str:
    """Claim and finish jobs whose arguments are single letters. Return the letters in order."""
    letters = ""
    while len(letters) < count:
        jobs = await constraints.claim(worker, limit=min(at_once, count - len(letters)))
        if not jobs:
            return letters
        letters += "".join([str(chr(job.record.argument[-1])) for job in jobs])
        await constraints.succeed(worker, *jobs)
        constraints.world.pass_ms(1)
    return letters


# --- shares of turns


@pytest.mark.parametrize("at_once", [1, 7])
async def test_values_have_turns_in_proportion_to_their_weights(
    constraints: ConstrainedWorld, at_once: int
) -> None:
    await constraints.limit(key="argument", fair=turns(a=5, b=2.5))
    await constraints.enqueue_many("a" * 60 + "b" * 60 + "c" * 60)
    order = await served(constraints, await constraints.world.worker(max_jobs=20), 85, at_once=at_once)
    assert Counter(order) == {"a": 50, "b": 25, "c": 10}
    # They are spread: no value has its turns all at once.
    assert {order[at : at + 17].count("c") for at in range(0, 85, 17)} == {2}
    await constraints.world.assert_sound()


async def test_a_heavy_value_does_not_wait_for_all_light_ones_after_it_was_idle(
    constraints: ConstrainedWorld,
) -> None:
    await constraints.limit(key="argument", fair=turns(A=20))
    light = string.ascii_lowercase[:20]
    await constraints.enqueue_many(light * 10)
    worker = await constraints.world.worker(max_jobs=100)
    await served(constraints, worker, 45)
    await constraints.enqueue_many("A" * 30)
    # In the time of 20 turns of light values, it has 20 of its own.
    order = await served(constraints, worker, 40)
    assert 18 <= order.count("A") <= 22
    assert "A" in order[:3]


async def test_a_value_does_not_make_up_for_the_time_when_it_was_idle(constraints: ConstrainedWorld) -> None:
    await constraints.limit(key="argument", fair=turns(a=2, b=1))
    worker = await constraints.world.worker(max_jobs=100)
    await constraints.enqueue_many("a")
    assert await served(constraints, worker, 1) == "a"
    await constraints.enqueue_many("b" * 200)
    assert await served(constraints, worker, 120) == "b" * 120
    await constraints.enqueue_many("a" * 80)
    assert 39 <= (await served(constraints, worker, 60)).count("a") <= 41


async def test_changed_weights_apply_to_the_next_turns(constraints: ConstrainedWorld) -> None:
    one = await constraints.limit(key="argument", fair=turns(a=4))
    await constraints.enqueue_many("a" * 100 + "b" * 100)
    worker = await constraints.world.worker(max_jobs=100)
    assert Counter(await served(constraints, worker, 50))["a"] == 40
    changed = await constraints.edit(one, fair=turns(b=4))
    assert 8 <= Counter(await served(constraints, worker, 50))["a"] <= 12
    await constraints.edit(changed, fair=True)
    assert 9 <= Counter(await served(constraints, worker, 20))["a"] <= 11
    await constraints.world.assert_sound()


@pytest.mark.parametrize("at_once", [1, 7])
async def test_turns_are_shares_of_units_if_the_constraint_counts_them(
    constraints: ConstrainedWorld, at_once: int
) -> None:
    tokens = Weight(parse_path("argument.tokens"), 2000, "tokens")
    await constraints.limit(key=TENANT, concurrency=1000, fair=turns(pro=3), weight=tokens)
    # A job of `pro` is six times as heavy as one of the others, and `plain` has no number.
    for tenant, argument in (("pro", {"tokens": 6}), ("free", {"tokens": 1}), ("plain", {})):
        await constraints.enqueue_many([{"tenant": tenant, **argument}] * 100)
    worker = await constraints.world.worker(max_jobs=20)
    units = Counter[str]()
    for _ in range(70 // at_once):
        jobs = await constraints.claim(worker, limit=at_once)
        for argument in (msgpack.unpackb(job.record.argument) for job in jobs):
            units[argument["tenant"]] += argument.get("tokens", 2)
        await constraints.succeed(worker, *jobs)
        constraints.world.pass_ms(1)
    assert units["pro"] / units["free"] == pytest.approx(3, rel=0.15)
    assert units["plain"] / units["free"] == pytest.approx(1, rel=0.15)
    await constraints.world.assert_sound()


@pytest.mark.parametrize("default", [0, 1000])
async def test_jobs_that_weigh_nothing_do_not_keep_others_from_their_turns(
    constraints: ConstrainedWorld, default: int
) -> None:
    tokens = Weight(parse_path("argument.tokens"), default, "tokens")
    await constraints.limit(key=TENANT, concurrency=1000, fair=turns(), weight=tokens)
    await constraints.enqueue_many([{"tenant": "nothing", "tokens": 0}] * 150)
    last = (await constraints.enqueue_many([{"tenant": "one", "tokens": 1}] * 2))[-1]
    worker = await constraints.world.worker(max_jobs=200)
    assert last in await constraints.take(worker, limit=110)


async def test_lanes_without_turns_go_on_beside_weighted_ones(constraints: ConstrainedWorld) -> None:
    """At least once in a round, older jobs without the key go first."""
    await constraints.limit(key=TENANT, fair=turns(a=3))
    await constraints.enqueue_many([{"tenant": "a"}, {"tenant": "b"}] * 20)
    worker = await constraints.world.worker(max_jobs=100)
    assert len(await constraints.take(worker, limit=10)) == 10
    constraints.world.pass_ms(5)
    plain = await constraints.enqueue("work", {"other": 1})
    constraints.world.pass_ms(5)
    taken = []
    while plain not in taken:
        taken += await constraints.take(worker, limit=1)
        constraints.world.pass_ms(1)
    assert len(taken) <= 10


async def test_shadow_weights_change_no_order(constraints: ConstrainedWorld) -> None:
    await constraints.limit(key="argument", fair=turns(b=9), concurrency=9, mode=Mode.SHADOW)
    jobs = await constraints.enqueue_many("aabb")
    assert await constraints.take(await constraints.world.worker()) == jobs


async def test_why_counts_the_turns_of_heavier_values(constraints: ConstrainedWorld) -> None:
    await constraints.limit(key="argument", fair=turns(a=10))
    await constraints.enqueue_many("a" * 30)
    last = (await constraints.enqueue_many("b" * 2))[-1]
    snapshot = await WhyStore(constraints.world.shard, constraints.world.records).snapshot(last)
    assert snapshot
    assert snapshot.jobs_ahead
    # One of its own value, and ten turns of the other one.
    assert 10 <= snapshot.jobs_ahead.by_name["work"] <= 12


# --- reserved slots


def reserving(concurrency: int, *reserved: tuple[str, int], **fields: Any) -> dict[str, Any]:
    reserve = tuple(Reservation(plan(name), slots) for name, slots in reserved)
    return {"concurrency": concurrency, "reserve": reserve, **fields}


async def test_reserved_slots_stay_free_for_their_jobs(constraints: ConstrainedWorld) -> None:
    await constraints.limit(**reserving(5, ("pro", 2)))
    others = await constraints.enqueue_many([{"plan": "free"}] * 6)
    worker = await constraints.world.worker(max_jobs=20)
    assert await constraints.take(worker) == others[:3]
    paid = await constraints.enqueue_many([{"plan": "pro"}] * 4)
    claimed = await constraints.claim(worker)
    assert [job.job_id for job in claimed] == paid[:2]
    await constraints.succeed(worker, *claimed)
    # Jobs that slots are reserved for may use the others, too.
    assert await constraints.take(worker) == paid[2:]
    await constraints.world.assert_sound()


async def test_jobs_with_a_reservation_may_use_all_slots(constraints: ConstrainedWorld) -> None:
    await constraints.limit(**reserving(5, ("pro", 2)))
    paid = await constraints.enqueue_many([{"plan": "pro"}] * 6)
    await constraints.enqueue_many([{"plan": "free"}])
    assert await constraints.take(await constraints.world.worker(max_jobs=20)) == paid[:5]


async def test_each_set_of_reservations_is_kept(constraints: ConstrainedWorld) -> None:
    await constraints.limit(**reserving(6, ("pro", 2), ("team", 1)))
    worker = await constraints.world.worker(max_jobs=20)
    free = await constraints.enqueue_many([{"plan": "free"}] * 9)
    assert await constraints.take(worker) == free[:3]
    team = await constraints.enqueue_many([{"plan": "team"}] * 9)
    assert await constraints.take(worker) == team[:1]
    paid = await constraints.enqueue_many([{"plan": "pro"}] * 9)
    assert await constraints.take(worker) == paid[:2]


async def test_each_value_of_a_key_has_its_reserved_slots(constraints: ConstrainedWorld) -> None:
    fields = reserving(3, ("pro", 1), key=TENANT, overrides=(Override("small", GateLimits(concurrency=1)),))
    await constraints.limit(**fields)
    worker = await constraints.world.worker(max_jobs=20)
    jobs = await constraints.enqueue_many(
        [{"tenant": tenant, "plan": "free"} for tenant in ("acme", "umbrella", "small") for _ in range(4)]
    )
    # A value that may use no more slots than are reserved leaves none to other jobs.
    assert await constraints.take(worker) == [*jobs[:2], *jobs[4:6]]
    paid = await constraints.enqueue("work", {"tenant": "small", "plan": "pro"})
    assert await constraints.take(worker) == [paid]


async def test_running_jobs_count_when_a_reservation_begins_changes_and_ends(
    constraints: ConstrainedWorld,
) -> None:
    one = await constraints.limit(concurrency=4)
    worker = await constraints.world.worker(max_jobs=20)
    jobs = await constraints.enqueue_many([{"plan": "free"}] * 12)
    running = await constraints.claim(worker)
    assert len(running) == 4
    reserved = await constraints.edit(one, **reserving(4, ("pro", 1)))
    await constraints.succeed(worker, running[0])
    assert await constraints.take(worker) == []
    reserved = await constraints.edit(reserved, **reserving(7, ("pro", 2)))
    assert await constraints.take(worker) == jobs[4:6]
    await constraints.edit(reserved, reserve=())
    assert await constraints.take(worker) == jobs[6:8]
    assert len([key for key in await constraints.world.key_names() if "limits:" in key]) == 1
    await constraints.world.assert_sound()


@pytest.mark.parametrize("how", ["remove", "disable"])
async def test_a_reservation_ends_with_its_constraint(constraints: ConstrainedWorld, how: str) -> None:
    one = await constraints.limit(**reserving(3, ("pro", 2)))
    jobs = await constraints.enqueue_many([{"plan": "free"}] * 6)
    worker = await constraints.world.worker(max_jobs=20)
    assert await constraints.take(worker) == jobs[:1]
    if how == "remove":
        await constraints.remove()
    else:
        await constraints.edit(one, enabled=False)
    assert await constraints.take(worker) == jobs[1:]


async def test_why_names_the_constraint_of_a_reservation(constraints: ConstrainedWorld) -> None:
    await constraints.limit(**reserving(3, ("pro", 2)))
    jobs = await constraints.enqueue_many([{"plan": "free"}] * 2)
    await constraints.take(await constraints.world.worker())
    snapshot = await WhyStore(constraints.world.shard, constraints.world.records).snapshot(jobs[1])
    assert snapshot
    assert sorted((gate.figures["concurrency"], gate.is_closed) for gate in snapshot.gates) == [
        (1, True),
        (3, False),
    ]


# --- overrides by condition


def by_plan(**fields: Any) -> dict[str, Any]:
    return {"key": TENANT, "concurrency": 1, "conditions": (pro(3),), **fields}


def jobs_of(tenant: str, plan_name: str, count: int) -> list[dict[str, str]]:
    return [{"tenant": tenant, "plan": plan_name} for _ in range(count)]


async def test_a_condition_sets_the_limit_of_each_value_whose_jobs_meet_it(
    constraints: ConstrainedWorld,
) -> None:
    await constraints.limit(**by_plan())
    worker = await constraints.world.worker(max_jobs=20)
    acme, other = jobs_of("acme", "pro", 5), jobs_of("umbrella", "pro", 5)
    jobs = await constraints.enqueue_many([*acme, *other, *jobs_of("small", "free", 5)])
    assert await constraints.take(worker) == [*jobs[:3], *jobs[5:8], jobs[10]]
    await constraints.world.assert_sound()


async def test_the_limit_follows_the_plan_of_the_last_pushed_job(constraints: ConstrainedWorld) -> None:
    await constraints.limit(**by_plan())
    worker = await constraints.world.worker(max_jobs=20)
    free = await constraints.enqueue_many(jobs_of("acme", "free", 4))
    assert await constraints.take(worker) == free[:1]
    # It books the plan: the jobs that wait at its closed gate start.
    paid = await constraints.enqueue_many(jobs_of("acme", "pro", 1))
    assert await constraints.take(worker) == free[1:3]
    await constraints.enqueue_many(jobs_of("acme", "free", 1))
    assert await constraints.take(worker) == []
    assert len(paid) == 1


async def test_the_last_job_of_a_push_decides_even_if_a_like_one_came_first(
    constraints: ConstrainedWorld,
) -> None:
    await constraints.limit(**by_plan())
    worker = await constraints.world.worker(max_jobs=20)
    jobs = await constraints.enqueue_many(
        [*jobs_of("acme", "pro", 1), *jobs_of("acme", "free", 1), *jobs_of("acme", "pro", 2)]
    )
    assert await constraints.take(worker) == jobs[:3]


async def test_the_limits_of_a_value_precede_those_of_a_condition_one_by_one(
    constraints: ConstrainedWorld,
) -> None:
    own = Override("acme", GateLimits(concurrency=2))
    one = await constraints.limit(**by_plan(overrides=(own,)))
    worker = await constraints.world.worker(max_jobs=20)
    jobs = await constraints.enqueue_many(jobs_of("acme", "pro", 6))
    assert await constraints.take(worker) == jobs[:2]
    # The value no longer has a number of its own, so that of its plan applies.
    one = await constraints.edit(one, overrides=(Override("acme", GateLimits(paused=True)),))
    assert await constraints.take(worker) == []
    await constraints.edit(one, overrides=())
    assert await constraints.take(worker) == jobs[2:3]


async def test_edited_conditions_apply_to_waiting_jobs(constraints: ConstrainedWorld) -> None:
    one = await constraints.limit(key=TENANT, concurrency=1)
    worker = await constraints.world.worker(max_jobs=20)
    jobs = await constraints.enqueue_many(jobs_of("acme", "pro", 9))
    assert await constraints.take(worker) == jobs[:1]
    one = await constraints.edit(one, conditions=(pro(3),))
    assert await constraints.take(worker) == jobs[1:3]
    one = await constraints.edit(one, conditions=(pro(5),))
    assert await constraints.take(worker) == jobs[3:5]
    one = await constraints.edit(one, conditions=(replace(pro(9), matcher=plan("team")),))
    assert await constraints.take(worker) == []
    await constraints.edit(one, conditions=(pro(6, paused=True),))
    assert await constraints.take(worker) == []


async def test_conditions_reach_the_gates_of_reserved_slots(constraints: ConstrainedWorld) -> None:
    urgent = parse_matcher({"field": "argument.urgent", "op": "eq", "value": True})
    await constraints.limit(**by_plan(concurrency=2, conditions=(pro(4),), reserve=(Reservation(urgent, 1),)))
    worker = await constraints.world.worker(max_jobs=20)
    jobs = await constraints.enqueue_many([*jobs_of("acme", "pro", 6), *jobs_of("small", "free", 6)])
    assert await constraints.take(worker) == [*jobs[:3], jobs[6]]


async def test_the_note_of_a_plan_goes_with_the_last_job_of_its_value(constraints: ConstrainedWorld) -> None:
    one = await constraints.limit(**by_plan())
    worker = await constraints.world.worker()
    await constraints.enqueue_many(jobs_of("acme", "pro", 1))
    key = constraints.world.shard.keys.conditions(one.cid)
    assert await constraints.world.redis.hlen(key) == 1
    await constraints.succeed(worker, *await constraints.claim(worker))
    await constraints.world.prune_gates()
    assert await constraints.world.redis.exists(key) == 0


async def test_jobs_of_both_plans_in_one_push_leave_the_last_plan(constraints: ConstrainedWorld) -> None:
    one: Constraint = await constraints.limit(**by_plan())
    await constraints.enqueue_many([*jobs_of("acme", "free", 1), *jobs_of("acme", "pro", 1)])
    noted = await constraints.world.redis.hvals(constraints.world.shard.keys.conditions(one.cid))
    assert noted == [pro(3).id.encode()]
