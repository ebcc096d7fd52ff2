"""Makes the `before` and the `after` of a calendar's audit entry. Both have only the parts that differ."""

from collections.abc import Mapping
from datetime import date
from hashlib import sha256
from typing import Any, Final

from jqmaster.domain.calendars.calendar import Calendar

# Maximum number of holidays in the `before` and in the `after` of an entry. If there are more, the entry has the number
# of those left out.
MAX_DAYS: Final = 200


def audited(
    before: Calendar | None, after: Calendar | None
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Return the `before` and the `after` of an entry, without the parts that are equal in both calendars. None: there
    is no such calendar."""
    was, will = _parts(before), _parts(after)
    differing = [part for part in {**was, **will} if was.get(part) != will.get(part)]
    days = before.holidays if before else {}, after.holidays if after else {}
    return (
        None if before is None else _side(was, differing, *days),
        None if after is None else _side(will, differing, *reversed(days)),
    )


def _parts(calendar: Calendar | None) -> dict[str, Any]:
    """Return the parts of a calendar other than its holidays."""
    if calendar is None:
        return {}
    source, until = calendar.source, calendar.covers_until
    parts = {
        "country": source.country,
        "subdivision": source.subdivision,
        "language": source.language,
        "ical": source.ical and _digest(source.ical),
        "weekend": list(calendar.weekend),
        "covers_until": until and until.isoformat(),
    }
    return {part: value for part, value in parts.items() if value or part == "weekend"}


def _side(
    parts: Mapping[str, Any], differing: list[str], days: Mapping[date, str], others: Mapping[date, str]
) -> dict[str, Any]:
    changed = [(day, name) for day, name in sorted(days.items()) if others.get(day) != name]
    side: dict[str, Any] = {part: parts[part] for part in differing if part in parts}
    if changed:
        side["dates"] = [{"date": day.isoformat(), "name": name} for day, name in changed[:MAX_DAYS]]
    if len(changed) > MAX_DAYS:
        side["dates_left_out"] = len(changed) - MAX_DAYS
    return side


def _digest(text: str) -> str:
    """Return the size and the digest of a text. The text itself may have 256 KiB, which is too much for an entry."""
    data = text.encode()
    return f"{len(data)} bytes, SHA-256 {sha256(data).hexdigest()[:16]}"
