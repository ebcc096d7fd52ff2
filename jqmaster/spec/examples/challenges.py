"""Examples of bodies about challenges, and of the requests that answer them."""

from typing import Any, Final

from jqmaster.spec.examples.values import CLAIM, JOB_ID, REQUEST_ID, REQUEST_SHOWN

_FORM_VIEW: Final[dict[str, Any]] = {
    "title": "Refund order 42?",
    "description": "The parcel came back yesterday.",
    "choices": [
        {"value": "approve", "label": "", "needs_comment": False, "skips_fields": False},
        {"value": "reject", "label": "", "needs_comment": True, "skips_fields": True},
    ],
    "comment": "optional",
    "fields": {
        "type": "object",
        "properties": {"amount": {"type": "number", "title": "Amount", "minimum": 0}},
        "required": ["amount"],
    },
}

EXAMPLES: Final[dict[str, Any]] = {
    "OpenChallengeRequest": {**CLAIM, "timeout_s": 86_400.0, "meta": {"order": 42}},
    "OpenChallengeAnswer": {
        "request_id": REQUEST_ID,
        "callback_url": f"https://jobs.example.org/callbacks/{REQUEST_ID}",
    },
    "PersonalChallengeView": {
        "form": _FORM_VIEW,
        "audience": "users",
        "state": "processing",
        "is_open": True,
        "expect": 1,
        "received": 0,
        "due_at": "2026-11-22T04:30:02.920Z",
        "answers": [],
    },
    "CallbackReceipt": {"repeated": False},
    "CallbackProgressRequest": {"fraction": 0.5, "message": "packed"},
    "ChallengeList": {
        "challenges": [
            {
                "job_id": JOB_ID,
                "name": "order.place",
                "job_state": "awaiting_callback",
                "request": REQUEST_SHOWN,
                "attempt": 1,
                "state": "processing",
                "expect": 1,
                "received": 0,
                "opened_at": "2026-11-21T04:30:02.310Z",
                "awaiting_since": "2026-11-21T04:30:02.920Z",
                "due_at": "2026-11-22T04:30:02.920Z",
                "received_at": None,
                "run_at": None,
                "ended_at": None,
                "progress": {"fraction": 0.5, "message": "packed", "at": "2026-11-21T04:35:00.000Z"},
                "meta": {"order": 42},
                "error": None,
                "code": None,
                "failures": 0,
                "form": None,
                "audience": None,
                "remind_at": None,
                "answers": [],
            }
        ],
        "next_cursor": None,
    },
}
