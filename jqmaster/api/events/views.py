"""Events as answers show them."""

from collections.abc import Sequence
from typing import Any

from jqmaster.api.encoding.shown_values import shown_value
from jqmaster.domain.content.content import ContentAccess
from jqmaster.domain.events.event import Effect, Started
from jqmaster.domain.instant import iso_ms
from jqmaster.store.events.documents import StoredEvent
from jqmaster.store.events.events import ReceivedEvent


def received_view(received: ReceivedEvent) -> dict[str, Any]:
    """Return an `EventAnswer`."""
    return {"event_id": received.event_id, "duplicate": received.is_duplicate, **_runs(received.started)}


def event_view(stored: StoredEvent, access: ContentAccess) -> dict[str, Any]:
    """Return an `EventView`. Payloads follow the rules for the arguments of jobs."""
    event = stored.event
    own = access.for_name(event.event_type)
    payload = own.redactor.encoded("argument", event.payload)
    return {
        "event_id": event.id,
        "event_type": event.event_type,
        "source": event.source,
        "subject": event.subject,
        "dedupe_key": event.dedupe_key or None,
        "occurred_at": None if event.occurred_at_ms is None else iso_ms(event.occurred_at_ms),
        "received_at": iso_ms(stored.received_at_ms),
        "replay_of": event.replay_of or None,
        "payload": shown_value(payload) if own.is_granted else None,
        "payload_bytes": len(event.payload),
        "payload_hidden": not own.is_granted,
        "payload_redacted": own.is_granted and payload != event.payload,
        **_runs(stored.started),
    }


def _runs(started: Sequence[Started]) -> dict[str, Any]:
    return {
        "job_ids": [one.job_id for one in started if one.effect is Effect.FIRED],
        "runs": [
            {
                "definition": one.definition,
                "outcome": str(one.effect),
                "reason": str(one.reason) or None,
                "job_id": one.job_id or None,
            }
            for one in started
        ],
    }
