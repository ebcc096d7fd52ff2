"""The effect of each kind of constraint on jobs that wait, one idea per test, on the real server."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from jqmaster.domain.constraints.constraint import Mode, gate_id
from jqmaster.domain.constraints.gate_check import Rate
from jqmaster.domain.constraints.turns import ProportionalTurns, TurnShare
from jqmaster.domain.jobs.job import JobState
from jqmaster.domain.jobs.outcome import Decision
from jqmaster.domain.matching.key_value import key_value
from jqmaster.domain.matching.matcher import parse_matcher
from jqmaster.store.constraints.usage import UsageStore
from jqmaster.store.jobs.claims import ClaimedJob, NotClaimed
from jqmaster.store.jobs.enqueue_outcomes import Accepted, BacklogFull, PushRefused
from jqmaster.store.jobs.operator_actions import Changes
from jqmaster.store.jobs.settlements import GateHold
from tests.support.constraints import ConstrainedWorld, constraint, override
from tests.support.store import LEASE_MS, StoreWorld

pytestmark = pytest.mark.req("J13")

MINUTE_MS = 60_000
OF_A = {"field": "name", "op": "eq", "value": "a"}
OF_B = {"field": "name", "op": "eq", "value": "b"}


@pytest.fixture
def constraints(world: StoreWorld) -> ConstrainedWorld:
    return ConstrainedWorld(world)


def ids(jobs: Sequence[ClaimedJob]) -> list[str]:
    return [job.job_id for job in jobs]


# --- concurrency


async def test_no_more_than_the_limit_run_at_once_and_the_next_follows_each_that_ends(
    constraints: ConstrainedWorld,
) -> None:
    await constraints.limit(concurrency=2)
    jobs = await constraints.enqueue_many(range(5))
    worker = await constraints.world.worker()
    first = await constraints.claim(worker)
    assert ids(first) == jobs[:2]
    assert await constraints.take(worker) == []
    await constraints.succeed(worker, first[0])
    second = await constraints.claim(worker)
    assert ids(second) == [jobs[2]]
    await constraints.succeed(worker, first[1], *second)
    assert await constraints.take(worker) == jobs[3:]


async def test_with_a_key_each_value_has_a_limit_of_its_own(constraints: ConstrainedWorld) -> None:
    await constraints.limit(key="argument.host", concurrency=1)
    jobs = await constraints.enqueue_many([{"host": host} for host in ("x", "x", "y", "y", "z")])
    worker = await constraints.world.worker()
    assert await constraints.take(worker) == [jobs[0], jobs[2], jobs[4]]
    assert await constraints.take(worker) == []


async def test_jobs_without_the_value_of_the_key_are_not_limited(constraints: ConstrainedWorld) -> None:
    await constraints.limit(key="argument.host", concurrency=1)
    jobs = await constraints.enqueue_many([None, {"host": "x"}, {}, {"host": "x"}])
    assert await constraints.take(await constraints.world.worker()) == jobs[:3]


async def test_a_limit_reaches_over_names_and_workers(constraints: ConstrainedWorld) -> None:
    await constraints.limit(concurrency=1)
    a, b = await constraints.enqueue("a"), await constraints.enqueue("b")
    one, two = await constraints.world.worker("a"), await constraints.world.worker("b")
    (job,) = await constraints.claim(one, "a")
    assert await constraints.take(two, "b") == []
    await constraints.succeed(one, job)
    assert (job.job_id, await constraints.take(two, "b")) == (a, [b])


@pytest.mark.parametrize(
    "how", ["success", "failure", "retry", "hand back", "defer", "return", "cancel", "reclaim"]
)
@pytest.mark.parametrize("key", [None, "argument.host"])
async def test_however_a_claim_ends_its_slot_is_free_at_once(
    constraints: ConstrainedWorld, how: str, key: str | None
) -> None:
    world = constraints.world
    one = await constraints.limit(key=key, concurrency=1)
    first, second = await constraints.enqueue_many([{"host": "x"}] * 2)
    worker = await world.worker()
    (claimed,) = await constraints.claim(worker)
    assert claimed.job_id == first
    assert await constraints.take(worker) == []
    job = await world.get(first)
    decisions = {
        "failure": Decision(JobState.FAILED, "failure", is_counted=True),
        "retry": Decision(JobState.RETRYING, "failure", delay_ms=1000, is_counted=True),
        "hand back": Decision(JobState.READY, "handed_back"),
        "defer": Decision(JobState.SCHEDULED, "deferred", delay_ms=1000),
    }
    match how:
        case "success":
            await constraints.succeed(worker, claimed)
        case "return":
            await world.leases.return_offers(world.epoch, worker, [(first, claimed.token)])
        case "cancel":
            assert await world.operator_actions.cancel(first)
        case "reclaim":
            world.pass_ms(LEASE_MS)
            lost = world.settlement(job, job.token, Decision(JobState.READY, "lost", is_loss=True))
            assert await world.leases.reclaim(world.epoch, [lost]) == [True]
        case _:
            settlement = world.settlement(job, job.token, decisions[how])
            assert await world.settlements.settle(worker, [settlement]) == [True]
    assert await constraints.slots(one) == {}
    # The job that became ready again is the older one.
    expected = first if how in ("hand back", "return", "reclaim") else second
    assert await constraints.take(worker) == [expected]


# --- rate


async def test_a_rate_lets_so_many_start_in_any_window_and_counts_both_ends(
    constraints: ConstrainedWorld,
) -> None:
    await constraints.limit(rate=(2, MINUTE_MS))
    jobs = await constraints.enqueue_many(range(5))
    worker = await constraints.world.worker()
    assert await constraints.take(worker, limit=1) == jobs[:1]
    constraints.world.pass_ms(1000)
    assert await constraints.take(worker) == jobs[1:2]
    constraints.world.pass_ms(MINUTE_MS - 1000)
    # Exactly one period after the first start: a clock of milliseconds cannot tell whether it is over.
    assert not await constraints.open_gates()
    assert await constraints.take(worker) == []
    constraints.world.pass_ms(1)
    assert await constraints.open_gates()
    assert await constraints.take(worker) == jobs[2:3]
    constraints.world.pass_ms(1000)
    assert await constraints.open_gates()
    assert await constraints.take(worker) == jobs[3:4]


@pytest.mark.parametrize("key", [None, "argument"])
@pytest.mark.parametrize("ends", [True, False])
async def test_a_rate_that_one_claim_used_up_opens_by_itself_when_its_window_has_passed(
    constraints: ConstrainedWorld, key: str | None, ends: bool
) -> None:
    await constraints.limit(key=key, rate=(2, MINUTE_MS))
    jobs = await constraints.enqueue_many(["x"] * 3)
    worker = await constraints.world.worker()
    claimed = await constraints.claim(worker)
    assert ids(claimed) == jobs[:2]
    if ends:
        await constraints.succeed(worker, *claimed)
    constraints.world.pass_ms(MINUTE_MS)
    assert await constraints.take(worker) == []
    constraints.world.pass_ms(1)
    assert await constraints.open_gates()
    assert await constraints.take(worker) == jobs[2:]


async def test_a_claim_tells_when_a_gate_that_it_closed_opens(constraints: ConstrainedWorld) -> None:
    await constraints.limit(rate=(1, MINUTE_MS))
    await constraints.enqueue_many(range(2))
    worker = await constraints.world.worker()
    opens_in_ms = [(await constraints.claim_once(worker)).opens_in_ms for _ in range(2)]
    assert max(opens_in_ms) == MINUTE_MS + 1


async def test_an_offer_that_is_returned_counts_as_no_start(constraints: ConstrainedWorld) -> None:
    world = constraints.world
    await constraints.limit(rate=(1, MINUTE_MS))
    first, second = await constraints.enqueue_many(range(2))
    worker = await world.worker()
    (claimed,) = await constraints.claim(worker)
    assert await constraints.take(worker) == []
    await world.leases.return_offers(world.epoch, worker, [(first, claimed.token)])
    assert await constraints.take(worker) == [first]
    assert await constraints.take(worker) == []
    assert await world.state(second) is JobState.READY


async def test_a_failed_start_counts_all_the_same(constraints: ConstrainedWorld) -> None:
    await constraints.limit(rate=(1, MINUTE_MS))
    await constraints.enqueue_many(range(2))
    worker = await constraints.world.worker()
    (claimed,) = await constraints.claim(worker)
    await constraints.world.fail(worker, claimed)
    assert await constraints.take(worker) == []


# --- pause, overrides, shadow


async def test_a_pause_lets_nothing_start_until_it_ends(constraints: ConstrainedWorld) -> None:
    one = await constraints.limit(matcher=OF_A, paused=True)
    a, b = await constraints.enqueue("a"), await constraints.enqueue("b")
    worker = await constraints.world.worker("a", "b")
    assert await constraints.take(worker, "a", "b") == [b]
    constraints.world.pass_ms(10 * MINUTE_MS)
    await constraints.open_gates()
    assert await constraints.take(worker, "a", "b") == []
    await constraints.edit(one, paused=False)
    assert await constraints.take(worker, "a", "b") == [a]


async def test_one_value_has_other_limits_and_another_is_paused(constraints: ConstrainedWorld) -> None:
    await constraints.limit(
        key="argument",
        concurrency=1,
        overrides=[override("wide", concurrency=2), override("off", paused=True)],
    )
    jobs = await constraints.enqueue_many(["wide", "wide", "wide", "off", "x", "x"])
    assert await constraints.take(await constraints.world.worker()) == [jobs[0], jobs[1], jobs[4]]


async def test_a_shadow_delays_nothing_and_counts_what_it_would_have_delayed(
    constraints: ConstrainedWorld,
) -> None:
    one = await constraints.limit(concurrency=2, mode=Mode.SHADOW)
    jobs = await constraints.enqueue_many(range(5))
    assert await constraints.take(await constraints.world.worker()) == jobs
    redis, k = constraints.world.redis, constraints.world.shard.keys
    assert await redis.hget(k.shadowed, one.cid) == b"3"


async def test_a_shadow_that_is_enforced_counts_what_runs_already(constraints: ConstrainedWorld) -> None:
    one = await constraints.limit(concurrency=2, mode=Mode.SHADOW)
    jobs = await constraints.enqueue_many(range(4))
    worker = await constraints.world.worker()
    running = await constraints.claim(worker, limit=3)
    await constraints.edit(one, mode=Mode.ENFORCE)
    assert await constraints.take(worker) == []
    await constraints.succeed(worker, *running[:2])
    assert await constraints.take(worker) == jobs[3:]


# --- fair


async def test_fair_serves_the_keys_of_one_priority_in_turn(constraints: ConstrainedWorld) -> None:
    await constraints.limit(key="argument", fair=True)
    jobs = await constraints.enqueue_many(["x"] * 4 + ["y"] * 2 + ["z"])
    worker = await constraints.world.worker()
    order = []
    for _ in range(7):
        order += await constraints.take(worker, limit=1)
        constraints.world.pass_ms(1)
    assert order == [jobs[n] for n in (0, 4, 6, 1, 5, 2, 3)]


async def test_fair_holds_inside_one_claim_over_several_names(constraints: ConstrainedWorld) -> None:
    await constraints.limit(key="argument", fair=True)
    x = await constraints.enqueue_many(["x"] * 2, "a") + await constraints.enqueue_many(["x"] * 2, "b")
    y = await constraints.enqueue_many(["y"] * 2, "b")
    worker = await constraints.world.worker("a", "b", max_jobs=20)
    order = ["x" if job in x else "y" for job in await constraints.take(worker, "a", "b")]
    assert order == ["x", "y", "x", "y", "x", "x"]
    assert len(y) == 2


@pytest.mark.parametrize("fair", [True, ProportionalTurns((TurnShare("y", 2),), 1)])
@pytest.mark.parametrize("at_once", [1, 3])
async def test_the_jobs_of_one_key_start_by_age_whatever_their_names(
    constraints: ConstrainedWorld, fair: bool | ProportionalTurns, at_once: int
) -> None:
    await constraints.limit(key="argument", fair=fair)
    names = "abcd"
    jobs = [await constraints.enqueue(name, "x") for name in names * 3]
    worker = await constraints.world.worker(*names, max_jobs=20)
    order: list[str] = []
    while len(order) < len(jobs):
        order += await constraints.take(worker, *names, limit=at_once)
        constraints.world.pass_ms(1)
    assert order == jobs


async def test_fair_comes_after_priority(constraints: ConstrainedWorld) -> None:
    await constraints.limit(key="argument", fair=True)
    later = await constraints.enqueue_many(["y"] * 2, priority=1)
    sooner = await constraints.enqueue_many(["x"] * 3, priority=0)
    assert await constraints.take(await constraints.world.worker()) == sooner + later


async def test_when_fair_ends_the_oldest_comes_first_again(constraints: ConstrainedWorld) -> None:
    one = await constraints.limit(key="argument", fair=True, concurrency=9)
    jobs = await constraints.enqueue_many(["x"] * 3 + ["y"] * 3)
    worker = await constraints.world.worker()
    assert await constraints.take(worker, limit=2) == [jobs[0], jobs[3]]
    await constraints.edit(one, fair=False)
    assert await constraints.take(worker) == [jobs[n] for n in (1, 2, 4, 5)]


@pytest.mark.parametrize("how", ["remove", "disable", "shadow"])
async def test_a_fair_constraint_that_is_gone_leaves_no_order_behind(
    constraints: ConstrainedWorld, how: str
) -> None:
    one = await constraints.limit(key="argument", fair=True)
    jobs = await constraints.enqueue_many(["x"] * 3 + ["y"] * 3)
    worker = await constraints.world.worker()
    await constraints.take(worker, limit=2)
    match how:
        case "remove":
            await constraints.remove()
        case "disable":
            await constraints.edit(one, enabled=False)
        case "shadow":
            await constraints.edit(one, mode=Mode.SHADOW)
    assert await constraints.take(worker) == [jobs[n] for n in (1, 2, 4, 5)]


async def test_jobs_that_wait_already_are_served_in_turn_when_fair_begins(
    constraints: ConstrainedWorld,
) -> None:
    one = await constraints.limit(key="argument", concurrency=9)
    jobs = await constraints.enqueue_many(["x"] * 3 + ["y"] * 3)
    await constraints.edit(one, fair=True)
    order = await constraints.take(await constraints.world.worker())
    assert order == [jobs[n] for n in (0, 3, 1, 4, 2, 5)]


# --- hold


async def test_a_hold_keeps_everything_of_its_key_until_then(constraints: ConstrainedWorld) -> None:
    world = constraints.world
    one = await constraints.limit(key="argument", concurrency=5)
    first, other, second = await constraints.enqueue_many(["x", "y", "x"])
    worker = await world.worker()
    (claimed,) = await constraints.claim(worker, limit=1)
    held = gate_id(one.cid, key_value("x"))
    deferred = Decision(JobState.SCHEDULED, "deferred", delay_ms=1000)
    settlement = world.settlement(await world.get(first), claimed.token, deferred)
    assert await world.settlements.settle(worker, [replace(settlement, hold=GateHold(held, 5000))]) == [True]
    assert await constraints.take(worker) == [other]
    world.pass_ms(4999)
    await world.due.promote(world.epoch, JobState.SCHEDULED)
    assert not await constraints.open_gates()
    assert await constraints.take(worker) == []
    world.pass_ms(1)
    assert await constraints.open_gates()
    assert await constraints.take(worker) == [first, second]


# --- backlog


async def test_a_full_backlog_refuses_one_job_and_takes_it_when_another_has_started(
    constraints: ConstrainedWorld,
) -> None:
    one = await constraints.limit(max_backlog=2)
    await constraints.enqueue_many(range(2))
    spec = constraints.world.spec()
    assert await constraints.push([spec]) == [BacklogFull(gate_id(one.cid, None))]
    await constraints.take(await constraints.world.worker(), limit=1)
    assert await constraints.push([spec]) == [Accepted.NEW]


async def test_jobs_that_wait_for_a_time_count_into_the_backlog(constraints: ConstrainedWorld) -> None:
    world = constraints.world
    await constraints.limit(max_backlog=2)
    await constraints.enqueue(delay_ms=1000)
    await constraints.enqueue()
    worker = await world.worker()
    (claimed,) = await constraints.claim(worker)
    job = await world.get(claimed.job_id)
    retrying = Decision(JobState.RETRYING, "failure", delay_ms=1000, is_counted=True)
    assert await world.settlements.settle(worker, [world.settlement(job, job.token, retrying)]) == [True]
    (refused,) = await constraints.push([world.spec()])
    assert isinstance(refused, BacklogFull)


async def test_a_bulk_is_refused_whole_and_otherwise_job_by_job(constraints: ConstrainedWorld) -> None:
    world = constraints.world
    await constraints.limit(key="argument", max_backlog=2)
    specs = [world.spec(argument=key) for key in ("x", "y", "x", "x", "y")]
    async with world.unchanged():
        with pytest.raises(PushRefused) as refused:
            await constraints.push(specs, is_whole=True)
    assert {type(reason) for reason in refused.value.refused.values()} == {BacklogFull}
    answers = await constraints.push(specs)
    assert [answer is Accepted.NEW for answer in answers] == [True, True, True, False, True]


@pytest.mark.parametrize("place", [0, 599])
async def test_a_large_bulk_is_let_in_when_only_a_few_of_its_jobs_are_bounded(
    constraints: ConstrainedWorld, place: int
) -> None:
    world = constraints.world
    await constraints.limit(matcher=OF_B, max_backlog=3)
    specs = [world.spec("a") for _ in range(600)]
    specs[place] = world.spec("b")
    assert set(await constraints.push(specs, is_whole=True)) == {Accepted.NEW}


@pytest.mark.parametrize("start", [0, 300, 590])
async def test_a_large_bulk_is_refused_whole_wherever_the_one_too_many_stands(
    constraints: ConstrainedWorld, start: int
) -> None:
    world = constraints.world
    await constraints.limit(matcher=OF_B, max_backlog=3)
    specs = [world.spec("b" if start <= n < start + 4 else "a") for n in range(600)]
    async with world.unchanged():
        with pytest.raises(PushRefused) as refused:
            await constraints.push(specs, is_whole=True)
    assert {type(reason) for reason in refused.value.refused.values()} == {BacklogFull}


async def test_a_repeat_of_a_bulk_that_filled_the_backlog_is_known(constraints: ConstrainedWorld) -> None:
    await constraints.limit(max_backlog=2)
    specs = [constraints.world.spec() for _ in range(2)]
    assert await constraints.push(specs, is_whole=True) == [Accepted.NEW] * 2
    assert await constraints.push(specs, is_whole=True) == [Accepted.KNOWN] * 2


async def test_a_repeat_of_a_large_bulk_that_filled_the_backlog_is_known(
    constraints: ConstrainedWorld,
) -> None:
    await constraints.limit(max_backlog=600)
    specs = [constraints.world.spec() for _ in range(600)]
    assert await constraints.push(specs, is_whole=True) == [Accepted.NEW] * 600
    assert await constraints.push(specs, is_whole=True) == [Accepted.KNOWN] * 600


# --- several constraints, order


async def test_all_constraints_that_match_must_admit_a_job(constraints: ConstrainedWorld) -> None:
    await constraints.limit("all", concurrency=3)
    await constraints.limit("hosts", key="argument.host", concurrency=2)
    await constraints.limit("tenants", key="argument.tenant", concurrency=1)
    jobs = await constraints.enqueue_many(
        [
            {"host": h, "tenant": t}
            for h, t in (("x", 1), ("x", 1), ("x", 2), ("x", 3), ("y", 1), ("y", 4), ("y", 5))
        ]
    )
    worker = await constraints.world.worker()
    assert await constraints.take(worker) == [jobs[0], jobs[2], jobs[5]]


async def test_priority_and_then_age_decide_over_lanes_and_names(constraints: ConstrainedWorld) -> None:
    await constraints.limit(key="argument", concurrency=5)
    specs = [("a", "x", 3), ("b", "y", 1), ("a", None, 2), ("b", "x", 1), ("a", "y", 1), ("b", None, 3)]
    jobs = [
        await constraints.enqueue(name, argument, priority=priority) for name, argument, priority in specs
    ]
    worker = await constraints.world.worker("a", "b")
    assert await constraints.take(worker, "a", "b") == [jobs[n] for n in (1, 3, 4, 2, 0, 5)]


async def test_a_blocked_head_blocks_nobody_behind_it(constraints: ConstrainedWorld) -> None:
    await constraints.limit(key="argument", concurrency=1, overrides=[override("off", paused=True)])
    await constraints.enqueue_many(["off"] * 700)
    await constraints.enqueue_many([f"off{n}" for n in range(3)], priority=5)
    free = await constraints.enqueue_many(["x", "y", None], priority=9)
    taken = await constraints.take(await constraints.world.worker(max_jobs=50))
    assert taken[3:] == free


async def test_a_better_job_of_a_closed_lane_comes_first_when_its_gate_has_opened(
    constraints: ConstrainedWorld,
) -> None:
    """Its lane came to the gate for a job of lower priority, behind another lane that now represents it."""
    world = constraints.world
    await constraints.limit("host", key="argument.host", concurrency=1)
    await constraints.limit("user", key="argument.user", concurrency=5)
    worker = await world.worker()
    running = await constraints.enqueue(argument={"host": "x", "user": 0})
    (claimed,) = await constraints.claim(worker)
    assert claimed.job_id == running
    one = await constraints.enqueue(argument={"host": "x", "user": 1}, priority=5)
    two = await constraints.enqueue(argument={"host": "x", "user": 2}, priority=6)
    assert await constraints.take(worker) == []
    await constraints.succeed(worker, claimed)
    best = await constraints.enqueue(argument={"host": "x", "user": 2}, priority=0)
    (claimed,) = await constraints.claim(worker)
    assert claimed.job_id == best
    await constraints.succeed(worker, claimed)
    (claimed,) = await constraints.claim(worker)
    assert claimed.job_id == one
    await constraints.succeed(worker, claimed)
    assert await constraints.take(worker) == [two]


@pytest.mark.parametrize("limit", [2, 3])
async def test_the_better_of_two_kinds_of_jobs_behind_one_gate_comes_first_within_one_claim(
    constraints: ConstrainedWorld, limit: int
) -> None:
    """The lane that represents the other at the gate has a worse job behind its first one."""
    world = constraints.world
    host = await constraints.limit("host", key="argument.host", concurrency=1)
    await constraints.limit("user", key="argument.user", concurrency=5)
    worker = await world.worker(max_jobs=10)
    await constraints.enqueue(argument={"host": "x", "user": 0})
    await constraints.claim(worker)
    first = await constraints.enqueue(argument={"host": "x", "user": 1}, priority=5)
    worst = await constraints.enqueue(argument={"host": "x", "user": 1}, priority=9)
    middle = await constraints.enqueue(argument={"host": "x", "user": 2}, priority=6)
    assert await constraints.take(worker) == []
    await constraints.edit(host, concurrency=5)
    assert await constraints.take(worker, limit=limit) == [first, middle, worst][:limit]


@pytest.mark.parametrize("how", ["cancel", "patch"])
async def test_when_the_first_job_of_an_open_lane_goes_a_better_one_behind_the_same_gate_is_next(
    constraints: ConstrainedWorld, how: str
) -> None:
    world = constraints.world
    await constraints.limit("host", key="argument.host", concurrency=1)
    await constraints.limit("user", key="argument.user", concurrency=5)
    worker = await world.worker()
    await constraints.enqueue(argument={"host": "x", "user": 0})
    (claimed,) = await constraints.claim(worker)
    first = await constraints.enqueue(argument={"host": "x", "user": 1}, priority=0)
    last = await constraints.enqueue(argument={"host": "x", "user": 1}, priority=8)
    middle = await constraints.enqueue(argument={"host": "x", "user": 2}, priority=4)
    assert await constraints.take(worker) == []
    await constraints.succeed(worker, claimed)
    if how == "cancel":
        await world.operator_actions.cancel(first)
    else:
        job = await world.get(first)
        await constraints.constraints.under(
            lambda r: world.operator_actions.patch(job, Changes(priority=9), r)
        )
    (claimed,) = await constraints.claim(worker)
    assert claimed.job_id == middle
    await constraints.succeed(worker, claimed)
    assert await constraints.take(worker) == [last]


@pytest.mark.parametrize("limit", [1, 2, 3])
async def test_an_expired_job_in_front_of_a_lane_lets_no_worse_job_of_it_pass(
    constraints: ConstrainedWorld, limit: int
) -> None:
    """There are more lanes than a claim looks at: those that it skipped may be better than the rest of those it saw."""
    world = constraints.world
    await constraints.limit(key="argument", fair=True)
    over = world.now_ms + 10
    for n, key in enumerate("abcd"):
        await constraints.enqueue(argument=key, priority=0, expires_at_ms=over)
        await constraints.enqueue(argument=key, priority=9 - n)
    best = await constraints.enqueue(argument="e", priority=1)
    world.pass_ms(20)
    assert (await constraints.take(await world.worker(), limit=limit))[0] == best


# --- constraints that change


async def test_changed_limits_are_in_force_at_once(constraints: ConstrainedWorld) -> None:
    one = await constraints.limit(concurrency=3)
    jobs = await constraints.enqueue_many(range(6))
    worker = await constraints.world.worker(max_jobs=20)
    running = await constraints.claim(worker)
    lower = replace(one, concurrency=1)
    assert await constraints.change("limit", lower)
    # The change was acknowledged: it needed no follow-up.
    await constraints.succeed(worker, *running[:2])
    assert await constraints.take(worker) == []
    await constraints.succeed(worker, running[2])
    assert await constraints.take(worker) == jobs[3:4]
    await constraints.edit(lower, concurrency=3)
    assert await constraints.take(worker) == jobs[4:]


async def test_nothing_starts_under_the_old_rules_once_a_change_was_acknowledged(
    constraints: ConstrainedWorld,
) -> None:
    world = constraints.world
    await constraints.enqueue_many(range(3))
    worker = await world.worker()
    assert await constraints.change("limit", constraint(concurrency=1))
    for edition in (0, 1):
        claim = await world.claims.claim(world.epoch, worker, ("work",), 5, edition)
        assert claim is NotClaimed.STALE_CONSTRAINTS
    await constraints.follow_up()
    assert len(await constraints.take(worker)) == 1


async def test_running_jobs_get_the_slots_of_a_new_constraint_and_lose_those_of_one_that_no_longer_matches(
    constraints: ConstrainedWorld,
) -> None:
    jobs = [await constraints.enqueue(name) for name in ("a", "a", "b")]
    worker = await constraints.world.worker("a", "b")
    assert await constraints.take(worker, "a", "b") == jobs
    one = await constraints.limit(matcher=OF_A, concurrency=1)
    gate = gate_id(one.cid, None)
    assert await constraints.slots(one) == {gate: set(jobs[:2])}
    waiting = [await constraints.enqueue(name) for name in ("a", "b")]
    assert await constraints.take(worker, "a", "b") == waiting[1:]
    await constraints.edit(one, matcher=parse_matcher(OF_B))
    assert await constraints.slots(one) == {gate: {jobs[2], waiting[1]}}
    assert await constraints.take(worker, "a", "b") == waiting[:1]


async def test_starts_of_running_jobs_count_into_a_new_rate(constraints: ConstrainedWorld) -> None:
    jobs = await constraints.enqueue_many(range(3))
    worker = await constraints.world.worker()
    await constraints.take(worker, limit=2)
    await constraints.limit(rate=(2, MINUTE_MS))
    assert await constraints.take(worker) == []
    constraints.world.pass_ms(MINUTE_MS + 1)
    await constraints.open_gates()
    assert await constraints.take(worker) == jobs[2:]


async def test_scheduled_and_retrying_jobs_come_under_newer_rules_before_they_are_ready(
    constraints: ConstrainedWorld,
) -> None:
    world = constraints.world
    scheduled = await constraints.enqueue(delay_ms=1000)
    worker, claimed = await world.running()
    job = await world.get(claimed.job_id)
    retrying = Decision(JobState.RETRYING, "failure", delay_ms=1000, is_counted=True)
    assert await world.settlements.settle(worker, [world.settlement(job, job.token, retrying)]) == [True]
    one = await constraints.limit(paused=True)
    world.pass_ms(1000)
    for state in (JobState.SCHEDULED, JobState.RETRYING):
        await world.due.promote(world.epoch, state)
    assert await constraints.take(worker) == []
    await constraints.edit(one, paused=False)
    assert set(await constraints.take(worker)) == {scheduled, claimed.job_id}


async def test_a_finished_job_that_is_retried_comes_under_the_present_rules(
    constraints: ConstrainedWorld,
) -> None:
    world = constraints.world
    job_id = await constraints.enqueue()
    worker = await world.worker()
    await constraints.succeed(worker, *await constraints.claim(worker))
    one = await constraints.limit(paused=True)
    job = await world.get(job_id)
    await constraints.constraints.under(lambda r: world.operator_actions.retry(job, r))
    assert await constraints.take(worker) == []
    await constraints.edit(one, paused=False)
    assert await constraints.take(worker) == [job_id]


async def test_a_priority_that_is_patched_moves_the_job_to_where_it_belongs(
    constraints: ConstrainedWorld,
) -> None:
    world = constraints.world
    await constraints.limit(matcher={"field": "priority", "op": "ge", "value": 5}, paused=True)
    job_id, other = await constraints.enqueue(priority=5), await constraints.enqueue(priority=1)
    worker = await world.worker()
    assert await constraints.take(worker) == [other]
    job = await world.get(job_id)
    await constraints.constraints.under(lambda r: world.operator_actions.patch(job, Changes(priority=4), r))
    assert await constraints.take(worker) == [job_id]


@pytest.mark.parametrize("key", [None, "argument"])
@pytest.mark.parametrize("how", ["remove", "disable"])
async def test_the_jobs_of_a_constraint_that_is_gone_are_free_at_once(
    constraints: ConstrainedWorld, key: str | None, how: str
) -> None:
    one = await constraints.limit(key=key, paused=True, concurrency=1)
    jobs = await constraints.enqueue_many([n % 3 for n in range(9)])
    worker = await constraints.world.worker()
    assert await constraints.take(worker) == []
    if how == "remove":
        await constraints.remove()
    else:
        await constraints.edit(one, enabled=False)
    assert await constraints.take(worker, limit=4) == jobs[:4]
    assert await constraints.take(worker) == jobs[4:]


async def test_a_constraint_that_comes_back_counts_what_started_meanwhile(
    constraints: ConstrainedWorld,
) -> None:
    one = await constraints.limit(concurrency=1)
    jobs = await constraints.enqueue_many(range(4))
    worker = await constraints.world.worker()
    assert await constraints.take(worker) == jobs[:1]
    await constraints.edit(one, enabled=False)
    assert await constraints.take(worker, limit=2) == jobs[1:3]
    await constraints.edit(one, enabled=True)
    assert await constraints.slots(one) == {gate_id(one.cid, None): set(jobs[:3])}
    assert await constraints.take(worker) == []


async def test_jobs_under_different_limits_count_together_where_they_share_one(
    constraints: ConstrainedWorld,
) -> None:
    every = await constraints.limit("every", concurrency=3)
    urgent = await constraints.limit("urgent", {"field": "argument", "op": "eq", "value": 1}, concurrency=1)
    worker = await constraints.world.worker()
    jobs = await constraints.enqueue_many([0, 1, 0, 1, 0, 0])
    first, second, third = await constraints.claim(worker)
    assert [job.job_id for job in (first, second, third)] == jobs[:3]
    assert await constraints.slots(every) == {gate_id(every.cid, None): set(jobs[:3])}
    assert await constraints.slots(urgent) == {gate_id(urgent.cid, None): {jobs[1]}}
    await constraints.succeed(worker, first)
    assert await constraints.take(worker) == [jobs[4]]
    await constraints.succeed(worker, second)
    assert await constraints.take(worker) == [jobs[3]]


async def test_a_shorter_window_opens_the_gate_sooner(constraints: ConstrainedWorld) -> None:
    one = await constraints.limit(rate=(1, 10 * MINUTE_MS))
    jobs = await constraints.enqueue_many(range(2))
    worker = await constraints.world.worker()
    assert await constraints.take(worker) == jobs[:1]
    constraints.world.pass_ms(MINUTE_MS + 1)
    assert await constraints.take(worker) == []
    await constraints.edit(one, rate=Rate(1, MINUTE_MS))
    assert await constraints.take(worker) == jobs[1:]


@pytest.mark.req("J13")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((3, 1_000), (20, 2_000)),
        ((10, 1_000), (20, 2_000)),
        ((5, 1_000), (5, 20_000)),
        ((1, 400), (9, 60_000)),
    ],
)
@pytest.mark.parametrize("key", [None, "argument"])
async def test_a_longer_window_counts_what_started_before_it_was_made_longer(
    constraints: ConstrainedWorld, before: tuple[int, int], after: tuple[int, int], key: str | None
) -> None:
    one = await constraints.limit(key=key, rate=before)
    await constraints.enqueue_many(["x"] * 200)
    worker = await constraints.world.worker(max_jobs=1000)
    starts: list[int] = []

    async def run_for(duration_ms: int, step_ms: int) -> None:
        for _ in range(duration_ms // step_ms):
            await constraints.open_gates()
            starts.extend([constraints.world.now_ms] * len(await constraints.take(worker)))
            constraints.world.pass_ms(step_ms)

    await run_for(4_000, 50)
    changed_ms = constraints.world.now_ms
    await constraints.edit(one, rate=Rate(*after))
    limit, period_ms = after
    known = sum(at_ms >= changed_ms - period_ms for at_ms in starts)
    usage = UsageStore(constraints.world.shard, constraints.world.records)
    (gate,) = await usage.gates([gate_id(one.cid, key_value("x") if key else None)])
    assert gate.starts == known
    await run_for(5_000, 50)
    for at_ms in starts:
        if at_ms >= changed_ms:
            assert sum(at_ms - period_ms <= other_ms <= at_ms for other_ms in starts) <= limit


@pytest.mark.req("J13")
async def test_a_value_that_gets_a_rate_of_its_own_counts_what_started_before(
    constraints: ConstrainedWorld,
) -> None:
    one = await constraints.limit(key="argument", overrides=[override("y", rate=(1, MINUTE_MS))])
    jobs = await constraints.enqueue_many(["x"] * 3)
    worker = await constraints.world.worker()
    assert await constraints.take(worker, limit=2) == jobs[:2]
    constraints.world.pass_ms(1000)
    await constraints.edit(one, rate=Rate(2, MINUTE_MS))
    assert await constraints.take(worker) == []
    constraints.world.pass_ms(MINUTE_MS - 999)
    await constraints.open_gates()
    assert await constraints.take(worker) == jobs[2:]


@pytest.mark.req("J13")
async def test_a_gate_remembers_no_more_starts_than_its_period_or_a_thousand(
    constraints: ConstrainedWorld,
) -> None:
    one = await constraints.limit(rate=(400, 1_000))
    await constraints.enqueue_many(["x"] * 2_000)
    worker = await constraints.world.worker(max_jobs=10_000)
    for _ in range(5):
        for _ in range(4):
            await constraints.take(worker, limit=100)
        constraints.world.pass_ms(1_001)
        await constraints.open_gates()
    starts_key = constraints.world.shard.keys.starts(gate_id(one.cid, None))
    assert await constraints.world.redis.zcard(starts_key) == 800


async def test_with_the_last_job_goes_all_that_was_kept_of_its_lane_and_gates(
    constraints: ConstrainedWorld,
) -> None:
    world = constraints.world
    await constraints.limit(key="argument", concurrency=1, fair=True)
    worker = await world.worker(max_jobs=100)
    jobs = await constraints.enqueue_many([n % 20 for n in range(60)])
    for _ in range(3):
        await constraints.succeed(worker, *await constraints.claim(worker))
    # Some of the jobs at the closed gates never started.
    rest = await constraints.enqueue_many([n % 20 for n in range(60)])
    assert len(await constraints.take(worker)) == 20
    for job_id in rest:
        await world.operator_actions.cancel(job_id)
    for job_id in jobs + rest:
        await world.operator_actions.delete(job_id)
    async for lanes in constraints.lanes.lane_pages():
        await constraints.lanes.prune(world.epoch, lanes)
    await world.prune_gates()
    kinds = {key.removeprefix(world.shard.keys.tag).split(":")[0] for key in await world.dump()}
    of_lanes = {"lane", "lanes", "names", "open", "open_groups", "parked", "ready", "waiters", "closed"}
    assert kinds & (of_lanes | {"slots", "gates", "crowded", "served"}) == set()


async def test_gates_that_nothing_needs_go_however_many_others_are_in_use(
    constraints: ConstrainedWorld,
) -> None:
    world = constraints.world
    one = await constraints.limit(key="argument", concurrency=1)
    worker = await world.worker(max_jobs=2000)
    await constraints.enqueue_many(range(700))
    claimed = await constraints.claim(worker, limit=700)
    await constraints.succeed(worker, *claimed[:40])
    await world.prune_gates()
    assert await world.redis.hlen(world.shard.keys.gates(one.cid)) == 660


async def test_a_gate_that_only_running_jobs_have_passed_is_listed_with_its_value(
    constraints: ConstrainedWorld,
) -> None:
    world = constraints.world
    await constraints.enqueue(argument="x")
    worker = await world.worker()
    await constraints.take(worker)
    one = await constraints.limit(key="argument", concurrency=1)
    await world.prune_gates()
    redis, k = world.redis, world.shard.keys
    gate = gate_id(one.cid, key_value("x"))
    assert await redis.hgetall(k.gates(one.cid)) == {gate.encode(): b"0:x"}


async def test_nothing_of_a_removed_constraint_is_kept_when_its_last_job_comes_back_and_ends(
    constraints: ConstrainedWorld,
) -> None:
    """The leader forgot the constraint while nothing waited for it; a job that ran under it may wait again."""
    world = constraints.world
    one = await constraints.limit(key="argument", concurrency=1)
    worker = await world.worker()
    await constraints.enqueue(argument="x")
    (claimed,) = await constraints.claim(worker)
    await constraints.change(one.name, None)
    key = world.shard.keys.gates(one.cid)
    await world.redis.delete(key)
    await world.prune_gates()
    await world.leases.return_offers(world.epoch, worker, [(claimed.job_id, claimed.token)])
    await world.operator_actions.cancel(claimed.job_id)
    assert not await world.redis.exists(key)


# --- cost


async def commands(world: StoreWorld) -> int:
    """Return how many commands the server has run, including those of scripts."""
    stats = await world.redis.info("commandstats")
    return sum(int(of_one["calls"]) for of_one in stats.values())


async def test_a_claim_costs_the_same_behind_ten_closed_lanes_and_behind_two_thousand(
    constraints: ConstrainedWorld,
) -> None:
    world = constraints.world
    await constraints.limit(key="argument.tenant", concurrency=1, overrides=[override("off", paused=True)])
    worker = await world.worker("work", "free", max_jobs=5000)
    costs, count = [], 0
    for closed in (10, 2000):
        tenants = range(count, closed)
        await constraints.enqueue_many([{"tenant": n} for n in tenants] * 2)
        # Closed gates are looked at once, and never again.
        assert len(await constraints.take(worker, limit=3000)) == len(tenants)
        count = closed
        await constraints.enqueue_many([None] * 40, "free")
        await constraints.enqueue_many([{"tenant": "open"}])
        before = await commands(world)
        claimed = await constraints.claim(worker, "work", "free", limit=50)
        assert len(claimed) == 41
        assert await constraints.take(worker, "work", "free", limit=50) == []
        await constraints.succeed(worker, *claimed)
        costs.append(await commands(world) - before)
    assert costs[1] <= costs[0] + 5, costs
