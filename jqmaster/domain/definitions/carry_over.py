"""Carries instants over an edit of a definition or its calendar, so that each instant gets exactly one record."""

from collections.abc import Mapping
from datetime import date, timedelta
from itertools import takewhile
from zoneinfo import ZoneInfo

from jqmaster.domain.calendars.calendar import Calendar
from jqmaster.domain.definitions.days import (
    DayPlan,
    first_day,
    last_day,
    local_time,
    start_of,
)
from jqmaster.domain.definitions.definition import Definition, TimeTrigger
from jqmaster.domain.definitions.schedule import Occurrence


def carried_over(
    old: Definition, old_plan: DayPlan, new: Definition, calendar: Calendar | None, at_ms: int
) -> DayPlan:
    """Return the plan, from `at_ms` on, of a definition after an edit of the definition or of its calendar. All
    instants of the former plan up to `at_ms` already have their records."""
    plan = DayPlan(calendar)
    if not isinstance(old.trigger, TimeTrigger) or not isinstance(new.trigger, TimeTrigger):
        return plan
    if not (_moves(old.trigger) or _moves(new.trigger) or old_plan.done or old_plan.overdue):
        return plan
    before, after = old.trigger, new.trigger
    delay_ms = max(old.delay_ms, new.delay_ms)
    first, last = _window((before, old_plan), (after, DayPlan(calendar)), at_ms - delay_ms, at_ms)
    was = _landings(before, old_plan.calendar, first, last)
    will = _landings(after, calendar, first, last)
    overdue_before = {origin if origin is not None else due for due, origin in old_plan.overdue}
    done: list[tuple[int, int]] = []
    overdue: list[tuple[int, int | None]] = []
    is_open = False
    for origin in sorted(will):
        landed = will[origin]
        due_ms = landed.at_ms + new.delay_ms
        is_handled = origin in was and (
            was[origin].at_ms + old.delay_ms <= at_ms or old_plan.is_done(origin)
        ) and origin + old.delay_ms not in overdue_before  # fmt: skip
        if is_handled and due_ms > at_ms:
            # Extend the last range if the instant before this one belongs to it.
            done = [*done[:-1], (done[-1][0], origin)] if is_open else [*done, (origin, origin)]
            is_open = True
            continue
        is_open = False
        if origin in was and not is_handled and due_ms <= at_ms:
            moved_from = landed.moved_from_ms
            overdue.append((due_ms, None if moved_from is None else moved_from + new.delay_ms))
    return DayPlan(calendar, done, sorted(overdue, key=lambda one: (one[0], one[1] or 0)))


def _moves(trigger: TimeTrigger) -> bool:
    return trigger.days is not None and trigger.days.is_moving


def _window(
    before: tuple[TimeTrigger, DayPlan], after: tuple[TimeTrigger, DayPlan], from_ms: int, to_ms: int
) -> tuple[int, int]:
    """Return the range of instants that need a comparison of the two plans. One plan may place an instant of the range
    before the edit, and the other plan after it. The edit takes place between `from_ms`, which allows for jitter, and
    `to_ms`."""
    firsts, lasts = [from_ms], [to_ms]
    for trigger, plan in (before, after):
        if _moves(trigger) and plan.calendar is not None:
            zone = trigger.zone
            firsts.append(_start(first_day(plan.calendar, local_time(from_ms, zone).date()), zone, -1))
            lasts.append(_start(last_day(plan.calendar, local_time(to_ms, zone).date()), zone, 2))
        lasts += [last for _, last in plan.done]
        firsts += [(due if origin is None else origin) - (to_ms - from_ms) for due, origin in plan.overdue]
    return min(firsts), max(lasts)


def _start(day: date, zone: ZoneInfo, days: int) -> int:
    return start_of(day + timedelta(days=days), zone)


def _landings(
    trigger: TimeTrigger, calendar: Calendar | None, first_ms: int, last_ms: int
) -> Mapping[int, Occurrence]:
    """Return the occurrences to which the calendar moves the instants of the schedule from `first_ms` to `last_ms`. The
    keys are the instants before the move."""
    if not _moves(trigger) or calendar is None:
        found = takewhile(lambda one: one.at_ms <= last_ms, trigger.instants(first_ms - 1))
        return {one.at_ms: one for one in found}
    landings = {}
    day = local_time(first_ms, trigger.zone).date()
    # Search a wider range, because the calendar may move an instant from this range to a day outside it.
    margin = _start(first_day(calendar, day), trigger.zone, -2)
    horizon = _start(last_day(calendar, local_time(last_ms, trigger.zone).date()), trigger.zone, 2)
    for one in trigger.planned(margin, DayPlan(calendar)):
        if first_ms <= one.origin_ms <= last_ms:
            landings[one.origin_ms] = one
        if min(one.at_ms, one.origin_ms) > horizon:
            break
    return landings
