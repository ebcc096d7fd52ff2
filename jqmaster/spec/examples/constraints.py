"""Examples of bodies about constraints and their usage."""

from typing import Any, Final

from jqmaster.spec.examples.jobs import SUMMARY
from jqmaster.spec.examples.values import JOB_ID, WORKER_ID

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

EXAMPLES: Final[dict[str, Any]] = {
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
        "examples": [SUMMARY],
        "keys": [{"value": "acme", "count": 17}],
        "distinct_keys": 1,
    },
}
