"""Uniqueness: at most one job holds a key."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from jqmaster.domain.constraints.constraint import gate_id
from jqmaster.domain.ids import new_id
from jqmaster.domain.jobs.job import Cause, JobState
from jqmaster.domain.matching.key_value import key_value
from jqmaster.store.jobs.enqueue_outcomes import (
    Accepted,
    BacklogFull,
    Conflict,
    IdTaken,
    NotUnique,
    PushRefused,
)
from jqmaster.store.jobs.idempotency import Bound, KeyedSpec
from jqmaster.store.jobs.operator_actions import KeyHeld, Refusal
from tests.support.constraints import ConstrainedWorld
from tests.support.store import StoreWorld
from tests.support.unique import bring_to, debounced, unique

pytestmark = pytest.mark.req("S7")

STATES = ("scheduled", "ready", "offered", "running", "retrying", "succeeded", "failed", "canceled", "gone")
WAITS, UNFINISHED = ("scheduled", "ready"), ("scheduled", "ready", "offered", "running", "retrying")
WINDOW_MS = 60_000


def terms(scope: str, on_conflict: str = "reject", key: str = "k") -> Any:
    return unique(key, scope, on_conflict, ttl_ms=WINDOW_MS if scope == "window" else 0)


def refused_by(holders: Mapping[int, str]) -> dict[int, NotUnique]:
    return {n: NotUnique(holder, Conflict.REFUSED) for n, holder in holders.items()}


def holds(scope: str, state: str, *, within: bool = True) -> bool:
    """Return whether a job with that scope holds its key, as docs/unique.md says."""
    if scope == "until_start":
        return state in WAITS
    return state in UNFINISHED or (scope == "window" and within)


async def holder_in(world: StoreWorld, scope: str, state: str) -> str:
    spec = world.spec(
        argument="first", unique=terms(scope), delay_ms=5_000_000 if state == "scheduled" else None
    )
    await bring_to(world, spec, state)
    return spec.id


@pytest.mark.parametrize("on_conflict", ["reject", "existing", "replace"])
@pytest.mark.parametrize("scope", ["until_start", "until_finished", "window"])
@pytest.mark.parametrize("state", STATES)
async def test_a_push_is_judged_by_the_scope_and_the_state_of_the_holder(
    world: StoreWorld, scope: str, state: str, on_conflict: str
) -> None:
    holder = await holder_in(world, scope, state)
    other = world.spec(argument="second", priority=3, unique=terms(scope, on_conflict))
    (outcome,) = await world.acceptance.enqueue([other])
    if not holds(scope, state):
        assert outcome is Accepted.NEW
        assert (await world.get(other.id)).state is JobState.READY
        return
    assert isinstance(outcome, NotUnique)
    assert outcome.holder == holder
    assert await world.records.get(other.id) is None
    if on_conflict == "reject":
        assert outcome.conflict is Conflict.REFUSED
    elif on_conflict == "replace" and state in WAITS:
        assert outcome.conflict is Conflict.REPLACED
        job = await world.get(holder)
        assert (job.argument, job.priority, job.state, job.due_at_ms) == (
            other.argument, 3, JobState.READY, 0,
        )  # fmt: skip
    elif on_conflict == "replace" and state == "offered":
        assert outcome.conflict is Conflict.OFFERED
    else:
        assert outcome.conflict is Conflict.EXISTING
    if outcome.conflict is not Conflict.REPLACED and state != "gone":
        assert (await world.get(holder)).argument != other.argument


@pytest.mark.parametrize("state", ["ready", "running", "retrying", "succeeded", "gone"])
async def test_a_window_ends_with_its_time_but_never_before_the_job(world: StoreWorld, state: str) -> None:
    holder = await holder_in(world, "window", state)
    world.pass_ms(WINDOW_MS - 1)
    assert await world.acceptance.enqueue([world.spec(unique=terms("window"))]) == [
        NotUnique(holder, Conflict.REFUSED)
    ]
    world.pass_ms(1)
    (outcome,) = await world.acceptance.enqueue([world.spec(unique=terms("window"))])
    assert (outcome is Accepted.NEW) == (not holds("window", state, within=False))


async def test_a_clock_that_goes_back_frees_no_key_and_holds_none_for_ever(world: StoreWorld) -> None:
    holder = await holder_in(world, "window", "succeeded")
    world.pass_ms(-3_600_000)
    assert await world.acceptance.enqueue([world.spec(unique=terms("window"))]) == [
        NotUnique(holder, Conflict.REFUSED)
    ]
    world.pass_ms(3_600_000 + WINDOW_MS)
    assert await world.acceptance.enqueue([world.spec(unique=terms("window"))]) == [Accepted.NEW]


async def test_other_keys_and_jobs_without_one_are_in_nobodys_way(world: StoreWorld) -> None:
    await holder_in(world, "until_finished", "ready")
    others = [
        world.spec(),
        world.spec(unique=unique("other")),
        world.spec("mail", unique=unique("k", name="mail")),
    ]
    assert set(await world.acceptance.enqueue(others)) == {Accepted.NEW}


async def test_a_refusal_changes_nothing(world: StoreWorld) -> None:
    await holder_in(world, "until_finished", "ready")
    async with world.unchanged():
        for on_conflict in ("reject", "existing"):
            await world.acceptance.enqueue([world.spec(unique=terms("until_finished", on_conflict))])


async def test_a_repeat_of_the_holder_itself_is_known(world: StoreWorld) -> None:
    spec = world.spec(unique=unique())
    assert await world.acceptance.enqueue([spec]) == [Accepted.NEW]
    async with world.unchanged():
        assert await world.acceptance.enqueue([spec]) == [Accepted.KNOWN]
        assert await world.acceptance.checks.find_held([spec]) == {}
    assert await world.acceptance.enqueue([replace(spec, priority=1)]) == [IdTaken(spec.id)]


async def test_one_push_conflicts_with_itself(world: StoreWorld) -> None:
    first, existing, refused, replacing = (
        world.spec(argument=n, unique=terms("until_finished", how))
        for n, how in enumerate(("reject", "existing", "reject", "replace"))
    )
    assert await world.acceptance.enqueue([first, existing, refused, replacing]) == [
        Accepted.NEW,
        NotUnique(first.id, Conflict.EXISTING),
        NotUnique(first.id, Conflict.REFUSED),
        NotUnique(first.id, Conflict.REPLACED),
    ]
    assert (await world.get(first.id)).argument == replacing.argument
    # The repeat by the first pusher is still known.
    assert await world.acceptance.enqueue([first]) == [Accepted.KNOWN]


async def test_a_whole_push_is_refused_as_one(world: StoreWorld) -> None:
    holder = await holder_in(world, "until_finished", "ready")
    specs = [world.spec(), world.spec(unique=unique())]
    async with world.unchanged():
        with pytest.raises(PushRefused) as held:
            await world.acceptance.enqueue(specs, is_whole=True)
        assert held.value.refused == {1: NotUnique(holder, Conflict.REFUSED)}
    many = [world.spec(unique=unique(f"k{n}")) for n in range(1_100)]
    many[700] = world.spec(unique=unique())
    many[900] = world.spec(unique=unique("k3"))
    many[901] = world.spec(unique=unique("k3", on_conflict="existing"))
    assert await world.acceptance.checks.find_held(many) == refused_by({700: holder, 900: many[3].id})
    # Only a simultaneous call can bring a later part of a push this far.
    outcomes = await world.acceptance.enqueue(many, is_whole=True)
    assert outcomes[700] == NotUnique(holder, Conflict.REFUSED)
    assert outcomes[901] == NotUnique(many[3].id, Conflict.EXISTING)
    assert outcomes.count(Accepted.NEW) == 1_097


@pytest.mark.parametrize("on_conflict", ["reject", "existing", "replace"])
async def test_one_of_simultaneous_pushes_by_two_masters_makes_the_job(
    world: StoreWorld, on_conflict: str
) -> None:
    specs = [world.spec(argument=n, unique=terms("until_finished", on_conflict)) for n in range(20)]
    second = StoreWorld(world.shard)
    outcomes = await asyncio.gather(
        *[(world, second)[n % 2].acceptance.enqueue([spec]) for n, spec in enumerate(specs)]
    )
    assert [one for (one,) in outcomes].count(Accepted.NEW) == 1
    (job_id,) = {spec.id for spec in specs if await world.records.get(spec.id)}
    assert {one.holder for (one,) in outcomes if isinstance(one, NotUnique)} == {job_id}


# --- replace


async def test_a_replaced_job_is_the_new_push_under_its_old_id_and_age(world: StoreWorld) -> None:
    first = world.spec(argument=1, unique=unique(), expires_at_ms=world.now_ms + 99_000, delay_ms=50_000)
    await world.acceptance.enqueue([first])
    made_at_ms = world.now_ms
    await world.results.fetch_result(first.id, watch=True)
    world.pass_ms(500)
    second = world.spec(
        argument=[2], unique=terms("until_start", "replace"), priority=-4, max_retry=1, timeout_ms=9,
        keep_result=True, tags=("t",), headers={"h": "v"}, rerun_lost=True, delay_ms=7_000,
    )  # fmt: skip
    assert await world.acceptance.enqueue([second]) == [NotUnique(first.id, Conflict.REPLACED)]
    job = await world.get(first.id)
    assert (job.created_at_ms, job.due_at_ms, job.state) == (
        made_at_ms,
        world.now_ms + 7_000,
        JobState.SCHEDULED,
    )
    assert (job.argument, job.priority, job.max_retry, job.timeout_ms) == (second.argument, -4, 1, 9)
    assert (job.keep_result, job.tags, job.headers, job.rerun_lost) == (True, ("t",), {"h": "v"}, True)
    assert (job.expires_at_ms, job.unique) == (0, second.unique)
    k = world.shard.keys
    assert await world.score(k.scheduled, first.id) == job.due_at_ms
    assert await world.score(k.expiring, first.id) is None
    # Somebody still waits for its end.
    async with world.published(k.finished_channel, first.id):
        await world.operator_actions.cancel(first.id)


@pytest.mark.parametrize("before", [None, 50_000])
@pytest.mark.parametrize("after", [None, 50_000])
async def test_a_replaced_job_runs_in_its_new_order(
    world: StoreWorld, before: int | None, after: int | None
) -> None:
    first = world.spec(argument=1, unique=unique(), delay_ms=before)
    await world.acceptance.enqueue([first, world.spec(argument="between", priority=-1)])
    await world.acceptance.enqueue(
        [world.spec(argument=2, unique=unique(on_conflict="replace"), priority=-2, delay_ms=after)]
    )
    await world.assert_sound()
    claimed = [job.job_id for job in await world.claim(await world.worker())]
    assert claimed.index(first.id) == 0 if after is None else first.id not in claimed
    assert len(claimed) == (2 if after is None else 1)


async def test_a_job_that_was_offered_in_vain_is_replaced_still(world: StoreWorld) -> None:
    first = world.spec(unique=unique())
    await world.acceptance.enqueue([first])
    worker_id = await world.worker()
    (job,) = await world.claim(worker_id)
    await world.leases.return_offers(world.epoch, worker_id, [(job.job_id, job.token)])
    second = world.spec(argument=2, unique=unique(on_conflict="replace"))
    assert await world.acceptance.enqueue([second]) == [NotUnique(first.id, Conflict.REPLACED)]
    replaced = await world.get(first.id)
    assert (replaced.argument, replaced.returned_offers) == (second.argument, 1)


async def offered(world: StoreWorld, spec: Any) -> Callable[[], Awaitable[None]]:
    """Push the job and offer it to a worker. The result takes the offer back."""
    await world.acceptance.enqueue([spec])
    worker_id = await world.worker()
    (job,) = await world.claim(worker_id)
    claims = [(job.job_id, job.token)]
    return lambda: world.leases.return_offers(world.epoch, worker_id, claims)


@pytest.mark.parametrize("then", ["waits", "offered", "running", "succeeded"])
async def test_a_job_whose_key_was_taken_during_its_offer_gives_way_to_that_job(
    world: StoreWorld, then: str
) -> None:
    """It may have been about to start with what was true before the second push, so that push made a job."""
    first, second = (world.spec(argument=n, unique=terms("until_start", "replace")) for n in (1, 2))
    give_back = await offered(world, first)
    if then == "waits":
        assert await world.acceptance.enqueue([second]) == [Accepted.NEW]
    else:
        await bring_to(world, second, then)
    await give_back()
    former = await world.get(first.id)
    assert (former.state, former.cause, former.attempt) == (JobState.SKIPPED, Cause.SUPERSEDED, 0)
    assert world.tally.take().names["work"].skipped == 1
    await world.assert_sound()
    holder = {0: second.id} if then == "waits" else {}
    assert await world.acceptance.checks.find_held([world.spec(unique=terms("until_start"))]) == refused_by(
        holder
    )


@pytest.mark.parametrize("then", ["canceled", "failed", "gone", "never pushed"])
async def test_a_job_that_was_offered_in_vain_has_its_key_again(world: StoreWorld, then: str) -> None:
    first, second = (world.spec(argument=n, unique=terms("until_start", "replace")) for n in (1, 2))
    give_back = await offered(world, first)
    if then != "never pushed":
        await bring_to(world, second, then)
    await give_back()
    assert (await world.get(first.id)).state is JobState.READY
    assert await world.acceptance.enqueue([world.spec(unique=terms("until_start"))]) == [
        NotUnique(first.id, Conflict.REFUSED)
    ]


async def test_the_newest_of_many_jobs_offered_in_vain_waits(world: StoreWorld) -> None:
    specs = [world.spec(argument=n, **debounced(wait_ms=1_000)) for n in range(3)]
    take_back = []
    for spec in specs:
        await world.acceptance.enqueue([spec])
        world.pass_ms(1_000)
        await world.due.promote(world.epoch, JobState.SCHEDULED)
        worker_id = await world.worker()
        (job,) = await world.claim(worker_id)
        take_back.append((worker_id, job))
    for worker_id, job in take_back:
        await world.leases.return_offers(world.epoch, worker_id, [(job.job_id, job.token)])
    states = [(await world.get(spec.id)).state for spec in specs]
    assert states == [JobState.SKIPPED, JobState.SKIPPED, JobState.READY]


async def test_nothing_is_replaced_while_nobody_knows_whether_it_starts(world: StoreWorld) -> None:
    first = world.spec(argument=1, unique=unique())
    give_back = await offered(world, first)
    newest = world.spec(argument=2, unique=unique(on_conflict="replace"))
    async with world.unchanged():
        assert await world.acceptance.enqueue([newest]) == [NotUnique(first.id, Conflict.OFFERED)]
        with pytest.raises(PushRefused) as held:
            await world.acceptance.enqueue([world.spec(), newest], is_whole=True)
        assert held.value.refused == {1: NotUnique(first.id, Conflict.OFFERED)}
    await give_back()
    assert await world.acceptance.enqueue([newest]) == [NotUnique(first.id, Conflict.REPLACED)]
    assert (await world.get(first.id)).argument == newest.argument


# --- debounce


async def test_a_debounced_job_waits_again_after_each_push_but_not_beyond_its_bound(
    world: StoreWorld,
) -> None:
    began_ms = world.now_ms
    first = world.spec(argument=0, **debounced(wait_ms=1_000, max_ms=2_500))
    await world.acceptance.enqueue([first])
    due = [(await world.get(first.id)).due_at_ms - began_ms]
    for n in range(1, 5):
        world.pass_ms(600)
        push = world.spec(argument=n, **debounced(wait_ms=1_000, max_ms=2_500))
        assert await world.acceptance.enqueue([push]) == [NotUnique(first.id, Conflict.REPLACED)]
        due.append((await world.get(first.id)).due_at_ms - began_ms)
    assert due == [1_000, 1_600, 2_200, 2_500, 2_500]
    world.pass_ms(200)
    await world.acceptance.enqueue([world.spec(argument=9, **debounced(wait_ms=1_000, max_ms=2_500))])
    job = await world.get(first.id)
    assert (job.state, job.argument) == (JobState.READY, world.spec(argument=9).argument)
    # Once it has started, the next push begins a new delay.
    await world.claim(await world.worker())
    assert await world.acceptance.enqueue([world.spec(**debounced(wait_ms=1_000))]) == [Accepted.NEW]


async def test_without_a_bound_pushes_delay_for_as_long_as_they_come(world: StoreWorld) -> None:
    first = world.spec(**debounced(wait_ms=1_000))
    await world.acceptance.enqueue([first])
    for _ in range(10):
        world.pass_ms(999)
        await world.acceptance.enqueue([world.spec(**debounced(wait_ms=1_000))])
    assert (await world.get(first.id)).due_at_ms == world.now_ms + 1_000


# --- what else ends or takes a key


@pytest.mark.parametrize("scope", ["until_start", "until_finished", "window"])
async def test_a_retried_job_takes_its_key_again(world: StoreWorld, scope: str) -> None:
    holder = await holder_in(world, scope, "canceled")
    await world.operator_actions.retry(await world.get(holder))
    assert await world.acceptance.enqueue([world.spec(unique=terms(scope))]) == [
        NotUnique(holder, Conflict.REFUSED)
    ]


@pytest.mark.parametrize("state", ["succeeded", "failed", "canceled"])
async def test_a_retry_is_refused_while_another_job_holds_the_key(world: StoreWorld, state: str) -> None:
    old = await holder_in(world, "until_finished", state)
    new = world.spec(unique=unique())
    await world.acceptance.enqueue([new])
    async with world.unchanged():
        with pytest.raises(KeyHeld) as held:
            await world.operator_actions.retry(await world.get(old))
        assert held.value.holder == new.id
        job = await world.get(old)
        assert await world.operator_actions.retry_all([job]) == [Refusal("not_unique", holder=new.id)]
    await world.operator_actions.cancel(new.id)
    await world.operator_actions.retry(await world.get(old))
    assert await world.acceptance.checks.find_held([world.spec(unique=unique())]) == refused_by({0: old})


async def test_a_retried_job_that_has_started_holds_no_key_until_its_start(world: StoreWorld) -> None:
    old = await holder_in(world, "until_start", "failed")
    new = world.spec(unique=terms("until_start"))
    await world.acceptance.enqueue([new])
    await world.operator_actions.retry(await world.get(old))
    assert await world.acceptance.checks.find_held([world.spec(unique=terms("until_start"))]) == refused_by(
        {0: new.id}
    )


@pytest.mark.parametrize("by", ["sweep", "delete"])
@pytest.mark.parametrize("scope", ["until_start", "until_finished", "window"])
async def test_a_removed_job_leaves_no_key_but_of_its_window(world: StoreWorld, scope: str, by: str) -> None:
    holder = await holder_in(world, scope, "succeeded")
    digest = terms(scope).digest
    key = world.shard.keys.unique(digest)
    if by == "delete":
        await world.operator_actions.delete(holder)
    else:
        assert await world.retention.sweep(world.epoch, JobState.SUCCEEDED, retention_ms=0, max_jobs=0) == 1
    assert await world.redis.exists(key) == (scope == "window")
    if scope == "window":
        assert 0 < await world.redis.pttl(key) <= WINDOW_MS
        assert await world.acceptance.checks.find_held([world.spec(unique=terms(scope))]) == refused_by(
            {0: holder}
        )
        # A push that learns of the job leaves the end of its life unchanged.
        await world.acceptance.enqueue([world.spec(unique=terms(scope, "existing"))])
        assert 0 < await world.redis.pttl(key) <= WINDOW_MS


async def test_a_removed_job_leaves_the_key_that_another_took(world: StoreWorld) -> None:
    old = await holder_in(world, "until_finished", "succeeded")
    new = world.spec(unique=unique())
    await world.acceptance.enqueue([new])
    await world.operator_actions.delete(old)
    assert await world.acceptance.checks.find_held([world.spec(unique=unique())]) == refused_by({0: new.id})


async def test_a_key_lives_on_after_a_window_whose_job_was_removed(world: StoreWorld) -> None:
    await holder_in(world, "window", "gone")
    world.pass_ms(WINDOW_MS)
    spec = world.spec(unique=terms("window"))
    assert await world.acceptance.enqueue([spec]) == [Accepted.NEW]
    assert await world.redis.pttl(world.shard.keys.unique(terms("window").digest)) == -1


@pytest.mark.parametrize("harm", ["record", "key", "extras"])
async def test_damage_holds_no_key(world: StoreWorld, harm: str) -> None:
    holder = await holder_in(world, "until_finished", "ready")
    k = world.shard.keys
    key = k.unique(unique().digest)
    if harm == "record":
        record = await world.redis.get(k.job(holder))
        await world.redis.set(k.job(holder), b"?")
        assert await world.acceptance.enqueue([world.spec(unique=unique())]) == [Accepted.NEW]
        await world.redis.set(k.job(holder), record)
        return
    if harm == "key":
        await world.redis.set(key, b"?")
        assert await world.acceptance.enqueue([world.spec(unique=unique())]) == [Accepted.NEW]
        return
    record = await world.redis.get(k.job(holder))
    await world.redis.set(k.job(holder), record.replace(b"unique", b"uniqua"))
    await world.operator_actions.delete(holder)
    await world.redis.delete(key)


# --- idempotency keys


@pytest.mark.parametrize(
    ("on_conflict", "conflict"), [("existing", Conflict.EXISTING), ("replace", Conflict.REPLACED)]
)
async def test_an_idempotency_key_remembers_the_holder(
    world: StoreWorld, on_conflict: str, conflict: Conflict
) -> None:
    holder = await holder_in(world, "until_finished", "ready")
    spec = world.spec(unique=terms("until_finished", on_conflict))
    keyed = KeyedSpec("d", spec, 60_000)
    await world.acceptance.idempotency.reserve_ids([keyed])
    await world.acceptance.idempotency.mark_accepted({"d": NotUnique(holder, conflict)})
    again = KeyedSpec("d", replace(spec, id=new_id()), 60_000)
    async with world.unchanged():
        assert await world.acceptance.idempotency.reserve_ids([again]) == [Bound(holder, True, conflict)]
    assert 0 < await world.redis.pttl(world.shard.keys.idempotency("d")) <= 60_000


# --- constraints


@pytest.mark.req("J13")
async def test_a_replacement_moves_to_the_gates_of_its_new_content(world: StoreWorld) -> None:
    constrained = ConstrainedWorld(world)
    limit = await constrained.limit(key="argument", concurrency=1)
    first = world.spec(argument="a", unique=unique())
    assert await constrained.push([first, world.spec(argument="b")]) == [Accepted.NEW] * 2
    second = world.spec(argument="b", unique=unique(on_conflict="replace"))
    assert await constrained.push([second]) == [NotUnique(first.id, Conflict.REPLACED)]
    structures = await constrained.structures()
    assert await constrained.gates_of(first.id, structures.lanes) == [gate_id(limit.cid, key_value("b"))]
    assert sorted(structures.waiting.values()) == [0, 2]
    # One of them at a time.
    assert await constrained.take(await world.worker()) == [first.id]


@pytest.mark.req("J13")
async def test_a_replacement_needs_room_only_at_gates_that_are_new_to_the_job(world: StoreWorld) -> None:
    constrained = ConstrainedWorld(world)
    await constrained.limit(key="argument", max_backlog=1)
    first = world.spec(argument="a", unique=unique())
    assert await constrained.push([first, world.spec(argument="b")]) == [Accepted.NEW] * 2
    same = world.spec(argument="a", priority=2, unique=unique(on_conflict="replace"))
    assert await constrained.push([same]) == [NotUnique(first.id, Conflict.REPLACED)]
    async with world.unchanged():
        (outcome,) = await constrained.push([world.spec(argument="b", unique=unique(on_conflict="replace"))])
        assert isinstance(outcome, BacklogFull)
    assert (await world.get(first.id)).priority == 2


async def test_a_refused_job_takes_no_key_though_it_is_free(world: StoreWorld) -> None:
    constrained = ConstrainedWorld(world)
    await constrained.limit(max_backlog=1)
    first, second = (world.spec(unique=unique(key)) for key in "ab")
    accepted, refused = await constrained.push([first, second])
    assert accepted is Accepted.NEW
    assert isinstance(refused, BacklogFull)
    async with world.unchanged():
        (again,) = await constrained.push([world.spec(unique=unique("c"))])
        assert isinstance(again, BacklogFull)
    await world.operator_actions.cancel(first.id)
    # The key of the refused job is free.
    assert await constrained.push([world.spec(unique=unique("b"))]) == [Accepted.NEW]
