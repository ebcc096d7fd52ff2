"""Examples of bodies about workers, and of pushes to them."""

from typing import Any, Final

from jqmaster import __version__
from jqmaster.api.workers.push_schemas import COMMANDS
from jqmaster.spec.examples.values import CLAIM, EPOCH, JOB_ID, NOW_MS, SLOT_RULE_ID, TOKEN, WORKER_ID

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
CONTRACT: Final[dict[str, Any]] = {
    "version": "2",
    "argument_schema": {
        "type": "object",
        "properties": {"user_id": {"type": "integer"}},
        "required": ["user_id"],
        "additionalProperties": False,
    },
    "options": {"timeout": 30.0, "max_retry": 5},
}
_DISPATCH: Final = {
    **CLAIM,
    "attempt": 1,
    "fence": NOW_MS,
    "phase": "run",
    "name": "mail.send",
    "argument": {"user_id": 42},
    "timeout": 30.0,
    "not_after_ms": NOW_MS + 5_000,
    "lease_until_ms": NOW_MS + 15_000,
    "headers": {},
}

EXAMPLES: Final[dict[str, Any]] = {
    "RegisterRequest": {
        "url": "http://10.0.0.7:9000",
        "names": ["mail.send"],
        "max_jobs": 20,
        "node_id": "node-7",
        "pid": 4711,
        "labels": {"zone": "b"},
        "version": __version__,
        "secret": "qK3vXz9hT2mW5yUe8rBnLs1dFgJ7pAcV",
        "contracts": {"mail.send": CONTRACT},
    },
    "RegisterAnswer": {
        "worker_id": WORKER_ID,
        "epoch": EPOCH,
        "store_time_ms": NOW_MS,
        "heartbeat_interval_s": 1.0,
        "lease_s": 15.0,
    },
    "HeartbeatRequest": {"running": [CLAIM], "free": 19},
    "HeartbeatAnswer": {
        "epoch": EPOCH,
        "store_time_ms": NOW_MS,
        "fence": NOW_MS - 40,
        "lease_until_ms": NOW_MS + 15_000,
        "heartbeat_interval_s": 1.0,
        "lease_s": 15.0,
        "cancel": [CLAIM],
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
    "ClaimAnswer": {"epoch": EPOCH, "store_time_ms": NOW_MS, "jobs": [_DISPATCH], "drain": False},
    "StartRequest": {"starts": [CLAIM]},
    "StartAnswer": {"confirmed": [JOB_ID], "stale": []},
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
    "PushRequest": {
        "worker_id": WORKER_ID,
        "epoch": EPOCH,
        "store_time_ms": NOW_MS,
        "jobs": [_DISPATCH],
    },
    "PushAnswer": {"accepted": [], "rejected": [{"job_id": JOB_ID, "reason": "busy", "retry_after": 0.5}]},
    "CancelOrder": {"token": TOKEN, "epoch": EPOCH},
    "ChallengeRequest": {"nonce": "q2Zr8bXkT1mW5yUe"},
    "ChallengeAnswer": {"proof": "9f86d081884c7d659a2feaa0c55ad0159f86d081884c7d659a2feaa0c55ad015"},
    "WorkerStatus": {
        "worker_id": WORKER_ID,
        "running": [CLAIM],
        "free": 19,
        "max_jobs": 20,
        "names": ["mail.send"],
        "draining": False,
    },
    **{body.__name__: {"epoch": EPOCH} for body, _ in COMMANDS.values()},
}
