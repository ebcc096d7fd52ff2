"""A queue in which all is well, and one finding of each code about it."""

from dataclasses import replace
from datetime import date
from typing import Any, Final

from jqmaster.domain.calendars.ending import EndingCalendar
from jqmaster.domain.operations.health import HealthFinding, judge, store_away
from jqmaster.domain.operations.health_facts import (
    FailingJobs,
    FullLimit,
    HealthFacts,
    LongWait,
    NewKind,
    PausedJobs,
    SilentProcess,
    TroubledDefinition,
)

NOW_MS: Final = 1_800_000_000_000
WELL: Final = HealthFacts(
    now_ms=NOW_MS, ready=0, running=0, oldest_wait_ms=None, has_leader=True, late_leader=None, stale_masters=0,
    fresh_workers=3, stale_workers=0, busy=4, slots=12, detached_workers=(), store_faults=(), duty_faults=(),
    durability="fsync", given_durability="fsync", is_less_durable=False, latency_ms=0.4, memory_bytes=1 << 20,
    max_memory_bytes=None, unserved=(), longest=None, limits=(), pauses=(), failing=(), failed_lately=0,
    failed_before=0.0, definitions=(), backlog=(),
)  # fmt: skip
GONE: Final = SilentProcess("node-2:7", NOW_MS - 9_000, 3, "w-7")
LIMIT: Final = FullLimit(
    "mails", 9, 4, value="globex", slots=1, running=1, keys=5, closed_keys=2, since_ms=NOW_MS - 90_000
)
PAUSE: Final = PausedJobs("pause-1", "pause", "name", "mail", 340, NOW_MS - 7_200_000, by="user:ana", reason="deploy",
                          until_ms=NOW_MS + 60_000)  # fmt: skip
# Facts that differ from WELL, each with the code of the finding that comes of it.
CAUSES: Final[dict[str, dict[str, Any]]] = {
    "no_leader": {"has_leader": False},
    "late_leader": {"late_leader": SilentProcess("node-1", NOW_MS - 12_000, id="m-1")},
    "store": {"store_faults": ["the disk is full"]},
    "durability": {"is_less_durable": True, "given_durability": "besteffort"},
    "memory": {"memory_bytes": 96, "max_memory_bytes": 100},
    "no_worker": {"fresh_workers": 0, "ready": 7},
    "orphan": {"unserved": [("mail", 2)], "ready": 2},
    "late_definition": {"definitions": [TroubledDefinition("nightly", False, NOW_MS - 60_000)]},
    "missed_instant": {"definitions": [TroubledDefinition("nightly", True, NOW_MS - 60_000)]},
    "skipping_definition": {"definitions": [TroubledDefinition("nightly", False, 0, 3, "overlap")]},
    "calendar_ends": {"calendars": [EndingCalendar("japan", date(2028, 12, 31), 2, "jqmaster calendars put japan")]},
    "wait": {
        "longest": LongWait(
            "0198", "mail", 660_000, "All are full.", cause_code="workers_unavailable",
            cause_figures={"workers": 2, "full": 1, "draining": 1, "pulling": 0, "broken": None},
        ),
        "ready": 1,
    },
    "failing": {"failing": [FailingJobs("mail", 42, 0.06, NewKind("new", "timeout", NOW_MS - 600_000, "2.3"))]},
    "rising": {"failed_lately": 30, "failed_before": 4.0},
    "stale_workers": {"stale_workers": 2},
    "dead_worker": {"detached_workers": [GONE]},
    "replaced_worker": {"detached_workers": [replace(GONE, held=0, successor="node-2:8")]},
    "stale_masters": {"stale_masters": 1},
    "duty": {"duty_faults": ["notices fail"]},
    "latency": {"latency_ms": 250.0},
    "full": {"limits": [LIMIT], "ready": 9},
    "pause": {"pauses": [PAUSE]},
    "paused": {"pauses": [replace(PAUSE, name="mails", kind="paused", of="constraint", subject="mails")]},
    "paused_values": {
        "pauses": [
            replace(PAUSE, name="mails", kind="paused_values", of="value", subject="globex", key="argument", values=1)
        ]
    },
    "growth": {"backlog": tuple(range(200, 700, 50)), "ready": 650},
    "drains": {"backlog": tuple(range(700, 200, -50)), "ready": 250},
}  # fmt: skip


def one_of_each() -> dict[str, HealthFinding]:
    """Return a finding of each code, as the master finds it."""
    verdicts = [
        *(judge(replace(WELL, **changes)) for changes in CAUSES.values()),
        store_away("connection refused"),
    ]
    return {verdict.findings[0].code: verdict.findings[0] for verdict in verdicts}


def as_answered(finding: HealthFinding) -> dict[str, Any]:
    """Return the finding as `GET /api/health` tells it."""
    return {
        "key": finding.key, "code": finding.code, "severity": finding.severity, "text": finding.text,
        "command": finding.command, "jobs": finding.jobs, "figures": dict(finding.figures),
    }  # fmt: skip
