"""Routes of the search for data about a person, and of the erasure of values."""

from typing import Final

from jqmaster.api.http.endpoint import Operation
from jqmaster.api.jobs.schemas import JobView
from jqmaster.api.personal_data import handlers, schemas
from jqmaster.domain.identity.access import Scope

_STORE: Final = (503,)
_FIND_TEXT: Final = (
    "Looks for the texts in events, failure groups, notices and jobs. In jobs, it searches argument, "
    "headers, tags, uniqueness key, result, errors, progress, partial results, challenges and log. Each "
    "call searches for about a third of a second. Call again with `next_cursor` until it is null. Jobs that "
    "are created or deleted during the search may be left out. The answer lists what was searched and what "
    "was not. The audit log records the search and its reason, but not the texts."
)
_ERASE_TEXT: Final = (
    "Replaces values in a finished job by `[erased]`: all given values, or none. The job stays in lists, "
    "with its times and its final state. If its argument or headers lost a value, it cannot be retried. The "
    "audit log records the paths. Backups, and logs of pushers and workers, still have the values."
)

OPERATIONS: Final = [
    Operation("POST", "/api/personal-data/search", handlers.find, Scope.ADMIN, "Search for data about a person",
              "personal data", {200: schemas.PersonalDataAnswer}, schemas.PersonalDataRequest, problems=_STORE,
              text=_FIND_TEXT),
    Operation("POST", "/api/jobs/{job_id}/erase", handlers.erase, Scope.OPERATE, "Erase values of a job",
              "personal data", {200: JobView}, schemas.EraseRequest, problems=(404, 409, *_STORE), text=_ERASE_TEXT),
]  # fmt: skip
