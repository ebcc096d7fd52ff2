"""Days off in schedules, against a reference that walks from day to day."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from itertools import islice, takewhile
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jqmaster.domain.calendars.calendar import DAYS, Calendar, CalendarSource
from jqmaster.domain.definitions.days import MAX_MOVE_DAYS, NO_WORKDAY, DayPlan, Days, DaysRule
from jqmaster.domain.definitions.definition import Definition, TimeTrigger
from jqmaster.domain.definitions.event_trigger import EventTrigger
from jqmaster.domain.definitions.refusal import DefinitionError
from jqmaster.domain.definitions.schedule import Occurrence, parse_schedule
from jqmaster.domain.definitions.time_zone import moment_of
from jqmaster.domain.jobs.job import JobSpec
from tests.support.each import for_each

pytestmark = pytest.mark.req("D33")

DAY = timedelta(days=1)
# Both sides of the date line, and clock changes at midnight.
ZONES = (
    "Pacific/Kiritimati",
    "Pacific/Pago_Pago",
    "Pacific/Auckland",
    "Asia/Tokyo",
    "Europe/Berlin",
    "America/Santiago",
)
START = date(2026, 11, 1)
# In the year 2026: Friday 25 December, and the Monday after it.
CHRISTMAS = {date(2026, 12, 25): "Christmas Day", date(2026, 12, 28): "Boxing Day (observed)"}
MOVES = (DaysRule.NEXT_WORKDAY, DaysRule.PREVIOUS_WORKDAY)


def calendar(holidays: dict[date, str], weekend: tuple[str, ...] = ("sat", "sun")) -> Calendar:
    return Calendar("office", CalendarSource(), holidays, weekend)


def definition(rule: DaysRule, schedule: dict[str, Any], zone: str = "UTC", **trigger: Any) -> Definition:
    days = Days("office", rule)
    return Definition(
        "nightly",
        "0" * 16,
        JobSpec("", "report", b"\xc0"),
        TimeTrigger(parse_schedule(schedule), zone, days=days, **trigger),
    )


def ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def local(at_ms: int, zone: str) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None)


def shown(found: Iterator[Occurrence], zone: str, count: int) -> list[tuple[str, str, str]]:
    """Return local time, the day from which it moved, and why it is left out."""
    return [
        (
            f"{local(one.at_ms, zone):%m-%d %H:%M}",
            "" if one.moved_from_ms is None else f"{local(one.moved_from_ms, zone):%m-%d}",
            one.left_out,
        )
        for one in islice(found, count)
    ]


def test_instants_on_days_off_are_left_out_with_the_name_of_the_day() -> None:
    skip = definition(DaysRule.SKIP_HOLIDAYS, {"daily_at": "09:00"}, "Asia/Tokyo")
    plan = DayPlan(calendar(CHRISTMAS))
    after_ms = ms(datetime(2026, 12, 23, 12, tzinfo=UTC))
    assert shown(skip.due_after(after_ms, plan), "Asia/Tokyo", 6) == [
        ("12-24 09:00", "", ""),
        ("12-25 09:00", "", "Christmas Day"),
        ("12-26 09:00", "", "Saturday"),
        ("12-27 09:00", "", "Sunday"),
        ("12-28 09:00", "", "Boxing Day (observed)"),
        ("12-29 09:00", "", ""),
    ]
    only = definition(DaysRule.ONLY_HOLIDAYS, {"daily_at": "09:00"}, "Asia/Tokyo")
    assert [reason for *_, reason in shown(only.due_after(after_ms, plan), "Asia/Tokyo", 3)] == [
        "workday",
        "",
        "",
    ]


def test_two_holidays_in_a_row_move_to_the_same_workday_over_a_month_and_a_year() -> None:
    holidays = {date(2026, 12, 31): "New Year's Eve", date(2027, 1, 1): "New Year's Day"}
    plan = DayPlan(calendar(holidays))
    after_ms = ms(datetime(2026, 12, 30, 12, tzinfo=UTC))
    later = definition(DaysRule.NEXT_WORKDAY, {"daily_at": "09:00"})
    # Thursday and Friday are holidays, then comes the weekend: four instants and the Monday's own.
    assert shown(later.due_after(after_ms, plan), "UTC", 6) == [
        ("01-04 09:00", "12-31", ""),
        ("01-04 09:00", "01-01", ""),
        ("01-04 09:00", "01-02", ""),
        ("01-04 09:00", "01-03", ""),
        ("01-04 09:00", "", ""),
        ("01-05 09:00", "", ""),
    ]
    earlier = definition(DaysRule.PREVIOUS_WORKDAY, {"cron": "0 9 1 * *"})
    assert shown(earlier.due_after(after_ms - 86_400_000, plan), "UTC", 2) == [
        ("12-30 09:00", "01-01", ""),
        ("02-01 09:00", "", ""),
    ]


def test_instants_that_land_on_one_day_keep_their_times_of_day() -> None:
    plan = DayPlan(calendar({}))
    twice = definition(DaysRule.NEXT_WORKDAY, {"cron": "0 6,18 * * SAT,MON"})
    after_ms = ms(datetime(2026, 11, 20, 12, tzinfo=UTC))
    assert shown(twice.due_after(after_ms, plan), "UTC", 4) == [
        ("11-23 06:00", "11-21", ""),
        ("11-23 06:00", "", ""),
        ("11-23 18:00", "11-21", ""),
        ("11-23 18:00", "", ""),
    ]


def test_the_day_of_an_instant_is_that_of_its_zone_on_both_sides_of_the_date_line() -> None:
    plan = DayPlan(calendar({date(2026, 11, 24): "A holiday"}, weekend=()))
    for zone, first in (
        ("Pacific/Kiritimati", "2026-11-23T19:00"),
        ("Pacific/Pago_Pago", "2026-11-24T20:00"),
    ):
        one = definition(DaysRule.ONLY_HOLIDAYS, {"daily_at": "09:00"}, zone)
        at_ms = one.next_firing_ms(ms(datetime(2026, 11, 20, tzinfo=UTC)), plan)
        assert at_ms
        assert datetime.fromtimestamp(at_ms / 1000, UTC).isoformat()[:16] == first


def test_the_jitter_does_not_change_the_day() -> None:
    plan = DayPlan(calendar({}))
    late = definition(DaysRule.SKIP_HOLIDAYS, {"daily_at": "23:59"}, jitter_ms=86_400_000)
    assert late.delay_ms > 60_000
    found = shown(late.due_after(ms(datetime(2026, 11, 19, 23, tzinfo=UTC)) + late.delay_ms, plan), "UTC", 3)
    # Thursday to Saturday by the schedule.
    assert [reason for *_, reason in found] == ["", "", "Saturday"]
    moving = definition(DaysRule.NEXT_WORKDAY, {"daily_at": "23:59"}, jitter_ms=86_400_000)
    friday_ms = ms(datetime(2026, 11, 20, 23, 59, tzinfo=UTC)) + moving.delay_ms
    (moved,) = islice(moving.due_after(friday_ms, plan), 1)
    assert moved.at_ms == ms(datetime(2026, 11, 23, 23, 59, tzinfo=UTC)) + moving.delay_ms
    assert moved.moved_from_ms == ms(datetime(2026, 11, 21, 23, 59, tzinfo=UTC)) + moving.delay_ms


def test_the_next_instant_that_starts_a_job_is_found_over_long_holidays() -> None:
    closed = {START + n * DAY: "Closed" for n in range(600)}
    plan = DayPlan(calendar(closed, weekend=()))
    after_ms = ms(datetime(2026, 11, 1, 12, tzinfo=UTC))
    skip = definition(DaysRule.SKIP_HOLIDAYS, {"every_minutes": 1})
    assert skip.next_firing_ms(after_ms, plan) == ms(datetime(2028, 6, 23, tzinfo=UTC))
    only = definition(DaysRule.ONLY_HOLIDAYS, {"cron": "0 9 * * *"})
    assert only.next_firing_ms(after_ms, DayPlan(calendar({}, weekend=()))) is None
    ended = definition(DaysRule.ONLY_HOLIDAYS, {"daily_at": "09:00"}, ends_at_ms=after_ms)
    assert ended.next_firing_ms(after_ms, plan) is None
    # The last year that a clock can show.
    last = definition(
        DaysRule.ONLY_HOLIDAYS, {"daily_at": "09:00"}, starts_at_ms=ms(datetime(9999, 1, 1, tzinfo=UTC))
    )
    assert last.next_firing_ms(after_ms, DayPlan(calendar({}))) == ms(datetime(9999, 1, 2, 9, tzinfo=UTC))


def test_instants_without_a_calendar_are_all_that_start_jobs() -> None:
    plain = Definition(
        "nightly", "0" * 16, JobSpec("", "report", b"\xc0"), TimeTrigger(parse_schedule({"every_minutes": 1}))
    )
    assert [one.at_ms for one in plain.firing_after(0, 120_000)] == [60_000, 120_000]


def test_the_last_instants_before_the_end_still_move() -> None:
    sunday_ms = ms(datetime(2026, 11, 22, 12, tzinfo=UTC))
    ended = definition(DaysRule.NEXT_WORKDAY, {"daily_at": "09:00"}, ends_at_ms=sunday_ms)
    found = shown(ended.due_after(sunday_ms, DayPlan(calendar({}))), "UTC", 5)
    assert found == [("11-23 09:00", "11-21", ""), ("11-23 09:00", "11-22", "")]
    assert ended.calendar == "office"
    of_events = Definition("orders", "0" * 16, JobSpec("", "report", b"\xc0"), EventTrigger("order.paid"))
    assert (of_events.calendar, of_events.next_firing_ms(0)) == ("", None)


def test_an_instant_without_a_workday_in_reach_is_left_out() -> None:
    closed = {START + n * DAY: "Closed" for n in range(2 * MAX_MOVE_DAYS)}
    plan = DayPlan(calendar(closed, weekend=()))
    for rule in MOVES:
        monthly = definition(rule, {"cron": "0 9 20 * *"})
        found = list(islice(monthly.due_after(ms(datetime(2026, 11, 1, tzinfo=UTC)), plan), 6))
        assert NO_WORKDAY in {one.left_out for one in found}
        assert all(one.moved_from_ms is None for one in found if one.left_out)
        assert [one.at_ms for one in found] == sorted(one.at_ms for one in found)


@for_each(
    "schedule, is_taken",
    [
        ({"every_minutes": 59}, False),
        ({"every_minutes": 60}, True),
        ({"hourly_at": 5}, True),
        ({"cron": "*/5 9 * * *"}, True),
        ({"cron": "*/2 9 * * *"}, False),
        ({"cron": "*/5 9-11 * * *"}, False),
        ({"cron": "0 9 29 2 *"}, True),
    ],
)
def test_a_schedule_that_is_due_too_often_may_not_move(schedule: dict[str, Any], is_taken: bool) -> None:
    definition(DaysRule.SKIP_HOLIDAYS, schedule)
    if is_taken:
        definition(DaysRule.NEXT_WORKDAY, schedule)
        return
    with pytest.raises(DefinitionError) as refused:
        definition(DaysRule.NEXT_WORKDAY, schedule)
    assert refused.value.loc == ("days", "rule")
    assert "skip_holidays" in refused.value.msg


# --- properties

holidays_of_two_months = st.sets(st.integers(0, 61), max_size=25).map(
    lambda days: {START + n * DAY: f"Holiday {n}" for n in days}
)
weekends = st.sets(st.sampled_from(DAYS), max_size=3).map(lambda days: tuple(d for d in DAYS if d in days))
schedules = st.sampled_from(
    [
        {"daily_at": "00:00"},
        {"daily_at": "02:30"},
        {"weekly_on": ["mon", "sat"], "at": "23:30"},
        {"cron": "15 0,12,23 */3 * *"},
        {"cron": "0 9 1,15,L * *"},
        {"every_minutes": 7 * 60},
    ]
)


def landing(one: Occurrence, rule: DaysRule, its_calendar: Calendar, zone: ZoneInfo) -> int:
    """Return when an instant is due after its move, by walking from day to day."""
    at = one.local or datetime.fromtimestamp(one.at_ms / 1000, UTC).astimezone(zone).replace(tzinfo=None)
    day = at.date()
    while its_calendar.day_off(day):
        day += DAY if rule is DaysRule.NEXT_WORKDAY else -DAY
    if day == at.date():
        return one.at_ms
    return ms(moment_of(datetime.combine(day, at.time()), zone).at)


@settings(max_examples=30, deadline=None)
@given(
    holidays_of_two_months,
    weekends,
    schedules,
    st.sampled_from(ZONES),
    st.sampled_from(MOVES),
    st.integers(0, 60 * 24),
)
def test_moved_instants_are_those_of_the_reference(
    holidays: dict[date, str],
    weekend: tuple[str, ...],
    schedule: dict[str, Any],
    zone: str,
    rule: DaysRule,
    hours: int,
) -> None:
    one, its_calendar = definition(rule, schedule, zone), calendar(holidays, weekend)
    after_ms = ms(datetime.combine(START, time.min, tzinfo=UTC)) + hours * 3_600_000
    until_ms = after_ms + 45 * 86_400_000
    begin_ms = after_ms - 60 * 86_400_000
    origins = takewhile(
        lambda o: o.at_ms < until_ms + 60 * 86_400_000,
        one.of_time.schedule.occurrences(begin_ms, one.of_time.zone),
    )
    expected = sorted((landing(o, rule, its_calendar, one.of_time.zone), o.at_ms) for o in origins)
    expected = [pair for pair in expected if after_ms < pair[0] <= until_ms]
    found = takewhile(lambda o: o.at_ms <= until_ms, one.due_after(after_ms, DayPlan(its_calendar)))
    assert [(o.at_ms, o.origin_ms) for o in found] == expected


@settings(max_examples=30, deadline=None)
@given(
    holidays_of_two_months,
    weekends,
    schedules,
    st.sampled_from(ZONES),
    st.sampled_from(list(DaysRule)),
    st.integers(0, 60 * 24),
    st.sampled_from((0, 7_200_000)),
)
def test_going_over_days_off_at_once_finds_what_a_walk_finds(
    holidays: dict[date, str],
    weekend: tuple[str, ...],
    schedule: dict[str, Any],
    zone: str,
    rule: DaysRule,
    hours: int,
    jitter_ms: int,
) -> None:
    one, plan = definition(rule, schedule, zone, jitter_ms=jitter_ms), DayPlan(calendar(holidays, weekend))
    after_ms = ms(datetime.combine(START, time.min, tzinfo=UTC)) + hours * 3_600_000
    until_ms = after_ms + 45 * 86_400_000
    walked = takewhile(lambda o: o.at_ms <= until_ms, one.due_after(after_ms, plan))
    assert list(one.firing_after(after_ms, until_ms, plan)) == [o for o in walked if not o.left_out]
