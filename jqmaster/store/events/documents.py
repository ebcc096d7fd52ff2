"""The forms of events in the store."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgpack

from jqmaster.domain.definitions.run import RunReason
from jqmaster.domain.events.event import Effect, Event, Started
from jqmaster.errors import DamagedError
from jqmaster.store import codec

_UNREADABLE: Final = (KeyError, ValueError, TypeError, AttributeError, IndexError, msgpack.UnpackException)


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event, the time of its arrival, and its effects."""

    event: Event
    received_at_ms: int
    started: Sequence[Started]


def encode_event(event: Event) -> bytes:
    """Encode an event without its ID."""
    return codec.pack(
        [
            event.event_type, event.payload, event.dedupe_key, event.source, event.subject, event.occurred_at_ms,
            event.replay_of,
        ]
    )  # fmt: skip


def decode_event(event_id: str, raw: bytes) -> StoredEvent:
    """Decode a stored event. Raise DamagedError."""
    try:
        # Read texts as bytes, because a script has packed this entry.
        received_at_ms, lines, body = msgpack.unpackb(raw, raw=True)
        event_type, payload, dedupe_key, source, subject, occurred_at_ms, replay_of = msgpack.unpackb(body)
        event = Event(event_id, event_type, payload, dedupe_key, source, subject, occurred_at_ms, replay_of)
        return StoredEvent(event, int(received_at_ms), decode_started(lines))
    except _UNREADABLE as exc:
        raise DamagedError(f"event {event_id} cannot be read") from exc


def decode_started(lines: bytes) -> list[Started]:
    """Decode the effects of an event. Raise ValueError."""
    found = []
    for line in lines.decode().splitlines():
        definition, effect, reason, job_id = line.split(" ")
        found.append(Started(definition, Effect(effect), RunReason(reason), job_id))
    return found
