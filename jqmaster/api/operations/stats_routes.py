"""Routes of statistics, history and failures."""

from typing import Any, Final

from jqmaster.api.http.endpoint import Operation
from jqmaster.api.operations import stats, stats_schemas
from jqmaster.domain.access import Scope

_STORE: Final = (503,)
_SPAN: Final[dict[str, Any]] = {
    "schema": {"$ref": stats_schemas.SPAN_REF, "default": stats.DEFAULT_SPAN},
    "description": "How far back; whole steps, the present one included.",
}
_LIMIT: Final[dict[str, Any]] = {
    "schema": {"type": "integer", "minimum": 1, "maximum": stats.MAX_PAGE, "default": stats.PAGE},
    "description": "Most entries on a page.",
}
_CURSOR: Final[dict[str, Any]] = {
    "schema": {"type": "string"},
    "description": "`next_cursor` of the page before; everything else as there.",
}
_TEXT: Final[dict[str, Any]] = {"type": "string", "minLength": 1, "maxLength": stats.MAX_NAME_LENGTH}
_HISTORY_TEXT: Final = (
    "Minutes are kept for 24 hours, hours for 30 days, of 500 names; what others have is counted under `(other)`. What a "
    "master counted within a second before it died is not in it."
)
_FAILURES_TEXT: Final = (
    "Jobs that failed for good, grouped by name, cause and message without what varies in it. The 500 groups that were "
    "seen last are kept, for 30 days since they were."
)

OPERATIONS: Final = [
    Operation("GET", "/api/stats", stats.now, Scope.READ, "View the present state", "statistics", {200: stats_schemas.Stats}, problems=_STORE,
              text="It is computed once a second at most, however many ask."),
    Operation("GET", "/api/stats/history", stats.history, Scope.READ, "View what was counted over time", "statistics", {200: stats_schemas.StatsHistory},
              query={"name": {"schema": _TEXT, "description": "Of this name only."}, "span": _SPAN}, problems=_STORE, text=_HISTORY_TEXT),
    Operation("GET", "/api/names", stats.list_names, Scope.READ, "List names", "statistics", {200: stats_schemas.NameList},
              query={
                  "q": {"schema": _TEXT, "description": "Looked for in the name."},
                  "span": _SPAN,
                  "sort": {"schema": {"type": "string", "enum": list(stats.ORDERS), "default": "name"}, "description": "Numbers: the largest first."},
                  "limit": _LIMIT,
                  "cursor": _CURSOR,
              }, problems=_STORE, text="Of 24h and more the sums are of whole hours."),
    Operation("GET", "/api/names/{job_name}", stats.get_name, Scope.READ, "View a name", "statistics", {200: stats_schemas.NameDetail},
              query={"span": _SPAN}, problems=(404, *_STORE), text="With histograms of waits and runs."),
    Operation("GET", "/api/failures", stats.list_failures, Scope.READ, "List failures by group", "statistics", {200: stats_schemas.FailureList},
              query={
                  "name": {"schema": _TEXT, "description": "Of this name only."},
                  "q": {"schema": _TEXT, "description": "Looked for in the name and in the message as it is shown, whatever its case."},
                  "limit": _LIMIT,
                  "cursor": _CURSOR,
              }, problems=_STORE, text=_FAILURES_TEXT),
]  # fmt: skip
