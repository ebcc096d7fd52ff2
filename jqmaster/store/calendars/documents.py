"""The form of a calendar in the store."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import date
from typing import Any, Final

import msgpack

from jqmaster.domain.calendars.calendar import Calendar, CalendarSource
from jqmaster.errors import DamagedError
from jqmaster.store import codec
from jqmaster.store.named_documents import ETAG_LENGTH

_UNREADABLE: Final = (KeyError, ValueError, TypeError, AttributeError, IndexError, msgpack.UnpackException)


@dataclass(frozen=True, slots=True)
class StoredCalendar:
    """A stored calendar. `etag` changes with every edit. `former` and `former_etag`: the calendar before the last edit
    (None: it was never edited). Definitions still use the former calendar for instants that were due before the last
    edit.
    """

    calendar: Calendar
    etag: str
    created_at_ms: int
    changed_at_ms: int
    created_by: str
    former: Calendar | None = None
    former_etag: str = ""


def encode_calendar(stored: StoredCalendar) -> bytes:
    """Encode a calendar as it is stored."""
    document = {
        **_days_of(stored.calendar),
        "source": {part: text for part, text in asdict(stored.calendar.source).items() if text},
        "created_by": stored.created_by,
        "created_at_ms": stored.created_at_ms,
        "changed_at_ms": stored.changed_at_ms,
        "former": stored.former and _days_of(stored.former),
        "former_etag": stored.former_etag,
    }
    return stored.etag.encode() + codec.pack(document)


def decode_calendar(name: str, raw: bytes) -> StoredCalendar:
    """Decode a stored calendar. Raise DamagedError."""
    try:
        document: dict[str, Any] = msgpack.unpackb(raw[ETAG_LENGTH:])
        calendar = _calendar(name, document, CalendarSource(**document["source"]))
        former = document["former"]
        return StoredCalendar(
            calendar,
            raw[:ETAG_LENGTH].decode(),
            document["created_at_ms"],
            document["changed_at_ms"],
            document["created_by"],
            None if former is None else _calendar(name, former, calendar.source),
            document["former_etag"],
        )
    except _UNREADABLE as exc:
        raise DamagedError(f"calendar {name}: its document cannot be read") from exc


def replaced(stored: StoredCalendar, calendar: Calendar, etag: str, now_ms: int) -> StoredCalendar:
    """Return the stored form of a changed calendar."""
    return replace(
        stored,
        calendar=calendar,
        etag=etag,
        changed_at_ms=max(now_ms, stored.changed_at_ms),
        former=stored.calendar,
        former_etag=stored.etag,
    )


def _days_of(calendar: Calendar) -> dict[str, Any]:
    until = calendar.covers_until
    return {
        "holidays": [[day.toordinal(), name] for day, name in calendar.holidays.items()],
        "weekend": list(calendar.weekend),
        "covers_until": None if until is None else until.toordinal(),
    }


def _calendar(name: str, document: Mapping[str, Any], source: CalendarSource) -> Calendar:
    until = document["covers_until"]
    return Calendar(
        name,
        source,
        {date.fromordinal(day): text for day, text in document["holidays"]},
        tuple(document["weekend"]),
        None if until is None else date.fromordinal(until),
    )
