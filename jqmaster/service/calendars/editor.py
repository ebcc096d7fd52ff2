"""Changes calendars for operators."""

import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from jqmaster.domain.calendars.calendar import (
    DAYS,
    MAX_ICAL_BYTES,
    USUAL_WEEKEND,
    Calendar,
    CalendarDifference,
    CalendarError,
    CalendarSource,
    holidays_of,
)
from jqmaster.errors import DamagedError, FieldError, InvalidError, NotFoundError, after_it_was_done
from jqmaster.service.calendars.audited import audited
from jqmaster.service.calendars.sources import CalendarSources
from jqmaster.service.definitions.firing import DefinitionFiring
from jqmaster.service.named_objects import ANYHOW, MAX_TRIES, Precondition, Tries
from jqmaster.store.calendars.calendars import CalendarChange, CalendarOutcome, CalendarStore
from jqmaster.store.calendars.documents import StoredCalendar, replaced
from jqmaster.store.identity.audit import encode_entry
from jqmaster.store.named_documents import new_etag

# Maximum number of definitions that are planned again before a change is answered. The leader plans the other
# definitions shortly afterwards.
MAX_FOLLOWING: Final = 500
RESERVED_NAMES: Final = frozenset({".", ".."})


@dataclass(frozen=True, slots=True)
class CalendarEdit:
    """The result of a change or of its dry run. `stored`: None after a dry run for a new calendar."""

    calendar: Calendar
    stored: StoredCalendar | None
    difference: CalendarDifference
    is_new: bool


class CalendarEditor:
    """Creates, changes and removes calendars. Methods raise what the store raises. `now_ms`: returns the store's
    time."""

    def __init__(
        self,
        store: CalendarStore,
        sources: CalendarSources,
        firing: DefinitionFiring,
        now_ms: Callable[[], Awaitable[int]],
    ) -> None:
        self._store = store
        self._sources = sources
        self._firing = firing
        self._now_ms = now_ms

    async def put(
        self,
        name: str,
        fields: Mapping[str, Any],
        *,
        who: str,
        demands: Precondition = ANYHOW,
        is_dry: bool = False,
    ) -> CalendarEdit:
        """Create or replace a calendar. `is_dry`: only return what would change. If nothing would change, write
        nothing. Instants that are already due follow the former calendar. Later instants follow the new calendar.

        Raise InvalidError, PreconditionFailedError, OverloadedError, and ConflictError if there are too many calendars
        or the libraries are not installed.
        """
        calendar = await self._made(name, fields)
        passed_over: Sequence[str] = ()
        tries = Tries("calendar", name)
        while True:
            present = await tries.read(self._present, demands)
            difference = CalendarDifference.between(
                present.calendar.holidays if present else {}, calendar.holidays
            )
            edit = CalendarEdit(calendar, present, difference, present is None)
            if is_dry or (present and present.calendar == calendar):
                return edit
            new = _stored(present, calendar, who, await self._now_ms())
            entry = _entry("calendar.put", present, calendar, who)
            change = CalendarChange(name, present, new, entry, passed_over)
            outcome = await self._store.change(change)
            if outcome is not CalendarOutcome.CHANGED and present:
                is_done = outcome is CalendarOutcome.OK
                with after_it_was_done() if is_done else contextlib.nullcontext():
                    passed_over = await self._follow(name)
            if outcome is CalendarOutcome.OK:
                return CalendarEdit(calendar, new, difference, present is None)

    async def take_over(self, calendar: Calendar, who: str) -> bool:
        """Create a calendar with known holidays, such as a calendar from an export. Return False if a calendar with
        this name exists."""
        if await self._store.get([calendar.name]):
            return False
        entry = _entry("calendar.put", None, calendar, who)
        new = _stored(None, calendar, who, await self._now_ms())
        outcome = await self._store.change(CalendarChange(calendar.name, None, new, entry))
        return outcome is CalendarOutcome.OK

    async def delete(self, name: str, who: str, demands: Precondition = ANYHOW) -> None:
        """Remove a calendar. Raise NotFoundError, PreconditionFailedError, and ConflictError if definitions use it."""
        tries = Tries("calendar", name)
        while True:
            present = await tries.read(self._present, demands)
            if present is None:
                raise unknown_calendar(name)
            entry = _entry("calendar.delete", present, None, who)
            if await self._store.change(CalendarChange(name, present, None, entry)) is CalendarOutcome.OK:
                return

    async def _present(self, name: str) -> StoredCalendar | None:
        return (await self._store.get([name])).get(name)

    async def _made(self, name: str, fields: Mapping[str, Any]) -> Calendar:
        given = [field for field in ("dates", "ical", "country") if fields[field] is not None]
        if len(given) != 1:
            msg = (
                "give one of dates, ical and country" if not given else "cannot be combined with " + given[0]
            )
            raise _refusal(CalendarError((given[-1] if given else "dates",), msg))
        if name in RESERVED_NAMES:
            raise _refusal(CalendarError(("name",), "is a path of the API, so it cannot be a name"))
        for field in ("subdivision", "language"):
            if fields[field] is not None and given != ["country"]:
                raise _refusal(CalendarError((field,), "belongs to country"))
        try:
            return await self._calendar(name, fields)
        except CalendarError as error:
            raise _refusal(error) from None

    async def _calendar(self, name: str, fields: Mapping[str, Any]) -> Calendar:
        weekend = fields["weekend"]
        if fields["dates"] is not None:
            return Calendar(
                name,
                CalendarSource(),
                holidays_of(fields["dates"]),
                in_order(USUAL_WEEKEND if weekend is None else weekend),
            )
        ical = fields["ical"] or ""
        if len(ical.encode()) > MAX_ICAL_BYTES:
            raise CalendarError(("ical",), f"must have at most {MAX_ICAL_BYTES // 1024} KiB")
        source = CalendarSource(
            fields["country"] or "", fields["subdivision"] or "", fields["language"] or "", ical
        )
        if not (source.country or source.ical):
            raise CalendarError(("country" if fields["ical"] is None else "ical",), "must not be empty")
        year = datetime.fromtimestamp(await self._now_ms() / 1000, UTC).year
        found = await self._sources.ask(source, year)
        usual = USUAL_WEEKEND if found.weekend is None else found.weekend
        off = in_order(usual if weekend is None else weekend)
        return Calendar(name, source, found.holidays, off, found.covers_until)

    async def _follow(self, name: str) -> list[str]:
        """Plan the instants of the definitions that use a calendar again, by the current calendar. Return the names of
        definitions that cannot be read. Such a definition starts no jobs, and must not prevent the next change of the
        calendar."""
        unreadable = []
        for definition in (await self._store.users()).get(name, [])[:MAX_FOLLOWING]:
            for _ in range(MAX_TRIES):
                try:
                    known = await self._firing.known(definition)
                except NotFoundError:
                    break
                except DamagedError:
                    unreadable.append(definition)
                    break
                if not known.is_behind:
                    break
                await self._firing.settle(known, await self._now_ms())
        return unreadable


