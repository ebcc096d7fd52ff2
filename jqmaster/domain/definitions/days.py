"""Days off in schedules: which instants a calendar leaves out, and to which day it moves others."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from itertools import islice
from typing import Final
from zoneinfo import ZoneInfo

from jqmaster.domain.calendars.calendar import Calendar
from jqmaster.domain.definitions.schedule import Occurrence, Schedule
from jqmaster.domain.definitions.time_zone import moment_of

# An instant moves by at most this many days. If none of them is a workday, the instant is left out.
MAX_MOVE_DAYS: Final = 92
# A schedule that is due more often than this on one day cannot move: all of its jobs would start on the next workday.
MAX_MOVED_A_DAY: Final = 24
NO_WORKDAY: Final = f"no workday within {MAX_MOVE_DAYS} days"
WORKDAY: Final = "workday"
# The due instants of a schedule are counted after this instant, to find out how often the schedule is due.
_TRIAL_MS: Final = 1_704_067_199_999
DAY_MS: Final = 86_400_000
_DAY: Final = timedelta(days=1)
MAX_MOVE_MS: Final = (MAX_MOVE_DAYS + 2) * DAY_MS


class DaysRule(StrEnum):
    """The rule of a definition for the days off of its calendar: holidays and weekends."""

    SKIP_HOLIDAYS = "skip_holidays"
    ONLY_HOLIDAYS = "only_holidays"
    NEXT_WORKDAY = "next_workday"
    PREVIOUS_WORKDAY = "previous_workday"


@dataclass(frozen=True, slots=True)
class Days:
    """The days of a definition: a rule, and the name of the calendar to which it applies."""

    calendar: str
    rule: DaysRule

    @property
    def is_moving(self) -> bool:
        return self.rule in (DaysRule.NEXT_WORKDAY, DaysRule.PREVIOUS_WORKDAY)


@dataclass(frozen=True, slots=True)
class DayPlan:
    """The calendar of a definition, and instants that a change of the calendar moved.

    * `done`: ranges of instants of the schedule, both ends included. These have run records already, although the
      calendar now moves them to a later time.
    * `overdue`: instants without a record that the calendar now moves to a time in the past. Each entry has the due
      time and, if it differs, the time in the schedule.
    """

    calendar: Calendar | None = None
    done: Sequence[tuple[int, int]] = ()
    overdue: Sequence[tuple[int, int | None]] = ()

    def is_done(self, at_ms: int) -> bool:
        return any(first <= at_ms <= last for first, last in self.done)


NO_PLAN: Final = DayPlan()


def is_too_frequent(schedule: Schedule, zone: ZoneInfo) -> bool:
    """Return whether a schedule is due more than MAX_MOVED_A_DAY times within its first day."""
    found = list(islice(schedule.occurrences(_TRIAL_MS, zone), MAX_MOVED_A_DAY + 1))
    return len(found) > MAX_MOVED_A_DAY and found[-1].at_ms - found[0].at_ms < DAY_MS


def left_out_for(rule: DaysRule, calendar: Calendar, day: date) -> str:
    """Return why an instant on this day starts no job. Empty: it starts one."""
    name = calendar.day_off(day)
    if rule is DaysRule.SKIP_HOLIDAYS:
        return name
    return WORKDAY if rule is DaysRule.ONLY_HOLIDAYS and not name else ""


def next_day_in(days: Days | None, calendar: Calendar | None, day: date, last: date) -> date:
    """Return the first day after `day` on which the rule lets jobs start. If there is no such day up to `last`, return
    the day after `last`."""
    day += _DAY
    while days and calendar and day <= last and left_out_for(days.rule, calendar, day):
        day += _DAY
    return day


def day_of(occurrence: Occurrence, zone: ZoneInfo) -> date:
    """Return the day of the local time that the schedule names, or else the day of the instant in the zone."""
    return (occurrence.local or local_time(occurrence.at_ms, zone)).date()


def local_time(at_ms: int, zone: ZoneInfo) -> datetime:
    """Return the local time of an instant in the zone, as a datetime without a time zone."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(zone).replace(tzinfo=None)


def start_of(day: date, zone: ZoneInfo) -> int:
    """Return the first instant of a day in the zone."""
    return round(moment_of(datetime.combine(day, time.min), zone).at.timestamp() * 1000)


def chosen(
    found: Iterator[Occurrence], rule: DaysRule, calendar: Calendar, zone: ZoneInfo
) -> Iterator[Occurrence]:
    """Yield the instants of a schedule. If the rule excludes an instant's day, `left_out` says why."""
    for occurrence in found:
        reason = left_out_for(rule, calendar, day_of(occurrence, zone))
        yield occurrence._replace(left_out=reason) if reason else occurrence


def moved(
    found: Iterator[Occurrence], rule: DaysRule, calendar: Calendar, zone: ZoneInfo
) -> Iterator[Occurrence]:
    """Yield the instants of a schedule in the order in which they are due after their moves. Instants that move to the
    same time keep their order.

    `found` must begin with the first instant of a day. No instant of this day may move to an earlier day.
    """
    group: list[tuple[int, int, Occurrence]] = []
    group_day: date | None = None
    for occurrence in found:
        day = day_of(occurrence, zone)
        target = _workday(rule, calendar, day)
        if (target or day) != group_day:
            yield from (one for _, _, one in sorted(group))
            group, group_day = [], target or day
        landed = _landed(occurrence, day, target, zone)
        group.append((landed.at_ms, occurrence.at_ms, landed))
    yield from (one for _, _, one in sorted(group))


def first_day(calendar: Calendar, day: date) -> date:
    """Return the first day from which instants may move to this day or to a later one."""
    return _edge(calendar, day, -_DAY)


def last_day(calendar: Calendar, day: date) -> date:
    """Return the last day from which instants may move to this day or to an earlier one."""
    return _edge(calendar, day, _DAY)


def pruned(plan: DayPlan, handled_ms: int) -> DayPlan:
    """Return the plan after all instants up to `handled_ms` have their records."""
    horizon_ms = handled_ms - MAX_MOVE_MS
    return replace(plan, overdue=(), done=tuple(one for one in plan.done if one[1] > horizon_ms))


def _edge(calendar: Calendar, day: date, step: timedelta) -> date:
    for _ in range(MAX_MOVE_DAYS):
        if not calendar.day_off(day + step):
            break
        day += step
    return day


def _workday(rule: DaysRule, calendar: Calendar, day: date) -> date | None:
    """Return the day to which the instants of a day move. Those of a workday stay. None: there is no workday within
    MAX_MOVE_DAYS."""
    step = _DAY if rule is DaysRule.NEXT_WORKDAY else -_DAY
    for _ in range(MAX_MOVE_DAYS + 1):
        if not calendar.day_off(day):
            return day
        day += step
    return None


def _landed(occurrence: Occurrence, day: date, target: date | None, zone: ZoneInfo) -> Occurrence:
    if target == day:
        return occurrence
    if target is None:
        return occurrence._replace(left_out=NO_WORKDAY)
    clock = (occurrence.local or local_time(occurrence.at_ms, zone)).time()
    local = datetime.combine(target, clock)
    moment = moment_of(local, zone)
    at_ms = round(moment.at.timestamp() * 1000)
    return Occurrence(at_ms, local, moment.gap_or_fold, moved_from_ms=occurrence.at_ms)
