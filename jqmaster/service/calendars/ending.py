"""Finds the calendars whose known holidays end soon."""

from datetime import UTC, datetime

from jqmaster.domain.calendars.ending import EndingCalendar
from jqmaster.store.calendars.calendars import CalendarStore


async def ending_calendars(store: CalendarStore, now_ms: int) -> list[EndingCalendar]:
    """Return the calendars with known holidays that end soon, the earliest end first."""
    users = await store.users()
    if not users:
        return []
    today = datetime.fromtimestamp(now_ms / 1000, UTC).date()
    found = [
        EndingCalendar.of(one.calendar, users.get(one.calendar.name, []), today)
        for one in await store.readable()
    ]
    return sorted((one for one in found if one), key=lambda one: (one.covers_until, one.name))
