"""Lists of events read the store within bounds of entries and of bytes."""

import pytest

from jqmaster.domain.events.event import Event
from jqmaster.domain.ids import new_id
from jqmaster.service.events import reader as events
from jqmaster.service.events.reader import EventReader
from jqmaster.store.definitions.definitions import MAX_INSTANT_MS
from jqmaster.store.events.documents import StoredEvent
from jqmaster.store.events.events import EventPage, EventPosition, EventStore


class CountingStore(EventStore):
    """Holds events of one size, each of its own millisecond, and counts what is read."""

    def __init__(self, count: int, payload_bytes: int) -> None:
        self.count = count
        self.payload = b"x" * payload_bytes
        self.reads = 0
        self.events_read = 0

    async def page(self, place: EventPosition | None, limit: int) -> EventPage:
        self.reads += 1
        last_ms = (
            self.count
            if place is None or place.received_at_ms == MAX_INSTANT_MS
            else place.received_at_ms - 1
        )
        instants = range(last_ms, max(0, last_ms - limit), -1)
        found = [StoredEvent(Event(new_id(), "a", self.payload), at_ms, ()) for at_ms in instants]
        self.events_read += len(found)
        return EventPage(found, EventPosition(found[-1].received_at_ms, 1) if len(found) == limit else None)

    @property
    def bytes_read(self) -> int:
        return self.events_read * len(self.payload)


async def test_a_search_that_finds_nothing_ends_at_a_number_of_bytes() -> None:
    store = CountingStore(2_000, 64 * 1024)
    page = await EventReader(store).page(None, 100, lambda event: False)
    assert page.events == []
    assert page.next_position is not None
    assert store.bytes_read <= events.MAX_BYTES_READ + events.PER_READ * len(store.payload)


async def test_a_search_of_small_events_ends_at_their_number() -> None:
    store = CountingStore(5_000, 10)
    page = await EventReader(store).page(None, 100, lambda event: False)
    assert page.next_position is not None
    assert store.events_read == events.MAX_LOOKED_AT


@pytest.mark.parametrize("limit", [1, 7, 100, 250])
async def test_a_list_without_a_filter_reads_little_more_than_it_shows(limit: int) -> None:
    store = CountingStore(1_000, 10)
    page = await EventReader(store).page(None, limit, lambda event: True)
    assert [event.received_at_ms for event in page.events] == list(range(1_000, 1_000 - limit, -1))
    assert store.events_read < limit + events.PER_READ


async def test_all_events_are_found_page_by_page_whatever_their_size() -> None:
    store = CountingStore(300, 64 * 1024)
    reader, place, found = EventReader(store), None, 0
    while True:
        page = await reader.page(place, 500, lambda event: event.received_at_ms % 3 == 0)
        found += len(page.events)
        place = page.next_position
        if place is None:
            break
    assert found == 100
