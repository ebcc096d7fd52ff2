"""Routes of constraints."""

from typing import Any, Final

from jqmaster.api.constraints import handlers, preview_schemas, schemas
from jqmaster.api.http.endpoint import Operation
from jqmaster.api.jobs import schemas as job_schemas
from jqmaster.domain.identity.access import Scope
from jqmaster.service.constraints.preview import PREVIEW_MAX_JOBS, PREVIEW_MAX_S
from jqmaster.service.constraints.replay import REPLAY_MAX_JOBS, REPLAY_MAX_S

_STORE: Final = (503,)
_VALUE: Final[dict[str, Any]] = {
    "value": {
        "schema": {"type": "string"},
        "description": (
            'Also show this value of the key. Give JSON (`42`, `null`, `"42"`); anything else is plain text.'
        ),
    }
}
_PUT_TEXT: Final = (
    "Creates or replaces the constraint. It also applies to jobs that already wait. Running jobs continue "
    "and count towards its limits. A request that changes nothing writes nothing. Without preconditions, "
    "the last writer wins."
)
_VALUE_TEXT: Final = (
    "Sets the override of one value. If the request holds only the value, removes its override. Other "
    "overrides stay unchanged."
)
_PREVIEW_TEXT: Final = (
    f"Changes nothing. It reads at most {PREVIEW_MAX_JOBS} jobs and stops after {PREVIEW_MAX_S:g} s."
)
_REPLAY_TEXT: Final = (
    "Changes nothing. The replay takes the stored jobs that are running or ended in the last hour, and "
    "computes how long the constraint would have held each of them. It knows only the last run of a job. "
    "The limits in force at that time had already delayed that run. `max_backlog` and `fair` are ignored. "
    f"The replay reads at most {REPLAY_MAX_JOBS} jobs, the newest first, and stops after {REPLAY_MAX_S:g} s. "
    "`from` is the start of the period that it covered."
)
_PAUSE_TEXT: Final = (
    "No more of these jobs start. Running jobs continue. The pause is a separate constraint with a name "
    "that begins with `pause-`. Delete this constraint to end the pause."
)
_DELETE_TEXT: Final = "Jobs that the constraint held back may start at once."
_CONSTRAINT: Final = (404, 412, *_STORE)

_JOB_PREVIEW_TEXT: Final = (
    "Enqueues nothing. Checks the request in the same way as a push, and lists the constraints that would "
    "apply."
)

# List this route before the routes of single jobs, because their patterns also match its path.
JOB_OPERATIONS: Final = [
    Operation("POST", "/api/jobs/preview", handlers.preview_job, Scope.READ, "Preview the constraints of a job", "jobs",
              {200: preview_schemas.JobPreview}, job_schemas.JobRequest, problems=(413, 503), text=_JOB_PREVIEW_TEXT),
]  # fmt: skip
OPERATIONS: Final = [
    Operation("GET", "/api/constraints", handlers.list_constraints, Scope.READ, "List constraints", "constraints",
              {200: schemas.ConstraintList}, problems=_STORE),
    Operation("POST", "/api/constraints/preview", handlers.preview, Scope.READ,
              "Preview the waiting jobs of a constraint", "constraints",
              {200: preview_schemas.PreviewAnswer}, preview_schemas.PreviewRequest, problems=(429, *_STORE),
              text=_PREVIEW_TEXT),
    Operation("POST", "/api/constraints/preview/last-hour", handlers.replay, Scope.READ,
              "Replay the last hour under a constraint", "constraints",
              {200: preview_schemas.ReplayAnswer}, schemas.ConstraintRequest, problems=(429, *_STORE),
              text=_REPLAY_TEXT),
    Operation("POST", "/api/pauses", handlers.pause, Scope.OPERATE,
              "Pause a name, a tag, a constraint or one value", "constraints",
              {201: schemas.ConstraintView}, schemas.PauseRequest, problems=(404, 409, *_STORE), text=_PAUSE_TEXT),
    Operation("GET", "/api/constraints/{name}", handlers.get, Scope.READ, "Get a constraint and its usage",
              "constraints",
              {200: schemas.ConstraintDetail}, query=_VALUE, problems=(404, *_STORE)),
    Operation("PUT", "/api/constraints/{name}", handlers.put, Scope.OPERATE, "Create or replace a constraint",
              "constraints",
              {200: schemas.ConstraintView, 201: schemas.ConstraintView}, schemas.ConstraintRequest,
              problems=(409, 412, *_STORE), text=_PUT_TEXT),
    Operation("DELETE", "/api/constraints/{name}", handlers.delete, Scope.OPERATE, "Delete a constraint", "constraints",
              {204: None}, problems=_CONSTRAINT, text=_DELETE_TEXT),
    Operation("POST", "/api/constraints/{name}/values", handlers.put_value, Scope.OPERATE,
              "Limit or pause one value of the key", "constraints",
              {200: schemas.ConstraintView}, schemas.ValueRequest, problems=_CONSTRAINT, text=_VALUE_TEXT),
]  # fmt: skip
