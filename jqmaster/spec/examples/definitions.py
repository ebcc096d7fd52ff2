"""Examples of bodies about definitions and their runs."""

from typing import Any, Final

from jqmaster.spec.examples.values import JOB_ID

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
        "erased": [],
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

EXAMPLES: Final[dict[str, Any]] = {
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
    "RunAnswer": {"id": JOB_ID},
    "PauseDefinitionRequest": {"reason": "The printer is away."},
    "BackfillRequest": {"from": "2026-11-01T00:00:00Z", "to": "2026-11-08T00:00:00Z", "dry_run": True},
    "BackfillAnswer": {"due": 7, "fired_before": 5, "forgotten": 0, "forgotten_until": None, "started": None},
    "DefinitionRuns": {"runs": [_RUN], "next_cursor": None},
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
}
