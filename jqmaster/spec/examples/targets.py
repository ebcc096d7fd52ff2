"""Examples of bodies about targets."""

from typing import Any, Final

from jqmaster.spec.examples.values import JOB_ID

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

EXAMPLES: Final[dict[str, Any]] = {
    "TargetRequest": {
        "names": ["shop.*"],
        "url": "https://shop.example/jobs/{name}",
        "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "headers": {"Authorization": "Bearer 5f0c2a9b71d3"},
        "max_running": 20,
    },
    "AddressSource": {"from": "argument.url"},
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
}
