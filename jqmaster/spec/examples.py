"""One example for each body of the OpenAPI documents, by the name of its schema. Tests check them against the
schema."""

from typing import Any, Final

from jqmaster import __version__
from jqmaster.api.workers.push_schemas import COMMANDS

JOB_ID: Final = "0198c3f4-5e6a-7b8c-9d0e-1f2a3b4c5d6e"
_OTHER_JOB_ID: Final = "0198c3f4-5e6a-7b8c-9d0e-1f2a3b4c5d6d"
EVENT_ID: Final = "0198c3f4-5e69-7b8c-9d0e-1f2a3b4c5d6e"
BATCH_ID: Final = "0198c3f4-5e68-7b8c-9d0e-1f2a3b4c5d6e"
SLOT_RULE_ID: Final = "6e1ff6b0a1f04b9f8f4a3c1f0a4e2d11"
WORKER_ID: Final = "0198c3f4-0000-7b8c-9d0e-000000000001"
ACTION_ID: Final = "0198c3f4-7a10-7b8c-9d0e-1f2a3b4c5d6e"
MASTER_ID: Final = "6f1c2b9e-3d54-4c8a-9a57-2e0b8d7c1f34"
INCIDENT_ID: Final = "1795238645000-0"
SESSION_ID: Final = "0c3f9a52be7714d8"
REQUEST_ID: Final = "AZjD9F5qe4ydDh8qO0xdbgV3kQm1pZs8Yt2LrWc0HuNfXa9ibJ4vEo"
DELIVERY_ID: Final = "019aa486-2c1f-8d7a-9b32-5f0c8e6d4b1a"
REQUEST_SHOWN: Final = "V3kQm1pZ"
TOKEN_ID: Final = "5f0c2a9b71d3"  # noqa: S105  an example
_TOKEN: Final = "9f86d081884c7d659a2feaa0c55ad015"  # noqa: S105  an example
_NOW_MS: Final = 1_795_238_645_000
_EPOCH: Final = 1_795_238_640_123

