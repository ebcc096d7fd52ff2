"""Calendars whose known holidays end soon, so that people renew them in time."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

from jqmaster.domain.calendars.calendar import Calendar

# People are notified this long before a calendar ends.
RENEW_BEFORE: Final = timedelta(days=60)


@dataclass(frozen=True, slots=True)
class EndingCalendar:
    """A calendar in use whose known holidays end soon. `definitions`: how many definitions use it. `command`: the
    command that renews it.
    """

    name: str
    covers_until: date
    definitions: int
    command: str

    @classmethod
    def of(cls, calendar: Calendar, definitions: Sequence[str], today: date) -> "EndingCalendar | None":
        """Return the calendar as one that ends soon. Return None if no definition uses it, or if its holidays are known
        for long enough."""
        until = calendar.covers_until
        if until is None or not definitions or until - today > RENEW_BEFORE:
            return None
        return cls(calendar.name, until, len(definitions), _renewal(calendar))

    @property
    def text(self) -> str:
        uses = "1 definition uses it" if self.definitions == 1 else f"{self.definitions} definitions use it"
        return f"Calendar {self.name} knows holidays until {self.covers_until}, and {uses}: renew it."


def _renewal(calendar: Calendar) -> str:
    source = calendar.source
    if not source.country:
        return f"jqmaster calendars put {shlex.quote(calendar.name)} FILE"
    options = {"country": source.country, "subdivision": source.subdivision, "language": source.language}
    parts = [f"--{option} {shlex.quote(value)}" for option, value in options.items() if value]
    weekend = shlex.quote(",".join(calendar.weekend))
    return f"jqmaster calendars put {shlex.quote(calendar.name)} {' '.join(parts)} --weekend {weekend}"
