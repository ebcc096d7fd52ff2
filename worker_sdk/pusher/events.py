"""Events that applications send."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from worker_sdk.pusher.ids import new_job_id
from worker_sdk.shown import without_content
from worker_sdk.unsendable import sendable
from worker_sdk.wire import iso

MAX_EVENTS: Final = 500
EVENTS_PATH: Final = "/api/events"


@dataclass(frozen=True, slots=True)
class Event:
    """A message that something has happened. Definitions of the kind `event` start jobs for events.

    * `event_type`: what kind of event it is, such as `order.paid`.
    * `payload`: any value that MessagePack can encode.
    * `dedupe_key`: of events with the same source and key, only the first one counts. Default: a random key, so that a
      call that is repeated after an error counts once.
    * `source`: where it happened.
    * `subject`: object of the source that the event is about.
    * `occurred_at`: when it happened, with a time zone.

    For example:

        event = Event("order.paid", {"order": 7}, source="shop", subject="order-7")
        pusher.send_events([event])
    """

    event_type: str
    payload: Any = None
    dedupe_key: str | None = None
    source: str = ""
    subject: str = ""
    occurred_at: datetime | None = None

    def __repr__(self) -> str:
        return without_content(self, "payload")

    def to_wire(self) -> dict[str, Any]:
        """Return the map to send, with a dedupe key."""
        fields: dict[str, Any] = {
            "event_type": self.event_type,
            "payload": self.payload,
            "dedupe_key": self.dedupe_key or new_job_id(),
        }
        if self.source:
            fields["source"] = self.source
        if self.subject:
            fields["subject"] = self.subject
        if self.occurred_at is not None:
            if self.occurred_at.tzinfo is None:
                raise ValueError("an instant needs a time zone: datetime.now(UTC), not datetime.now()")
            fields["occurred_at"] = iso(self.occurred_at)
        return fields


@dataclass(frozen=True, slots=True)
class SentEvent:
    """The master's answer to an event.

    * `event_id`: ID of the event; for a duplicate, the ID of the first event.
    * `is_duplicate`: the master had an event with this source and key already.
    * `job_ids`: IDs of the jobs that the event started.
    * `runs`: the effect on each definition: maps of `definition`, `outcome` (`fired`, `skipped` or `waiting`),
      `reason` and `job_id`.

    For example:

        sent = pusher.send_event("order.paid", {"order": 7})
        print(sent.event_id, sent.is_duplicate, sent.job_ids)
    """

    event_id: str
    is_duplicate: bool
    job_ids: Sequence[str]
    runs: Sequence[Mapping[str, Any]]


def bodies_of(events: Iterable[Event]) -> Iterator[bytes]:
    """Yield the bodies of the calls that send these events."""
    chunk: list[dict[str, Any]] = []
    for event in events:
        chunk.append(event.to_wire())
        if len(chunk) == MAX_EVENTS:
            yield sendable({"events": chunk})
            chunk = []
    if chunk:
        yield sendable({"events": chunk})


def sent_event(answer: Mapping[str, Any]) -> SentEvent:
    """Return the answer of a master to one event."""
    return SentEvent(
        str(answer["event_id"]), answer["duplicate"] is True, list(answer["job_ids"]), list(answer["runs"])
    )
