"""Routes of definitions."""

from typing import Any, Final

from jqmaster.api.definitions import handlers, schemas
from jqmaster.api.http.endpoint import Operation
from jqmaster.domain.definitions.definition import Kind
from jqmaster.domain.definitions.run import RunOutcome
from jqmaster.domain.identity.access import Scope
from jqmaster.service.definitions.reader import DefinitionFilter

_STORE: Final = (503,)
_PAGE: Final[dict[str, Any]] = {
    "limit": {
        "schema": {"type": "integer", "minimum": 1, "maximum": handlers.MAX_PAGE, "default": 100},
        "description": "Maximum number of entries.",
    },
    "cursor": {"schema": {"type": "string"}, "description": "`next_cursor` of the previous page."},
}
_OUTCOME: Final[dict[str, Any]] = {
    "outcome": {
        "schema": {"type": "string", "enum": [str(outcome) for outcome in RunOutcome]},
        "description": "Show only records with this outcome.",
    }
}
_FILTER: Final[dict[str, Any]] = {
    "q": {
        "schema": {"type": "string"},
        "description": "Show only definitions with this text in their name.",
    },
    "state": {
        "schema": {"type": "string", "enum": [str(condition) for condition in DefinitionFilter]},
        "description": (
            "Show only definitions in this state. troubled: the definition has been due for 15 s without a "
            "record, its newest instant was missed, or its last three instants were skipped for a reason "
            "that nobody chose. With this filter, the master examines at most 2,000 definitions for a page. "
            "So a page may hold few definitions, or none, although more pages follow (`next_cursor`)."
        ),
    },
    "kind": {
        "schema": {"type": "string", "enum": [str(kind) for kind in Kind]},
        "description": (
            "Show only definitions of this kind. With this filter, the master examines at most 2,000 "
            "definitions for a page, as for `state`."
        ),
    },
    "runs": {
        "schema": {"type": "integer", "minimum": 0, "maximum": handlers.MAX_LISTED_RUNS, "default": 0},
        "description": "Number of run records to show of each definition.",
    },
}
_PAUSE_TEXT: Final = (
    "Until somebody resumes the definition, its instants are recorded as skipped and start no job. Nothing "
    "else changes."
)
_WHY_TEXT: Final = (
    "Shows the latest consecutive instants that were skipped for a reason that nobody chose, this reason, "
    "and the unfinished job that caused the skips."
)
_PUT_TEXT: Final = (
    "Creates the definition, or replaces it. Instants that are already due still fire, under the previous "
    "schedule. A request that changes nothing writes nothing. Without preconditions, the last writer wins."
)
_DELETE_TEXT: Final = "Also deletes the run records of the definition. Keeps the jobs that it started."
_PREVIEW_TEXT: Final = (
    "Changes nothing. Checks the definition in the same way as `PUT`. For kind time, the answer shows the "
    "next instants. For kind event, it shows which of the newest events would start the job, and with which "
    "argument."
)
_RUN_TEXT: Final = (
    "Starts the job once, now, regardless of the schedule and of `overlap`, even if the definition is paused."
)
_BACKFILL_TEXT: Final = (
    "Starts the jobs of past instants, regardless of `overlap`. These instants were missed or skipped, or "
    "lie before the creation of the definition. An instant that already started a job is left out. If the "
    "run records of some instants are no longer kept, the call is refused with 422. The error names the "
    "last instant without a record. `also_forgotten` starts the jobs of these instants, too. At most 1000 "
    "instants in one call."
)

OPERATIONS: Final = [
    Operation("GET", "/api/definitions", handlers.list_definitions, Scope.READ, "List definitions", "definitions",
              {200: schemas.DefinitionList}, query={**_FILTER, **_PAGE}, problems=_STORE),
    Operation("POST", "/api/definitions/preview", handlers.preview, Scope.READ,
              "Preview the instants or events of a definition", "definitions",
              {200: schemas.DefinitionPreview}, schemas.DefinitionPreviewRequest, problems=_STORE, text=_PREVIEW_TEXT),
    Operation("GET", "/api/definitions/{name}", handlers.get, Scope.READ, "Get a definition", "definitions",
              {200: schemas.DefinitionView}, problems=(404, *_STORE)),
    Operation("GET", "/api/definitions/{name}/why", handlers.why, Scope.READ,
              "Explain why a definition starts no jobs", "definitions", {200: schemas.DefinitionWhy},
              problems=(404, *_STORE), text=_WHY_TEXT),
    Operation("PUT", "/api/definitions/{name}", handlers.put, Scope.OPERATE, "Create or replace a definition",
              "definitions", {200: schemas.DefinitionView, 201: schemas.DefinitionView}, schemas.DefinitionRequest,
              problems=(409, 412, 413, *_STORE), text=_PUT_TEXT),
    Operation("DELETE", "/api/definitions/{name}", handlers.delete, Scope.OPERATE, "Delete a definition",
              "definitions", {204: None}, problems=(404, 412, *_STORE), text=_DELETE_TEXT),
    Operation("POST", "/api/definitions/{name}/pause", handlers.pause, Scope.OPERATE, "Pause a definition",
              "definitions", {200: schemas.DefinitionView}, schemas.PauseDefinitionRequest,
              problems=(404, 412, *_STORE), text=_PAUSE_TEXT),
    Operation("POST", "/api/definitions/{name}/resume", handlers.resume, Scope.OPERATE, "Resume a definition",
              "definitions", {200: schemas.DefinitionView}, problems=(404, 412, *_STORE)),
    Operation("POST", "/api/definitions/{name}/run", handlers.run, Scope.OPERATE, "Run a definition now",
              "definitions", {201: schemas.RunAnswer}, problems=(404, 409, 429, *_STORE), text=_RUN_TEXT),
    Operation("POST", "/api/definitions/{name}/backfill", handlers.backfill, Scope.OPERATE,
              "Start the jobs of past instants", "definitions", {200: schemas.BackfillAnswer},
              schemas.BackfillRequest, problems=(404, 409, *_STORE), text=_BACKFILL_TEXT),
    Operation("GET", "/api/definitions/{name}/runs", handlers.runs, Scope.READ, "List the runs of a definition",
              "definitions", {200: schemas.DefinitionRuns}, query={**_OUTCOME, **_PAGE}, problems=(404, *_STORE)),
]  # fmt: skip
