"""Edits of calendars and rules while instants are pending: each instant gets exactly one record."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jqmaster.domain.calendars.calendar import Calendar, CalendarSource
from jqmaster.domain.definitions.carry_over import carried_over
from jqmaster.domain.definitions.days import NO_PLAN, DayPlan, Days, DaysRule, pruned
from jqmaster.domain.definitions.definition import Definition, TimeTrigger
from jqmaster.domain.definitions.event_trigger import EventTrigger
from jqmaster.domain.definitions.schedule import parse_schedule
from jqmaster.domain.jobs.job import JobSpec

pytestmark = pytest.mark.req("D33", "D7")

START = datetime(2026, 11, 1, tzinfo=UTC)
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
START_MS = round(START.timestamp() * 1000)
DAYS = 40


def calendar(off: frozenset[int], weekend: tuple[str, ...] = ("sat", "sun")) -> Calendar:
    first = START.date()
    return Calendar("office", CalendarSource(), {first + timedelta(days=n): f"Off {n}" for n in off}, weekend)


def definition(
    rule: DaysRule | None, schedule: Any = "02:30", zone: str = "UTC", **trigger: Any
) -> Definition:
    form = {"daily_at": schedule} if isinstance(schedule, str) else schedule
    days = None if rule is None else Days("office", rule)
    return Definition(
        "nightly",
        "0" * 16,
        JobSpec("", "report", b"\xc0"),
        TimeTrigger(parse_schedule(form), zone, days=days, **trigger),
    )


class Fired:
    """The records of a definition whose calendar and rule are changed. Keeps to what the service does."""

    def __init__(self, one: Definition, its_calendar: Calendar | None) -> None:
        self.one, self.plan, self.handled_ms = one, DayPlan(its_calendar), START_MS
        self.records = Counter[int]()

    def until(self, at_ms: int) -> None:
        for due_ms, origin_ms in self.plan.overdue:
            self.records[due_ms if origin_ms is None else origin_ms] += 1
        self.plan = pruned(self.plan, self.handled_ms)
        for found in self.one.due_after(self.handled_ms, self.plan):
            if found.at_ms > at_ms:
                break
            self.records[found.origin_ms] += 1
            self.handled_ms = found.at_ms

    def edit(self, at_ms: int, one: Definition, its_calendar: Calendar | None) -> None:
        self.until(at_ms)
        self.handled_ms = max(self.handled_ms, at_ms)
        self.plan = carried_over(self.one, self.plan, one, its_calendar, self.handled_ms)
        self.one = one


rules = st.sampled_from([None, *DaysRule])
days_off = st.frozensets(st.integers(0, DAYS), max_size=14)
edits = st.lists(st.tuples(st.integers(1, 24 * DAYS), rules, days_off), min_size=1, max_size=5)


@settings(max_examples=30, deadline=None)
@given(rules, days_off, edits, st.sampled_from(["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago"]),
       st.sampled_from(["02:30", {"cron": "0 6,18 * * *"}, {"cron": "0 9 */4 * *"}, {"every_minutes": 600}]),
       st.sampled_from([0, 6 * HOUR_MS]))  # fmt: skip
def test_every_instant_has_one_record_whatever_is_edited_when(
    rule: DaysRule | None, off: frozenset[int], changes: list[Any], zone: str, schedule: Any, jitter_ms: int
) -> None:
    first = definition(rule, schedule, zone, jitter_ms=jitter_ms)
    fired = Fired(first, calendar(off) if rule else None)
    for hours, other, days in sorted(changes, key=lambda change: change[0]):
        its_calendar = calendar(days) if other else None
        fired.edit(
            START_MS + hours * HOUR_MS, definition(other, schedule, zone, jitter_ms=jitter_ms), its_calendar
        )
    fired.until(START_MS + (DAYS + 60) * DAY_MS)
    # Before this, a first plan may have moved an instant to a time before the start.
    begin_ms, end_ms = START_MS + 20 * DAY_MS, START_MS + (DAYS + 40) * DAY_MS
    expected = set()
    for one in first.of_time.schedule.occurrences(begin_ms, first.of_time.zone):
        if one.at_ms > end_ms:
            break
        expected.add(one.at_ms + first.delay_ms)
    wrong = {at_ms: fired.records[at_ms] for at_ms in expected if fired.records[at_ms] != 1}
    assert not wrong, {datetime.fromtimestamp(at / 1000, UTC).isoformat(): n for at, n in wrong.items()}


def test_an_instant_that_was_brought_forward_does_not_fire_again_when_its_holiday_is_taken_away() -> None:
    previous = definition(DaysRule.PREVIOUS_WORKDAY)
    # Monday 9 November is off, so it fires on Friday.
    fired = Fired(previous, calendar(frozenset({8})))
    saturday_ms = START_MS + 6 * DAY_MS + 12 * HOUR_MS
    fired.edit(saturday_ms, previous, calendar(frozenset()))
    monday_ms = START_MS + 8 * DAY_MS + round(2.5 * HOUR_MS)
    assert fired.plan.done == [(monday_ms - DAY_MS, monday_ms)] or fired.plan.is_done(monday_ms)
    fired.until(START_MS + 12 * DAY_MS)
    assert fired.records[monday_ms] == 1


def test_an_instant_that_waited_for_a_workday_fires_at_once_when_its_day_becomes_one() -> None:
    later = definition(DaysRule.NEXT_WORKDAY)
    fired = Fired(later, calendar(frozenset()))
    sunday_ms = START_MS + 7 * DAY_MS + 12 * HOUR_MS
    fired.edit(sunday_ms, later, calendar(frozenset(), weekend=()))
    two = [START_MS + n * DAY_MS + round(2.5 * HOUR_MS) for n in (6, 7)]
    assert fired.plan.overdue == [(at_ms, None) for at_ms in two]
    # Another edit before anything fired keeps them.
    fired.plan = carried_over(later, fired.plan, later, calendar(frozenset()), sunday_ms)
    assert [origin for _, origin in fired.plan.overdue] == []
    fired.until(START_MS + 10 * DAY_MS)
    assert [fired.records[at_ms] for at_ms in two] == [1, 1]


def test_nothing_is_carried_over_where_nothing_moves_or_events_start_the_job() -> None:
    plain, skip = definition(None), definition(DaysRule.SKIP_HOLIDAYS)
    its_calendar = calendar(frozenset({3}))
    assert carried_over(plain, NO_PLAN, skip, its_calendar, START_MS) == DayPlan(its_calendar)
    of_events = Definition("nightly", "0" * 16, JobSpec("", "report", b"\xc0"), EventTrigger("a"))
    for old, new in ((of_events, plain), (plain, of_events)):
        assert carried_over(old, NO_PLAN, new, None, START_MS) == NO_PLAN


def test_old_ranges_are_forgotten() -> None:
    plan = DayPlan(None, ((1, 2), (START_MS, START_MS + 1)), ((5, None),))
    assert pruned(plan, START_MS).done == ((START_MS, START_MS + 1),)
    assert pruned(plan, START_MS).overdue == ()
