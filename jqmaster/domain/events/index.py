"""The definitions that events start, found by the type of an event."""

from collections.abc import Sequence
from typing import Final

from jqmaster.domain.definitions.definition import Definition
from jqmaster.domain.matching.fields import EventFields

# Maximum number of event types whose definitions are cached. An application has a few hundred types, but senders can
# make up any number.
MAX_TYPES: Final = 10_000


class EventIndex:
    """The definitions of kind `event`, as the store had them at one `edition`."""

    def __init__(self, edition: str, definitions: Sequence[Definition]) -> None:
        self.edition = edition
        self._definitions = sorted(definitions, key=lambda definition: definition.name)
        self._by_type: dict[str, tuple[Definition, ...]] = {}

    def of_type(self, event_type: str) -> tuple[Definition, ...]:
        """Return the definitions that events of this type may start, sorted by name."""
        found = self._by_type.get(event_type)
        if found is None:
            if len(self._by_type) >= MAX_TYPES:
                self._by_type.clear()
            found = tuple(d for d in self._definitions if d.of_events.fits_type(event_type))
            self._by_type[event_type] = found
        return found

    def matching(self, fields: EventFields) -> list[Definition]:
        """Return the definitions that an event starts, sorted by name."""
        return [
            definition
            for definition in self.of_type(fields.event_type)
            if (matcher := definition.of_events.matcher) is None or matcher.matches(fields)
        ]


NO_EVENTS: Final = EventIndex("", ())
