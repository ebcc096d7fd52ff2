"""Examples of bodies about batches."""

from typing import Any, Final

from jqmaster.spec.examples.jobs import SUMMARY
from jqmaster.spec.examples.values import BATCH_ID, JOB_ID, OTHER_JOB_ID

_BATCH: Final[dict[str, Any]] = {
    "id": BATCH_ID,
    "state": "sealed",
    "counts": {
        "total": 20,
        "unfinished": 3,
        "scheduled": 0,
        "ready": 0,
        "retrying": 1,
        "running": 2,
        "succeeded": 16,
        "discarded": 0,
        "failed": 1,
        "canceled": 0,
        "skipped": 0,
        "deleted": 0,
        "gone": 0,
    },
    "batches": {"total": 0, "succeeded": 0, "failed": 0},
    "description": "Thumbnails of album 7",
    "tags": ["album-7"],
    "callbacks": {
        "on_success": {"name": "album.publish", "state": "waiting", "job_id": OTHER_JOB_ID},
        "on_complete": None,
        "on_failure": {"name": "mail.send", "state": "enqueued", "job_id": JOB_ID},
    },
    "batch": None,
    "created_at": "2026-11-21T04:30:00.000Z",
    "completed_at": None,
    "canceled_at": None,
    "expires_at": "2026-12-21T04:30:00.000Z",
}

EXAMPLES: Final[dict[str, Any]] = {
    "BatchRequest": {
        "description": "Thumbnails of album 7",
        "tags": ["album-7"],
        "on_success": {"name": "album.publish", "argument": {"album": 7}},
        "on_failure": {"name": "mail.send", "argument": {"template": "album-failed"}, "delay": 60},
    },
    "BatchCreated": {"id": BATCH_ID},
    "BatchView": _BATCH,
    "BatchList": {"batches": [_BATCH], "next_cursor": None},
    "BatchJobs": {"jobs": [SUMMARY], "next_cursor": None},
    "BatchWhy": {
        "state": "sealed",
        "reasons": [{"code": "jobs", "text": "3 of its 20 jobs are not over."}],
        "jobs": [SUMMARY],
    },
}
