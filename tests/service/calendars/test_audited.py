"""Audit entries of calendars: what changed, and not the whole calendar."""

from datetime import date, timedelta
from typing import Any

import pytest

from jqmaster.domain.calendars.calendar import MAX_HOLIDAYS, MAX_ICAL_BYTES, Calendar, CalendarSource
from jqmaster.service.calendars.audited import MAX_DAYS, audited
from jqmaster.store import codec

pytestmark = pytest.mark.req("D33")
FIRST = date(2027, 1, 1)
NEW_YEAR = {"date": "2027-01-01", "name": "New Year's Day"}


def calendar(names: dict[date, str], **changed: Any) -> Calendar:
    return Calendar("office", **{"source": CalendarSource(), "holidays": names, **changed})


def test_an_entry_has_the_days_and_parts_that_differ() -> None:
    before = calendar({FIRST: "New Year", date(2027, 1, 2): "Bridge", date(2027, 1, 3): "Old"})
    after = calendar({FIRST: "New Year's Day", date(2027, 1, 2): "Bridge"}, weekend=("sun",))
    assert audited(before, after) == (
        {
            "weekend": ["sat", "sun"],
            "dates": [{"date": "2027-01-01", "name": "New Year"}, {"date": "2027-01-03", "name": "Old"}],
        },
        {"weekend": ["sun"], "dates": [NEW_YEAR]},
    )
    assert audited(None, after) == (
        None,
        {"weekend": ["sun"], "dates": [NEW_YEAR, {"date": "2027-01-02", "name": "Bridge"}]},
    )
    assert audited(after, None)[1] is None


def test_a_renewed_country_tells_which_holidays_came() -> None:
    japan = CalendarSource("JP", language="ja")
    before = calendar({}, source=japan, covers_until=date(2027, 12, 31))
    after = calendar({FIRST: "New Year's Day"}, source=japan, covers_until=date(2028, 12, 31))
    assert audited(before, after) == (
        {"covers_until": "2027-12-31"},
        {"covers_until": "2028-12-31", "dates": [NEW_YEAR]},
    )
    assert audited(None, before)[1] == {
        "country": "JP", "language": "ja", "weekend": ["sat", "sun"], "covers_until": "2027-12-31",
    }  # fmt: skip


def test_the_largest_calendar_makes_a_small_entry() -> None:
    days = {FIRST + timedelta(n): "x" * 100 for n in range(MAX_HOLIDAYS)}
    source = CalendarSource(ical="a" * MAX_ICAL_BYTES)
    before, after = audited(calendar(days, source=source), calendar({}, source=CalendarSource(ical="b")))
    assert before
    assert after
    assert len(before["dates"]) == MAX_DAYS
    assert before["dates_left_out"] == MAX_HOLIDAYS - MAX_DAYS
    assert before["ical"].startswith(f"{MAX_ICAL_BYTES} bytes, SHA-256 ")
    assert after["ical"].startswith("1 bytes, ")
    assert len(codec.pack([before, after])) < 40_000
