"""The newest events of a definition's type, with the effect that each event would have on the definition."""

from dataclasses import replace
from typing import Any, Final

from jqmaster.api.encoding.shown_values import shown_value
from jqmaster.api.http.endpoint import Call
from jqmaster.domain.content.content import ContentAccess
from jqmaster.domain.definitions.definition import Definition
from jqmaster.domain.instant import iso_ms
from jqmaster.store.events.documents import StoredEvent

MAX_SHOWN: Final = 20


async def newest_events(call: Call, definition: Definition, count: int) -> list[dict[str, Any]]:
    """Return the newest stored events of the type, each with the argument that the job would get."""
    fits = definition.of_events.fits_type
    page = await call.services.events.page(
        None, min(count, MAX_SHOWN), lambda stored: fits(stored.event.event_type)
    )
    return [_view(stored, definition, call.content) for stored in page.events]


def _view(stored: StoredEvent, definition: Definition, access: ContentAccess) -> dict[str, Any]:
    """Return a `PreviewedEvent`. Match only the part of the payload that the caller may see. Otherwise, the
    caller could use matchers to guess the hidden parts."""
    event, trigger = stored.event, definition.of_events
    own = access.for_name(event.event_type)
    payload = own.redactor.encoded("argument", event.payload)
    fields = replace(event, payload=payload).fields
    is_seen = own.is_granted and payload == event.payload
    matches = trigger.matcher is None or (trigger.matcher.matches(fields) if is_seen else None)
    argument = (
        definition.job.argument if trigger.argument is None else trigger.argument.argument(fields, payload)
    )
    return {
        "event_id": event.id,
        "event_type": event.event_type,
        "received_at": iso_ms(stored.received_at_ms),
        "matches": matches,
        "argument": shown_value(argument) if own.is_granted else None,
        "argument_hidden": not own.is_granted,
    }