def describe(calendar: Calendar) -> dict[str, Any]:
    """Return a calendar in the form that clients write."""
    source, kind = calendar.source, calendar.source.kind
    return {
        "name": calendar.name,
        "dates": days_of(calendar) if kind == "dates" else None,
        "ical": source.ical or None,
        "country": source.country or None,
        "subdivision": source.subdivision or None,
        "language": source.language or None,
        "weekend": list(calendar.weekend),
    }


def days_of(calendar: Calendar) -> list[dict[str, str]]:
    """Return the holidays in the form that clients write and read."""
    return [{"date": day.isoformat(), "name": name} for day, name in sorted(calendar.holidays.items())]


def unknown_calendar(name: str) -> NotFoundError:
    """Return the error for a calendar that does not exist."""
    return NotFoundError(f"no calendar {name[:100]}", code="unknown_calendar")


def _entry(action: str, present: StoredCalendar | None, calendar: Calendar | None, who: str) -> bytes:
    name = calendar.name if calendar else present.calendar.name if present else ""
    before, after = audited(present.calendar if present else None, calendar)
    return encode_entry(who=who, action=action, target=name, before=before, after=after)


def _stored(present: StoredCalendar | None, calendar: Calendar, who: str, now_ms: int) -> StoredCalendar:
    if present is None:
        return StoredCalendar(calendar, new_etag(), now_ms, now_ms, who)
    return replaced(present, calendar, new_etag(), now_ms)


def in_order(days: Sequence[str]) -> tuple[str, ...]:
    """Return these days of the week, each once, sorted from Monday on."""
    return tuple(day for day in DAYS if day in days)


def _refusal(error: CalendarError) -> InvalidError:
    return InvalidError("the calendar is not valid", errors=[FieldError(error.loc, error.msg)])
