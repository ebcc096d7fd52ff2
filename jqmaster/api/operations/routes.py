"""Routes of masters, the audit log and health."""

from typing import Any, Final

from jqmaster.api.http.endpoint import Operation
from jqmaster.api.identity import audit
from jqmaster.api.operations import health, masters, metrics, schemas
from jqmaster.domain.access import Scope

_STORE: Final = (503,)
_READY_TEXT: Final = "Anybody may ask; a bearer token with scope read shows more of what is wrong."
_AUDIT: Final[dict[str, Any]] = {
    "limit": {
        "schema": {"type": "integer", "minimum": 1, "maximum": audit.MAX_PAGE, "default": 50},
        "description": "Most entries on a page.",
    },
    "cursor": {
        "schema": {"type": "string"},
        "description": "`next_cursor` of the page before; other filters as there.",
    },
    "target": {"schema": {"type": "string"}, "description": "Changes of this only."},
    "log": {
        "schema": {"type": "string", "enum": ["changes", "access"]},
        "description": "This log only; both otherwise.",
    },
    "after": {
        "schema": {"type": "string"},
        "description": "`follow_from` or `next_cursor` of an earlier call: what was written after it, the oldest first. Goes "
        "together with limit only.",
    },
}
_AUDIT_TEXT: Final = "Who changed what, and when: for those who may change it as well."
_METRICS_TEXT: Final = (
    "Counters are of this master, and of its process: scrape each. docs/metrics.md names them."
)
_DEMOTE_TEXT: Final = (
    "It ends what it has under way, and leaves the lead to the others. 409 `not_leader` where it does not lead, "
    "`no_other_master` where nobody could."
)

OPERATIONS: Final = [
    Operation("GET", "/api/masters", masters.list_masters, Scope.READ, "List masters", "operations", {200: schemas.MasterList}, problems=_STORE),
    Operation("POST", "/api/masters/{master_id}/demote", masters.demote, Scope.OPERATE, "Have another master lead", "operations",
              {202: schemas.DemoteAnswer}, problems=(404, 409, *_STORE), text=_DEMOTE_TEXT),
    Operation("GET", "/api/audit", audit.list_entries, Scope.OPERATE, "List changes", "operations",
              {200: schemas.AuditPage}, query=_AUDIT, problems=_STORE, text=_AUDIT_TEXT),
    Operation("GET", "/metrics", metrics.metrics, Scope.READ, "Metrics for Prometheus", "operations",
              {200: None}, text=_METRICS_TEXT, is_text=True),
    Operation("GET", "/healthz", health.healthz, None, "Whether the process lives", "operations", {200: schemas.Health}),
    Operation("GET", "/readyz", health.readyz, None, "Whether this master makes progress", "operations",
              {200: schemas.Readiness, 503: schemas.Readiness}, text=_READY_TEXT),
    Operation("GET", "/openapi.json", health.openapi, None, "This contract", "operations", {200: None}),
]  # fmt: skip
