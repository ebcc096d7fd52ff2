"""Calendars as clients see them."""

from collections.abc import Sequence
from typing import Any, Final

from jqmaster.domain.calendars.calendar import Calendar, CalendarDifference
from jqmaster.domain.instant import iso_ms
from jqmaster.service.calendars.editor import CalendarEdit, days_of, describe
from jqmaster.store.calendars.documents import StoredCalendar

MAX_USERS: Final = 100


def calendar_summary(stored: StoredCalendar, users: Sequence[str]) -> dict[str, Any]:
    """Return a `CalendarSummary`."""
    return _summary(stored.calendar, stored, users)


def calendar_view(stored: StoredCalendar, users: Sequence[str]) -> dict[str, Any]:
    """Return a `CalendarView`."""
    return _view(stored.calendar, stored, users)


def change_answer(edit: CalendarEdit, users: Sequence[str], *, is_dry: bool) -> dict[str, Any]:
    """Return a `CalendarChangeAnswer`."""
    return {
        **_view(edit.calendar, edit.stored, users),
        "changes": _changes(edit.difference),
        "dry_run": is_dry,
    }


def _summary(calendar: Calendar, stored: StoredCalendar | None, users: Sequence[str]) -> dict[str, Any]:
    document = describe(calendar)
    until = calendar.covers_until
    return {
        "name": calendar.name,
        "source": calendar.source.kind,
        **{part: document[part] for part in ("country", "subdivision", "language", "weekend")},
        "holiday_count": len(calendar.holidays),
        "covers_until": until.isoformat() if until else None,
        "used_by": list(users[:MAX_USERS]),
        "used_by_count": len(users),
        "etag": stored.etag if stored else None,
        "created_by": stored.created_by if stored else None,
        "created_at": iso_ms(stored.created_at_ms) if stored else None,
        "changed_at": iso_ms(stored.changed_at_ms) if stored else None,
    }


def _view(calendar: Calendar, stored: StoredCalendar | None, users: Sequence[str]) -> dict[str, Any]:
    document = describe(calendar)
    return {
        **_summary(calendar, stored, users),
        "holidays": days_of(calendar),
        "dates": document["dates"],
        "ical": document["ical"],
    }


def _changes(difference: CalendarDifference) -> dict[str, Any]:
    return {
        "added": [{"date": day.isoformat(), "name": name} for day, name in difference.added.items()],
        "removed": [{"date": day.isoformat(), "name": name} for day, name in difference.removed.items()],
        "renamed": [
            {"date": day.isoformat(), "old_name": old, "name": name}
            for day, (old, name) in difference.renamed.items()
        ],
    }
