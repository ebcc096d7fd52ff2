"""Clock definitions, their instants, and the check of run records against them.

The instants are computed minute by minute, without the product's code.
"""

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

ZONES: Final = (
    "UTC",
    "Asia/Tokyo",
    "Europe/Berlin",
    "America/St_Johns",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
)
OVERLAPS: Final = ("allow", "forbid", "replace", "queue")
DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
MINUTE: Final = timedelta(minutes=1)
JITTER_S: Final = 40
# An instant this close to the end may not have a record yet.
SETTLED_S: Final = 8.0


@dataclass
class Definition:
    """One definition, created by the store's clock between `before` and `after`."""

    name: str
    overlap: str
    schedule: dict[str, Any]
    zone: str
    jitter_s: int = 0
    before: datetime = datetime.min
    after: datetime = datetime.min

    def document(self) -> dict[str, Any]:
        return {
            "job": {"name": "due", "argument": self.name},
            "schedule": self.schedule,
            "time_zone": self.zone,
            "overlap": self.overlap,
            "jitter_s": self.jitter_s,
            "catch_up": "all",
        }


@dataclass
class Verdict:
    """The figures of a run, and its breaches."""

    instants: int = 0
    fired: int = 0
    breaches: list[str] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)


# --- the instants


def instants(schedule: dict[str, Any], zone: str, after: datetime, until: datetime) -> Iterator[datetime]:
    """Yield the instants of a schedule after `after`, up to and including `until`, both in UTC."""
    minute = after.replace(second=0, microsecond=0)
    if minute <= after:
        minute += MINUTE
    while minute <= until:
        if _is_due(schedule, ZoneInfo(zone), minute):
            yield minute
        minute += MINUTE


def _is_due(schedule: dict[str, Any], zone: ZoneInfo, minute: datetime) -> bool:
    if (every := schedule.get("every_minutes")) is not None:
        return int(minute.timestamp()) // 60 % int(every) == int(schedule.get("offset", 0))
    local = minute.astimezone(zone)
    if local.fold:  # the wall clock shows this time again
        return False
    wall = local.replace(tzinfo=None)
    earlier = (minute - MINUTE).astimezone(zone).replace(tzinfo=None)
    # Times skipped by the clocks are due now. Without a change, this time is the only one.
    skipped = int((wall - earlier) / MINUTE)
    return any(_matches(schedule, wall - number * MINUTE) for number in range(max(1, skipped)))


def _matches(schedule: dict[str, Any], wall: datetime) -> bool:
    clock = f"{wall.hour:02}:{wall.minute:02}"
    if "hourly_at" in schedule:
        return wall.minute == schedule["hourly_at"]
    if "daily_at" in schedule:
        return bool(clock == schedule["daily_at"])
    if "weekly_on" in schedule:
        return clock == schedule["at"] and DAYS[wall.weekday()] in schedule["weekly_on"]
    minutes, hours, days, months, weekdays = schedule["cron"].split()
    on_day, on_weekday = _in(days, wall.day, 1, 31), _in(weekdays, wall.isoweekday() % 7, 0, 6)
    # As in cron, two restricted day fields are alternatives.
    is_day = on_day and on_weekday if "*" in (days[0], weekdays[0]) else on_day or on_weekday
    return (
        _in(minutes, wall.minute, 0, 59)
        and _in(hours, wall.hour, 0, 23)
        and _in(months, wall.month, 1, 12)
        and is_day
    )


def _in(text: str, value: int, least: int, most: int) -> bool:
    for part in text.split(","):
        span, _, step = part.partition("/")
        low, _, high = span.partition("-")
        first = least if low == "*" else int(low)
        last = most if low == "*" or (step and not high) else int(high or low)
        if first <= value <= last and (value - first) % int(step or 1) == 0:
            return True
    return False


# --- the definitions


def definitions(count: int, now: datetime, rng: random.Random) -> list[Definition]:
    """Return definitions of every form. Hourly, daily and weekly ones are due within the next hour."""
    made = []
    for number in range(count):
        zone = ZONES[number % len(ZONES)]
        soon = (now + timedelta(minutes=rng.randrange(1, 60))).astimezone(ZoneInfo(zone))
        clock = f"{soon.hour:02}:{soon.minute:02}"
        forms: list[dict[str, Any]] = [
            {"every_minutes": 1},
            {"every_minutes": 3, "offset": rng.randrange(3)},
            {"every_minutes": 7},
            {"hourly_at": soon.minute},
            {"daily_at": clock},
            {"weekly_on": [DAYS[soon.weekday()], DAYS[(soon.weekday() + 3) % 7]], "at": clock},
            {"cron": "*/2 * * * *"},
            {"cron": "1-59/4,30 * * * *"},
            {"cron": f"{soon.minute} {soon.hour} * * *"},
            {"cron": f"*/5 * {soon.day} * {(soon.isoweekday() + 2) % 7}"},
            {"cron": f"{rng.randrange(60)},{soon.minute} */1 * {soon.month} *"},
        ]
        made.append(
            Definition(
                f"d{number}", OVERLAPS[number // 2 % 4], forms[number % len(forms)], zone,
                JITTER_S if number % 5 == 4 else 0,
            )
        )  # fmt: skip
    return made


# --- the check


def judge(
    definition: Definition,
    runs: Sequence[Mapping[str, Any]],
    until: datetime,
    verdict: Verdict,
    *,
    latest: datetime | None = None,
) -> None:
    """Compare one definition's run records with its instants up to `until`. The clock may have shown a later time
    before, up to `latest`."""

    def breach(text: str, found: Iterable[datetime]) -> None:
        shown = ", ".join(sorted(one.isoformat() for one in found)[:5])
        if shown:
            verdict.breaches.append(f"{definition.name} {definition.schedule}: {text}: {shown}")

    dues = [datetime.fromisoformat(run["due_at"]) for run in runs]
    shifts = {due - due.replace(second=0, microsecond=0) for due in dues}
    if len(shifts) > 1 or any(shift.total_seconds() > definition.jitter_s for shift in shifts):
        verdict.breaches.append(f"{definition.name}: its instants are not delayed alike: {sorted(shifts)}")
        return
    shift = next(iter(shifts), timedelta())
    due = Counter(one - shift for one in dues)
    breach("more than one record", (one for one, times in due.items() if times > 1))
    possible = set(
        instants(
            definition.schedule,
            definition.zone,
            definition.before - timedelta(seconds=definition.jitter_s),
            latest or until,
        )
    )
    breach("a record of no instant", set(due) - possible)
    settled = until - timedelta(seconds=SETTLED_S + definition.jitter_s)
    wanted = set(instants(definition.schedule, definition.zone, definition.after, settled))
    missing = wanted - set(due)
    if definition.overlap == "queue" and wanted:
        missing.discard(max(wanted))  # it may wait for the previous job to end
    breach("no record", missing)
    jobs = [run["job_id"] for run in runs if run["outcome"] == "fired"]
    if len(set(jobs)) != len(jobs) or None in jobs:
        verdict.breaches.append(f"{definition.name}: a job of more than one instant, or of none")
    verdict.instants += len(wanted)
    verdict.fired += len(jobs)
    verdict.outcomes.update(f"{run['outcome']} {run['reason'] or ''}".strip() for run in runs)
