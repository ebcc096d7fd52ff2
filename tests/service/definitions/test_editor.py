"""Changes of definitions while their instants are due."""

from collections.abc import Awaitable
from typing import Any

import pytest

from jqmaster.domain.content.content import full_access
from jqmaster.domain.jobs.job import JobSpec
from jqmaster.errors import OutcomeUnknownError, StoreUnavailableError
from jqmaster.service.definitions.editor import DefinitionEditor
from jqmaster.store.calendars.calendars import CalendarStore
from jqmaster.store.definitions.definitions import KnownDefinition
from jqmaster.store.identity.audit import AuditStore
from tests.support.definitions import MINUTE_MS, Definitions
from tests.support.store import StoreWorld

FIELDS = {
    "kind": "time", "enabled": True, "description": "", "overlap": "allow", "schedule": {"every_minutes": 1},
    "time_zone": "UTC", "starts_at": None, "ends_at": None, "jitter_s": 0.0, "skip_late_after_s": 300.0,
    "catch_up": "latest", "max_catch_up": 100, "reason": "", "days": None,
    "event_type": None, "matcher": None, "argument": None, "debounce": None, "collect": None,
}  # fmt: skip


class Edited:
    """The editor of a world without a leader that fires."""

    def __init__(self, world: StoreWorld) -> None:
        self.definitions = Definitions(world)

        async def now_ms() -> int:
            return world.now_ms

        self.editor = DefinitionEditor(
            world.definitions,
            self.definitions.firing,
            AuditStore(world.shard),
            now_ms,
            CalendarStore(world.shard),
        )

    async def put(self, **fields: Any) -> KnownDefinition:
        job = JobSpec("", "report", b"\xc0")
        known, _ = await self.editor.put(
            "nightly", FIELDS | fields, job, who="me", access=full_access([]), most=10
        )
        return known


@pytest.mark.req("D7")
async def test_instants_due_before_a_change_fire_by_the_former_schedule(world: StoreWorld) -> None:
    edited = Edited(world)
    await edited.put()
    world.pass_ms(2 * MINUTE_MS + 30_000)
    await edited.put(schedule={"every_minutes": 5})
    assert await edited.definitions.outcomes() == [(1, "fired", ""), (2, "fired", "")]
    world.pass_ms(3 * MINUTE_MS)
    await edited.definitions.fire()
    assert [minute for minute, *_ in await edited.definitions.outcomes()] == [1, 2, 5]


@pytest.mark.req("D7")
async def test_a_new_schedule_makes_nothing_of_the_past_due(world: StoreWorld) -> None:
    edited = Edited(world)
    await edited.put(schedule={"daily_at": "23:59"})
    world.pass_ms(90 * MINUTE_MS)
    await edited.put()
    await edited.definitions.fire()
    assert await edited.definitions.outcomes() == []


@pytest.mark.req("D6")
async def test_a_definition_whose_instant_waits_can_be_changed(world: StoreWorld) -> None:
    edited = Edited(world)
    await edited.put(overlap="queue")
    world.pass_ms(2 * MINUTE_MS)
    await edited.definitions.fire()
    known = await edited.put(overlap="queue", schedule={"every_minutes": 7})
    assert known.clock.queued_ms == world.now_ms
    # The rule has changed: the definition no longer waits.
    await edited.put(schedule={"every_minutes": 7})
    await edited.definitions.fire()
    assert await edited.definitions.outcomes() == [(1, "fired", ""), (2, "fired", "")]


@pytest.mark.req("D7")
async def test_a_change_under_a_clock_that_was_set_back_repeats_no_instant(world: StoreWorld) -> None:
    edited = Edited(world)
    await edited.put()
    world.pass_ms(3 * MINUTE_MS)
    await edited.definitions.fire()
    world.pass_ms(-2 * MINUTE_MS)
    await edited.put(description="other")
    world.pass_ms(3 * MINUTE_MS)
    await edited.definitions.fire()
    assert [minute for minute, *_ in await edited.definitions.outcomes()] == [1, 2, 3, 4]


@pytest.mark.parametrize("action", ["run", "backfill"])
async def test_a_store_that_fails_before_the_audit_entry_leaves_no_doubt_that_a_job_was_started(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    edited = Edited(world)
    await edited.put()

    async def away(*_: Any) -> None:
        raise StoreUnavailableError("the store does not answer")

    monkeypatch.setattr(AuditStore, "write", away)
    begin_ms = world.now_ms - 10 * MINUTE_MS
    act: Awaitable[Any] = (
        edited.editor.run("nightly", "me")
        if action == "run"
        else edited.editor.backfill("nightly", begin_ms, begin_ms + MINUTE_MS, "me", is_dry=False)
    )
    with pytest.raises(OutcomeUnknownError, match="the change was made, but then: the store does not answer"):
        await act
    assert [run.outcome for run in await edited.definitions.runs()] == ["fired"]
