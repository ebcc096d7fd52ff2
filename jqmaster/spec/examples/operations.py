"""Examples of bodies about statistics, health, masters, incidents and settings."""

from typing import Any, Final

from jqmaster import __version__
from jqmaster.spec.examples.values import EPOCH, INCIDENT_ID, JOB_ID, MASTER_ID, WORKER_ID
from jqmaster.spec.examples.workers import CONTRACT

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
    "action": None,
    "is_new": False,
    "changed": [],
    "name": None,
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
    "title": "Worker detached, jobs taken back",
    "began_at": "2026-11-21T04:30:00.000Z",
    "ended_at": "2026-11-21T04:30:15.000Z",
    "entries": [_LOST_WORKER, _RETURNED_JOBS],
    "acknowledged": [],
}
_DECLARATION: Final[dict[str, Any]] = {
    "source": "app.tasks:tasks",
    "constraints": {},
    "calendars": {"japan": "0b6d1f3a5c7e9824"},
    "definitions": {"nightly-report": "5f0c2a9b71d3e846"},
    "applied_at": "2026-11-20T09:00:00.000Z",
    "applied_by": "deploy",
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
    "is_failing": False,
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
    "merged": [],
}

EXAMPLES: Final[dict[str, Any]] = {
    "AgentCallRequest": {"tool": "retry", "subject": "mail.send", "acts": True, "is_confirmed": True},
    "DeclarationRequest": {"constraints": {}, "definitions": {"nightly-report": "5f0c2a9b71d3e846"}},
    "DeclarationView": _DECLARATION,
    "DeclarationList": {"declarations": [_DECLARATION]},
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
        "epoch": EPOCH,
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
        "masters": {"fresh": 2, "stale": 0, "leader_id": MASTER_ID, "epoch": EPOCH},
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
                **CONTRACT,
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
    "MergeRequest": {"into": "9f86d081884c7d65"},
    "ResolveRequest": {"version": "1.12.0"},
    "AffectedValues": {
        "values": [{"value": '"acme"', "count": 12}, {"value": '"globex"', "count": 3}],
        "examined": 15,
        "without": 0,
        "is_complete": True,
        "distinct": 2,
        "paths": ["argument.tenant", "argument.yen"],
    },
    "IgnoreRequest": {"duration_s": 86400, "reason": "the provider is down until Monday"},
    "DemoteAnswer": {"id": MASTER_ID, "epoch": EPOCH},
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
                "is_overridable": True,
                "change_scope": "operate",
                "source": "runtime",
                "reset_value": 15_000,
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
}
