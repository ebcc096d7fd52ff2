"""Limits that count units instead of jobs, one idea per test, on the real server."""

import struct
from dataclasses import replace

import pytest

from jqmaster.domain.constraints.constraint import Mode, gate_id
from jqmaster.domain.constraints.weight import Weight
from jqmaster.domain.jobs.job import JobSpec, JobState
from jqmaster.domain.jobs.outcome import Decision, UsedUnits
from jqmaster.domain.matching.key_value import key_value
from jqmaster.domain.matching.paths import parse_path
from jqmaster.errors import DamagedError
from jqmaster.store import codec
from jqmaster.store.constraints.usage import UsageStore
from jqmaster.store.jobs.claims import ClaimedJob
from jqmaster.store.jobs.settlements import Settled, Successes
from tests.support.constraints import ConstrainedWorld, override
from tests.support.store import LEASE_MS, StoreWorld

pytestmark = pytest.mark.req("D30")

MINUTE_MS = 60_000
TOKENS = Weight(parse_path("argument.tokens"), 1000, "tokens")
OF_A = {"field": "name", "op": "eq", "value": "a"}


@pytest.fixture
def constraints(world: StoreWorld) -> ConstrainedWorld:
    return ConstrainedWorld(world)


def of(*tokens: object, **fields: object) -> list[dict[str, object]]:
    return [{"tokens": one, **fields} for one in tokens]


async def use(constraints: ConstrainedWorld, worker: str, job: ClaimedJob, **used: float) -> None:
    """End an attempt as succeeded, with what it has used."""
    reported = {unit: round(number * 1000) for unit, number in used.items()}
    ended = [(job.job_id, job.token, b"")]
    settled = await constraints.world.settlements.settle_success(
        worker, ended, {job.job_id: UsedUnits(0, reported)}
    )
    assert settled == [True]


