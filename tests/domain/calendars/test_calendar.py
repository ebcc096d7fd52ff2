"""Calendars: what is refused, which days are off, and how two answers of a source differ."""

from datetime import date, timedelta
from typing import Any

import pytest

from jqmaster.domain.calendars.calendar import (
    MAX_HOLIDAY_NAME,
    MAX_HOLIDAYS,
    Calendar,
    CalendarDifference,
    CalendarError,
    CalendarSource,
    holidays_of,
    joined,
)
from jqmaster.domain.calendars.ending import EndingCalendar
from tests.support.each import for_each

pytestmark = pytest.mark.req("D33")
DATES = CalendarSource()
CHRISTMAS = date(2026, 12, 25)


def calendar(**parts: Any) -> Calendar:
    return Calendar(**{"name": "office", "source": DATES, "holidays": {CHRISTMAS: "Christmas Day"}, **parts})


def test_a_day_off_has_the_name_of_its_holiday_or_of_its_weekday() -> None:
    one = calendar(holidays={date(2026, 12, 26): "Boxing Day", CHRISTMAS: "Christmas Day"})
    days = [CHRISTMAS + timedelta(days=n) for n in range(4)]
    assert [one.day_off(day) for day in days] == ["Christmas Day", "Boxing Day", "Sunday", ""]
    assert calendar(weekend=()).day_off(date(2026, 12, 27)) == ""
    assert calendar(weekend=("fri", "sat")).day_off(date(2026, 12, 18)) == "Friday"


@for_each(
    "parts, loc",
    [
        ({"name": "a b"}, ("name",)),
        ({"name": ""}, ("name",)),
        ({"weekend": ("sat", "someday")}, ("weekend", 1)),
        ({"weekend": ("mon", "tue", "wed", "thu", "fri", "sat", "sun")}, ("weekend",)),
        (
            {"holidays": {date(1990, 1, 1) + timedelta(days=n): "a" for n in range(MAX_HOLIDAYS + 1)}},
            ("dates",),
        ),
    ],
)
def test_calendars_with_faults_are_refused(parts: dict[str, Any], loc: tuple[str | int, ...]) -> None:
    with pytest.raises(CalendarError) as refused:
        calendar(**parts)
    assert refused.value.loc == loc


def test_holidays_are_sorted_cleaned_and_joined() -> None:
    found = holidays_of(
        [
            {"date": CHRISTMAS, "name": " Christmas\n Day "},
            {"date": date(2026, 1, 1), "name": "New Year's Day"},
            {"date": CHRISTMAS, "name": "Office closed"},
            {"date": CHRISTMAS, "name": "Office closed"},
        ]
    )
    assert list(found.items()) == [
        (date(2026, 1, 1), "New Year's Day"),
        (CHRISTMAS, "Christmas Day; Office closed"),
    ]
    assert len(joined("a" * MAX_HOLIDAY_NAME, "b")) == MAX_HOLIDAY_NAME


@for_each(
    "dates, loc",
    [
        ([{"date": date(1969, 12, 31), "name": "a"}], ("dates", 0, "date")),
        ([{"date": date(9999, 1, 1), "name": "a"}], ("dates", 0, "date")),
        ([{"date": CHRISTMAS, "name": "a"}, {"date": CHRISTMAS, "name": "\n"}], ("dates", 1, "name")),
    ],
)
def test_invalid_days_are_refused(dates: list[dict[str, Any]], loc: tuple[str | int, ...]) -> None:
    with pytest.raises(CalendarError) as refused:
        holidays_of(dates)
    assert refused.value.loc == loc


def test_a_difference_names_what_comes_goes_and_gets_another_name() -> None:
    first, second, third = CHRISTMAS, date(2026, 12, 26), date(2027, 1, 1)
    found = CalendarDifference.between({first: "a", second: "b"}, {second: "c", third: "d"})
    assert (found.added, found.removed, found.renamed) == ({third: "d"}, {first: "a"}, {second: ("b", "c")})
    same = CalendarDifference.between({first: "a"}, {first: "a"})
    assert same == CalendarDifference({}, {}, {})


def test_sources_have_kinds() -> None:
    sources = (DATES, CalendarSource(country="JP"), CalendarSource(ical="BEGIN:VCALENDAR"))
    assert [source.kind for source in sources] == ["dates", "country", "ical"]


def test_people_are_told_of_a_calendar_in_use_before_it_ends() -> None:
    country = CalendarSource("DE", "BY", "de")
    one = calendar(source=country, covers_until=date(2028, 12, 31), weekend=("sun",))
    assert EndingCalendar.of(one, ["nightly"], date(2028, 10, 31)) is None
    assert EndingCalendar.of(one, [], date(2028, 12, 1)) is None
    assert EndingCalendar.of(calendar(), ["nightly"], date(2028, 12, 1)) is None
    found = EndingCalendar.of(one, ["nightly"], date(2028, 11, 2))
    assert found
    assert found.command == (
        "jqmaster calendars put office --country DE --subdivision BY --language de --weekend sun"
    )
    assert "until 2028-12-31, and 1 definition uses it" in found.text
    text = calendar(source=CalendarSource(ical="x"), covers_until=date(2028, 12, 31))
    ended = EndingCalendar.of(text, ["a", "b"], date(2029, 2, 1))
    assert ended
    assert ended.command == "jqmaster calendars put office FILE"
    assert "2 definitions use it" in ended.text
