"""The sources of calendars: countries, and texts of callers, which cannot hold a master."""

import re
import sys
import time
from datetime import date
from typing import Any

import msgpack
import pytest

from jqmaster.domain.calendars.calendar import CalendarError, CalendarSource
from jqmaster.errors import ConflictError, OverloadedError
from jqmaster.service.calendars import source_child
from jqmaster.service.calendars.source_child import SourceFaultError, answer_of, holidays_of_text
from jqmaster.service.calendars.sources import CalendarSources
from tests.support.each import for_each

pytest.importorskip("holidays")
pytest.importorskip("icalendar")
pytestmark = pytest.mark.req("D33")
FIRST, LAST = date(2026, 1, 1), date(2029, 12, 31)


def text_of(*events: str) -> str:
    """Return a calendar; each event is lines that `|` separates."""
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//test//EN"]
    for n, event in enumerate(events):
        lines += ["BEGIN:VEVENT", *([] if "UID" in event else [f"UID:{n}"]), *event.split("|"), "END:VEVENT"]
    return "\r\n".join([*lines, "END:VCALENDAR", ""])


def days(*events: str) -> dict[str, str]:
    return {day.isoformat(): name for day, name in holidays_of_text(text_of(*events), FIRST, LAST)[0].items()}


def test_each_day_of_an_event_is_a_holiday() -> None:
    assert days(
        "DTSTART;VALUE=DATE:20261229|DTEND;VALUE=DATE:20261231|SUMMARY:Year-end closing",
        "DTSTART;VALUE=DATE:20260501",
        "DTSTART:20260601T090000Z|DTEND:20260602T000000Z|SUMMARY:Inventory",
        "DTSTART;VALUE=DATE:20260704|DURATION:P2D|SUMMARY:Party",
        "DTSTART;VALUE=DATE:20260501|SUMMARY:Labour Day",
        "DTSTART;VALUE=DATE:20260801|STATUS:CANCELLED|SUMMARY:Gone",
    ) == {
        "2026-12-29": "Year-end closing",
        "2026-12-30": "Year-end closing",
        "2026-05-01": "Holiday; Labour Day",
        "2026-06-01": "Inventory",
        "2026-07-04": "Party",
        "2026-07-05": "Party",
    }


def test_recurrences_are_expanded_for_the_years_that_count() -> None:
    yearly = "DTSTART;VALUE=DATE:19990101|RRULE:FREQ=YEARLY|SUMMARY:New Year"
    found, until = holidays_of_text(text_of(yearly), FIRST, LAST)
    # The first occurrence is a day of the text itself.
    assert [day.year for day in sorted(found)] == [1999, 2026, 2027, 2028, 2029]
    assert until == LAST
    ended, until = holidays_of_text(
        text_of("DTSTART;VALUE=DATE:20260101|RRULE:FREQ=YEARLY;UNTIL=20270101"), FIRST, LAST
    )
    assert (len(ended), until) == (2, None)
    thursdays = days("DTSTART;VALUE=DATE:20261126|RRULE:FREQ=YEARLY;BYMONTH=11;BYDAY=4TH;COUNT=3|SUMMARY:T")
    assert list(thursdays) == ["2026-11-26", "2027-11-25", "2028-11-23"]


def test_exceptions_and_replacements_of_recurrences_count() -> None:
    found = days(
        "UID:a|DTSTART;VALUE=DATE:20270101|RRULE:FREQ=DAILY;COUNT=4|EXDATE;VALUE=DATE:20270102|SUMMARY:A",
        "UID:a|RECURRENCE-ID;VALUE=DATE:20270103|DTSTART;VALUE=DATE:20270110|SUMMARY:Moved",
        "UID:b|DTSTART;VALUE=DATE:20270201|RDATE;VALUE=DATE:20270301|SUMMARY:B",
    )
    assert found == {
        "2027-01-01": "A", "2027-01-04": "A", "2027-01-10": "Moved", "2027-02-01": "B", "2027-03-01": "B",
    }  # fmt: skip


@for_each(
    "text, says",
    [
        ("no calendar", "cannot be read"),
        (text_of("SUMMARY:No day"), "an event that cannot be read"),
        (text_of("DTSTART;VALUE=DATE:19000101"), "before 1970"),
        (text_of("DTSTART;VALUE=DATE:20260101|DTEND;VALUE=DATE:20300101"), "longer than 366 days"),
        (text_of("DTSTART:20260101T000000|RRULE:FREQ=SECONDLY"), "more frequent than daily"),
        (text_of("DTSTART;VALUE=DATE:20260101|RRULE:FREQ=NEVER"), "cannot be read"),
        (text_of(*(f"DTSTART;VALUE=DATE:{1970 + n}0101|DTEND;VALUE=DATE:{1970 + n}1231" for n in range(20))),
         "more than 5000 holidays"),
    ],
)  # fmt: skip
def test_sources_with_faults_are_refused(text: str, says: str) -> None:
    with pytest.raises(SourceFaultError, match=says) as refused:
        holidays_of_text(text, FIRST, LAST)
    assert refused.value.field == "ical"


