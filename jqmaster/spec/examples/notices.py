"""Examples of bodies about notices and their deliveries."""

from typing import Any, Final

from jqmaster.spec.examples.values import DELIVERY_ID, JOB_ID, WORKER_ID

_DELIVERY_VIEW: Final[dict[str, Any]] = {
    "id": DELIVERY_ID,
    "url": "https://shop.example/hooks/jobs",
    "event": "job.failed",
    "state": "retrying",
    "created_at": "2026-11-21T04:30:02.310Z",
    "next_at": "2026-11-21T04:30:07.615Z",
    "finished_at": None,
    "attempts": [
        {
            "attempt": 1,
            "worker_id": WORKER_ID,
            "started_at": "2026-11-21T04:30:02.314Z",
            "finished_at": "2026-11-21T04:30:02.355Z",
            "outcome": "failure",
            "message": "status 500",
            "code": "failed",
            "error_type": None,
            "error": None,
        }
    ],
}
_NOTICE: Final[dict[str, Any]] = {
    "when": "job_failed",
    "matcher": {"field": "name", "op": "glob", "value": "order.*"},
    "threshold": 1,
    "to": [{"mail": ["ops@shop.example"]}],
    "group_by": "name",
    "at_most_every_s": 300,
    "muted_until": None,
    "description": "Whoever is on call",
}
_NOTICE_VIEW: Final[dict[str, Any]] = {
    "name": "failures",
    **_NOTICE,
    "etag": "5f0c2a9b71d3e846",
    "created_at": "2026-11-21T04:00:00.000Z",
    "changed_at": "2026-11-21T04:00:00.000Z",
    "created_by": "user:ada",
    "incidents": [
        {
            "key": "order.place",
            "count": 12,
            "told": 9,
            "began_at": "2026-11-21T04:30:02.310Z",
            "last_at": "2026-11-21T04:31:10.512Z",
            "told_at": "2026-11-21T04:30:13.002Z",
            "is_over": False,
            "acknowledged_by": None,
            "lines": [{"text": "order.place: timeout", "count": 12, "job_id": JOB_ID}],
        }
    ],
    "pending": [],
    "recent": [
        {
            "id": DELIVERY_ID,
            "kind": "first",
            "at": "2026-11-21T04:30:13.002Z",
            "key": "order.place",
            "count": 9,
            "new": 9,
        }
    ],
}

EXAMPLES: Final[dict[str, Any]] = {
    "DeliveryView": _DELIVERY_VIEW,
    "DeliveryList": {"deliveries": [_DELIVERY_VIEW]},
    "NoticeRequest": _NOTICE,
    "NoticeView": _NOTICE_VIEW,
    "NoticeList": {"notices": [_NOTICE_VIEW]},
    "MuteNoticeRequest": {"until": "2026-11-21T06:00:00Z"},
    "AcknowledgeRequest": {"key": None},
    "AcknowledgeAnswer": {"acknowledged": 1},
    "NoticeTest": {"message_id": DELIVERY_ID},
}
