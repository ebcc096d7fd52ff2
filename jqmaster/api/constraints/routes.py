"""Routes of constraints."""

from typing import Any, Final

from jqmaster.api.constraints import handlers, schemas
from jqmaster.api.http.endpoint import Operation
from jqmaster.domain.access import Scope
from jqmaster.service.constraints.preview import PREVIEW_MAX_JOBS, PREVIEW_MAX_S

_STORE: Final = (503,)
_VALUE: Final[dict[str, Any]] = {
    "value": {
        "schema": {"type": "string"},
        "description": 'Show one value of the key: JSON (`42`, `null`, `"42"`), or else text as it is.',
    }
}
_PUT_TEXT: Final = (
    "Makes it, or changes the whole of it. Jobs that wait already obey it; what runs goes on, and counts. What changes "
    "nothing is no change. Without preconditions the last writer wins."
)
_VALUE_TEXT: Final = (
    "Sets, or with nothing but the value removes, the override of one value; the others stay as they are."
)
_PREVIEW_TEXT: Final = (
    f"Changes nothing. It reads at most {PREVIEW_MAX_JOBS} jobs, and for {PREVIEW_MAX_S:g} s at most."
)
_DELETE_TEXT: Final = "Jobs that it holds back are free at once."
_CONSTRAINT: Final = (404, 412, *_STORE)

OPERATIONS: Final = [
    Operation("GET", "/api/constraints", handlers.list_constraints, Scope.READ, "List constraints", "constraints",
              {200: schemas.ConstraintList}, problems=_STORE),
    Operation("POST", "/api/constraints/preview", handlers.preview, Scope.READ, "Which waiting jobs would it apply to?", "constraints",
              {200: schemas.PreviewAnswer}, schemas.PreviewRequest, problems=(429, *_STORE), text=_PREVIEW_TEXT),
    Operation("GET", "/api/constraints/{name}", handlers.get, Scope.READ, "View a constraint and what it does now", "constraints",
              {200: schemas.ConstraintDetail}, query=_VALUE, problems=(404, *_STORE)),
    Operation("PUT", "/api/constraints/{name}", handlers.put, Scope.OPERATE, "Make or change a constraint", "constraints",
              {200: schemas.ConstraintView, 201: schemas.ConstraintView}, schemas.ConstraintRequest, problems=(409, 412, *_STORE), text=_PUT_TEXT),
    Operation("DELETE", "/api/constraints/{name}", handlers.delete, Scope.OPERATE, "Remove a constraint", "constraints",
              {204: None}, problems=_CONSTRAINT, text=_DELETE_TEXT),
    Operation("POST", "/api/constraints/{name}/values", handlers.put_value, Scope.OPERATE, "Limit or pause one value of the key", "constraints",
              {200: schemas.ConstraintView}, schemas.ValueRequest, problems=_CONSTRAINT, text=_VALUE_TEXT),
]  # fmt: skip
