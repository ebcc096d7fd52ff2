"""The route of a job's preview. It stands before those of single jobs, whose paths would fit too."""

from typing import Final

from jqmaster.api import job_preview, job_schemas
from jqmaster.api import job_preview_schemas as preview_schemas
from jqmaster.api.auth import Scope
from jqmaster.api.endpoint import Operation

_TEXT: Final = (
    "Enqueues nothing: it judges the request as a push would, and names the constraints that would apply."
)

OPERATIONS: Final = [
    Operation("POST", "/api/jobs/preview", job_preview.preview, Scope.READ, "Which constraints would apply to a job?", "jobs",
              {200: preview_schemas.JobPreview}, job_schemas.JobRequest, problems=(413, 503), text=_TEXT),
]  # fmt: skip
