"""Examples of bodies about the search for a person and the erasure of a person's data."""

from typing import Any, Final

from jqmaster.spec.examples.values import JOB_ID

EXAMPLES: Final[dict[str, Any]] = {
    "PersonalDataRequest": {"texts": ["jose@example.com", "70041"], "reason": "request 1042"},
    "PersonalDataAnswer": {
        "found": [
            {
                "place": "job",
                "id": JOB_ID,
                "name": "mail.send",
                "state": "succeeded",
                "fields": ["argument.to", "log"],
                "more_fields": 0,
                "erasable": True,
            }
        ],
        "searched": {"jobs": 412, "log_lines": 1290, "events": 0, "failure_groups": 0, "notices": 0},
        "unread": {"sealed_values": 0, "damaged_jobs": 0, "archived_logs": 3},
        "total_jobs": 98214,
        "redacted": [],
        "not_searched": ["other namespaces"],
        "next_cursor": "kwCkNDA5NgA=",
    },
    "EraseRequest": {"fields": ["argument.to", "errors"]},
}
