"""Examples of bodies about jobs, and actions on many jobs."""

from typing import Any, Final

from jqmaster.spec.examples.values import ACTION_ID, CLAIM, JOB_ID, OTHER_JOB_ID, WORKER_ID

SUMMARY: Final[dict[str, Any]] = {
    "id": JOB_ID,
    "name": "mail.send",
    "state": "retrying",
    "priority": 0,
    "attempt": 1,
    "failures": 1,
    "losses": 0,
    "max_retry": 5,
    "timeout": 30.0,
    "keep_result": True,
    "created_at": "2026-11-21T04:30:00.000Z",
    "run_at": "2026-11-21T04:30:02.410Z",
    "started_at": "2026-11-21T04:30:00.004Z",
    "finished_at": None,
    "expires_at": None,
    "cause": None,
    "worker_id": WORKER_ID,
    "tags": ["welcome"],
}
_FILTER: Final[dict[str, Any]] = {
    "state": "failed",
    "name": "mail.send",
    "tag": None,
    "worker": None,
    "q": None,
    "cause": "error",
    "created_after": None,
    "created_before": None,
    "finished_after": "2026-11-21T03:00:00.000Z",
    "finished_before": None,
    "text": "connection refused",
    "failure_group": None,
    "matcher": None,
    "min_attempt": None,
    "min_duration": None,
    "max_duration": None,
}
_ACTION: Final[dict[str, Any]] = {
    "id": ACTION_ID,
    "action": "retry",
    "filter": _FILTER,
    "ids_count": None,
    "priority": None,
    "rate_per_s": 50.0,
    "stop_at_failure_share": 0.5,
    "at_most": None,
    "state": "running",
    "matched": 1200,
    "looked_at": 400,
    "done": 398,
    "refused": 2,
    "failed_again": 3,
    "by": "9f86d081",
    "created_at": "2026-11-21T04:30:00.000Z",
    "finished_at": None,
    "message": None,
}