def test_too_many_events_and_occurrences_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_child, "MAX_EVENTS", 2)
    with pytest.raises(SourceFaultError, match="more than 2 events"):
        holidays_of_text(text_of(*["DTSTART;VALUE=DATE:20260101"] * 3), FIRST, LAST)
    monkeypatch.setattr(source_child, "MAX_HOLIDAYS", 100)
    with pytest.raises(SourceFaultError, match="more than 100 holidays"):
        holidays_of_text(text_of("DTSTART;VALUE=DATE:20260101|RRULE:FREQ=DAILY"), FIRST, LAST)


def request(**parts: Any) -> dict[str, Any]:
    empty = dict.fromkeys(("country", "subdivision", "language", "ical"), "")
    return {**empty, "first_year": 2026, "last_year": 2029, **parts}


@for_each(
    "parts, field, says",
    [
        ({"country": "XX"}, "country", "ISO 3166"),
        ({"country": "DE", "subdivision": "XX"}, "subdivision", "one of DE: .*BY"),
        ({"country": "JP", "language": "xx"}, "language", "one of JP: .*ja"),
    ],
)
def test_unknown_places_are_refused(parts: dict[str, str], field: str, says: str) -> None:
    (found, msg) = answer_of(request(**parts))["fault"]
    assert found == field
    assert re.search(says, msg)


def test_a_country_answers_in_a_language_and_with_its_weekend() -> None:
    answer = answer_of(request(country="JP", language="ja"))
    names = {date.fromordinal(day): name for day, name in answer["holidays"]}
    assert names[date(2026, 11, 23)] == "勤労感謝の日"
    assert answer["weekend"] == ["sat", "sun"]
    assert date.fromordinal(answer["covers_until"]) == date(2029, 12, 31)
    assert answer_of(request(country="IL"))["weekend"] == ["fri", "sat"]
    assert len(answer_of(request(country="DE", subdivision="BY"))["holidays"]) > len(
        answer_of(request(country="DE"))["holidays"]
    )


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, parts in (("holidays", {"country": "JP"}), ("icalendar", {"ical": "BEGIN:VCALENDAR"})):
        monkeypatch.setitem(sys.modules, name, None)
        assert answer_of(request(**parts)) == {"missing": True}


async def test_the_process_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = CalendarSources()
    found = await sources.ask(CalendarSource(country="JP"), 2026)
    assert found.holidays[date(2026, 1, 1)]
    assert found.covers_until == date(2028, 12, 31)
    assert min(found.holidays).year == 2025
    with pytest.raises(CalendarError) as refused:
        await sources.ask(CalendarSource(country="XX"), 2026)
    assert refused.value.loc == ("country",)

    async def missing(_: bytes) -> bytes:
        return bytes(msgpack.packb({"missing": True}))

    monkeypatch.setattr("jqmaster.service.calendars.sources._answered", missing)
    with pytest.raises(ConflictError) as refused_too:
        await sources.ask(CalendarSource(country="JP"), 2026)
    assert refused_too.value.code == "calendars_not_installed"
    assert "jqmaster[calendars]" in refused_too.value.detail


async def test_a_text_that_would_take_hours_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """31 February never comes, and the library looks for it until the year 9999, for each event anew."""
    monkeypatch.setattr(
        "jqmaster.service.calendars.sources._MODULE", "tests.service.calendars.impatient_child"
    )
    endless = "DTSTART;VALUE=DATE:20260101|RRULE:FREQ=DAILY;BYMONTH=2;BYMONTHDAY=31"
    sources, begun = CalendarSources(), time.monotonic()
    with pytest.raises(CalendarError, match="too much time or memory") as refused:
        await sources.ask(CalendarSource(ical=text_of(*[endless] * 100)), 2026)
    assert refused.value.loc == ("ical",)
    assert time.monotonic() - begun < 60
    assert source_child.MAX_CPU_S == 5.0


async def test_a_busy_process_refuses_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jqmaster.service.calendars.sources.PATIENCE_S", 0.01)
    with pytest.raises(OverloadedError):
        await CalendarSources().ask(CalendarSource(country="JP"), 2026)