_NO_PERSON: Final[dict[str, Any]] = {"before": "", "by": "", "cause": ""}
_LOST_WORKER: Final[dict[str, Any]] = {
    "id": INCIDENT_ID,
    "kind": "worker_lost",
    "at": "2026-11-21T04:30:09.000Z",
    "since": "2026-11-21T04:30:00.000Z",
    "text": "Worker node-1:4242 fell silent and was detached; it held 2 jobs.",
    "subject": WORKER_ID,
    "label": "node-1:4242",
    "count": 2,
    **_NO_PERSON,
}
_RETURNED_JOBS: Final[dict[str, Any]] = {
    **_LOST_WORKER,
    "id": "1795238645001-0",
    "kind": "jobs_returned",
    "at": "2026-11-21T04:30:15.000Z",
    "since": "2026-11-21T04:30:15.000Z",
    "text": "2 jobs of worker node-1:4242 were taken back from it.",
}
_DEPLOY: Final[dict[str, Any]] = {
    **_LOST_WORKER,
    "id": "1795238640000-0",
    "kind": "version_new",
    "at": "2026-11-21T04:28:00.000Z",
    "since": "2026-11-21T04:28:00.000Z",
    "text": "The first worker of version 2.1 registered (mail.send).",
    "subject": "2.1",
    "label": "mail.send",
    "count": 0,
}
_DEPLOY_MARK: Final[dict[str, Any]] = {
    "at": _DEPLOY["at"],
    "until": None,
    "kind": "deploy",
    "text": _DEPLOY["text"],
    "subject": "2.1",
    "by": "",
    "reason": "",
    "matcher": None,
    "incident_id": None,
    "entry": _DEPLOY,
}
_INCIDENT: Final[dict[str, Any]] = {
    "id": INCIDENT_ID,
    "title": "Worker lost, jobs taken back",
    "began_at": "2026-11-21T04:30:00.000Z",
    "ended_at": "2026-11-21T04:30:15.000Z",
    "entries": [_LOST_WORKER, _RETURNED_JOBS],
    "acknowledged": [],
}
_SUMMARY: Final[dict[str, Any]] = {
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
        "on_success": {"name": "album.publish", "state": "waiting", "job_id": _OTHER_JOB_ID},
        "on_complete": None,
        "on_failure": {"name": "mail.send", "state": "enqueued", "job_id": JOB_ID},
    },
    "batch": None,
    "created_at": "2026-11-21T04:30:00.000Z",
    "completed_at": None,
    "canceled_at": None,
    "expires_at": "2026-12-21T04:30:00.000Z",
}
_RUN: Final[dict[str, Any]] = {
    "definition": "nightly-report",
    "due_at": "2026-11-21T17:30:00.000Z",
    "outcome": "fired",
    "reason": None,
    "job_id": JOB_ID,
    "job_state": "succeeded",
    "recorded_at": "2026-11-21T17:30:00.004Z",
    "event_id": None,
    "moved_from": None,
}
_EVENT: Final[dict[str, Any]] = {
    "event_type": "order.paid",
    "payload": {"order": 17, "total": 99},
    "dedupe_key": "order-17-paid",
    "source": "/shop",
}
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
_TARGET_VIEW: Final[dict[str, Any]] = {
    "name": "shop",
    "names": ["shop.*"],
    "url": "https://shop.example/jobs/{name}",
    "method": "POST",
    "body": "argument",
    "headers": {"Authorization": "…"},
    "has_secret": True,
    "previous_secret_until": None,
    "max_running": 20,
    "max_running_per_host": None,
    "ok": ["2xx"],
    "final": [400, 404, 410, 422],
    "timeout": None,
    "not_ready_for_s": 259200.0,
    "allow_hosts": [],
    "description": "",
    "etag": "5f0c2a9b71d3e846",
    "created_at": "2026-11-21T04:30:00.000Z",
    "changed_at": "2026-11-21T04:30:00.000Z",
    "created_by": "user:ada",
}
_NAMESPACE: Final[dict[str, Any]] = {
    "name": "shop",
    "title": "The shop",
    "store": "b",
    "tag": "shop",
    "state": "open",
    "quotas": {"waiting_jobs": 100_000, "argument_bytes": 65_536},
    "version": _NOW_MS,
}
_STORE: Final[dict[str, Any]] = {
    "name": "b",
    "topology": "single",
    "server": "valkey 9.1.0",
    "faults": {},
    "used_memory_bytes": 48_123_904,
    "max_memory_bytes": 2_147_483_648,
    "namespaces": ["shop"],
}
_OVERVIEW_ENTRY: Final[dict[str, Any]] = {
    "name": "shop",
    "title": "The shop",
    "state": "open",
    "store": "b",
    "leader": MASTER_ID,
    "ready": 12,
    "running": 40,
    "waiting": 230,
    "oldest_wait_s": 1.4,
    "waiting_quota": 0.0023,
    "failures": 3,
    "fault": None,
}
_TARGET_DETAIL: Final[dict[str, Any]] = _TARGET_VIEW | {
    "serving": ["shop.order"],
    "running": 3,
    "unreachable": [],
    "left_out": 0,
    "figures": {
        "results": {"succeeded": 1200, "failed": 3},
        "requests_per_s": 4.2,
        "took": {"count": 1203, "p50_ms": 24, "p95_ms": 48, "p99_ms": 96, "max_ms": 310},
        "last": [
            {
                "at": "2026-11-21T04:30:02.410Z",
                "job_id": JOB_ID,
                "attempt": 1,
                "result": "failed",
                "status": 500,
                "took_ms": 12,
                "detail": "status 500",
                "body": "out of stock",
            }
        ],
    },
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
_DEFINITION: Final[dict[str, Any]] = {
    "description": "Sends the report of the day.",
    "schedule": {"daily_at": "02:30"},
    "time_zone": "Asia/Tokyo",
    "overlap": "forbid",
}
_DEFINITION_VIEW: Final[dict[str, Any]] = {
    "name": "nightly-report",
    "kind": "time",
    "enabled": True,
    "reason": "",
    **_DEFINITION,
    "starts_at": None,
    "ends_at": None,
    "jitter_s": 0.0,
    "skip_late_after_s": 300.0,
    "catch_up": "latest",
    "max_catch_up": 100,
    "days": {"calendar": "japan", "rule": "skip_holidays"},
    "event_type": None,
    "matcher": None,
    "argument": None,
    "debounce": None,
    "collect": None,
    "job": {
        "name": "report.send",
        "argument": {"kind": "daily"},
        "argument_bytes": 12,
        "argument_hidden": False,
        "argument_redacted": False,
        "priority": 0,
        "max_retry": 5,
        "keep_result": False,
        "timeout": 600.0,
        "retry": {"base_s": 1.0, "factor": 2.0, "max_s": 3600.0, "jitter": True},
        "rerun_lost": False,
        "tags": ["report"],
        "headers": {},
        "requires": None,
        "expires_s": 3600.0,
    },
    "next_due_at": "2026-11-22T17:30:00.000Z",
    "calendar_ends_at": "2028-12-31",
    "queued_at": None,
    "last_run": _RUN,
    "runs": [],
    "etag": "5f0c2a9b71d3e846",
    "created_by": "admin",
    "created_at": "2026-11-20T09:00:00.000Z",
    "changed_at": "2026-11-20T09:00:00.000Z",
}
_HOLIDAY: Final = {"date": "2026-11-23", "name": "Labor Thanksgiving Day"}
_CALENDAR_SUMMARY: Final[dict[str, Any]] = {
    "name": "japan",
    "source": "country",
    "country": "JP",
    "subdivision": None,
    "language": "en_US",
    "weekend": ["sat", "sun"],
    "holiday_count": 1,
    "covers_until": "2028-12-31",
    "used_by": ["nightly-report"],
    "used_by_count": 1,
    "etag": "0b6d1f3a5c7e9824",
    "created_by": "admin",
    "created_at": "2026-11-20T09:00:00.000Z",
    "changed_at": "2026-11-20T09:00:00.000Z",
}
_CALENDAR_VIEW: Final[dict[str, Any]] = {
    **_CALENDAR_SUMMARY,
    "holidays": [_HOLIDAY],
    "dates": None,
    "ical": None,
}
_DECLARATION: Final[dict[str, Any]] = {
    "source": "app.tasks:tasks",
    "constraints": {},
    "calendars": {"japan": "0b6d1f3a5c7e9824"},
    "definitions": {"nightly-report": "5f0c2a9b71d3e846"},
    "applied_at": "2026-11-20T09:00:00.000Z",
    "applied_by": "deploy",
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
_WORKER_FIGURES: Final[dict[str, Any]] = {
    "since": "2026-11-21T04:25:00.000Z",
    "succeeded": 3740,
    "failed": 10,
    "failed_share": 0.0027,
    "attempts_per_s": 12.5,
    "run": {"count": 3750, "p50_ms": 82, "p95_ms": 310, "p99_ms": 940, "max_ms": 1204},
    "marks": [],
}
_WORKER: Final[dict[str, Any]] = {
    "id": WORKER_ID,
    "url": "http://10.0.0.7:9000",
    "names": ["mail.send"],
    "max_jobs": 20,
    "own_max_jobs": 20,
    "busy": 3,
    "load": 0.15,
    "role": "push",
    "node_id": "node-7",
    "pid": 4711,
    "labels": {"zone": "b"},
    "version": __version__,
    "registered_at": "2026-11-21T04:00:00.000Z",
    "last_seen_at": "2026-11-21T04:30:00.000Z",
    "state": "fresh",
    "detached_by": None,
    "built_in": False,
    "breaker": "closed",
    "figures": _WORKER_FIGURES,
}
_SLOT_RULE: Final[dict[str, Any]] = {
    "id": SLOT_RULE_ID,
    "node_id": "node-7",
    "labels": {"zone": "b"},
    "max_jobs": 8,
    "set_by": "ada",
    "set_at": "2026-11-21T04:10:00.000Z",
}
_CONTRACT: Final[dict[str, Any]] = {
    "version": "2",
    "argument_schema": {
        "type": "object",
        "properties": {"user_id": {"type": "integer"}},
        "required": ["user_id"],
        "additionalProperties": False,
    },
    "options": {"timeout": 30.0, "max_retry": 5},
}
_COUNTS: Final[dict[str, Any]] = {
    "pushed": 2412,
    "succeeded": 2388,
    "discarded": 0,
    "failed": 1,
    "canceled": 0,
    "skipped": 0,
    "retried": 18,
    "wait": {"count": 2400, "p50_ms": 2, "p95_ms": 6, "p99_ms": 48, "max_ms": 61},
    "run": {"count": 2400, "p50_ms": 84, "p95_ms": 122, "p99_ms": 127, "max_ms": 128},
}
_NAME: Final[dict[str, Any]] = {
    "name": "mail.send",
    "ready": 12,
    **_COUNTS,
    "success_share": 0.9996,
    "last_seen_at": "2026-11-21T04:30:00.000Z",
}
_FAILURE_GROUP: Final[dict[str, Any]] = {
    "id": "5f0c2a9b71d3e846",
    "name": "mail.send",
    "cause": "error",
    "message": "connect to <address>: timed out after <n>s",
    "message_hidden": False,
    "error_type": "TimeoutError",
    "count": 7,
    "first_seen_at": "2026-11-21T04:00:00.000Z",
    "last_seen_at": "2026-11-21T04:30:00.000Z",
    "example_job_id": JOB_ID,
    "trend": [*[0] * 23, 7],
    "marks": ["new"],
    "versions": [
        {
            "version": "1.4.2",
            "count": 7,
            "first_seen_at": "2026-11-21T04:00:00.000Z",
            "last_seen_at": "2026-11-21T04:30:00.000Z",
        }
    ],
    "ignored": None,
    "raised_at": {"file": "shop/payments.py", "function": "capture", "code": "raise CardDeclined(customer)"},
    "assigned": {"assignee": "grace", "by": "ada", "at": "2026-11-21T04:30:00.123Z"},
    "resolved": None,
}
_CLAIM: Final[dict[str, Any]] = {"job_id": JOB_ID, "token": _TOKEN}

_DISPATCH: Final = {
    **_CLAIM,
    "attempt": 1,
    "fence": _NOW_MS,
    "phase": "run",
    "name": "mail.send",
    "argument": {"user_id": 42},
    "timeout": 30.0,
    "not_after_ms": _NOW_MS + 5_000,
    "lease_until_ms": _NOW_MS + 15_000,
    "headers": {},
}
_ETAG: Final = "5f0c2a9b71d3e846"
_CONSTRAINT: Final[dict[str, Any]] = {
    "name": "api.example.org",
    "enabled": True,
    "mode": "enforce",
    "matcher": {
        "all": [
            {"field": "name", "op": "glob", "value": "http.*"},
            {"field": "argument.host", "op": "eq", "value": "api.example.org"},
        ]
    },
    "key": "argument.tenant",
    "concurrency": 4,
    "rate": {"limit": 100, "period_s": 60.0},
    "paused": False,
    "max_backlog": None,
    "fair": True,
    "counts_awaiting": True,
    "overrides": [{"value": "acme", "concurrency": 8, "rate": None, "paused": False}],
    "values_hidden": False,
}
_CONSTRAINT_VIEW: Final[dict[str, Any]] = {
    **_CONSTRAINT,
    "etag": _ETAG,
    "created_at": "2026-11-21T04:00:00.000Z",
    "changed_at": "2026-11-21T04:30:00.000Z",
}
_USAGE: Final[dict[str, Any]] = {
    "waiting": 17,
    "running": 8,
    "starts_in_window": 42,
    "shadow_delayed": 0,
    "next_opening": None,
    "in_force": True,
    "keys": 1,
    "is_exact": True,
}
_API_TOKEN: Final[dict[str, Any]] = {
    "id": TOKEN_ID,
    "label": "web shop",
    "scopes": ["push"],
    "names": ["mail.*"],
    "created_at": "2026-11-21T04:30:00.000Z",
    "created_by": "user:ada",
    "expires_at": None,
    "last_used_at": "2026-11-21T04:31:00.000Z",
}
_NEW_TOKEN: Final = f"jqm_push_{TOKEN_ID}_{'0' * 48}00000000"
_USER: Final[dict[str, Any]] = {
    "name": "ada",
    "role": "operator",
    "created_at": "2026-11-21T04:30:00.000Z",
    "last_login_at": None,
    "is_disabled": False,
}

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
    "AgentCallRequest": {"tool": "retry", "subject": "mail.send", "acts": True, "is_confirmed": True},
    "LoginRequest": {"user": "ada", "password": "correct horse battery"},
    "SessionView": {
        "who": "user:ada",
        "role": "operator",
        "scopes": ["operate", "push", "read"],
        "method": "session",
        "csrf_token": "3b9c" * 16,
        "expires_at": "2026-11-21T16:30:00.000Z",
        "login_by_user": True,
        "has_namespaces": True,
    },
    "OwnPasswordRequest": {"old_password": "correct horse battery", "new_password": "seven plums in a hat"},
    "OwnSessionList": {
        "sessions": [
            {
                "id": SESSION_ID,
                "is_current": True,
                "opened_at": "2026-11-21T04:30:00.000Z",
                "last_used_at": "2026-11-21T05:12:00.000Z",
                "expires_at": "2026-11-21T16:30:00.000Z",
                "address": "192.0.2.17",
            }
        ]
    },
    "TokenRequest": {"label": "web shop", "scopes": ["push"], "names": ["mail.*"], "ttl_s": 7_776_000},
    "RotateRequest": {"overlap_s": 3600},
    "TokenView": _API_TOKEN,
    "NewTokenView": {**_API_TOKEN, "last_used_at": None, "token": _NEW_TOKEN},
    "TokenList": {"tokens": [_API_TOKEN]},
    "UserRequest": {"name": "ada", "password": "correct horse battery", "role": "operator"},
    "UserPatch": {"role": "viewer"},
    "UserView": _USER,
    "UserList": {"users": [_USER]},
    # the master's
    "JobRequest": {"name": "mail.send", "argument": {"user_id": 42}, "keep_result": True, "timeout": 10},
    "EnqueueAnswer": {"id": JOB_ID},
    "BatchRequest": {
        "description": "Thumbnails of album 7",
        "tags": ["album-7"],
        "on_success": {"name": "album.publish", "argument": {"album": 7}},
        "on_failure": {"name": "mail.send", "argument": {"template": "album-failed"}, "delay": 60},
    },
    "BatchCreated": {"id": BATCH_ID},
    "BatchView": _BATCH,
    "BatchList": {"batches": [_BATCH], "next_cursor": None},
    "BatchJobs": {"jobs": [_SUMMARY], "next_cursor": None},
    "BatchWhy": {
        "state": "sealed",
        "reasons": [{"code": "jobs", "text": "3 of its 20 jobs are not over."}],
        "jobs": [_SUMMARY],
    },
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
    "JobPreview": {
        "constraints": [
            {
                "name": "mail-per-host",
                "mode": "enforce",
                "key": "argument.host",
                "key_value": "example.org",
                "limits": {"concurrency": 1, "rate": None, "paused": False},
                "max_backlog": None,
            }
        ],
        "checks_argument": True,
        "misfits": [{"loc": ["argument", "photo_id"], "msg": '"42" is not of type "integer"'}],
    },
    "JobActionPreview": {"count": 1200, "is_exact": True, "examples": [_SUMMARY]},
    "JobActionView": _ACTION,
    "JobActionList": {"actions": [_ACTION]},
    "JobCount": {"count": 3, "is_exact": True, "states": {"failed": {"count": 3, "is_exact": True}}},
    "JobPage": {
        "jobs": [
            {
                **_SUMMARY,
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
        **_SUMMARY,
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
        "headers_redacted": False,
        "requires": None,
        "links": [{"label": "Logs", "url": f"https://logs.example/?job={JOB_ID}&attempt=1"}],
        "has_result": False,
        "result": None,
        "result_hidden": False,
        "argument_bytes": 10,
        "constraints": ["api.example.org"],
    },
    "StateAnswer": {"state": "running"},
    "WhyAnswer": {
        "state": "ready",
        "as_of": "2026-11-21T04:30:12.000Z",
        "verdicts": [
            {
                "code": "constraint",
                "text": "Waits for constraint mail-per-host (argument.host = example.org): 1 of 1 slots taken: job "
                f"{_OTHER_JOB_ID} on worker {WORKER_ID} for 12 s. 40 other jobs wait for it.",
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
                    {"job_id": _OTHER_JOB_ID, "worker_id": WORKER_ID, "since": "2026-11-21T04:30:00.000Z"}
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
    "RegisterRequest": {
        "url": "http://10.0.0.7:9000",
        "names": ["mail.send"],
        "max_jobs": 20,
        "node_id": "node-7",
        "pid": 4711,
        "labels": {"zone": "b"},
        "version": __version__,
        "secret": "qK3vXz9hT2mW5yUe8rBnLs1dFgJ7pAcV",
        "contracts": {"mail.send": _CONTRACT},
    },
    "RegisterAnswer": {
        "worker_id": WORKER_ID,
        "epoch": _EPOCH,
        "store_time_ms": _NOW_MS,
        "heartbeat_interval_s": 1.0,
        "lease_s": 15.0,
    },
    "HeartbeatRequest": {"running": [_CLAIM], "free": 19},
    "HeartbeatAnswer": {
        "epoch": _EPOCH,
        "store_time_ms": _NOW_MS,
        "fence": _NOW_MS - 40,
        "lease_until_ms": _NOW_MS + 15_000,
        "heartbeat_interval_s": 1.0,
        "lease_s": 15.0,
        "cancel": [_CLAIM],
        "lost": [],
        "drain": False,
        "detached": False,
        "max_jobs": 20,
        "continue_questions": 3,
        "continue_pause_s": 0.3,
    },
    "SlotsRequest": {"max_jobs": 8, "keep": True},
    "ObservationRequest": {
        "constraint": "openai",
        "value": "gpt-5",
        "remaining": 41_000,
        "resets_s": 12.5,
    },
    "ObservationAnswer": {"is_applied": True, "reason": ""},
    "SlotRuleList": {"slot_rules": [_SLOT_RULE]},
    "ClaimRequest": {"max": 5, "wait": 20.0, "poll_id": "c0ffee"},
    "ClaimAnswer": {"epoch": _EPOCH, "store_time_ms": _NOW_MS, "jobs": [_DISPATCH], "drain": False},
    "StartRequest": {"starts": [_CLAIM]},
    "StartAnswer": {"confirmed": [JOB_ID], "stale": []},
    "PartsRequest": {**_CLAIM, "first": 1, "parts": [{"rows": 500}, {"rows": 1000}]},
    "PartsAnswer": {"accepted": 2},
    "PartsPage": {
        "state": "running",
        "attempt": 1,
        "parts": [{"attempt": 1, "number": 1, "value": {"rows": 500}}],
        "next": "1-1",
        "is_last": False,
    },
    "LogsRequest": {
        "entries": [
            {**_CLAIM, "seq": 1, "at": _NOW_MS, "level": "info", "text": "500 rows read"},
            {"seq": 2, "at": _NOW_MS + 40, "level": "warning", "text": "row 501 has no price"},
        ]
    },
    "LogsAnswer": {"accepted": 2, "dropped": 0, "stale": []},
    "LogPage": {
        "state": "running",
        "entries": [
            {
                "seq": 1,
                "attempt": 1,
                "at": "2026-11-21T04:30:45.000Z",
                "level": "info",
                "text": "500 rows read",
            }
        ],
        "next": 1,
        "last": 1,
        "dropped": 0,
        "is_last": False,
        "is_archived": False,
        "log_ref": None,
    },
    "ResultsRequest": {
        "results": [
            {
                **_CLAIM,
                "type": "success",
                "finished_at": "2026-11-21T04:30:02.920Z",
                "result": {"sent": True},
            },
            {
                **_CLAIM,
                "type": "failure",
                "finished_at": "2026-11-21T04:30:02.920Z",
                "reason": "other",
                "should_retry": True,
                "error": {"smtp": 421},
                "message": "the mail server is busy",
            },
        ]
    },
    "ResultsAnswer": {"accepted": [JOB_ID], "stale": []},
    "WorkerView": _WORKER,
    "WorkerDetail": {
        **_WORKER,
        "jobs": [
            {"job_id": JOB_ID, "name": "mail.send", "attempt": 1, "started_at": "2026-11-21T04:30:00.000Z"}
        ],
    },
    "WorkerList": {"workers": [_WORKER]},
    "WorkerSelectionRequest": {"version": "1.4.2", "dry_run": True},
    "WorkerSetAnswer": {"dry_run": True, "count": 1, "jobs": 3, "worker_ids": [WORKER_ID]},
    "WorkerGroupList": {
        "by": "version",
        "groups": [
            {
                "value": "1.4.2",
                "label": None,
                "workers": {"fresh": 3, "stale": 0, "draining": 1, "detached": 0},
                "max_jobs": 80,
                "busy": 31,
                "figures": _WORKER_FIGURES,
            }
        ],
    },
    "DefinitionRequest": {
        **_DEFINITION,
        "job": {
            "name": "report.send",
            "argument": {"kind": "daily"},
            "max_retry": 5,
            "timeout": 600,
            "tags": ["report"],
        },
    },
    "EventDebounceRequest": {"wait_s": 5, "max_s": 60, "key": "payload.user"},
    "CollectRequest": {"max": 100, "within_s": 10},
    "EventRequest": _EVENT,
    "EventBatch": {"events": [_EVENT]},
    "EventPost": _EVENT,
    "OpenChallengeRequest": {**_CLAIM, "timeout_s": 86_400.0, "meta": {"order": 42}},
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
    "DeliveryView": _DELIVERY_VIEW,
    "DeliveryList": {"deliveries": [_DELIVERY_VIEW]},
    "TargetRequest": {
        "names": ["shop.*"],
        "url": "https://shop.example/jobs/{name}",
        "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "headers": {"Authorization": "Bearer 5f0c2a9b71d3"},
        "max_running": 20,
    },
    "AddressSource": {"from": "argument.url"},
    "QuotasRequest": {"waiting_jobs": 100_000},
    "QuotasView": {"waiting_jobs": 100_000, "argument_bytes": 65_536},
    "NamespaceRequest": {"title": "The shop", "store": "b", "quotas": {"waiting_jobs": 100_000}},
    "NamespaceView": _NAMESPACE,
    "NamespaceList": {"namespaces": [_NAMESPACE]},
    "StoreView": _STORE,
    "StoreList": {"stores": [_STORE]},
    "OverviewEntry": _OVERVIEW_ENTRY,
    "Overview": {"namespaces": [_OVERVIEW_ENTRY]},
    "TargetView": _TARGET_VIEW,
    "TargetDetail": _TARGET_DETAIL,
    "TargetList": {"targets": [_TARGET_DETAIL]},
    "TargetTestRequest": {"job_name": "shop.order", "argument": {"order": 42}},
    "TargetTest": {
        "request": {
            "method": "POST",
            "url": "https://shop.example/jobs/shop.order",
            "headers": {"Content-Type": "application/json", "JQ-Job-Id": JOB_ID, "Authorization": "…"},
            "body": '{"order":42}',
        },
        "answer": {"status": 200, "headers": {"content-type": "application/json"}, "body": '{"total":99}'},
        "took_ms": 31,
        "result": "succeeded",
        "detail": "status 200",
    },
    "NoticeRequest": _NOTICE,
    "NoticeView": _NOTICE_VIEW,
    "NoticeList": {"notices": [_NOTICE_VIEW]},
    "MuteNoticeRequest": {"until": "2026-11-21T06:00:00Z"},
    "AcknowledgeRequest": {"key": None},
    "AcknowledgeAnswer": {"acknowledged": 1},
    "NoticeTest": {"message_id": DELIVERY_ID},
    "EventAnswer": _EVENT_ANSWER,
    "EventBatchAnswer": {"events": [_EVENT_ANSWER]},
    "EventPostAnswer": _EVENT_ANSWER,
    "EventView": _EVENT_VIEW,
    "EventList": {"events": [_EVENT_VIEW], "next_cursor": None},
    "DefinitionView": _DEFINITION_VIEW,
    "DefinitionList": {"definitions": [_DEFINITION_VIEW], "next_cursor": None},
    "DefinitionPreviewRequest": {
        "schedule": {"daily_at": "02:30"},
        "time_zone": "Europe/Berlin",
        "from": "2026-03-28T12:00:00Z",
        "count": 1,
    },
    "DefinitionPreview": {
        "instants": [
            {
                "due_at": "2026-03-29T01:00:00.000Z",
                "local": "2026-03-29T03:00:00+02:00",
                "note": "02:30 does not exist on this day: the clocks are put forward",
                "clock_change": "skipped",
                "left_out": None,
                "moved_from": None,
            }
        ]
    },
    "CalendarRequest": {"country": "JP", "language": "en_US"},
    "CalendarView": _CALENDAR_VIEW,
    "CalendarList": {"calendars": [_CALENDAR_SUMMARY]},
    "CalendarChangeAnswer": {
        **_CALENDAR_VIEW,
        "changes": {"added": [_HOLIDAY], "removed": [], "renamed": []},
        "dry_run": False,
    },
    "RunAnswer": {"id": JOB_ID},
    "PauseDefinitionRequest": {"reason": "The printer is away."},
    "DeclarationRequest": {"constraints": {}, "definitions": {"nightly-report": "5f0c2a9b71d3e846"}},
    "DeclarationView": _DECLARATION,
    "DeclarationList": {"declarations": [_DECLARATION]},
    "BackfillRequest": {"from": "2026-11-01T00:00:00Z", "to": "2026-11-08T00:00:00Z", "dry_run": True},
    "BackfillAnswer": {"due": 7, "fired_before": 5, "forgotten": 0, "forgotten_until": None, "started": None},
    "DefinitionRuns": {"runs": [_RUN], "next_cursor": None},
    "ConstraintRequest": {
        "matcher": _CONSTRAINT["matcher"],
        "key": "argument.tenant",
        "concurrency": 4,
        "rate": {"limit": 100, "period_s": 60},
        "fair": True,
        "counts_awaiting": True,
        "overrides": [{"value": "acme", "concurrency": 8}],
    },
    "ConstraintView": _CONSTRAINT_VIEW,
    "ConstraintList": {"constraints": [{**_CONSTRAINT_VIEW, "usage": _USAGE}]},
    "ConstraintDetail": {
        **_CONSTRAINT_VIEW,
        "usage": _USAGE,
        "held_until": None,
        "top_keys": [
            {
                "value": "acme",
                "waiting": 17,
                "running": 8,
                "starts_in_window": 42,
                "limits": {"concurrency": 8, "rate": {"limit": 100, "period_s": 60.0}, "paused": False},
                "held_until": None,
                "next_opening": None,
                "is_open": False,
            }
        ],
        "value": None,
        "holders": [
            {"job_id": JOB_ID, "worker_id": WORKER_ID, "since": "2026-11-21T04:30:00.004Z", "value": "acme"}
        ],
    },
    "ValueRequest": {"value": "acme", "paused": True},
    "PauseRequest": {
        "job_name": "mail.send",
        "reason": "The mail provider is down.",
        "duration_s": 3600.0,
    },
    "PreviewRequest": {"matcher": _CONSTRAINT["matcher"], "key": "argument.tenant", "limit": 1},
    "PreviewAnswer": {
        "count": 17,
        "without_key": 0,
        "looked_at": 40,
        "is_exact": True,
        "examples": [_SUMMARY],
        "keys": [{"value": "acme", "count": 17}],
        "distinct_keys": 1,
    },
    "AuditPage": {
        "entries": [
            {
                "id": "1795238645000-0",
                "log": "changes",
                "at": "2026-11-21T04:30:00.000Z",
                "times": 1,
                "since": "2026-11-21T04:30:00.000Z",
                "who": "5d41402a",
                "action": "constraint.value",
                "target": "api.example.org",
                "before": {"value": "acme", "concurrency": None, "rate": None, "paused": False},
                "after": {"value": "acme", "concurrency": 8, "rate": None, "paused": False},
            }
        ],
        "next_cursor": None,
        "follow_from": "1795238645000-0_1795238641000-0",
    },
    "MasterList": {
        "masters": [
            {
                "id": MASTER_ID,
                "role": "leader",
                "state": "fresh",
                "node_id": "node-1",
                "pid": 4242,
                "url": "http://10.0.0.1:8080",
                "version": __version__,
                "started_at": "2026-11-21T04:00:00.000Z",
                "last_seen_at": "2026-11-21T04:30:00.000Z",
            }
        ],
        "epoch": _EPOCH,
    },
    "DefinitionWhy": {
        "text": f"Its last 3 instants were skipped: the job of an earlier instant is not finished. Job {JOB_ID} is "
        "ready. No live worker serves this name.",
        "is_fault": True,
        "skipped_in_a_row": 3,
        "reason": "overlap",
        "job_id": JOB_ID,
        "job_state": "ready",
        "job_why": "No live worker serves this name.",
        "next_due_at": "2026-11-22T17:00:00.000Z",
        "skips": [],
    },
    "TimelineIncidentList": {"incidents": [_INCIDENT], "kept_since": "2026-11-20T09:12:00.000Z"},
    "TimelineIncidentDetail": {
        **_INCIDENT,
        "nearby": [_DEPLOY_MARK],
        "nearby_is_whole": True,
        "peaks": {"failed": 0, "retried": 2, "backlog": 41, "oldest_wait_ms": 12_000},
    },
    "AcknowledgeIncidentRequest": {"note": "restarting the machine"},
    "MarkList": {"marks": [_DEPLOY_MARK], "is_whole": True},
    "Stats": {
        "at": "2026-11-21T04:30:00.000Z",
        "counts": {
            "scheduled": 3,
            "ready": 12,
            "retrying": 1,
            "running": 5,
            "succeeded": 4200,
            "discarded": 3,
            "failed": 7,
            "canceled": 0,
            "skipped": 0,
        },
        "oldest_wait_ms": 830,
        "oldest_startable": {"job_id": JOB_ID, "name": "thumbnail", "wait_ms": 120},
        "rates": {
            "pushed": 40.2,
            "succeeded": 39.8,
            "discarded": 0.0,
            "failed": 0.017,
            "canceled": 0.0,
            "skipped": 0.0,
            "retried": 0.3,
        },
        "workers": {"fresh": 2, "stale": 0, "draining": 0, "detached": 0, "max_jobs": 40, "busy": 5},
        "masters": {"fresh": 2, "stale": 0, "leader_id": MASTER_ID, "epoch": _EPOCH},
        "store": {
            "server": "Valkey 9.1.2",
            "durability": "fsync",
            "durability_available": "fsync",
            "used_memory_bytes": 12_345_678,
            "max_memory_bytes": None,
            "latency_ms": 0.4,
            "faults": [],
        },
        "duty_faults": [],
    },
    "StatsHistory": {
        "name": None,
        "span": "1h",
        "step_s": 60,
        "points": [
            {
                "at": "2026-11-21T04:30:00.000Z",
                **_COUNTS,
                "backlog": 12,
                "oldest_wait_ms": 830,
            }
        ],
    },
    "NameList": {"names": [_NAME], "next_cursor": None, "span": "1h"},
    "NameDetail": {
        **_NAME,
        "wait_histogram": [{"le_ms": 4, "count": 2301}, {"le_ms": 64, "count": 99}],
        "run_histogram": [{"le_ms": 128, "count": 2400}],
        "span": "1h",
        "contracts": [
            {
                **_CONTRACT,
                "live_workers": 2,
                "worker_versions": [__version__],
                "told_at": "2026-11-21T04:00:00.000Z",
            }
        ],
        "warnings": [],
    },
    "FailureList": {"groups": [_FAILURE_GROUP], "next_cursor": None},
    "FailureGroup": _FAILURE_GROUP,
    "AssignRequest": {"assignee": "grace"},
    "ResolveRequest": {"version": "1.12.0"},
    "AffectedValues": {
        "values": [{"value": '"acme"', "count": 12}, {"value": '"globex"', "count": 3}],
        "examined": 15,
        "without": 0,
        "is_complete": True,
    },
    "IgnoreRequest": {"duration_s": 86400, "reason": "the provider is down until Monday"},
    "DemoteAnswer": {"id": MASTER_ID, "epoch": _EPOCH},
    "SettingsAnswer": {
        "settings": [
            {
                "key": "lease_ms",
                "group": "Leases and dispatch",
                "label": "Lease",
                "effect": "Life of a lease. Each heartbeat renews it.",
                "type": "integer",
                "unit": "ms",
                "value": 30_000,
                "default": 15_000,
                "minimum": 500,
                "maximum": 600_000,
                "choices": None,
                "is_runtime": True,
                "is_secret": False,
                "is_hidden": False,
                "change_scope": "operate",
                "source": "runtime",
            }
        ],
        "version": 1_795_321_800_123,
    },
    "SettingsRequest": {"lease_ms": 30_000, "offer_ms": None},
    "Health": {"status": "ok", "id": MASTER_ID},
    "Readiness": {
        "status": "ready",
        "durability": "fsync",
        "durability_available": "fsync",
        "leader": True,
        "store": "serving",
        "faults": [],
        "duty_faults": [],
    },
    "Problem": {
        "type": "about:blank",
        "title": "Not valid",
        "status": 422,
        "detail": "priority: Input should be less than or equal to 2147483647",
        "code": "invalid",
        "errors": [{"loc": ["priority"], "msg": "Input should be less than or equal to 2147483647"}],
    },
    # the worker's
    "PushRequest": {
        "worker_id": WORKER_ID,
        "epoch": _EPOCH,
        "store_time_ms": _NOW_MS,
        "jobs": [_DISPATCH],
    },
    "PushAnswer": {"accepted": [], "rejected": [{"job_id": JOB_ID, "reason": "busy", "retry_after": 0.5}]},
    "CancelOrder": {"token": _TOKEN, "epoch": _EPOCH},
    "ChallengeRequest": {"nonce": "q2Zr8bXkT1mW5yUe"},
    "ChallengeAnswer": {"proof": "9f86d081884c7d659a2feaa0c55ad0159f86d081884c7d659a2feaa0c55ad015"},
    "WorkerStatus": {
        "worker_id": WORKER_ID,
        "running": [_CLAIM],
        "free": 19,
        "max_jobs": 20,
        "names": ["mail.send"],
        "draining": False,
    },
    **{body.__name__: {"epoch": _EPOCH} for body, _ in COMMANDS.values()},
}
