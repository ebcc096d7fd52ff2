"""How clocks and run records remember calendars."""

from dataclasses import replace
from datetime import date

import pytest

from jqmaster.domain.calendars.calendar import Calendar, CalendarSource
from jqmaster.domain.definitions.days import DayPlan
from jqmaster.domain.definitions.run import RunOutcome, RunReason
from jqmaster.errors import DamagedError
from jqmaster.store.calendars.documents import StoredCalendar, replaced
from jqmaster.store.definitions.documents import (
    NO_MEMORY,
    CalendarMemory,
    DefinitionClock,
    decode_clock,
    decode_run,
    plan_of,
    reason_text,
)
from tests.support.each import for_each

pytestmark = pytest.mark.req("D33")
OLD, NEW = "0" * 16, "1" * 16


@for_each(
    "clock, text",
    [
        (DefinitionClock(5), "5  "),
        (DefinitionClock(5, "job", 3), "5 job 3"),
        (DefinitionClock(5, "job", 3, 2), "5 job 3:2"),
        (DefinitionClock(5, memory=CalendarMemory(OLD)), f"5   {OLD} - -"),
        (DefinitionClock(5, memory=CalendarMemory(OLD, ((1, 2), (4, 4)), ((3, None), (4, 2)))),
         f"5   {OLD} 1:2,4:4 3,4:2"),
        (DefinitionClock(5, memory=CalendarMemory("", (), ((3, None),))), "5   - - 3"),
    ],
)  # fmt: skip
def test_a_clock_is_read_as_it_was_written(clock: DefinitionClock, text: str) -> None:
    assert clock.text == text
    assert decode_clock("nightly", text.encode()) == clock


@for_each("text", ["5", "5  x", "5   only", f"5   {OLD} 1 -", f"5   {OLD} - x", f"5   {OLD} - - -"])
def test_another_clock_is_damaged(text: str) -> None:
    with pytest.raises(DamagedError):
        decode_clock("nightly", text.encode())


def test_a_record_says_why_a_calendar_left_the_instant_out_and_from_where_it_moved() -> None:
    reason = reason_text(RunReason.CALENDAR, "New Year's Day; 元日")
    assert " " not in reason
    skipped = decode_run("nightly", f"5 skipped {reason}  6".encode())
    assert (skipped.outcome, skipped.reason) == (RunOutcome.SKIPPED, RunReason.CALENDAR)
    assert skipped.reason_text == "calendar: New Year's Day; 元日"
    assert (skipped.moved_from_ms, skipped.origin_ms, skipped.event_id) == (None, 5, "")
    moved = decode_run("nightly", b"5 fired  job 6 moved:2")
    assert (moved.reason_text, moved.moved_from_ms, moved.origin_ms, moved.event_id) == ("", 2, 2, "")
    of_event = decode_run("nightly", b"5 fired  job 6 event")
    assert (of_event.event_id, of_event.moved_from_ms) == ("event", None)
    assert reason_text(RunReason.LATE, "") == "late"


def test_a_clock_goes_by_the_calendar_that_it_knows() -> None:
    former = Calendar("office", CalendarSource(), {date(2027, 1, 1): "New Year's Day"})
    stored = StoredCalendar(former, OLD, 1, 1, "me")
    present = replaced(stored, replace(former, holidays={}), NEW, 2)
    old, new, other = (DefinitionClock(5, memory=CalendarMemory(etag)) for etag in (OLD, NEW, "2" * 16))
    assert plan_of(old, stored).calendar == former
    assert plan_of(old, present).calendar == former
    assert plan_of(new, present).calendar == present.calendar
    # A clock of a backup may know none of both.
    assert plan_of(other, present).calendar == present.calendar
    assert plan_of(DefinitionClock(5), None) == DayPlan(None, NO_MEMORY.done, NO_MEMORY.overdue)
