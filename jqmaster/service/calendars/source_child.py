"""The process that gets holidays from libraries. `CalendarSources` starts it with `python -m`.

A calendar text of a caller may describe recurrences that take hours or all memory to expand. Therefore they are
expanded in a process of its own, and the kernel ends it at its limits of processor time and memory. The process reads
one request from the standard input, and writes one answer to the standard output.
"""

import contextlib
import importlib
import resource
import signal
import sys
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from typing import Any, Final

import msgpack

from jqmaster.domain.calendars.calendar import DAYS, FIRST_YEAR, MAX_HOLIDAYS, clean_name, joined

# Maximum processor time of this process. Unlike elapsed time, it does not grow while the machine is busy.
MAX_CPU_S: Final = 5.0
MAX_MEMORY_BYTES: Final = 1024**3
MAX_EVENTS: Final = 5_000
MAX_EVENT_DAYS: Final = 366
_FREQUENCIES: Final = frozenset({"DAILY", "WEEKLY", "MONTHLY", "YEARLY"})
_DAY: Final = timedelta(days=1)


class SourceFaultError(ValueError):
    """A source of holidays cannot be used. `field`: the field of the calendar that breaks a rule. The message is the
    rule."""

    def __init__(self, field: str, msg: str) -> None:
        super().__init__(msg)
        self.field = field


def main() -> None:
    # A terminal sends Ctrl-C to the whole process group, so ignore it here.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(ValueError, OSError):  # not every system can limit the memory
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Once the processor time is used up, SIGPROF ends the process, even in the middle of a library call.
    signal.setitimer(signal.ITIMER_PROF, MAX_CPU_S)
    sys.stdout.buffer.write(msgpack.packb(answer_of(msgpack.unpackb(sys.stdin.buffer.read()))))


def answer_of(request: dict[str, Any]) -> dict[str, Any]:
    """Return one of these answers:

    * `{holidays, covers_until, weekend}`, with each day as its ordinal number,
    * `{fault: [field, msg]}` for a source that cannot be used,
    * `{missing: true}` if the library is not installed.
    """
    try:
        first, last = date(request["first_year"], 1, 1), date(request["last_year"], 12, 31)
        if request["ical"]:
            found, covers_until = holidays_of_text(request["ical"], first, last)
            weekend = None
        else:
            found, covers_until, weekend = holidays_of_country(
                request["country"], request["subdivision"], request["language"], first, last
            )
    except SourceFaultError as fault:
        return {"fault": [fault.field, str(fault)]}
    except ImportError:
        return {"missing": True}
    return {
        "holidays": [[day.toordinal(), name] for day, name in sorted(found.items())],
        "covers_until": covers_until and covers_until.toordinal(),
        "weekend": weekend,
    }


def holidays_of_country(
    country: str, subdivision: str, language: str, first: date, last: date
) -> tuple[dict[date, str], date, list[str]]:
    """Return the holidays from `first` to `last`, the last day of the last year that the library knows, and the usual
    weekend of the country. Raise SourceFaultError."""
    library: Any = importlib.import_module("holidays")
    known = library.list_supported_countries(include_aliases=False)
    if country not in known:
        raise SourceFaultError(
            "country", "must be the ISO 3166 code of a country that the library holidays knows"
        )
    if subdivision and subdivision not in known[country]:
        some = ", ".join(known[country]) or "none"
        raise SourceFaultError("subdivision", f"must be one of {country}: {some[:1000]}")
    languages = library.list_localized_countries(include_aliases=False).get(country, [])
    if language and language not in languages:
        raise SourceFaultError("language", f"must be one of {country}: {', '.join(languages) or 'none'}")
    found = library.country_holidays(
        country, subdiv=subdivision or None, language=language or None, years=range(first.year, last.year + 1)
    )
    end_year = min(last.year, getattr(found, "end_year", last.year) or last.year)
    names = {day: clean_name(name) for day, name in found.items() if first <= day <= last}
    return names, date(end_year, 12, 31), [DAYS[day] for day in sorted(found.weekend)]


