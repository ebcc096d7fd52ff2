"""Routes of events."""

from typing import Any, Final

from jqmaster.api.events import handlers, schemas
from jqmaster.api.http.endpoint import Operation
from jqmaster.domain.identity.access import Scope

_STORE: Final = (503,)
_QUERY: Final[dict[str, Any]] = {
    "type": {
        "schema": {"type": "string"},
        "description": "Show only events of this type, which may be a pattern such as `order.*`.",
    },
    "source": {"schema": {"type": "string"}, "description": "Show only events of this source."},
    "definition": {
        "schema": {"type": "string"},
        "description": "Show only events that this definition matched, whether they started its job or not.",
    },
    "limit": {
        "schema": {"type": "integer", "minimum": 1, "maximum": handlers.MAX_PAGE, "default": 100},
        "description": "Maximum number of events.",
    },
    "cursor": {"schema": {"type": "string"}, "description": "`next_cursor` of the previous page."},
}
_SEND_TEXT: Final = (
    "Accepts one or more events, and starts the jobs of the matching definitions of kind event. Storing an "
    "event and starting its jobs is one atomic step. CloudEvents 1.0 are accepted unchanged, as "
    "`application/cloudevents+json`, as `application/cloudevents-batch+json`, or with their attributes in "
    "`ce-` headers. Their `source` and `id` form the dedupe key. A token that is restricted to job names "
    "may send only events with one of these names as their type."
)
_REPLAY_TEXT: Final = (
    "Sends a stored event again, as a new event without a dedupe key. The current definitions handle the "
    "new event."
)
_LIST_TEXT: Final = (
    "The master examines up to 2,000 events or 4 MiB of payloads for a page. So a page may have fewer "
    "events than `limit`, or none, although more pages follow (`next_cursor`)."
)

OPERATIONS: Final = [
    Operation("POST", "/api/events", handlers.send, Scope.PUSH, "Send events", "events",
              {202: schemas.EventPostAnswer}, schemas.EventPost, problems=(409, 413, 429, *_STORE), text=_SEND_TEXT,
              push="single"),
    Operation("GET", "/api/events", handlers.list_events, Scope.READ, "List events", "events",
              {200: schemas.EventList}, query=_QUERY, problems=_STORE, text=_LIST_TEXT),
    Operation("GET", "/api/events/{event_id}", handlers.get, Scope.READ, "Get an event", "events",
              {200: schemas.EventView}, problems=(404, *_STORE)),
    Operation("POST", "/api/events/{event_id}/replay", handlers.replay, Scope.OPERATE, "Send an event again", "events",
              {202: schemas.EventAnswer}, problems=(404, 409, *_STORE), text=_REPLAY_TEXT),
]  # fmt: skip