async def charged(
    constraints: ConstrainedWorld, cid: str, value: object = None
) -> tuple[int | None, int | None]:
    """Return the units charged to running jobs, and within the period."""
    key = None if value is None else key_value(value)
    usage = UsageStore(constraints.world.shard, constraints.world.records)
    (gate,) = await usage.gates([gate_id(cid, key)])
    counts = [None if one is None else one // 1000 for one in (gate.running_units, gate.window_units)]
    return counts[0], counts[1]


# --- room


async def test_concurrency_counts_the_units_of_running_jobs(constraints: ConstrainedWorld) -> None:
    one = await constraints.limit(concurrency=10, weight=TOKENS)
    jobs = await constraints.enqueue_many(of(4, 5, 2, 1))
    worker = await constraints.world.worker()
    first = await constraints.claim(worker)
    assert [job.job_id for job in first] == jobs[:2]
    assert await charged(constraints, one.cid) == (9, None)
    await constraints.succeed(worker, first[0])
    assert await constraints.take(worker) == jobs[2:]
    assert await charged(constraints, one.cid) == (8, None)


async def test_a_rate_counts_the_units_that_started_in_any_window(constraints: ConstrainedWorld) -> None:
    one = await constraints.limit(rate=(10, MINUTE_MS), weight=TOKENS)
    jobs = await constraints.enqueue_many(of(6, 3, 2, 6))
    worker = await constraints.world.worker()
    first = await constraints.claim(worker)
    assert [job.job_id for job in first] == jobs[:2]
    await constraints.succeed(worker, *first)
    assert await charged(constraints, one.cid) == (None, 9)
    constraints.world.pass_ms(MINUTE_MS)
    assert await constraints.take(worker) == []
    constraints.world.pass_ms(1)
    assert await constraints.open_gates()
    assert await constraints.take(worker) == jobs[2:]
    assert await charged(constraints, one.cid) == (None, 8)


async def test_weights_may_have_three_decimals_and_their_sum_is_exact(constraints: ConstrainedWorld) -> None:
    await constraints.limit(concurrency=1, weight=TOKENS)
    jobs = await constraints.enqueue_many(of(*[0.1] * 11))
    assert await constraints.take(await constraints.world.worker(max_jobs=20)) == jobs[:10]


async def test_the_greatest_weights_are_charged_exactly(constraints: ConstrainedWorld) -> None:
    one = await constraints.limit(concurrency=1_000_000_000, rate=(1_000_000_000, MINUTE_MS), weight=TOKENS)
    jobs = await constraints.enqueue_many(of(999_999_999.998, 0.002, 0.001))
    worker = await constraints.world.worker()
    first = await constraints.claim(worker)
    assert [job.job_id for job in first] == jobs[:2]
    assert await charged(constraints, one.cid) == (1_000_000_000, 1_000_000_000)
    redis, keys = constraints.world.redis, constraints.world.shard.keys
    entries = await redis.hgetall(keys.charges(gate_id(one.cid, None)))
    assert [entries[job.encode()][16:] for job in jobs[:2]] == [b"999999999998", b"2"]
    await constraints.succeed(worker, *first)
    assert await charged(constraints, one.cid) == (0, 1_000_000_000)


async def test_a_job_that_does_not_fit_stays_first_in_its_lane(constraints: ConstrainedWorld) -> None:
    """Another name has a lane of its own, which goes on."""
    await constraints.limit(matcher=OF_A, concurrency=10, weight=TOKENS)
    jobs = await constraints.enqueue_many(of(6, 6, 1), "a")
    others = await constraints.enqueue_many(range(3), "b")
    worker = await constraints.world.worker("a", "b")
    (first, *rest) = await constraints.claim(worker, "a", "b")
    assert [job.job_id for job in (first, *rest)] == [jobs[0], *others]
    await constraints.succeed(worker, first)
    assert await constraints.take(worker, "a", "b") == jobs[1:]


@pytest.mark.parametrize(
    "argument", [None, {}, {"tokens": "5"}, {"tokens": True}, {"tokens": -1}, {"tokens": float("nan")}]
)
async def test_a_job_without_such_a_number_weighs_the_default(
    constraints: ConstrainedWorld, argument: object
) -> None:
    one = await constraints.limit(concurrency=10, weight=replace(TOKENS, default=7000))
    first, _ = await constraints.enqueue_many([argument] * 2)
    assert await constraints.take(await constraints.world.worker()) == [first]
    assert await charged(constraints, one.cid) == (7, None)


async def test_another_default_counts_for_jobs_that_wait(constraints: ConstrainedWorld) -> None:
    one = await constraints.limit(concurrency=10, weight=Weight(None, 10_000, "tokens"))
    jobs = await constraints.enqueue_many(range(3))
    worker = await constraints.world.worker()
    (first,) = await constraints.claim(worker)
    await constraints.edit(one, weight=Weight(None, 5_000, "tokens"))
    assert await constraints.take(worker) == []
    await constraints.succeed(worker, first)
    assert await constraints.take(worker) == jobs[1:]


async def test_a_job_heavier_than_the_limit_starts_alone(constraints: ConstrainedWorld) -> None:
    one = await constraints.limit(concurrency=10, rate=(20, MINUTE_MS), weight=TOKENS)
    jobs = await constraints.enqueue_many(of(1, 50, 1))
    worker = await constraints.world.worker()
    (first,) = await constraints.claim(worker)
    await constraints.succeed(worker, first)
    assert await constraints.take(worker) == []  # it waits until the window is empty as well
    constraints.world.pass_ms(MINUTE_MS + 1)
    assert await constraints.open_gates()
    (heavy,) = await constraints.claim(worker)
    assert (first.job_id, heavy.job_id) == tuple(jobs[:2])
    assert await charged(constraints, one.cid) == (50, 50)
    await constraints.succeed(worker, heavy)
    constraints.world.pass_ms(MINUTE_MS + 1)
    await constraints.open_gates()
    assert await constraints.take(worker) == jobs[2:]


async def test_each_value_of_the_key_has_its_units(constraints: ConstrainedWorld) -> None:
    one = await constraints.limit(
        key="argument.host", concurrency=10, weight=TOKENS, overrides=[override("y", concurrency=3)]
    )
    jobs = await constraints.enqueue_many([*of(6, 6, host="x"), *of(3, 1, host="y"), *of(1, host="x")])
    worker = await constraints.world.worker()
    claimed = await constraints.claim(worker)
    assert [job.job_id for job in claimed] == [jobs[0], jobs[2]]
    assert await charged(constraints, one.cid, "x") == (6, None)
    await constraints.succeed(worker, *claimed)
    assert sorted(await constraints.take(worker)) == sorted([jobs[1], jobs[3], jobs[4]])


async def test_all_limits_of_a_job_count_their_own_units(constraints: ConstrainedWorld) -> None:
    await constraints.limit("tokens", rate=(100, MINUTE_MS), weight=TOKENS)
    await constraints.limit("requests", rate=(2, MINUTE_MS))
    money = Weight(parse_path("argument.price"), 0, "yen")
    await constraints.limit("money", key="argument.host", concurrency=50, weight=money)
    jobs = await constraints.enqueue_many(
        [{"tokens": 60, "price": 50, "host": "x"}, {"tokens": 10, "price": 1, "host": "x"}, {"tokens": 10, "host": "y"},
         {"tokens": 10, "host": "y"}]
    )  # fmt: skip
    assert await constraints.take(await constraints.world.worker()) == [jobs[0], jobs[2]]


async def test_a_shadow_counts_the_starts_that_it_would_have_delayed(constraints: ConstrainedWorld) -> None:
    one = await constraints.limit(concurrency=10, weight=TOKENS, mode=Mode.SHADOW)
    jobs = await constraints.enqueue_many(of(8, 3, 1))
    assert await constraints.take(await constraints.world.worker()) == jobs
    usage = UsageStore(constraints.world.shard, constraints.world.records)
    assert [delayed for _, delayed in await usage.counts([one.cid])] == [2]


# --- the ends of attempts


@pytest.mark.parametrize("how", ["success", "failure", "hand back", "return", "cancel", "reclaim"])
@pytest.mark.parametrize("key", [None, "argument.host"])
async def test_however_a_claim_ends_it_gives_back_what_it_took(
    constraints: ConstrainedWorld, how: str, key: str | None
) -> None:
    world = constraints.world
    one = await constraints.limit(key=key, concurrency=10, rate=(100, MINUTE_MS), weight=TOKENS)
    value = None if key is None else "x"
    first, _ = await constraints.enqueue_many(of(7, 4, host="x"))
    worker = await world.worker()
    (claimed,) = await constraints.claim(worker)
    assert await charged(constraints, one.cid, value) == (7, 7)
    assert await constraints.take(worker) == []
    await constraints.edit(one, weight=replace(TOKENS, path=parse_path("argument.other")))
    job = await world.get(first)
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
        case "failure":
            await world.fail(worker, claimed)
        case _:
            settlement = world.settlement(job, job.token, Decision(JobState.READY, "handed_back"))
            assert await world.settlements.settle(worker, [settlement]) == [True]
    # An offer that was refused never started. A lost attempt keeps its estimate.
    assert await charged(constraints, one.cid, value) == (0, 0 if how == "return" else 7)
    assert await constraints.take(worker) != []


async def test_the_used_units_take_the_place_of_the_estimate(constraints: ConstrainedWorld) -> None:
    one = await constraints.limit(rate=(10, MINUTE_MS), weight=TOKENS)
    jobs = await constraints.enqueue_many(of(9, 5, 5))
    worker = await constraints.world.worker()
    (first,) = await constraints.claim(worker)
    await use(constraints, worker, first, tokens=4, seconds=3)
    assert await charged(constraints, one.cid) == (None, 4)
    (second,) = await constraints.claim(worker)
    assert [first.job_id, second.job_id] == jobs[:2]
    await use(constraints, worker, second, tokens=20)
    assert await charged(constraints, one.cid) == (None, 24)
    constraints.world.pass_ms(MINUTE_MS + 1)
    await constraints.open_gates()
    assert await constraints.take(worker) == jobs[2:]


async def test_a_stale_report_of_another_worker_in_the_same_call_changes_no_charge(
    constraints: ConstrainedWorld,
) -> None:
    one = await constraints.limit(rate=(10, MINUTE_MS), weight=TOKENS)
    await constraints.enqueue_many(of(9))
    worker, other = [await constraints.world.worker() for _ in range(2)]
    (job,) = await constraints.claim(worker)
    reports = [
        Successes(worker, [(job.job_id, job.token, b"")], {job.job_id: UsedUnits(0, {"tokens": 4_000})}),
        Successes(other, [(job.job_id, "0" * 32, b"")], {job.job_id: UsedUnits(0, {"tokens": 900_000})}),
    ]
    assert await constraints.world.settlements.settle_successes(reports) == [
        Settled([True]),
        Settled([False]),
    ]
    assert await charged(constraints, one.cid) == (None, 4)


async def test_a_damaged_gate_keeps_no_report_of_another_worker_from_its_answer(
    constraints: ConstrainedWorld,
) -> None:
    world = constraints.world
    one = await constraints.limit(matcher=OF_A, concurrency=10, weight=TOKENS)
    await constraints.enqueue_many(of(3), "a")
    await constraints.enqueue_many([None])
    worker, other = await world.worker("a"), await world.worker()
    (job,) = await constraints.claim(worker, "a")
    (free,) = await constraints.claim(other)
    gate = gate_id(one.cid, None)
    key = world.shard.keys.charges(gate)
    kept = f"{key}-aside"
    await world.redis.rename(key, kept)
    await world.redis.set(key, "x")
    reports = [
        Successes(worker, [(job.job_id, job.token, b"")], {job.job_id: UsedUnits(0, {"tokens": 4_000})}),
        Successes(other, [(free.job_id, free.token, b"")], {}),
    ]
    assert await world.settlements.settle_successes(reports) == [Settled([True]), Settled([True])]
    assert await world.state(free.job_id) is JobState.SUCCEEDED
    k = world.shard.keys
    assert not await world.redis.exists(k.running, k.claims(other), k.claims(worker))
    # The charge at this gate stays until somebody repairs it.
    await world.redis.rename(kept, key)
    assert {finding.rule for finding in await world.findings()} == {"charge"}
    await world.redis.delete(key, k.charge_sums)


@pytest.mark.parametrize("does_succeed", [True, False])
async def test_a_damaged_gate_keeps_no_other_gate_of_the_job_from_settling(
    constraints: ConstrainedWorld, does_succeed: bool
) -> None:
    world = constraints.world
    limits = [
        await constraints.limit(name, rate=(100, MINUTE_MS), key=key, weight=TOKENS)
        for name, key in (
            ("one", None),
            ("two", None),
            ("by-host", "argument.host"),
            ("by-site", "argument.site"),
        )
    ]
    await constraints.enqueue_many(of(*[5] * len(limits), host="h", site="s"))
    worker = await world.worker()
    jobs = await constraints.claim(worker)
    values = {"by-host": "h", "by-site": "s"}
    gates = [gate_id(one.cid, key_value(values[one.name]) if one.key else None) for one in limits]
    for job, gate in zip(jobs, gates, strict=True):
        key = world.shard.keys.starts(gate)
        await world.redis.rename(key, f"{key}-aside")
        await world.redis.rpush(key, "x")
        sums = [int(await world.redis.get(world.shard.keys.started(one))) for one in gates]
        told = UsedUnits(0, {"tokens": 2_000})
        if does_succeed:
            assert await world.settlements.settle_success(
                worker, [(job.job_id, job.token, b"")], {job.job_id: told}
            ) == [True]
        else:
            decision = Decision(JobState.FAILED, "failure", is_counted=True)
            settlement = world.settlement(await world.get(job.job_id), job.token, decision)
            assert await world.settlements.settle(worker, [replace(settlement, used=told)]) == [True]
        await world.redis.rename(f"{key}-aside", key)
        after = [int(await world.redis.get(world.shard.keys.started(one))) for one in gates]
        assert after == [was - (0 if one == gate else 3_000) for one, was in zip(gates, sums, strict=True)]
    assert await world.findings() == []


# --- starts count from the call on


async def report_call(
    constraints: ConstrainedWorld, worker: str, job: ClaimedJob, ago_ms: int, **used: float
) -> None:
    """End an attempt as succeeded, whose call another system had counted so long ago."""
    called_at_ms = constraints.world.now_ms - ago_ms
    told = UsedUnits(called_at_ms, {unit: round(number * 1000) for unit, number in used.items()})
    ended = [(job.job_id, job.token, b"")]
    assert await constraints.world.settlements.settle_success(worker, ended, {job.job_id: told}) == [True]


@pytest.mark.parametrize("weight", [None, TOKENS])
@pytest.mark.parametrize("used", [{}, {"tokens": 6}])
async def test_a_start_stays_in_the_window_for_a_period_from_its_call_on(
    constraints: ConstrainedWorld, weight: Weight | None, used: dict[str, float]
) -> None:
    """The call of the first job reached the other system ten seconds after its claim."""
    world = constraints.world
    await constraints.limit(rate=(2 if weight is None else 10, MINUTE_MS), weight=weight)
    jobs = await constraints.enqueue_many(of(6, 4, 4, 6))
    worker = await world.worker()
    late, prompt = await constraints.claim(worker)
    world.pass_ms(11_000)
    await report_call(constraints, worker, late, 1_000, **used)
    await report_call(constraints, worker, prompt, 11_000)
    world.pass_ms(MINUTE_MS - 11_000 + 1)
    await constraints.open_gates()
    # One minute after the claims, there is room for the start whose call was made at once.
    assert await constraints.take(worker) == jobs[2:3]
    world.pass_ms(9_999)
    await constraints.open_gates()
    assert await constraints.take(worker) == []
    world.pass_ms(1)
    await constraints.open_gates()
    assert await constraints.take(worker) == jobs[3:]


@pytest.mark.parametrize("weight", [None, TOKENS])
async def test_a_start_that_has_left_the_window_before_its_call_comes_back(
    constraints: ConstrainedWorld, weight: Weight | None
) -> None:
    """Its worker stood still for longer than the period."""
    world = constraints.world
    one = await constraints.limit(rate=(1 if weight is None else 10, MINUTE_MS), weight=weight)
    jobs = await constraints.enqueue_many(of(10, 10))
    worker = await world.worker()
    (late,) = await constraints.claim(worker)
    world.pass_ms(MINUTE_MS + 5_000)
    keys, gate = world.shard.keys, gate_id(one.cid, None)
    await world.redis.delete(keys.starts(gate), keys.started(gate))
    await report_call(constraints, worker, late, 5_000)
    assert MINUTE_MS - 6_000 < await world.redis.pttl(keys.starts(gate)) <= MINUTE_MS - 4_000
    assert await constraints.take(worker) == []
    world.pass_ms(MINUTE_MS - 5_000 + 1)
    await constraints.open_gates()
    assert await constraints.take(worker) == jobs[1:]


async def test_the_sum_of_starts_that_come_back_expires_with_them(constraints: ConstrainedWorld) -> None:
    """The first one that comes back has used nothing, and the call of the second was made before."""
    world = constraints.world
    one = await constraints.limit(rate=(10, MINUTE_MS), weight=TOKENS)
    await constraints.enqueue_many(of(5, 5))
    worker = await world.worker()
    jobs = await constraints.claim(worker)
    world.pass_ms(MINUTE_MS + 5_000)
    keys, gate = world.shard.keys, gate_id(one.cid, None)
    await world.redis.delete(keys.starts(gate), keys.started(gate))
    for job, ago_ms, tokens in zip(jobs, (1_000, 3_000), (0, 5), strict=True):
        await report_call(constraints, worker, job, ago_ms, tokens=tokens)
    assert await charged(constraints, one.cid) == (None, 5)
    expires_ms = await world.redis.pexpiretime(keys.starts(gate))
    assert expires_ms > 0
    assert await world.redis.pexpiretime(keys.started(gate)) == expires_ms
    assert await world.findings() == []


@pytest.mark.parametrize("key", [None, "argument.host"])
@pytest.mark.parametrize("weight", [None, TOKENS])
async def test_each_window_of_a_job_counts_its_call(
    constraints: ConstrainedWorld, key: str | None, weight: Weight | None
) -> None:
    """When the attempt ends, its claim is still in the long window, and has left the short one."""
    world = constraints.world
    most = 1 if weight is None else 10
    short = await constraints.limit(key=key, rate=(most, 10_000), weight=weight)
    long = await constraints.limit("long", key=key, rate=(2 * most, MINUTE_MS), weight=weight)
    jobs = await constraints.enqueue_many(of(10, 10, 10, host="a"))
    worker = await world.worker()
    (late,) = await constraints.claim(worker)
    world.pass_ms(20_000)
    called_ms = world.now_ms - 3_000
    await report_call(constraints, worker, late, 3_000)
    for one in (short, long):
        gate = gate_id(one.cid, None if key is None else key_value("a"))
        starts = await world.redis.zrange(world.shard.keys.starts(gate), 0, -1, withscores=True)
        assert [score for _, score in starts] == [called_ms]
    assert await constraints.take(worker) == []
    world.pass_ms(7_001)
    await constraints.open_gates()
    assert await constraints.take(worker) == jobs[1:2]
    assert await world.findings() == []


@pytest.mark.parametrize("weight", [None, TOKENS])
async def test_an_attempt_that_is_retried_counts_from_its_call_on_and_its_next_one_from_its_claim_on(
    constraints: ConstrainedWorld, weight: Weight | None
) -> None:
    world = constraints.world
    one = await constraints.limit(rate=(2 if weight is None else 20, MINUTE_MS), weight=weight)
    await constraints.enqueue_many(of(10))
    worker = await world.worker()
    (first,) = await constraints.claim(worker)
    world.pass_ms(20_000)
    settlement = world.settlement(
        await world.get(first.job_id), first.token, Decision(JobState.READY, "deferred")
    )
    told = replace(settlement, used=UsedUnits(world.now_ms - 5_000, {}))
    assert await world.settlements.settle(worker, [told]) == [True]
    # A repeated report is accepted again, and dates nothing.
    again = replace(settlement, used=UsedUnits(world.now_ms, {"tokens": 0}))
    assert await world.settlements.settle(worker, [again]) == [True]
    (second,) = await constraints.claim(worker)
    assert second.job_id == first.job_id
    starts = await world.redis.zrange(world.shard.keys.starts(gate_id(one.cid, None)), 0, -1, withscores=True)
    assert [score for _, score in starts] == [world.now_ms - 5_000, world.now_ms]
    assert await world.findings() == []


@pytest.mark.parametrize("weight", [None, TOKENS])
async def test_a_report_dates_no_start_at_a_limit_that_is_gone_meanwhile(
    constraints: ConstrainedWorld, weight: Weight | None
) -> None:
    world = constraints.world
    one = await constraints.limit(rate=(10, MINUTE_MS), weight=weight)
    await constraints.enqueue_many(of(5, 5))
    worker = await world.worker()
    kept, dropped = await constraints.claim(worker)
    began_ms = world.now_ms
    world.pass_ms(2_000)
    await constraints.put(replace(one, rate=None, concurrency=5))
    await report_call(constraints, worker, kept, 0)
    key = world.shard.keys.starts(gate_id(one.cid, None))
    assert {score for _, score in await world.redis.zrange(key, 0, -1, withscores=True)} <= {began_ms}
    await world.redis.delete(key, world.shard.keys.started(gate_id(one.cid, None)))
    await report_call(constraints, worker, dropped, 0)
    assert not await world.redis.exists(key)
    assert await world.findings() == []


async def test_a_report_does_not_date_a_start_before_its_claim_or_after_the_present(
    constraints: ConstrainedWorld,
) -> None:
    world = constraints.world
    one = await constraints.limit(rate=(10, MINUTE_MS), weight=TOKENS)
    await constraints.enqueue_many(of(5, 5))
    worker = await world.worker()
    early, future = await constraints.claim(worker)
    began_ms = world.now_ms
    world.pass_ms(2_000)
    await report_call(constraints, worker, early, 3_600_000)
    await report_call(constraints, worker, future, -3_600_000)
    starts = await world.redis.zrange(world.shard.keys.starts(gate_id(one.cid, None)), 0, -1, withscores=True)
    assert [score for _, score in starts] == [began_ms, began_ms + 2_000]


async def test_a_failed_attempt_settles_as_well(constraints: ConstrainedWorld) -> None:
    world = constraints.world
    one = await constraints.limit(rate=(10, MINUTE_MS), weight=TOKENS)
    first, second = await constraints.enqueue_many(of(9, 5))
    worker = await world.worker()
    (claimed,) = await constraints.claim(worker)
    decision = Decision(JobState.FAILED, "failure", is_counted=True)
    settlement = world.settlement(await world.get(first), claimed.token, decision)
    assert await world.settlements.settle(
        worker, [replace(settlement, used=UsedUnits(0, {"tokens": 500}))]
    ) == [True]
    assert await charged(constraints, one.cid) == (None, 0)
    assert await constraints.take(worker) == [second]


async def test_a_repeated_report_settles_once(constraints: ConstrainedWorld) -> None:
    one = await constraints.limit(rate=(10, MINUTE_MS), weight=TOKENS)
    await constraints.enqueue_many(of(9))
    worker = await constraints.world.worker()
    (claimed,) = await constraints.claim(worker)
    await use(constraints, worker, claimed, tokens=4)
    await use(constraints, worker, claimed, tokens=1)
    assert await charged(constraints, one.cid) == (None, 4)


async def test_a_job_that_awaits_its_callback_counts_as_the_constraint_says(
    constraints: ConstrainedWorld,
) -> None:
    world = constraints.world
    one = await constraints.limit(concurrency=10, weight=TOKENS)
    first, second = await constraints.enqueue_many(of(8, 5))
    await awaiting(constraints, first)
    worker = await world.worker()
    assert await constraints.take(worker) == []
    one = await constraints.edit(one, counts_awaiting=False)
    assert await charged(constraints, one.cid) == (0, None)
    assert await constraints.take(worker) == [second]
    await constraints.edit(one, counts_awaiting=True)
    assert await charged(constraints, one.cid) == (13, None)
    assert await world.operator_actions.cancel(first) is None
    assert await charged(constraints, one.cid) == (5, None)


async def awaiting(constraints: ConstrainedWorld, job_id: str) -> None:
    """Let the next job hand its work over."""
    world = constraints.world
    worker = await world.worker()
    (job,) = await constraints.claim(worker, limit=1)
    assert job.job_id == job_id
    request = await world.open_challenge(worker, job)
    assert await world.challenges.await_callbacks(worker, [(job_id, job.token, request.digest)]) == [1]


async def test_an_attempt_that_continues_with_its_callbacks_settles_at_its_end(
    constraints: ConstrainedWorld,
) -> None:
    world = constraints.world
    one = await constraints.limit(rate=(10, MINUTE_MS), concurrency=10, weight=TOKENS)
    (job_id,) = await constraints.enqueue_many(of(5))
    worker = await world.worker()
    (job,) = await constraints.claim(worker)
    request = await world.open_challenge(worker, job)
    await world.call_back(request)
    handed_back = replace(
        world.settlement(await world.get(job_id), job.token, Decision(JobState.READY, "handed_back")),
        used=UsedUnits(0, {"tokens": 3_000}),
    )
    assert await world.settlements.settle(worker, [handed_back]) == [True]
    assert (await world.get(job_id)).state is JobState.AWAITING_CALLBACK
    assert await charged(constraints, one.cid) == (5, 5)
    (again,) = await constraints.claim(worker)
    await use(constraints, worker, again, tokens=4)
    assert await charged(constraints, one.cid) == (0, 4)


# --- changes


async def test_another_path_reaches_jobs_that_wait_and_running_ones_keep_their_charge(
    constraints: ConstrainedWorld,
) -> None:
    one = await constraints.limit(concurrency=10, rate=(100, MINUTE_MS), weight=TOKENS)
    jobs = await constraints.enqueue_many([{"tokens": 6, "size": 2}] * 4, headers={"a": "b"}, tags=("t",))
    worker = await constraints.world.worker()
    (first,) = await constraints.claim(worker)
    await constraints.edit(one, weight=replace(TOKENS, path=parse_path("argument.size")))
    assert await charged(constraints, one.cid) == (6, 6)
    assert await constraints.take(worker) == jobs[1:3]
    assert await charged(constraints, one.cid) == (10, 10)
    await use(constraints, worker, first, tokens=1)
    assert await charged(constraints, one.cid) == (4, 5)
    job = await constraints.world.get(jobs[3])
    assert (job.tags, job.headers) == (("t",), {"a": "b"})


async def test_a_constraint_that_gets_a_weight_counts_running_jobs_in_units(
    constraints: ConstrainedWorld,
) -> None:
    one = await constraints.limit(concurrency=2, rate=(2, MINUTE_MS))
    jobs = await constraints.enqueue_many(of(6, 3, 1, 2))
    worker = await constraints.world.worker()
    running = await constraints.claim(worker)
    weighted = replace(one, cid="ff000001", concurrency=11, rate=replace(one.rate, limit=100), weight=TOKENS)  # type: ignore[type-var]
    await constraints.put(weighted)
    assert await charged(constraints, weighted.cid) == (9, 9)
    assert await constraints.take(worker) == jobs[2:3]
    await constraints.succeed(worker, *running)
    assert await charged(constraints, weighted.cid) == (1, 10)
    plain = replace(weighted, cid=one.cid, weight=None, concurrency=2, rate=None)
    await constraints.put(plain)
    assert await constraints.take(worker) == jobs[3:]


async def test_a_smaller_limit_holds_until_enough_units_are_back(constraints: ConstrainedWorld) -> None:
    one = await constraints.limit(concurrency=10, weight=TOKENS)
    jobs = await constraints.enqueue_many(of(5, 5, 2))
    worker = await constraints.world.worker()
    first, second = await constraints.claim(worker)
    await constraints.edit(one, concurrency=6)
    await constraints.succeed(worker, first)
    assert await constraints.take(worker) == []
    await constraints.succeed(worker, second)
    assert await constraints.take(worker) == jobs[2:]


# --- what another system says


async def test_an_observation_narrows_until_its_reset(constraints: ConstrainedWorld) -> None:
    world = constraints.world
    one = await constraints.limit(rate=(100, MINUTE_MS), weight=TOKENS)
    jobs = await constraints.enqueue_many(of(2, 3, 3, 3))
    worker = await world.worker()
    await world.workers.observe(worker, gate_id(one.cid, None), 5_000, 10_000)
    first = await constraints.claim(worker)
    assert [job.job_id for job in first] == jobs[:2]
    # One unit less than its estimate: that unit is there again.
    await use(constraints, worker, first[1], tokens=0)
    assert await constraints.take(worker) == jobs[2:3]
    assert await constraints.take(worker) == []
    world.pass_ms(10_000)
    assert await constraints.open_gates()
    assert await constraints.take(worker) == jobs[3:]
    assert await world.redis.exists(world.shard.keys.observed) == 0


async def test_an_observation_never_widens_and_the_last_one_counts(constraints: ConstrainedWorld) -> None:
    world = constraints.world
    one = await constraints.limit(key="argument.host", concurrency=4, weight=TOKENS)
    jobs = await constraints.enqueue_many(of(3, 3, host="x"))
    worker = await world.worker()
    gate = gate_id(one.cid, key_value("x"))
    await world.workers.observe(worker, gate, 0, 10_000)
    assert await constraints.take(worker) == []
    await world.workers.observe(worker, gate, 50_000, 10_000)
    assert await constraints.take(worker) == jobs[:1]


async def test_an_observation_that_a_master_held_up_does_not_replace_a_later_one(
    constraints: ConstrainedWorld,
) -> None:
    world = constraints.world
    one = await constraints.limit(rate=(100, MINUTE_MS), weight=TOKENS)
    jobs = await constraints.enqueue_many(of(2, 3))
    worker = await world.worker()
    gate, begun_ms = gate_id(one.cid, None), world.now_ms
    world.pass_ms(2_000)
    assert await world.workers.observe(worker, gate, 2_000, 10_000, begun_ms + 1_000)
    assert not await world.workers.observe(worker, gate, 50_000, 10_000, begun_ms)
    assert await constraints.take(worker) == jobs[:1]
    # It counts from the instant of the observation.
    world.pass_ms(9_000)
    assert await constraints.open_gates()
    assert await constraints.take(worker) == jobs[1:]
    # After the store's clock was set back, what is stored is in the future, and does not count as later.
    assert await world.workers.observe(worker, gate, 2_000, 10_000)
    world.pass_ms(-5_000)
    assert await world.workers.observe(worker, gate, 1_000, 10_000, world.now_ms - 1)


async def observed(constraints: ConstrainedWorld, gate: str) -> int | None:
    usage = UsageStore(constraints.world.shard, constraints.world.records)
    (found,) = await usage.gates([gate])
    return found.observed


@pytest.mark.parametrize("weight", [None, TOKENS])
async def test_jobs_that_start_between_an_observation_and_its_arrival_count(
    constraints: ConstrainedWorld, weight: Weight | None
) -> None:
    world = constraints.world
    one = await constraints.limit(rate=(10_000, MINUTE_MS), weight=weight)
    jobs = await constraints.enqueue_many(of(1_000, 1, 1))
    worker = await world.worker()
    gate, as_of_ms = gate_id(one.cid, None), world.now_ms
    world.pass_ms(500)
    (first,) = await constraints.claim(worker, limit=1)
    world.pass_ms(500)
    told = 1_000_000 if weight else 1_000
    assert await world.workers.observe(worker, gate, told, 10_000, as_of_ms)
    assert await observed(constraints, gate) == 0
    assert await constraints.take(worker) == []
    # Its charge was taken once, and does not come back: the other system may not have counted the start yet.
    await use(constraints, worker, first, tokens=200)
    assert await observed(constraints, gate) == 0
    world.pass_ms(9_000)
    assert await constraints.open_gates()
    assert await constraints.take(worker) == jobs[1:]


@pytest.mark.parametrize("is_claimed_before", [True, False])
@pytest.mark.parametrize("weight", [None, TOKENS])
async def test_an_observation_counts_a_start_alike_before_and_after_its_report(
    constraints: ConstrainedWorld, weight: Weight | None, is_claimed_before: bool
) -> None:
    """The other system has counted what was claimed before its answer, even if the call is dated after it."""
    world = constraints.world
    numbers = {}
    for order in ("report-first", "observation-first"):
        one = await constraints.limit(order, OF_A, rate=(100, MINUTE_MS), weight=weight)
        await constraints.enqueue_many(of(10), "a")
        worker = await world.worker("a")
        gate, as_of_ms = gate_id(one.cid, None), world.now_ms
        if is_claimed_before:
            (job,) = await constraints.claim(worker, "a")
            world.pass_ms(500)
            as_of_ms = world.now_ms
            world.pass_ms(500)
        else:
            world.pass_ms(500)
            (job,) = await constraints.claim(worker, "a")
            world.pass_ms(500)
        if order == "observation-first":
            assert await world.workers.observe(worker, gate, 50_000, 10_000, as_of_ms)
            await report_call(constraints, worker, job, 100)
        else:
            await report_call(constraints, worker, job, 100)
            assert await world.workers.observe(worker, gate, 50_000, 10_000, as_of_ms)
        numbers[order] = await observed(constraints, gate)
        assert await world.findings() == []
        await constraints.remove(order)
    own = 50_000 - (0 if is_claimed_before else 1_000 if weight is None else 10_000)
    assert numbers == {"report-first": own, "observation-first": own}


async def test_the_text_of_an_observation_of_a_former_release_is_read(constraints: ConstrainedWorld) -> None:
    world = constraints.world
    one = await constraints.limit(rate=(100, MINUTE_MS), weight=TOKENS)
    jobs = await constraints.enqueue_many(of(4, 2))
    worker = await world.worker()
    gate, now_ms = gate_id(one.cid, None), world.now_ms
    await world.redis.hset(world.shard.keys.observed, gate, f"5000 {now_ms + 10_000} {now_ms}")
    (first,) = await constraints.claim(worker)
    assert first.job_id == jobs[0]
    assert await observed(constraints, gate) == 1_000
    await use(constraints, worker, first, tokens=3)
    assert await observed(constraints, gate) == 2_000
    assert not await world.workers.observe(worker, gate, 50_000, 10_000, now_ms - 1)
    assert await constraints.take(worker) == jobs[1:]


async def test_an_observation_without_a_weight_counts_jobs(constraints: ConstrainedWorld) -> None:
    world = constraints.world
    one = await constraints.limit(rate=(100, MINUTE_MS))
    jobs = await constraints.enqueue_many(range(4))
    worker = await world.worker()
    await world.workers.observe(worker, gate_id(one.cid, None), 2_900, 10_000)
    assert await constraints.take(worker, limit=1) == jobs[:1]
    assert await constraints.take(worker) == jobs[1:2]
    world.pass_ms(10_000)
    assert await constraints.open_gates()
    assert await constraints.take(worker) == jobs[2:]


@pytest.mark.parametrize("weight", [None, Weight(None, 1000, "jobs")])
async def test_an_observation_counts_the_starts_of_all_groups_that_start_at_once(
    constraints: ConstrainedWorld, weight: Weight | None
) -> None:
    world = constraints.world
    one = await constraints.limit(rate=(100, MINUTE_MS), weight=weight)
    # Jobs of several names are in several groups.
    for name in ("a", "b", "c"):
        await constraints.enqueue_many([None] * 4, name)
    worker = await world.worker("a", "b", "c", max_jobs=20)
    await world.workers.observe(worker, gate_id(one.cid, None), 8_000, 10_000)
    assert len(await constraints.take(worker, "a", "b", "c", limit=6)) == 6
    assert len(await constraints.take(worker, "a", "b", "c")) == 2


async def test_an_observation_that_is_longer_than_an_earlier_check_ends_as_well(
    constraints: ConstrainedWorld,
) -> None:
    world = constraints.world
    one = await constraints.limit(key="argument.host", rate=(1, 1_000), weight=TOKENS)
    jobs = await constraints.enqueue_many(of(1, 1, host="x"))
    worker = await world.worker()
    (first,) = await constraints.claim(worker)
    assert first.job_id == jobs[0]
    await world.workers.observe(worker, gate_id(one.cid, key_value("x")), 50_000, 10_000)
    await world.workers.observe(worker, gate_id(one.cid, key_value("never seen")), 50_000, 10_000)
    world.pass_ms(1_001)
    assert await constraints.open_gates()
    assert await constraints.take(worker) == jobs[1:]
    world.pass_ms(10_000)
    await constraints.open_gates()
    assert await world.redis.exists(world.shard.keys.observed) == 0


async def test_a_hold_that_is_longer_than_an_earlier_check_ends_as_well(
    constraints: ConstrainedWorld,
) -> None:
    world, keys = constraints.world, constraints.world.shard.keys
    await constraints.limit(rate=(1, 1_000))
    await constraints.enqueue_many(range(2))
    worker = await world.worker()
    await constraints.take(worker)
    (gate,) = [raw.decode() for raw in await world.redis.zrange(keys.gates_due, 0, -1)]
    await world.redis.hset(keys.holds, gate, world.now_ms + 5_000)
    world.pass_ms(1_001)
    await constraints.open_gates()
    assert await world.redis.zscore(keys.gates_due, gate) == world.now_ms - 1_001 + 5_000
    world.pass_ms(5_000)
    await constraints.open_gates()
    assert await world.redis.exists(keys.holds) == 0


# --- many starts


async def test_a_claim_reads_a_bounded_number_of_expired_starts(constraints: ConstrainedWorld) -> None:
    world = constraints.world
    one = await constraints.limit(rate=(10_000, MINUTE_MS), weight=TOKENS)
    jobs = await constraints.enqueue_many(of(9_500))
    worker = await world.worker()
    gate, keys = gate_id(one.cid, None), world.shard.keys
    count = 12_000
    for start in range(0, count, 1000):
        entries = {
            struct.pack(">16sQ", b"", n)[8:] + b"500": world.now_ms for n in range(start, start + 1000)
        }
        await world.redis.zadd(keys.starts(gate), entries)
    await world.redis.set(keys.started(gate), count * 500, px=120_000)
    await world.redis.pexpire(keys.starts(gate), 120_000)
    world.pass_ms(MINUTE_MS + 1)
    left = [count]
    for _ in range(5):
        taken = await constraints.take(worker)
        left.append(await world.redis.zcard(keys.starts(gate)))
        assert left[-2] - left[-1] <= 5_000
        if taken:
            break
        # The leader goes on at once.
        assert await constraints.open_gates()
    assert taken == jobs
    assert left == [12_000, 7_000, 2_000, 1]
    assert await charged(constraints, one.cid) == (None, 9_500)
    await world.assert_sound()


async def test_a_claim_that_one_gate_stops_forgets_the_expired_starts_of_the_others(
    constraints: ConstrainedWorld,
) -> None:
    world = constraints.world
    keys, count = world.shard.keys, 6_000
    for name in ("one", "two"):
        limit = await constraints.limit(name, rate=(count, MINUTE_MS), weight=TOKENS)
        gate = gate_id(limit.cid, None)
        await world.redis.zadd(
            keys.starts(gate), {f"{n:016}1000".encode(): world.now_ms for n in range(count)}
        )
        await world.redis.set(keys.started(gate), count * 1_000, px=120_000)
        await world.redis.pexpire(keys.starts(gate), 120_000)
    jobs = await constraints.enqueue_many(of(1))
    worker = await world.worker()
    world.pass_ms(MINUTE_MS + 1)
    assert await constraints.take(worker) == []
    # The leader goes on at once.
    assert await constraints.open_gates()
    assert await constraints.take(worker) == jobs


async def test_a_read_of_a_gate_with_many_expired_starts_changes_nothing(
    constraints: ConstrainedWorld,
) -> None:
    world = constraints.world
    one = await constraints.limit(rate=(10_000, MINUTE_MS), weight=TOKENS)
    gate, keys = gate_id(one.cid, None), world.shard.keys
    entries = {f"{n:016}500".encode(): world.now_ms for n in range(6_000)}
    await world.redis.zadd(keys.starts(gate), entries)
    await world.redis.set(keys.started(gate), 3_000_000, px=120_000)
    await world.redis.pexpire(keys.starts(gate), 120_000)
    world.pass_ms(MINUTE_MS + 1)
    async with world.unchanged():
        # A thousand of them still count.
        assert await charged(constraints, one.cid) == (None, 500)


async def test_a_retried_job_weighs_what_the_present_path_says(constraints: ConstrainedWorld) -> None:
    world = constraints.world
    one = await constraints.limit(concurrency=10, weight=TOKENS)
    job_id = await constraints.enqueue(argument={"tokens": 6, "size": 2})
    worker = await world.worker()
    (first,) = await constraints.claim(worker)
    await constraints.succeed(worker, first)
    await constraints.edit(one, weight=replace(TOKENS, path=parse_path("argument.size")))
    rules = (await constraints.constraints.reload()).constraint_set
    await world.operator_actions.retry(await world.get(job_id), rules)
    assert await constraints.take(worker) == [job_id]
    assert await charged(constraints, one.cid) == (2, None)
    assert (await world.get(job_id)).weights == {one.cid: 2000}


def test_only_the_weights_of_a_record_change() -> None:
    spec = JobSpec(id="x", name="work", argument=b"\xc0")
    _, _, rest = codec.encode_new(spec, weights={"ff000001": 1})
    record = bytes(codec.HEAD_SIZE) + rest
    assert codec.reweighed(record, {"ff000001": 1}) is None
    assert codec.reweighed(record, {}) == b""
    plain = bytes(codec.HEAD_SIZE) + codec.encode_new(spec)[2]
    assert codec.reweighed(plain, {}) is None
    assert codec.reweighed(plain, {"ff000001": 1}) is not None
    with pytest.raises(DamagedError):
        codec.reweighed(b"short", {})
