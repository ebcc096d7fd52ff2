"""Schedules: the local times at which a definition is due, and their instants in a time zone."""

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache, partial
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from jqmaster.domain.calendars.calendar import DAYS
from jqmaster.domain.definitions.refusal import DefinitionError
from jqmaster.domain.definitions.time_zone import GapOrFold, moment_of

MAX_EVERY_MINUTES: Final = 366 * 24 * 60
MAX_CRON: Final = 200
MINUTE_MS: Final = 60_000
NICKNAMES: Final[Mapping[str, str]] = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
CLOCK_PATTERN: Final = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"
_CLOCK: Final = re.compile(CLOCK_PATTERN.replace("$", r"\Z"))
# The instant after which an expression is tried out. Any four years with a leap year would do.
_TRIAL: Final = datetime(2023, 12, 31, 23, 59)
_FIELDS: Final = 5
# The number of instants to cache for a schedule. Each definition needs two when it fires: the present and the next one.
# Definitions that are due together often share a schedule, and finding these instants takes longer than the rest of a
# firing.
SHARED: Final = 2


class Occurrence(NamedTuple):
    """One instant of a schedule.

    * `local`: the local time that the schedule names. None: the schedule counts real time.
    * `left_out`: why a calendar leaves the instant out. Empty: it does not.
    * `moved_from_ms`: the instant before a calendar moved it.
    """

    at_ms: int
    local: datetime | None
    gap_or_fold: GapOrFold
    left_out: str = ""
    moved_from_ms: int | None = None

    @property
    def origin_ms(self) -> int:
        """Return the instant before a calendar moved it."""
        return self.at_ms if self.moved_from_ms is None else self.moved_from_ms


class Schedule(Protocol):
    """The part of a definition that sets its instants. `document`: the schedule as people wrote it."""

    @property
    def document(self) -> Mapping[str, Any]: ...

    def occurrences(self, after_ms: int, zone: ZoneInfo) -> Iterator[Occurrence]:
        """Yield the instants after `after_ms`, each once, in order. Stop if none follows within 50 years."""
        ...


@dataclass(frozen=True, slots=True)
class EveryMinutes:
    """Every `every` real minutes, counted from midnight UTC of 1 January 1970, plus `offset` minutes."""

    every: int
    offset: int = 0

    def __post_init__(self) -> None:
        _check_number(("schedule", "every_minutes"), self.every, 1, MAX_EVERY_MINUTES)
        _check_number(("schedule", "offset"), self.offset, 0, self.every - 1)

    @property
    def document(self) -> Mapping[str, Any]:
        return {"every_minutes": self.every, "offset": self.offset}

    def occurrences(self, after_ms: int, zone: ZoneInfo) -> Iterator[Occurrence]:
        period_ms, offset_ms = self.every * MINUTE_MS, self.offset * MINUTE_MS
        at_ms = (after_ms - offset_ms) // period_ms * period_ms + offset_ms
        while True:
            at_ms += period_ms
            yield Occurrence(at_ms, None, GapOrFold.NONE)


@dataclass(frozen=True, slots=True)
class LocalTimes:
    """The local times that a cron expression of five fields selects."""

    cron: str
    document: Mapping[str, Any]

    def occurrences(self, after_ms: int, zone: ZoneInfo) -> Iterator[Occurrence]:
        try:
            after = datetime.fromtimestamp(after_ms / 1000, UTC).astimezone(zone).replace(tzinfo=None)
            for occurrence in _occurrences(self.cron, after.replace(second=0, microsecond=0), zone):
                if occurrence.at_ms > after_ms:
                    after_ms = occurrence.at_ms
                    yield occurrence
        except (OverflowError, ValueError):
            # Stop in the year 9999, after which there are no dates.
            return


def _occurrences(cron: str, after: datetime, zone: ZoneInfo) -> Iterator[Occurrence]:
    """Yield the local times after `after`, with instants that never decrease."""
    yield from (first := _first_of(cron, after, zone))
    if len(first) == SHARED:
        assert first[-1].local is not None
        yield from map(partial(_occurrence, zone), CronSim(cron, first[-1].local))


@lru_cache(maxsize=1024)
def _first_of(cron: str, after: datetime, zone: ZoneInfo) -> Sequence[Occurrence]:
    """Return the first `SHARED` local times after `after`, or fewer if no more come."""
    found: list[Occurrence] = []
    # Dates end in the year 9999. Return the times that were found.
    with contextlib.suppress(OverflowError, ValueError):
        # Give CronSim no time zone, because `moment_of` handles clock changes.
        found.extend(map(partial(_occurrence, zone), islice(CronSim(cron, after), SHARED)))
    return found


