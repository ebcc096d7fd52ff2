"""Routes of targets."""

from typing import Final

from jqmaster.api.http.endpoint import Operation
from jqmaster.api.targets import handlers, schemas
from jqmaster.domain.identity.access import Scope

_STORE: Final = (503,)
_PUT_TEXT: Final = (
    "Creates the target, or replaces it. Masters apply the change within a second. Requests in progress end "
    "with the former settings. Waiting jobs are sent with the new settings. Without preconditions, the last "
    "writer wins."
)
_DELETE_TEXT: Final = (
    "Requests in progress end as usual. Waiting jobs stay until another target or a worker serves their name."
)
_TEST_TEXT: Final = (
    "Sends a signed request for a job that does not exist, with the header `JQ-Test: true`, and shows the "
    "request and the answer. The audit log records the call."
)

OPERATIONS: Final = [
    Operation("GET", "/api/targets", handlers.list_targets, Scope.READ, "List targets", "targets",
              {200: schemas.TargetList}, problems=_STORE),
    Operation("GET", "/api/targets/{name}", handlers.get, Scope.READ, "Get a target", "targets",
              {200: schemas.TargetDetail}, problems=(404, *_STORE)),
    Operation("PUT", "/api/targets/{name}", handlers.put, Scope.OPERATE, "Create or replace a target", "targets",
              {200: schemas.TargetDetail, 201: schemas.TargetDetail}, schemas.TargetRequest,
              problems=(409, 412, *_STORE), text=_PUT_TEXT),
    Operation("DELETE", "/api/targets/{name}", handlers.delete, Scope.OPERATE, "Delete a target", "targets",
              {204: None}, problems=(404, 412, *_STORE), text=_DELETE_TEXT),
    Operation("POST", "/api/targets/{name}/test", handlers.test, Scope.OPERATE, "Send a test request", "targets",
              {200: schemas.TargetTest}, schemas.TargetTestRequest, problems=(404, *_STORE), text=_TEST_TEXT),
]  # fmt: skip
