"""Definitions fire: each due instant has one record and at most one job, whatever happens in between."""

from dataclasses import replace
from typing import Any

import msgpack
import pytest

from jqmaster.domain.definitions.definition import CatchUp
from jqmaster.domain.definitions.run import RunOutcome, RunReason, job_id_of
from jqmaster.domain.definitions.schedule import Occurrence
from jqmaster.domain.definitions.time_zone import GapOrFold
from jqmaster.domain.jobs.job import STORED_TERMS, JobState, RetryPolicy
from jqmaster.errors import (
    ConflictError,
    DamagedError,
    OutcomeUnknownError,
    StaleEpochError,
    StoreUnavailableError,
)
from jqmaster.service.definitions.firing import firing_of
from jqmaster.store.definitions.definitions import (
    DefinitionStore,
    Entry,
    Firing,
    FiringOutcome,
    InstantVerdict,
    KnownDefinition,
    RunPosition,
)
from tests.support.constraints import ConstrainedWorld
from tests.support.definitions import MINUTE_MS, Definitions
from tests.support.store import START_MS, StoreWorld

HOUR_MS = 60 * MINUTE_MS


@pytest.fixture
def definitions(world: StoreWorld) -> Definitions:
    return Definitions(world)


@pytest.mark.req("D6", "D7")
async def test_a_due_instant_starts_one_job_and_leaves_one_record(
    world: StoreWorld, definitions: Definitions
) -> None:
    known = await definitions.put(job={"priority": 3, "tags": ("a",), "max_retry": 7})
    await definitions.fire()
    assert await definitions.runs() == []
    world.pass_ms(MINUTE_MS + 20)
    await definitions.fire()
    await definitions.fire()
    (run,) = await definitions.runs()
    due_ms = START_MS + MINUTE_MS
    job_id = job_id_of(known.stored.definition.did, due_ms)
    assert (run.due_at_ms, run.outcome, run.reason, run.job_id) == (
        due_ms,
        RunOutcome.FIRED,
        RunReason.NONE,
        job_id,
    )
    assert run.recorded_at_ms == world.now_ms
    job = await world.get(job_id)
    assert (job.name, job.state, job.priority, job.tags, job.max_retry) == (
        "report",
        JobState.READY,
        3,
        ("a",),
        7,
    )
    (found,) = await definitions.store.get(["nightly"])
    assert found
    assert (found.clock.handled_ms, found.clock.last_job) == (due_ms, job_id)
    assert +definitions.figures.outcomes == {RunOutcome.FIRED: 1}
    assert definitions.figures.lateness.max_ms == 20
    assert world.tally.of("report").pushed == 1


@pytest.mark.req("D6")
async def test_each_term_of_its_job_reaches_the_job_that_it_starts(
    world: StoreWorld, definitions: Definitions
) -> None:
    terms: dict[str, Any] = {
        "name": "mail", "argument": msgpack.packb({"to": "ada"}), "priority": 3, "max_retry": 7, "keep_result": True,
        "timeout_ms": 77_000, "delay_ms": 5_000, "retry": RetryPolicy(2.0, 3.0, 99.0, jitter=False), "rerun_lost": True,
        "tags": ("a", "b"), "headers": {"trace": "1"}, "requires": {"gpu": "yes"}, "expires_ms": 3_600_000,
    }  # fmt: skip
    assert set(terms) == set(STORED_TERMS)
    known = await definitions.put(job=terms)
    world.pass_ms(MINUTE_MS)
    await definitions.fire()
    job = await world.get(job_id_of(known.stored.definition.did, START_MS + MINUTE_MS))
    assert job.argument == terms.pop("argument")
    assert (job.state, job.due_at_ms) == (JobState.SCHEDULED, world.now_ms + terms.pop("delay_ms"))
    assert job.expires_at_ms == world.now_ms + terms.pop("expires_ms")
    assert {term: getattr(job, term) for term in terms} == terms


@pytest.mark.req("D7")
async def test_a_repeated_step_changes_nothing(world: StoreWorld, definitions: Definitions) -> None:
    known = await definitions.put()
    world.pass_ms(MINUTE_MS)
    firing = firing_of(known, world.now_ms)
    for expected in (FiringOutcome.FIRED, FiringOutcome.CHANGED):
        _, became = await definitions.store.fire([firing], kept=definitions.kept.current, epoch=world.epoch)
        assert became == [[expected]]
    assert len(await definitions.runs()) == 1


