"""Examples of bodies about the logs of jobs."""

from typing import Any, Final

from jqmaster.spec.examples.values import CLAIM, NOW_MS

EXAMPLES: Final[dict[str, Any]] = {
    "LogsRequest": {
        "entries": [
            {**CLAIM, "seq": 1, "at": NOW_MS, "level": "info", "text": "500 rows read"},
            {"seq": 2, "at": NOW_MS + 40, "level": "warning", "text": "row 501 has no price"},
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
}