def _occurrence(zone: ZoneInfo, local: datetime) -> Occurrence:
    moment = moment_of(local, zone)
    return Occurrence(round(moment.at.timestamp() * 1000), local, moment.gap_or_fold)


def parse_schedule(document: object) -> Schedule:
    """Return the schedule of a document. Raise DefinitionError."""
    if not isinstance(document, Mapping) or not document:
        raise DefinitionError(("schedule",), f"must be a map with one of {', '.join(_FORMS)}")
    form = next((form for form in _FORMS if form in document), None)
    if form is None:
        raise DefinitionError(("schedule",), f"must have one of {', '.join(_FORMS)}")
    parse, companion = _FORMS[form]
    for field in document:
        if field not in (form, companion):
            raise DefinitionError(("schedule", str(field)[:100]), f"does not belong to {form}")
    return parse(document)


def _every_minutes(document: Mapping[str, Any]) -> Schedule:
    return EveryMinutes(document["every_minutes"], document.get("offset", 0))


def _hourly(document: Mapping[str, Any]) -> Schedule:
    minute = document["hourly_at"]
    _check_number(("schedule", "hourly_at"), minute, 0, 59)
    return LocalTimes(f"{minute} * * * *", {"hourly_at": minute})


def _daily(document: Mapping[str, Any]) -> Schedule:
    at = document["daily_at"]
    return LocalTimes(f"{_clock(('schedule', 'daily_at'), at)} * * *", {"daily_at": at})


def _weekly(document: Mapping[str, Any]) -> Schedule:
    days = document["weekly_on"]
    if not isinstance(days, list | tuple) or not days:
        raise DefinitionError(("schedule", "weekly_on"), f"must be a list of {', '.join(DAYS)}")
    for n, day in enumerate(days):
        if day not in DAYS:
            raise DefinitionError(("schedule", "weekly_on", n), f"must be one of {', '.join(DAYS)}")
    if "at" not in document:
        raise DefinitionError(("schedule", "at"), "is required with weekly_on, such as 02:30")
    chosen = [day for day in DAYS if day in days]
    cron = f"{_clock(('schedule', 'at'), document['at'])} * * {','.join(chosen)}"
    return LocalTimes(cron, {"weekly_on": chosen, "at": document["at"]})


def _cron(document: Mapping[str, Any]) -> Schedule:
    text = document["cron"]
    loc = ("schedule", "cron")
    if not isinstance(text, str) or not text.strip() or len(text) > MAX_CRON:
        raise DefinitionError(loc, f"must be a text of five fields, at most {MAX_CRON} characters long")
    cron = " ".join(text.split())
    if cron.startswith("@"):
        if cron.lower() not in NICKNAMES:
            raise DefinitionError(loc, f"must be five fields or one of {', '.join(NICKNAMES)}")
        cron = NICKNAMES[cron.lower()]
    if len(cron.split()) != _FIELDS:
        raise DefinitionError(loc, "must have five fields: minute, hour, day of month, month, day of week")
    try:
        first = next(CronSim(cron, _TRIAL), None)
    # The library raises TypeError and AssertionError for some texts, such as L/2 among the hours.
    except (CronSimError, ValueError, TypeError, AssertionError) as exc:
        why = str(exc) if isinstance(exc, CronSimError) else "cannot be read"
        raise DefinitionError(loc, f"is not a cron expression: {why[:1].lower()}{why[1:]}") from None
    if first is None:
        raise DefinitionError(loc, "never fires")
    return LocalTimes(cron, {"cron": text.strip()})


# The forms of a schedule, by the field that identifies the form. Each has a function, and may have one other field.
_FORMS: Final = {
    "every_minutes": (_every_minutes, "offset"),
    "hourly_at": (_hourly, None),
    "daily_at": (_daily, None),
    "weekly_on": (_weekly, "at"),
    "cron": (_cron, None),
}


def _check_number(loc: tuple[str, ...], value: object, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise DefinitionError(loc, f"must be a whole number from {least} to {most}")


def _clock(loc: tuple[str, ...], text: object) -> str:
    """Return the minute and the hour of a time such as 02:30, as cron writes them."""
    if not isinstance(text, str) or not _CLOCK.match(text):
        raise DefinitionError(loc, "must be a time from 00:00 to 23:59")
    hour, minute = text.split(":")
    return f"{int(minute)} {int(hour)}"
