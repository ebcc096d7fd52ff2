"""Examples of bodies about events."""

from typing import Any, Final

from jqmaster.spec.examples.values import EVENT_ID, JOB_ID

_EVENT: Final[dict[str, Any]] = {
    "event_type": "order.paid",
    "payload": {"order": 17, "total": 99},
    "dedupe_key": "order-17-paid",
    "source": "/shop",
}
_EVENT_ANSWER: Final[dict[str, Any]] = {
    "event_id": EVENT_ID,
    "duplicate": False,
    "job_ids": [JOB_ID],
    "runs": [{"definition": "ship-order", "outcome": "fired", "reason": None, "job_id": JOB_ID}],
}
_EVENT_VIEW: Final[dict[str, Any]] = {
    "event_id": EVENT_ID,
    **_EVENT,
    "subject": "",
    "occurred_at": None,
    "received_at": "2026-11-21T17:30:00.004Z",
    "replay_of": None,
    "payload_bytes": 17,
    "payload_hidden": False,
    "payload_redacted": False,
    "job_ids": [JOB_ID],
    "runs": _EVENT_ANSWER["runs"],
}

EXAMPLES: Final[dict[str, Any]] = {
    "EventRequest": _EVENT,
    "EventBatch": {"events": [_EVENT]},
    "EventPost": _EVENT,
    "EventAnswer": _EVENT_ANSWER,
    "EventBatchAnswer": {"events": [_EVENT_ANSWER]},
    "EventPostAnswer": _EVENT_ANSWER,
    "EventView": _EVENT_VIEW,
    "EventList": {"events": [_EVENT_VIEW], "next_cursor": None},
}