@pytest.mark.req("D7")
async def test_a_former_leader_fires_nothing(world: StoreWorld, definitions: Definitions) -> None:
    await definitions.put()
    world.pass_ms(MINUTE_MS)
    old = await world.reelect()
    async with world.unchanged():
        with pytest.raises(StaleEpochError):
            await definitions.firing.fire_due(old)
    await definitions.fire()
    assert await definitions.outcomes() == [(1, "fired", "")]


@pytest.mark.req("D7")
async def test_a_definition_that_was_changed_meanwhile_is_left_alone(
    world: StoreWorld, definitions: Definitions
) -> None:
    known = await definitions.put()
    world.pass_ms(MINUTE_MS)
    firing = firing_of(known, world.now_ms)
    await definitions.put(schedule={"every_minutes": 2})
    async with world.unchanged():
        _, became = await definitions.store.fire([firing], kept=definitions.kept.current, epoch=world.epoch)
        assert became == [[FiringOutcome.CHANGED]]


@pytest.mark.req("D8")
@pytest.mark.parametrize(
    ("catch_up", "expected"),
    [
        (CatchUp.SKIP, [("missed", "late")] * 4 + [("fired", "")]),
        (CatchUp.LATEST, [("missed", "late")] * 4 + [("fired", "")]),
        (CatchUp.ALL, [("missed", "late")] * 2 + [("fired", "caught_up")] * 2 + [("fired", "")]),
    ],
)
async def test_instants_of_an_outage_follow_the_rule(
    world: StoreWorld, definitions: Definitions, catch_up: CatchUp, expected: list[tuple[str, str]]
) -> None:
    await definitions.put(catch_up=catch_up, max_catch_up=3, skip_late_after_ms=30_000)
    world.pass_ms(5 * MINUTE_MS)
    await definitions.fire()
    assert await definitions.outcomes() == [(n, *e) for n, e in enumerate(expected, 1)]


@pytest.mark.req("D7", "D8")
async def test_a_long_outage_is_worked_off_in_steps(world: StoreWorld, definitions: Definitions) -> None:
    await definitions.put(catch_up=CatchUp.ALL, max_catch_up=50, skip_late_after_ms=1000)
    world.pass_ms(700 * MINUTE_MS)
    await definitions.fire()
    outcomes = await definitions.outcomes()
    assert [minute for minute, *_ in outcomes] == list(range(1, 701))
    assert [outcome for _, outcome, _ in outcomes] == ["missed"] * 650 + ["fired"] * 50


@pytest.mark.req("D7")
async def test_a_clock_that_is_set_back_fires_no_instant_twice(
    world: StoreWorld, definitions: Definitions
) -> None:
    await definitions.put()
    for step_ms in (3 * MINUTE_MS, -2 * HOUR_MS, HOUR_MS, HOUR_MS + MINUTE_MS):
        world.pass_ms(step_ms)
        await definitions.fire()
    outcomes = await definitions.outcomes()
    assert [minute for minute, *_ in outcomes] == [1, 2, 3, 4]
    assert {outcome for _, outcome, _ in outcomes} == {"fired"}


@pytest.mark.req("D7")
async def test_a_clock_that_is_set_forward_loses_no_instant(
    world: StoreWorld, definitions: Definitions
) -> None:
    await definitions.put()
    world.pass_ms(3 * HOUR_MS)
    await definitions.fire()
    outcomes = await definitions.outcomes()
    assert [minute for minute, *_ in outcomes] == list(range(1, 181))
    assert outcomes[-1][1] == "fired"
    assert [outcome for _, outcome, _ in outcomes].count("missed") == 180 - 6


@pytest.mark.req("D6")
async def test_forbid_skips_while_the_last_job_is_not_over(
    world: StoreWorld, definitions: Definitions
) -> None:
    await definitions.put(overlap="forbid", job={"name": "work"})
    world.pass_ms(2 * MINUTE_MS)
    await definitions.fire()
    worker = await world.worker()
    (job,) = await world.claim(worker)
    world.pass_ms(MINUTE_MS)
    await definitions.fire()
    assert await world.fail(worker, job)
    world.pass_ms(MINUTE_MS)
    await definitions.fire()
    assert await definitions.outcomes() == [
        (1, "fired", ""), (2, "skipped", "overlap"), (3, "skipped", "overlap"), (4, "fired", ""),
    ]  # fmt: skip


