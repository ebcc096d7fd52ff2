"""A calendar: its days off, and the source of its holidays."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import MAXYEAR, date
from typing import Any, Final

from jqmaster.domain.matching.checks import Loc

NAME_PATTERN: Final = r"^[A-Za-z0-9_.:\-]{1,100}$"
DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
USUAL_WEEKEND: Final = ("sat", "sun")
MAX_HOLIDAYS: Final = 5_000
MAX_HOLIDAY_NAME: Final = 100
MAX_ICAL_BYTES: Final = 256 * 1024
FIRST_YEAR: Final = 1970
# Holidays are read from last year to the year after next. A backfill may need last year's.
YEARS_BEFORE: Final = 1
YEARS_AFTER: Final = 2

_NAME: Final = re.compile(NAME_PATTERN.replace("$", r"\Z"))
_DAY_NAMES: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class CalendarError(ValueError):
    """A calendar that is refused. `loc`: the path to the faulty part; `msg`: the rule that it breaks."""

    def __init__(self, loc: Loc, msg: str) -> None:
        super().__init__(f"{'.'.join(map(str, loc))}: {msg}")
        self.loc = loc
        self.msg = msg


@dataclass(frozen=True, slots=True)
class CalendarSource:
    """The source of the holidays: a country, or a text in the iCalendar format. Without either, it is a list of
    dates."""

    country: str = ""
    subdivision: str = ""
    language: str = ""
    ical: str = ""

    @property
    def kind(self) -> str:
        return "country" if self.country else "ical" if self.ical else "dates"


@dataclass(frozen=True, slots=True)
class Calendar:
    """Holidays by day, and the days of the week that are off. A faulty calendar raises CalendarError.

    `covers_until`: the last day for which the holidays are known. None: they are known for all days.
    """

    name: str
    source: CalendarSource
    holidays: Mapping[date, str]
    weekend: Sequence[str] = USUAL_WEEKEND
    covers_until: date | None = None
    _off: frozenset[int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not _NAME.match(self.name):
            raise CalendarError(("name",), "must be 1 to 100 of A-Z a-z 0-9 _ . : -")
        for n, day in enumerate(self.weekend):
            if day not in DAYS:
                raise CalendarError(("weekend", n), f"must be one of {', '.join(DAYS)}")
        if len(set(self.weekend)) == len(DAYS):
            raise CalendarError(("weekend",), "must leave a workday in each week")
        if len(self.holidays) > MAX_HOLIDAYS:
            raise CalendarError((self.source.kind,), f"has more than {MAX_HOLIDAYS} holidays")
        object.__setattr__(self, "_off", frozenset(DAYS.index(day) for day in self.weekend))

    def day_off(self, day: date) -> str:
        """Return the name of a day off, such as New Year's Day or Saturday; empty for a workday."""
        return self.holidays.get(day) or (_DAY_NAMES[day.weekday()] if day.weekday() in self._off else "")


@dataclass(frozen=True, slots=True)
class CalendarDifference:
    """The holidays that a change adds, removes and renames, by day. `renamed`: pairs of the old and the new name."""

    added: Mapping[date, str]
    removed: Mapping[date, str]
    renamed: Mapping[date, tuple[str, str]]

    @classmethod
    def between(cls, old: Mapping[date, str], new: Mapping[date, str]) -> "CalendarDifference":
        return cls(
            {day: name for day, name in sorted(new.items()) if day not in old},
            {day: name for day, name in sorted(old.items()) if day not in new},
            {day: (old[day], name) for day, name in sorted(new.items()) if old.get(day, name) != name},
        )


def holidays_of(dates: Sequence[Mapping[str, Any]]) -> dict[date, str]:
    """Return the holidays of a list of days and names. Names of the same day are joined. Raise CalendarError."""
    found: dict[date, str] = {}
    for n, one in enumerate(dates):
        day, name = one["date"], clean_name(one["name"])
        if day.year < FIRST_YEAR or day.year == MAXYEAR:
            raise CalendarError(("dates", n, "date"), f"must be from {FIRST_YEAR} to {MAXYEAR - 1}")
        if not name:
            raise CalendarError(("dates", n, "name"), "must not be empty")
        found[day] = joined(found.get(day), name)
    return dict(sorted(found.items()))


def clean_name(text: str) -> str:
    """Return the name of a holiday without control characters, on one line, and not longer than allowed."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:MAX_HOLIDAY_NAME]


def joined(present: str | None, name: str) -> str:
    """Join the name of one more holiday to `present`, the names of the day's other holidays. Return the joined
    text."""
    if not present or name in present.split("; "):
        return present or name
    return f"{present}; {name}"[:MAX_HOLIDAY_NAME]