def holidays_of_text(text: str, first: date, last: date) -> tuple[dict[date, str], date | None]:
    """Return the days of the events in an iCalendar text, with recurrences expanded from `first` to `last`. Also return
    `last` if a recurrence goes on after it, and otherwise None. Raise SourceFaultError."""
    library: Any = importlib.import_module("icalendar")
    try:
        calendars = library.Calendar.from_ical(text, multiple=True)
        events = [event for one in calendars for event in one.walk("VEVENT")]
    except (ValueError, IndexError, KeyError, TypeError, AttributeError) as exc:
        raise SourceFaultError("ical", f"cannot be read: {clean_name(str(exc)) or 'no calendar'}") from None
    if len(events) > MAX_EVENTS:
        raise SourceFaultError("ical", f"has more than {MAX_EVENTS} events")
    # An event with a RECURRENCE-ID replaces one day of the recurring event with the same UID.
    replaced = {
        (str(event.get("UID", "")), _date(event["RECURRENCE-ID"].dt))
        for event in events
        if "RECURRENCE-ID" in event
    }
    found: dict[date, str] = {}
    goes_on = False
    for event in events:
        if str(event.get("STATUS", "")).upper() == "CANCELLED":
            continue
        try:
            start, days = _span(event)
            own = (
                set()
                if "RECURRENCE-ID" in event
                else {day for uid, day in replaced if uid == event.get("UID", "")}
            )
            starts, is_open = _starts(event, start, first, last)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as exc:
            raise SourceFaultError(
                "ical", f"has an event that cannot be read: {clean_name(str(exc))}"
            ) from None
        goes_on = goes_on or is_open
        name = clean_name(str(event.get("SUMMARY", ""))) or "Holiday"
        for begin in starts:
            if begin in own:
                continue
            for n in range(days):
                day = begin + n * _DAY
                found[day] = joined(found.get(day), name)
            if len(found) > MAX_HOLIDAYS:
                raise SourceFaultError("ical", f"has more than {MAX_HOLIDAYS} holidays")
    return found, last if goes_on else None


def _span(event: Any) -> tuple[date, int]:
    """Return the first day of an event and the number of its days."""
    begin = event["DTSTART"].dt
    if "DTEND" in event:
        end = event["DTEND"].dt
    elif "DURATION" in event:
        end = begin + event["DURATION"].dt
    else:
        end = begin + _DAY if not isinstance(begin, datetime) else begin
    start = _date(begin)
    if start.year < FIRST_YEAR:
        raise ValueError(f"DTSTART before {FIRST_YEAR}")
    # The end of an event is exclusive. If the event ends at midnight, the day that begins then does not belong to it.
    last = (
        _date(end) if isinstance(end, datetime) and end.time() != datetime.min.time() else _date(end) - _DAY
    )
    days = max(1, (last - start).days + 1)
    if days > MAX_EVENT_DAYS:
        raise ValueError(f"an event longer than {MAX_EVENT_DAYS} days")
    return start, days


def _starts(event: Any, start: date, first: date, last: date) -> tuple[list[date], bool]:
    """Return the first day of each occurrence of an event, and whether the event recurs after `last`."""
    rules = _listed(event.get("RRULE"))
    excluded = {_date(one.dt) for dates in _listed(event.get("EXDATE")) for one in dates.dts}
    starts = {_date(one.dt) for dates in _listed(event.get("RDATE")) for one in dates.dts} | {start}
    is_open = False
    for rule in rules:
        for day in _recurrences(rule, start):
            if day > last:
                is_open = True
                break
            if day >= first:
                starts.add(day)
                if len(starts) > MAX_HOLIDAYS:
                    raise SourceFaultError("ical", f"has more than {MAX_HOLIDAYS} holidays")
    return sorted(starts - excluded), is_open


def _recurrences(rule: Any, start: date) -> Iterator[date]:
    from dateutil.rrule import rrulestr

    parts = dict(rule)
    until = [_date(one) for one in _listed(parts.pop("UNTIL", None))]
    if not {str(one).upper() for one in _listed(parts.get("FREQ"))} <= _FREQUENCIES:
        raise ValueError("has a recurrence that is more frequent than daily")
    text = type(rule)(parts).to_ical().decode()
    for at in rrulestr(text, dtstart=datetime.combine(start, datetime.min.time())):
        if until and at.date() > until[0]:
            return
        yield at.date()


def _date(value: date | datetime) -> date:
    return value.date() if isinstance(value, datetime) else value


def _listed(value: Any) -> list[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]


if __name__ == "__main__":
    main()