@pytest.mark.req("D6")
async def test_replace_cancels_the_last_job(world: StoreWorld, definitions: Definitions) -> None:
    await definitions.put(overlap="replace", job={"name": "work"})
    world.pass_ms(MINUTE_MS)
    await definitions.fire()
    world.pass_ms(MINUTE_MS)
    await definitions.fire()
    waiting, other = [run.job_id for run in await definitions.runs()]
    assert await world.state(waiting) is JobState.CANCELED
    worker = await world.worker()
    (running,) = await world.claim(worker)
    assert running.job_id == other
    world.pass_ms(2 * MINUTE_MS)
    with world.leading_here() as words:
        await definitions.fire()
    assert f"freed:{worker}:1" in words
    assert await world.state(other) is JobState.CANCELED
    assert not await world.fail(worker, running)
    assert await definitions.outcomes() == [
        (1, "fired", ""), (2, "fired", ""), (3, "skipped", "superseded"), (4, "fired", ""),
    ]  # fmt: skip


@pytest.mark.req("D6")
@pytest.mark.parametrize("is_running", [False, True])
async def test_replace_ends_a_job_only_if_the_next_one_finds_room(
    world: StoreWorld, definitions: Definitions, is_running: bool
) -> None:
    """A waiting job leaves its own place to the new job; a running one does not."""
    constrained = ConstrainedWorld(world)
    await constrained.limit(max_backlog=1)
    await definitions.put(overlap="replace", job={"name": "work"})
    world.pass_ms(MINUTE_MS)
    await definitions.fire()
    if is_running:
        await constrained.take(await world.worker())
        await constrained.enqueue()
    world.pass_ms(MINUTE_MS)
    await definitions.fire()
    first, second = await definitions.runs()
    expected = (JobState.RUNNING, "skipped") if is_running else (JobState.CANCELED, "fired")
    assert (await world.state(first.job_id), second.outcome) == expected


@pytest.mark.req("D6")
async def test_queue_waits_for_the_last_job_and_keeps_one_place(
    world: StoreWorld, definitions: Definitions
) -> None:
    await definitions.put(overlap="queue", job={"name": "work"})
    world.pass_ms(MINUTE_MS)
    await definitions.fire()
    worker = await world.worker()
    (job,) = await world.claim(worker)
    world.pass_ms(3 * MINUTE_MS)
    await definitions.fire()
    assert await definitions.outcomes() == [
        (1, "fired", ""), (2, "skipped", "superseded"), (3, "skipped", "superseded"),
    ]  # fmt: skip
    assert await world.fail(worker, job)
    world.pass_ms(1001)
    await definitions.fire()
    assert (await definitions.outcomes())[-1] == (4, "fired", "")
    (found,) = await definitions.store.get(["nightly"])
    assert found
    assert found.clock.queued_ms is None


@pytest.mark.req("D6")
async def test_a_paused_definition_records_its_instants_and_starts_none(
    world: StoreWorld, definitions: Definitions
) -> None:
    await definitions.put(enabled=False)
    world.pass_ms(2 * MINUTE_MS)
    await definitions.fire()
    await definitions.put()
    world.pass_ms(MINUTE_MS)
    await definitions.fire()
    assert await definitions.outcomes() == [
        (1, "skipped", "paused"),
        (2, "skipped", "paused"),
        (3, "fired", ""),
    ]


@pytest.mark.req("D6")
async def test_an_instant_that_waits_is_skipped_by_a_pause(
    world: StoreWorld, definitions: Definitions
) -> None:
    await definitions.put(overlap="queue")
    world.pass_ms(2 * MINUTE_MS)
    await definitions.fire()
    await definitions.put(overlap="queue", enabled=False)
    await definitions.fire()
    world.pass_ms(2000)
    await definitions.fire()
    assert await definitions.outcomes() == [(1, "fired", ""), (2, "skipped", "paused")]


async def test_run_records_are_kept_by_number_and_age(world: StoreWorld) -> None:
    definitions = Definitions(world, most_runs=3)
    await definitions.put()
    world.pass_ms(5 * MINUTE_MS)
    await definitions.fire()
    assert [minute for minute, *_ in await definitions.outcomes()] == [3, 4, 5]
    # A record is as old as itself, not as its instant.
    definitions = Definitions(world, life_ms=MINUTE_MS)
    for expected in ([3, 4, 5, 6], [6, 7]):
        world.pass_ms(MINUTE_MS)
        await definitions.fire()
        assert [minute for minute, *_ in await definitions.outcomes()] == expected


