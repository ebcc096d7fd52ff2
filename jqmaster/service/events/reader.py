"""Reads events and their effects for operators."""

from collections.abc import Callable
from typing import Final

from jqmaster.service.events.intake import unknown_event
from jqmaster.store.definitions.definitions import MAX_INSTANT_MS
from jqmaster.store.events.documents import StoredEvent
from jqmaster.store.events.events import EventPage, EventPosition, EventStore

# Maximum number of events that are read for a page of a filtered list, and for one step of it.
MAX_LOOKED_AT: Final = 2_000
PER_READ: Final = 100
# A page ends once the payloads that it has read have this size in all. The last read may exceed the size by up to
# PER_READ payloads.
MAX_BYTES_READ: Final = 4 << 20


class EventReader:
    """Reads stored events. Methods raise what the store raises."""

    def __init__(self, store: EventStore) -> None:
        self._store = store

    async def get(self, event_id: str) -> StoredEvent:
        """Return an event. Raise NotFoundError."""
        event = await self._store.get(event_id)
        if event is None:
            raise unknown_event(event_id)
        return event

    async def page(
        self, position: EventPosition | None, limit: int, is_meant: Callable[[StoredEvent], bool]
    ) -> EventPage:
        """Return the events after a position for which `is_meant` returns True, the newest first. A page may be short
        or empty although further pages follow."""
        at = position or EventPosition(MAX_INSTANT_MS, 0)
        found: list[StoredEvent] = []
        looked_at = bytes_read = 0
        # First read only `limit` events. Without a filter, these are enough. Then double the number, because a filter
        # that selects few events needs many reads.
        step = min(limit, PER_READ)
        while looked_at < MAX_LOOKED_AT and bytes_read < MAX_BYTES_READ:
            page = await self._store.page(at, step)
            looked_at += step
            step = min(2 * step, PER_READ)
            for event in page.events:
                at = at.behind(event.received_at_ms)
                bytes_read += len(event.event.payload)
                if is_meant(event):
                    found.append(event)
                    if len(found) == limit:
                        return EventPage(found, at)
            if page.next_position is None:
                return EventPage(found, None)
        return EventPage(found, at)
