"""Checks definitions and the data of events, but no jobs."""

import math
from collections.abc import AsyncIterator, Mapping

from jqmaster.domain.definitions.definition import Definition
from jqmaster.errors import DamagedError
from jqmaster.store.calendars.documents import StoredCalendar, decode_calendar
from jqmaster.store.definitions.documents import decode_clock, decode_definition, is_of_events, plan_of
from jqmaster.store.health.findings import KEYS_PER_READ, EventFault, Finding
from jqmaster.store.keys import Keys
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.pages import pages
from jqmaster.store.named_documents import ETAG_LENGTH


async def check_definitions(client: StoreClient, keys: Keys) -> AsyncIterator[Finding]:
    """Yield definitions that cannot fire: damaged ones, and those that are not scheduled for their next instant."""
    documents, clocks, due, due_on_days, calendars, users = await client.pipeline(
        [
            ("HGETALL", keys.definitions),
            ("HGETALL", keys.definition_clocks),
            ("ZRANGE", keys.definitions_due, 0, -1, "WITHSCORES"),
            ("ZRANGE", keys.definitions_due_on_days, 0, -1, "WITHSCORES"),
            ("HGETALL", keys.calendars),
            ("HGETALL", keys.definition_calendars),
        ]
    )
    known = dict(zip(calendars[::2], calendars[1::2], strict=True))
    calendar_of = dict(zip(users[::2], users[1::2], strict=True))
    clock_of = dict(zip(clocks[::2], clocks[1::2], strict=True))
    due_ms, on_days_ms = (
        {flat[n]: float(flat[n + 1]) for n in range(0, len(flat), 2)} for flat in (due, due_on_days)
    )
    for name, document in zip(documents[::2], documents[1::2], strict=True):
        text = name.decode()
        try:
            definition = decode_definition(text, document).definition
            clock = decode_clock(text, clock_of.get(name, b""))
            calendar = _calendar_of(definition, known)
        except DamagedError as exc:
            yield Finding("definition", keys.definitions, exc.detail)
            continue
        if calendar_of.pop(name, b"").decode() != definition.calendar:
            detail = f"definition {text} is not listed with its calendar {definition.calendar or '(none)'}"
            yield Finding("definition", keys.definition_calendars, detail)
        next_ms = definition.next_due_ms(clock.handled_ms, plan_of(clock, calendar))
        key, looked_at_ms = (
            (keys.definitions_due_on_days, on_days_ms)
            if definition.calendar
            else (keys.definitions_due, due_ms)
        )
        if next_ms is not None and looked_at_ms.get(name, math.inf) > next_ms:
            yield Finding("definition", key, f"definition {text} is due before its next check")
    for name in (clock_of.keys() | due_ms.keys() | on_days_ms.keys() | calendar_of.keys()) - set(
        documents[::2]
    ):
        yield Finding("definition", keys.definition_clocks, f"definition {name.decode()} does not exist")


def _calendar_of(definition: Definition, known: Mapping[bytes, bytes]) -> StoredCalendar | None:
    """Return the calendar of a definition, or None if it has none. Raise DamagedError."""
    if not definition.calendar:
        return None
    raw = known.get(definition.calendar.encode())
    if raw is None:
        raise DamagedError(f"definition {definition.name}: there is no calendar {definition.calendar}")
    return decode_calendar(definition.calendar, raw)


async def event_faults(client: StoreClient, keys: Keys) -> list[EventFault]:
    """Return listed events with missing data, and groups of events that would never become a job."""
    faults = await _event_faults(client, keys)
    # Check twice, because events may change between two reads. Only a fault that both checks find is real.
    again = await _event_faults(client, keys) if faults else set()
    return sorted(faults & again, key=lambda fault: (fault.kind, fault.member))


async def _event_faults(client: StoreClient, keys: Keys) -> set[EventFault]:
    ids, bodies, due, slots, names, definitions, memories = await client.pipeline(
        [
            ("ZRANGE", keys.events, 0, -1),
            ("HKEYS", keys.event_bodies),
            ("ZRANGE", keys.event_groups, 0, -1),
            ("HGETALL", keys.event_slots),
            ("SMEMBERS", keys.event_definitions),
            ("HGETALL", keys.definitions),
            ("HKEYS", keys.forgotten_runs),
        ]
    )
    documents = dict(zip(definitions[::2], definitions[1::2], strict=True))
    found = {EventFault("event", event_id.decode()) for event_id in set(ids) ^ set(bodies)}
    for slot, group in zip(slots[::2], slots[1::2], strict=True):
        if group not in due:
            found.add(EventFault("slot", slot.decode()))
    for page in pages(due, KEYS_PER_READ):
        groups = await client.pipeline(
            [("HMGET", keys.event_group(group.decode()), "definition", "1") for group in page]
        )
        for group, fields in zip(page, groups, strict=True):
            if None in fields:
                found.add(EventFault("group", group.decode()))
    found |= {EventFault("definition", name.decode()) for name in set(names) - documents.keys()}
    # A master of an older release leaves a removed definition's memory behind. The entry with an empty name belongs to
    # no definition.
    found |= {EventFault("memory", name.decode()) for name in set(memories) - documents.keys() - {b""}}
    return found | {
        EventFault("unlisted", (documents[name][:ETAG_LENGTH] + name).decode())
        for name in documents.keys() - set(names)
        if is_of_events(documents[name])
    }