async def test_runs_are_read_in_pages_and_by_outcome(world: StoreWorld, definitions: Definitions) -> None:
    await definitions.put(catch_up=CatchUp.SKIP)
    world.pass_ms(500 * MINUTE_MS)
    await definitions.fire()
    page = await definitions.store.runs("nightly", None, 2, None)
    assert [(r.due_at_ms - START_MS) // MINUTE_MS for r in page.runs] == [500, 499]
    page = await definitions.store.runs("nightly", page.next_at, 2, None)
    assert [(r.due_at_ms - START_MS) // MINUTE_MS for r in page.runs] == [498, 497]
    page = await definitions.store.runs("nightly", None, 3, RunOutcome.MISSED)
    assert [(r.due_at_ms - START_MS) // MINUTE_MS for r in page.runs] == [494, 493, 492]
    page = await definitions.store.runs(
        "nightly", RunPosition(START_MS + 2 * MINUTE_MS, 1), 3, RunOutcome.MISSED
    )
    assert (len(page.runs), page.next_at) == (1, None)
    (newest,) = await definitions.store.newest_runs(["nightly"], 2)
    assert [(r.due_at_ms - START_MS) // MINUTE_MS for r in newest] == [500, 499]


async def test_runs_on_demand_and_backfills_leave_the_schedule_alone(
    world: StoreWorld, definitions: Definitions
) -> None:
    await definitions.put(catch_up=CatchUp.SKIP, skip_late_after_ms=1000)
    world.pass_ms(3 * MINUTE_MS)
    await definitions.fire()
    job_id = world.spec().id
    # A scheduled instant has its record at this exact millisecond.
    assert await definitions.firing.run_now("nightly", job_id, world.now_ms) is FiringOutcome.FIRED
    assert await world.state(job_id) is JobState.READY
    due = [Occurrence(START_MS + n * MINUTE_MS, None, GapOrFold.NONE) for n in (1, 2, 3)]
    assert await definitions.firing.backfill("nightly", due) == [
        FiringOutcome.FIRED, FiringOutcome.FIRED, FiringOutcome.BEFORE,
    ]  # fmt: skip
    assert await definitions.firing.backfill("nightly", due) == [FiringOutcome.BEFORE] * 3
    assert await definitions.outcomes() == [
        (1, "fired", "backfill"), (2, "fired", "backfill"), (3, "fired", ""), (3, "fired", "manual"),
    ]  # fmt: skip
    world.pass_ms(MINUTE_MS)
    await definitions.fire()
    assert (await definitions.outcomes())[-1] == (4, "fired", "")


async def test_a_job_that_is_there_already_is_not_started_again(
    world: StoreWorld, definitions: Definitions
) -> None:
    known = await definitions.put()
    job_id = job_id_of(known.stored.definition.did, START_MS + MINUTE_MS)
    await world.enqueue("report", id=job_id)
    world.pass_ms(MINUTE_MS)
    await definitions.fire()
    (run,) = await definitions.runs()
    assert (run.outcome, run.job_id) == (RunOutcome.FIRED, job_id)
    assert +definitions.figures.outcomes == {RunOutcome.FIRED: 1}


@pytest.mark.req("D7")
async def test_a_full_store_delays_and_loses_nothing(world: StoreWorld, definitions: Definitions) -> None:
    await definitions.put()
    world.pass_ms(MINUTE_MS)
    await world.redis.config_set("maxmemory", 1)
    try:
        with pytest.raises((StoreUnavailableError, OutcomeUnknownError)):
            await definitions.firing.fire_due(world.epoch)
    finally:
        await world.redis.config_set("maxmemory", 0)
    assert await definitions.runs() == []
    world.pass_ms(5000)
    await definitions.fire()
    assert await definitions.outcomes() == [(1, "fired", "")]


@pytest.mark.req("D6", "D7")
@pytest.mark.parametrize("had_begun", [False, True])
async def test_a_failover_that_loses_the_last_second_fires_the_instant_again_as_the_same_job(
    world: StoreWorld, definitions: Definitions, had_begun: bool
) -> None:
    known = await definitions.put()
    worker_id = await world.worker("report")
    world.pass_ms(MINUTE_MS)
    replica = await world.dump()
    await definitions.fire()
    job_id = job_id_of(known.stored.definition.did, START_MS + MINUTE_MS)
    assert await definitions.outcomes() == [(1, "fired", "")]
    if had_begun:
        (claimed,) = await world.claim(worker_id, "report")
        assert claimed.job_id == job_id
    # The replica that takes over does not have the firing.
    await world.redis.delete(*await world.key_names())
    for key, value in replica.items():
        await world.redis.restore(key, 0, value)
    world.pass_ms(1_000)
    await definitions.fire()
    await definitions.fire()
    (run,) = await definitions.runs()
    assert (run.outcome, run.job_id, run.due_at_ms) == (RunOutcome.FIRED, job_id, START_MS + MINUTE_MS)
    assert await world.state(job_id) is JobState.READY
    if had_begun:
        # The worker that still runs the job cannot settle the new job with its old claim.
        assert not await world.fail(worker_id, claimed)
        assert await world.state(job_id) is JobState.READY


async def test_there_is_a_limit_on_their_number(world: StoreWorld, definitions: Definitions) -> None:
    known = await definitions.put("one")
    stored = replace(known.stored, definition=replace(known.stored.definition, name="two"))
    with pytest.raises(ConflictError) as refused:
        await definitions.change("two", None, replace(known, stored=stored), most=1)
    assert refused.value.code == "too_many_definitions"
    # Existing definitions may be changed.
    assert await definitions.change("one", known, known, most=1)


async def test_a_deleted_definition_takes_its_records_along(
    world: StoreWorld, definitions: Definitions
) -> None:
    await definitions.put()
    world.pass_ms(MINUTE_MS)
    await definitions.fire()
    (known,) = await definitions.store.get(["nightly"])
    async with world.published(world.shard.keys.wake_channel, "definitions"):
        assert await definitions.change("nightly", known, None)
    assert not await definitions.change("nightly", known, None)
    k = world.shard.keys
    assert {k.definitions, k.definitions_due, k.definition_clocks, k.runs("nightly")}.isdisjoint(
        await world.key_names()
    )
    assert await definitions.store.names() == []


async def test_definitions_that_cannot_fire_are_found(world: StoreWorld, definitions: Definitions) -> None:
    for name in ("a", "b", "c", "d"):
        await definitions.put(name)
    k, redis = world.shard.keys, world.redis
    await redis.hset(k.definitions, "a", b"x" * 16 + b"\xc1")
    await redis.hdel(k.definition_clocks, "b")
    await redis.zadd(k.definitions_due, {"c": START_MS * 2})
    await redis.hdel(k.definitions, "d")
    found = {(f.rule, f.key.rpartition(":")[2]) for f in await world.findings()}
    assert found == {
        ("definition", "definitions"), ("definition", "definitions_due"), ("definition", "definition_clocks"),
        ("definition", "forgotten_runs"),
    }  # fmt: skip
    assert len(await world.findings()) == 5
    world.pass_ms(MINUTE_MS)
    # Damaged definitions do not keep the others from firing.
    await definitions.put("e")
    world.pass_ms(MINUTE_MS)
    assert await definitions.firing.fire_due(world.epoch) == 0
    assert len(await definitions.runs("e")) == 1
    await redis.delete(k.definitions, k.definitions_due, k.definition_clocks, k.forgotten_runs)


@pytest.mark.req("D7")
async def test_definitions_that_nobody_can_read_or_plan_keep_no_other_from_firing(
    world: StoreWorld, definitions: Definitions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jqmaster.service.definitions.firing.BATCH", 3)
    k = world.shard.keys
    for n in range(7):
        await definitions.put(f"a{n}")
        await world.redis.hset(k.definitions, f"a{n}", b"x" * 16 + b"\xc1")
    for n in range(4):
        await definitions.put(f"b{n}")
    await definitions.put("last")
    planned = firing_of

    def fails(known: KnownDefinition, now_ms: int) -> Firing:
        if known.stored.definition.name.startswith("b"):
            raise RuntimeError("a fault of the product")
        return planned(known, now_ms)

    monkeypatch.setattr("jqmaster.service.definitions.firing.firing_of", fails)
    world.pass_ms(MINUTE_MS)
    assert await definitions.firing.fire_due(world.epoch) == 0
    assert len(await definitions.runs("last")) == 1
    # Now it waits for the next instant, and not for those that stay due.
    assert await definitions.firing.fire_due(world.epoch) == MINUTE_MS
    assert [
        one.stored.definition.name for one in await definitions.store.readable(["a0", "last", "gone"])
    ] == ["last"]
    assert await definitions.store.readable([]) == []
    await world.redis.delete(k.definitions, k.definitions_due, k.definition_clocks, k.forgotten_runs)


@pytest.mark.req("D7")
async def test_many_definitions_fire_in_a_few_steps(world: StoreWorld, definitions: Definitions) -> None:
    for n in range(250):
        await definitions.put(f"d{n}", schedule={"daily_at": "00:00"})
    world.pass_ms(24 * HOUR_MS)
    await definitions.fire()
    for n in range(250):
        assert len(await definitions.runs(f"d{n}")) == 1
    assert len(await world.redis.zrange(world.shard.keys.definitions_due, 0, -1)) == 250


def test_entries_say_whether_they_have_a_job() -> None:
    assert not Entry(1, InstantVerdict.MISSED).has_job
    assert Entry(1, InstantVerdict.FIRES).has_job


async def test_leaders_of_two_stores_are_told_apart(world: StoreWorld) -> None:
    marked = DefinitionStore(replace(world.shard, mark="other"), world.tally)
    definitions = Definitions(world)
    known = await definitions.put()
    world.pass_ms(MINUTE_MS)
    with pytest.raises(StoreUnavailableError) as refused:
        await marked.fire([firing_of(known, world.now_ms)], kept=definitions.kept.current)
    assert refused.value.code == "store_unfit"


@pytest.mark.req("D8")
async def test_run_records_are_read_by_outcome_by_name_and_by_instant(
    world: StoreWorld, definitions: Definitions
) -> None:
    await definitions.put(overlap="forbid")
    await definitions.put("hourly", schedule={"every_minutes": 2})
    for _ in range(4):
        world.pass_ms(MINUTE_MS)
        await definitions.fire()
    store = definitions.store
    fired = await store.runs("nightly", None, 10, RunOutcome.FIRED)
    assert [(run.due_at_ms - START_MS) // MINUTE_MS for run in fired.runs] == [1]
    assert fired.next_at is None
    skipped = await store.runs("nightly", None, 2, RunOutcome.SKIPPED)
    rest = await store.runs("nightly", skipped.next_at, 10, RunOutcome.SKIPPED)
    instants = [(run.due_at_ms - START_MS) // MINUTE_MS for run in (*skipped.runs, *rest.runs)]
    assert instants == [4, 3, 2]
    nightly, hourly, nobody = await store.newest_runs(["nightly", "hourly", "nobody"], 2)
    assert [run.due_at_ms for run in nightly] == [START_MS + minutes * MINUTE_MS for minutes in (4, 3)]
    assert [run.due_at_ms for run in hourly] == [START_MS + minutes * MINUTE_MS for minutes in (4, 2)]
    assert nobody == []
    within = await store.recorded("nightly", START_MS + 2 * MINUTE_MS, START_MS + 4 * MINUTE_MS)
    assert [(run.due_at_ms - START_MS) // MINUTE_MS for run in within] == [2, 3]
    states = await store.job_states([fired.runs[0].job_id, job_id_of("0" * 16, START_MS)])
    assert states == {fired.runs[0].job_id: JobState.READY}
    assert await store.get([]) == []


@pytest.mark.req("D8")
async def test_a_definition_without_its_clock_or_with_damaged_records_says_so(
    world: StoreWorld, definitions: Definitions
) -> None:
    k = world.shard.keys
    await definitions.put()
    world.pass_ms(MINUTE_MS)
    await definitions.fire()
    clock = await world.redis.hget(k.definition_clocks, "nightly")
    await world.redis.hdel(k.definition_clocks, "nightly")
    with pytest.raises(DamagedError, match="nightly: its entry in `definition_clocks` is missing"):
        await definitions.store.get(["nightly"])
    await world.redis.hset(k.definition_clocks, "nightly", b"not a clock")
    with pytest.raises(DamagedError, match="nightly: its clock cannot be read"):
        await definitions.store.get(["nightly"])
    await world.redis.hset(k.definition_clocks, "nightly", clock)
    await world.redis.zadd(k.runs("nightly"), {b"damaged": world.now_ms})
    with pytest.raises(DamagedError, match="a run record cannot be read"):
        await definitions.store.runs("nightly", None, 10, None)
    await world.redis.zrem(k.runs("nightly"), b"damaged")
