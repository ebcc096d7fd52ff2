"""Events are accepted: each starts the jobs of the definitions that it matches, once."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from jqmaster.domain.definitions.run import RunOutcome, job_id_of_event
from jqmaster.domain.events.event import Effect, Event
from jqmaster.domain.ids import is_id, new_id
from jqmaster.domain.jobs.job import JobState
from jqmaster.errors import (
    ConflictError,
    JqmasterError,
    OutcomeUnknownError,
    OverloadedError,
    RateLimitedError,
    StoreUnavailableError,
)
from jqmaster.service.events import intake
from jqmaster.store.events.events import EventStore, MatchedEvent, ReceivedEvent, StaleDefinitions
from jqmaster.store.jobs.placement import StaleConstraints
from tests.support.constraints import ConstrainedWorld, constraint
from tests.support.events import DEDUPE_MS, Events, event
from tests.support.store import START_MS, StoreWorld


@pytest.fixture
def events(world: StoreWorld) -> Events:
    return Events(world)


def effects(received: ReceivedEvent) -> list[tuple[str, str, str]]:
    return [(one.definition, str(one.effect), str(one.reason)) for one in received.started]


@pytest.mark.req("D6", "D9")
async def test_an_event_starts_the_job_of_each_definition_that_it_matches(
    world: StoreWorld, events: Events
) -> None:
    ship = await events.define(job={"name": "ship", "priority": 3, "tags": ("a",)})
    await events.define("mail", "order.paid", matcher={"field": "payload.total", "op": "ge", "value": 10})
    await events.define("other", "user.*")
    received = await events.send(payload={"total": 9})
    assert effects(received) == [("ship", "fired", "")]
    (job,) = await events.jobs()
    assert job.id == job_id_of_event(ship.did, received.event_id) == received.started[0].job_id
    assert (job.name, job.state, job.priority, job.tags) == ("ship", JobState.READY, 3, ("a",))
    assert await events.arguments() == [{"total": 9}]
    (run,) = await events.runs()
    assert (run.due_at_ms, run.outcome, run.job_id, run.event_id) == (
        START_MS,
        RunOutcome.FIRED,
        job.id,
        received.event_id,
    )
    assert effects(await events.send(payload={"total": 10})) == [("mail", "fired", ""), ("ship", "fired", "")]
    # A field that is missing or has another type matches nothing.
    assert effects(await events.send(payload={"total": "10"})) == [("ship", "fired", "")]
    assert effects(await events.send("nobody.cares")) == []
    assert world.tally.of("ship").pushed == 3
    assert events.figures.effects == {Effect.FIRED: 4}


@pytest.mark.req("D9")
async def test_a_repeated_key_starts_nothing_and_is_answered_as_the_first(
    world: StoreWorld, events: Events
) -> None:
    await events.define()
    first = await events.send(dedupe_key="a")
    again = await events.send(dedupe_key="a", payload="other")
    assert again == ReceivedEvent(first.event_id, True, first.started)
    assert not (await events.send(dedupe_key="a", source="elsewhere")).is_duplicate
    assert not (await events.send()).is_duplicate
    assert len(await events.jobs()) == len(await events.runs()) == 3
    life_ms = await world.redis.pttl(world.shard.keys.event_key(event(dedupe_key="a").dedupe_digest))
    assert 0 < life_ms <= DEDUPE_MS
    assert events.figures.events == {False: 3, True: 1}


@pytest.mark.req("D9")
async def test_a_key_that_comes_to_many_masters_at_once_starts_one_job(
    world: StoreWorld, events: Events
) -> None:
    await events.define()
    masters = [events.master() for _ in range(5)]
    received = await asyncio.gather(
        *(one.one(event(dedupe_key=f"k{n}")) for n in range(10) for one in masters for _ in range(2))
    )
    assert sum(not one.is_duplicate for one in received) == 10
    assert len({one.event_id for one in received}) == 10
    assert len(await events.jobs()) == len(await events.runs()) == 10


@pytest.mark.req("D9")
async def test_the_same_key_twice_in_one_request_counts_once(events: Events) -> None:
    await events.define(overlap="replace")
    first, second, third = await events.intake.many(
        [event(dedupe_key="a"), event(dedupe_key="a"), event(dedupe_key="a", payload="x")]
    )
    assert [one.is_duplicate for one in (first, second, third)] == [False, True, True]
    assert first.event_id == second.event_id == third.event_id
    assert await events.outcomes() == [("fired", "")]


@pytest.mark.req("D6")
async def test_a_paused_definition_starts_nothing(events: Events) -> None:
    await events.define(enabled=False)
    received = await events.send()
    assert effects(received) == [("ship", "skipped", "paused")]
    assert await events.outcomes() == [("skipped", "paused")]
    assert await events.jobs() == []


@pytest.mark.req("D6")
async def test_overlap_is_judged_as_for_instants(world: StoreWorld, events: Events) -> None:
    await events.define("forbid", overlap="forbid")
    await events.define("replace", overlap="replace")
    first = await events.send()
    second = await events.send()
    assert effects(second) == [("forbid", "skipped", "overlap"), ("replace", "fired", "")]
    states = {one.definition: await world.state(one.job_id) for one in first.started}
    assert states == {"forbid": JobState.READY, "replace": JobState.CANCELED}
    await world.operator_actions.cancel(first.started[0].job_id)
    many = await events.intake.many([event(), event(), event()])
    assert [effects(one)[0][1:] for one in many] == [
        ("fired", ""),
        ("skipped", "overlap"),
        ("skipped", "overlap"),
    ]
    assert [effects(one)[1][1:] for one in many] == [
        ("skipped", "superseded"),
        ("skipped", "superseded"),
        ("fired", ""),
    ]


@pytest.mark.req("D6")
async def test_a_full_backlog_and_a_long_argument_start_no_job(world: StoreWorld) -> None:
    await ConstrainedWorld(world).put(constraint(max_backlog=1))
    events = Events(world, max_argument_bytes=20)
    await events.define()
    assert effects(await events.send()) == [("ship", "fired", "")]
    assert effects(await events.send()) == [("ship", "skipped", "backlog_full")]
    assert effects(await events.send(payload="x" * 20)) == [("ship", "skipped", "argument_too_large")]
    # So does one that is larger than the quota of the namespace.
    events.kept.current = replace(events.kept.current, max_argument_bytes=1000)
    assert effects(await events.send(payload="x" * 20)) == [("ship", "skipped", "backlog_full")]
    events.argument_quota.current = 20
    assert effects(await events.send(payload="x" * 20)) == [("ship", "skipped", "argument_too_large")]
    assert len(await events.jobs()) == 1


@pytest.mark.req("D6")
async def test_a_change_of_a_definition_counts_from_the_next_event_on(
    world: StoreWorld, events: Events
) -> None:
    await events.define()
    await events.send()
    await events.define(event_type="user.*")
    assert effects(await events.send()) == []
    await events.remove()
    assert effects(await events.send("user.made")) == []
    assert await world.redis.exists(world.shard.keys.runs("ship")) == 0


async def test_events_matched_by_old_definitions_or_constraints_are_refused(
    world: StoreWorld, events: Events
) -> None:
    await events.define()
    kept = events.kept.current
    async with world.unchanged():
        with pytest.raises(StaleDefinitions):
            await events.store.send([MatchedEvent(event(), ())], edition="", kept=kept)
    edition = (await events.store.index()).edition
    await ConstrainedWorld(world).put(constraint(concurrency=1))
    async with world.unchanged():
        with pytest.raises(StaleConstraints):
            await events.store.send([MatchedEvent(event(), ())], edition=edition, kept=kept)
    other = EventStore(replace(world.shard, mark="other"), world.tally)
    async with world.unchanged():
        with pytest.raises(StoreUnavailableError):
            await other.send([MatchedEvent(event(), ())], edition=edition, kept=kept)


async def test_events_written_before_a_change_are_not_written_again(
    world: StoreWorld, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    await events.define()
    monkeypatch.setattr(intake, "MAX_PER_CALL", 2)
    send = events.store.send
    calls = 0

    async def change_in_between(*given: object, **named: object) -> list[ReceivedEvent]:
        nonlocal calls
        calls += 1
        if calls == 3:
            await events.define(job={"priority": 1})
        return await send(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(events.store, "send", change_in_between)
    received = await events.intake.many([event() for _ in range(2)])
    received += await events.intake.many([event() for _ in range(2)])
    assert all(isinstance(one, ReceivedEvent) for one in received)
    assert len(await events.jobs()) == len(await events.runs()) == 4


@pytest.mark.parametrize("kind", [StoreUnavailableError, OverloadedError, RateLimitedError])
async def test_a_refusal_in_the_middle_leaves_the_outcome_unknown(
    events: Events, monkeypatch: pytest.MonkeyPatch, kind: type[JqmasterError]
) -> None:
    send = events.store.send
    calls = 0

    async def fail(*given: object, **named: object) -> list[ReceivedEvent]:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise kind("away", retry_after_s=1.0)
        return await send(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(events.store, "send", fail)
    monkeypatch.setattr(intake, "MAX_PER_CALL", 2)
    with pytest.raises(OutcomeUnknownError):
        await events.intake.many([event() for _ in range(3)])
    with pytest.raises(kind):
        await events.intake.one(event())


async def test_senders_beyond_the_limit_are_told_when_to_come_again(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "MAX_WAITING", 2)
    master = Events(world).master()
    answers = await asyncio.gather(*(master.one(event()) for _ in range(10)), return_exceptions=True)
    refused = [answer for answer in answers if isinstance(answer, OverloadedError)]
    assert 0 < len(refused) < 10
    assert all(error.retry_after_s for error in refused)
    assert len((await master._store.page(None, 20)).events) == 10 - len(refused)


async def test_an_event_that_too_many_definitions_match_is_refused_alone(
    events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    await events.define("a")
    await events.define("b", "order.paid")
    monkeypatch.setattr(intake, "MAX_MATCHES", 1)
    assert effects(await events.send("order.made")) == [("a", "fired", "")]
    with pytest.raises(ConflictError):
        await events.send("order.paid")
    assert len(await events.jobs()) == 1


@pytest.mark.parametrize("at", [0, 2, 4])
async def test_a_request_with_an_event_that_too_many_definitions_match_has_no_effect(
    events: Events, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    await events.define("a")
    await events.define("b", "order.paid")
    monkeypatch.setattr(intake, "MAX_MATCHES", 1)
    monkeypatch.setattr(intake, "MAX_PER_CALL", 2)
    sent = [event("order.made") for _ in range(5)]
    with pytest.raises(ConflictError):
        await events.intake.many([*sent[:at], event("order.paid"), *sent[at:]])
    assert await events.jobs() == []
    assert len(await events.intake.many(sent)) == len(await events.jobs()) == 5


async def test_a_definition_that_comes_amid_a_request_leaves_the_outcome_unknown(
    events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    await events.define("a")
    monkeypatch.setattr(intake, "MAX_MATCHES", 1)
    monkeypatch.setattr(intake, "MAX_PER_CALL", 1)
    send = events.store.send

    async def send_then_define(*given: Any, **named: Any) -> list[ReceivedEvent]:
        received = await send(*given, **named)
        monkeypatch.setattr(events.store, "send", send)
        await events.define("b", "order.paid")
        return received

    monkeypatch.setattr(events.store, "send", send_then_define)
    with pytest.raises(OutcomeUnknownError):
        await events.intake.many([event("order.made"), event("order.paid")])
    assert len(await events.jobs()) == 1


@pytest.mark.req("D9")
async def test_the_newest_events_are_listed_with_what_they_started(world: StoreWorld) -> None:
    events = Events(world, most=3)
    await events.define()
    ids = []
    for n in range(5):
        world.pass_ms(n % 2)
        ids.append((await events.send(payload=n, occurred_at_ms=n, subject=f"s{n}")).event_id)
    page = await events.store.page(None, 2)
    assert [one.event.id for one in page.events] == ids[:2:-1]
    rest = await events.store.page(page.next_position, 2)
    assert ([one.event.id for one in rest.events], rest.next_position) == ([ids[2]], None)
    newest = page.events[0]
    assert newest.event == Event(ids[4], "order.paid", b"\x04", "", "", "s4", 4, "")
    assert newest.received_at_ms == world.now_ms
    assert [one.effect for one in newest.started] == [Effect.FIRED]
    assert await events.store.get(ids[0]) is None
    world.pass_ms(10**12 + 1)
    await events.send("user.made")
    assert len((await events.store.page(None, 10)).events) == 1


@pytest.mark.req("D9")
async def test_a_replay_is_a_new_event(events: Events) -> None:
    await events.define()
    first = await events.send(payload=[1], dedupe_key="a")
    stored, received = await events.intake.replay(first.event_id)
    assert (stored.event.id, received.is_duplicate) == (first.event_id, False)
    again = await events.store.get(received.event_id)
    assert again
    assert (again.event.replay_of, again.event.payload, again.event.dedupe_key) == (
        first.event_id,
        b"\x91\x01",
        "",
    )
    assert len(await events.jobs()) == 2


@pytest.mark.req("D6")
async def test_run_records_of_one_instant_are_paged_one_by_one(world: StoreWorld, events: Events) -> None:
    await events.define()
    for _ in range(5):
        await events.send()
    found, place = [], None
    while True:
        page = await world.definitions.runs("ship", place, 2, None)
        found += [run.event_id for run in page.runs]
        place = page.next_at
        if place is None:
            break
    assert len(found) == len(set(found)) == 5


def test_jobs_of_one_master_sort_as_their_events_do() -> None:
    ids = [new_id() for _ in range(1000)]
    made = [job_id_of_event("0" * 16, event_id) for event_id in ids]
    assert made == sorted(made)
    assert len({*made, *(job_id_of_event(f"{n:016x}", ids[0]) for n in range(1, 1001))}) == 2000
    assert all(is_id(one) and one[14] == "8" for one in made)
