"""Routes of the stream of events, masters, the audit log and health."""

from typing import Any, Final

from jqmaster.api.http.endpoint import Operation
from jqmaster.api.identity import audit
from jqmaster.api.operations import health, live, masters, schemas, verdict
from jqmaster.domain.identity.access import Scope

_STORE: Final = (503,)
_READY_TEXT: Final = "Needs no credential. With the scope read, the answer describes faults in detail."
_INSTANT: Final = {"type": "string", "format": "date-time"}
_AUDIT: Final[dict[str, Any]] = {
    "limit": {
        "schema": {"type": "integer", "minimum": 1, "maximum": audit.MAX_PAGE, "default": 50},
        "description": "Maximum number of entries per page.",
    },
    "cursor": {
        "schema": {"type": "string"},
        "description": "`next_cursor` of the previous page. Repeat the other filters unchanged.",
    },
    "target": {"schema": {"type": "string"}, "description": "Entries about this target only."},
    "who": {
        "schema": {"type": "string"},
        "description": "Entries with this text in the name of their author. Case does not matter.",
    },
    "since": {"schema": _INSTANT, "description": "Entries of this instant or later."},
    "until": {"schema": _INSTANT, "description": "Entries of this instant or earlier."},
    "log": {
        "schema": {"type": "string", "enum": ["changes", "access"]},
        "description": "Entries of this log only. Default: both logs.",
    },
    "after": {
        "schema": {"type": "string"},
        "description": (
            "`follow_from` or `next_cursor` of an earlier call. The answer has the entries that were "
            "written after that position, oldest first. Can be combined only with limit."
        ),
    },
}
_AUDIT_TEXT: Final = (
    "Lists changes with their authors and times. A page may be short, or empty, although more pages follow "
    "(`next_cursor`). A page is empty only after a search of at least 20,000 entries or 16 MiB."
)
_METRICS_TEXT: Final = (
    "The counters cover this master process only, so scrape every master. docs/metrics.md lists them."
)
_DEMOTE_TEXT: Final = (
    "The leader finishes its current work and hands the lead over to another master. The answer is 409 "
    "`not_leader` if the named master does not lead. It is 409 `no_other_master` if no other master could "
    "take over."
)

_HEALTH_TEXT: Final = (
    "Reports the same findings as the Overview of the web UI: each fault or wait, its likely cause, and the "
    "next step. The answer is computed at most once in two seconds for all callers. Values of constraint "
    "keys are shown if the caller may see them."
)

_STREAM_TEXT: Final = (
    "Server-sent events, at most one of each kind per second:\n\n* `stats` holds the body of `GET "
    "/api/stats`.\n* `jobs` holds `counts` by state.\n* `action` holds an action on many jobs.\n* "
    "`workers`, `masters`, `constraints`, `definitions`, `events`, `batches` and `settings` tell the client "
    f"to fetch these objects again.\n* `alive` comes every {live.PING_S} s regardless of other events. A "
    "stream that is silent for much longer is broken.\n* `freshness` comes about once per second. `as_of` "
    "and `age_ms` say when the data of all events were current. They are null if the data have not been "
    "current since the stream began. `fault` has `code`, `detail` and `for_ms` while the store does not "
    "answer, and is null otherwise.\n\nEach event is the current state. So a client that reconnects misses "
    "nothing, and a slow client gets the newest state. Beyond `max_streams`, the answer is 503 "
    "`too_many_streams`."
)

OPERATIONS: Final = [
    Operation("GET", "/api/stream", live.stream, Scope.READ, "Stream changes", "operations", {200: None},
              problems=(503,), text=_STREAM_TEXT,
              is_stream=True, has_effect=True),
    Operation("GET", "/api/health", verdict.get_verdict, Scope.READ, "Get the health of the queue in words",
              "operations", {200: schemas.HealthVerdictView}, problems=_STORE, text=_HEALTH_TEXT),
    Operation("GET", "/api/masters", masters.list_masters, Scope.READ, "List masters", "operations",
              {200: schemas.MasterList}, problems=_STORE),
    Operation("POST", "/api/masters/{master_id}/demote", masters.demote, Scope.OPERATE,
              "Hand the lead to another master", "operations",
              {202: schemas.DemoteAnswer}, problems=(404, 409, *_STORE), text=_DEMOTE_TEXT),
    Operation("GET", "/api/audit", audit.list_entries, Scope.OPERATE, "List audit log entries", "operations",
              {200: schemas.AuditPage}, query=_AUDIT, problems=_STORE, text=_AUDIT_TEXT),
    Operation("GET", "/metrics", health.metrics, Scope.READ, "Get metrics for Prometheus", "operations",
              {200: None}, text=_METRICS_TEXT, is_text=True),
    Operation("GET", "/healthz", health.healthz, None, "Check whether the process is alive", "operations",
              {200: schemas.Health}),
    Operation("GET", "/readyz", health.readyz, None, "Check whether this master makes progress", "operations",
              {200: schemas.Readiness, 503: schemas.Readiness}, text=_READY_TEXT),
    Operation("GET", "/openapi.json", health.openapi, None, "Get this OpenAPI document", "operations", {200: None}),
]  # fmt: skip