EXAMPLES: Final[dict[str, Any]] = {
    "JobRequest": {"name": "mail.send", "argument": {"user_id": 42}, "keep_result": True, "timeout": 10},
    "EnqueueAnswer": {"id": JOB_ID},
    "BulkRequest": {
        "jobs": [
            {"name": "feed.insert", "argument": [7, 1001], "priority": -5},
            {"name": "feed.insert", "argument": [8, 1001], "run_at": "2026-11-21T04:30:00Z", "max_retry": 3},
        ]
    },
    "BulkAnswer": {"ids": [JOB_ID, "0198c3f4-5e6a-7b8c-9d0e-1f2a3b4c5d6f"]},
    "PatchRequest": {"priority": -10},
    "RetryJobRequest": {"attempt": 6},
    "JobActionRequest": {
        "action": "retry",
        "filter": {field: value for field, value in _FILTER.items() if value is not None},
        "rate_per_s": 50.0,
        "stop_at_failure_share": 0.5,
    },
    "JobActionPreview": {"count": 1200, "is_exact": True, "examples": [SUMMARY]},
    "JobActionView": _ACTION,
    "JobActionList": {"actions": [_ACTION]},
    "JobCount": {"count": 3, "is_exact": True, "states": {"failed": {"count": 3, "is_exact": True}}},
    "JobPage": {
        "jobs": [
            {
                **SUMMARY,
                "error": "ConnectionError: smtp.example.com refused",
                "argument_excerpt": '{"to":"a@example.com"}',
                "worker_name": "web-1:4242",
                "progress": None,
            }
        ],
        "next_cursor": None,
        "counts": {
            "scheduled": 0,
            "ready": 0,
            "retrying": 1,
            "running": 0,
            "succeeded": 12,
            "discarded": 0,
            "failed": 0,
            "canceled": 0,
            "skipped": 0,
        },
        "looked_at": 1,
        "is_partial": False,
    },
    "JobView": {
        **SUMMARY,
        "attempts": [
            {
                "attempt": 1,
                "worker_id": WORKER_ID,
                "started_at": "2026-11-21T04:30:00.004Z",
                "finished_at": "2026-11-21T04:30:00.410Z",
                "outcome": "failure",
                "message": "SMTPServerDisconnected: Connection unexpectedly closed",
                "error_type": "smtplib.SMTPServerDisconnected",
                "error": {
                    "type": "smtplib.SMTPServerDisconnected",
                    "message": "Connection unexpectedly closed",
                    "traceback": "Traceback (most recent call last): …",
                },
            }
        ],
        "events": [
            {
                "at": "2026-11-21T04:30:09.100Z",
                "event": "continued",
                "attempt": 2,
                "worker_id": WORKER_ID,
                "message": "its worker was detached, silent since 2026-11-21T04:30:02.000Z; it came back, asked, and goes on",
            }
        ],
        "headers": {},
        "argument": {"user_id": 42},
        "argument_hidden": False,
        "argument_redacted": False,
        "erased": [],
        "headers_redacted": False,
        "requires": None,
        "links": [{"label": "Logs", "url": f"https://logs.example/?job={JOB_ID}&attempt=1"}],
        "has_result": False,
        "result": None,
        "result_hidden": False,
        "argument_bytes": 10,
        "constraints": ["api.example.org"],
    },
    "StateAnswer": {"state": "retrying", "last_error": "HTTP 503 from the mail service"},
    "WhyAnswer": {
        "state": "ready",
        "as_of": "2026-11-21T04:30:12.000Z",
        "verdicts": [
            {
                "code": "constraint",
                "text": "Waits for constraint mail-per-host (argument.host = example.org): 1 of 1 slots taken: job "
                f"{OTHER_JOB_ID} on worker {WORKER_ID} for 12 s. The constraint holds "
                "back 41 jobs, including those that are not due yet.",
                "name": "mail-per-host",
                "kind": "concurrency",
                "kinds": ["concurrency"],
                "key": "argument.host",
                "key_value": "example.org",
                "limit": 1,
                "usage": 1,
                "period_s": None,
                "waiting": 41,
                "holders": [
                    {"job_id": OTHER_JOB_ID, "worker_id": WORKER_ID, "since": "2026-11-21T04:30:00.000Z"}
                ],
                "opens_at": None,
                "is_value_override": False,
            },
            {
                "code": "ahead",
                "text": "3 jobs that may start or wait for the same constraint come before it, including 1 named mail.read.",
                "count": 3,
                "bound": "exact",
                "others": {"mail.read": 1},
            },
        ],
        "constraints": [
            {
                "name": "mail-per-host",
                "key": "argument.host",
                "key_value": "example.org",
                "mode": "enforce",
                "passes": False,
                "kinds": ["concurrency"],
                "concurrency": 1,
                "running": 1,
                "rate": None,
                "starts": None,
                "paused": False,
                "held_until": None,
                "fair": False,
                "waiting": 41,
                "is_value_override": False,
                "opens_at": None,
            }
        ],
    },
    "ResultView": {"type": "success", "finished_at": "2026-11-21T04:30:02.920Z", "result": {"sent": True}},
    "PartsRequest": {**CLAIM, "first": 1, "parts": [{"rows": 500}, {"rows": 1000}]},
    "PartsAnswer": {"accepted": 2},
    "PartsPage": {
        "state": "running",
        "attempt": 1,
        "parts": [{"attempt": 1, "number": 1, "value": {"rows": 500}}],
        "next": "1-1",
        "is_last": False,
    },
    "ResultsRequest": {
        "results": [
            {
                **CLAIM,
                "type": "success",
                "finished_at": "2026-11-21T04:30:02.920Z",
                "result": {"sent": True},
            },
            {
                **CLAIM,
                "type": "failure",
                "finished_at": "2026-11-21T04:30:02.920Z",
                "reason": "other",
                "should_retry": True,
                "error": {"smtp": 421},
                "message": "the mail server is busy",
            },
        ]
    },
}
