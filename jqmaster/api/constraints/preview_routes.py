"""The route of a job's preview. It must precede the routes of single jobs, whose paths would match too."""

from typing import Final

from jqmaster.api.constraints import preview_handlers, preview_schemas
from jqmaster.api.http.auth import Scope
from jqmaster.api.http.endpoint import Operation
from jqmaster.api.jobs import schemas as job_schemas

_TEXT: Final = (
    "Enqueues nothing. It checks the request as a push would, and lists the constraints that would apply."
)

OPERATIONS: Final = [
    Operation("POST", "/api/jobs/preview", preview_handlers.preview, Scope.READ, "Preview the constraints of a job", "jobs",
              {200: preview_schemas.JobPreview}, job_schemas.JobRequest, problems=(413, 503), text=_TEXT),
]  # fmt: skip
