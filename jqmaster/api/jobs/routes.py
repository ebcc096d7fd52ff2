"""Routes of jobs."""

from typing import Any, Final

from jqmaster.api.http.endpoint import Operation
from jqmaster.api.jobs import handlers, schemas, why_handlers, why_schemas
from jqmaster.domain.access import Scope
from jqmaster.store.link.pages import MAX_PER_CALL

_STORE: Final = (503,)
_JOB: Final = (404, 409, *_STORE)
_WAIT: Final[dict[str, Any]] = {
    "wait": {
        "schema": {"type": "number", "minimum": 0, "default": 0},
        "description": "Seconds to wait for the end; 60 at most. Where too many wait already, the answer is 202 at once, with Retry-After.",
    }
}
_INSTANT: Final = {"type": "string", "format": "date-time"}
_LIST: Final[dict[str, Any]] = {
    "state": {"schema": {"$ref": "#/components/schemas/JobState"}, "description": "In this state."},
    "name": {"schema": {"type": "string"}, "description": "The exact name."},
    "tag": {"schema": {"type": "string"}, "description": "With this tag."},
    "worker": {"schema": {"type": "string"}, "description": "ID of the worker of the latest attempt."},
    "q": {"schema": {"type": "string"}, "description": "Part of the ID or name."},
    "cause": {"schema": {"type": "string", "enum": list(handlers.CAUSES)}, "description": "Ended for this."},
    "created_after": {"schema": _INSTANT, "description": "Created then or later."},
    "created_before": {"schema": _INSTANT, "description": "Created then or earlier."},
    "finished_after": {"schema": _INSTANT, "description": "Over since then or later."},
    "finished_before": {"schema": _INSTANT, "description": "Over since then or earlier."},
    "text": {"schema": {"type": "string"}, "description": "Part of the message of the last error."},
    "failure_group": {
        "schema": {"type": "string", "pattern": "^[0-9a-f]{16}$"},
        "description": "Failed for this: the ID of a group of `/api/failures`.",
    },
    "order": {
        "schema": {"type": "string", "enum": list(handlers.ORDERS), "default": "oldest"},
        "description": "Within a state: oldest, those that come next first, or those that ended first; newest: the other "
        "way round.",
    },
    "limit": {
        "schema": {"type": "integer", "minimum": 1, "maximum": handlers.MAX_PAGE, "default": 50},
        "description": "Most jobs on a page.",
    },
    "cursor": {
        "schema": {"type": "string"},
        "description": "`next_cursor` of the page before; other filters as there.",
    },
}
_BULK_TEXT: Final = (
    f"All jobs are checked before any is stored; one that is not valid, or whose ID is taken, refuses all and is named. "
    f"Up to {MAX_PER_CALL} jobs are stored in one atomic step, more in several: should the store fail between them, the "
    "answer is 503 `outcome_unknown` and a part may be stored. Repeat the same request then. Jobs that carry their own "
    "`id` are never doubled by that, others may be: give each job an `id`."
)
_CANCEL_TEXT: Final = "Without scope read the answer shows no argument, headers and attempts."
_WHY_TEXT: Final = (
    "The first verdict is what has to change first. Constraints are told as a claim would find them at that instant. "
    "What a circuit breaker or a pause keeps from a worker only the leader knows; others answer null there."
)

OPERATIONS: Final = [
    Operation("POST", "/api/jobs", handlers.enqueue, Scope.PUSH, "Enqueue a job", "jobs",
              {201: schemas.EnqueueAnswer, 200: schemas.EnqueueAnswer}, schemas.JobRequest, problems=(409, 413, 429, *_STORE),
              push="single"),
    Operation("POST", "/api/jobs/bulk", handlers.enqueue_bulk, Scope.PUSH, "Enqueue many jobs; one bad job refuses all", "jobs",
              {201: schemas.BulkAnswer}, schemas.BulkRequest, problems=(409, 413, 429, *_STORE), text=_BULK_TEXT,
              push="bulk"),
    Operation("GET", "/api/jobs", handlers.list_jobs, Scope.READ, "List jobs", "jobs", {200: schemas.JobPage}, query=_LIST, problems=_STORE),
    Operation("GET", "/api/jobs/{job_id}", handlers.get, Scope.READ, "View a job", "jobs", {200: schemas.JobView}, problems=(404, *_STORE)),
    Operation("PATCH", "/api/jobs/{job_id}", handlers.patch, Scope.OPERATE, "Change a waiting job", "jobs",
              {200: schemas.JobView}, schemas.PatchRequest, problems=_JOB),
    Operation("DELETE", "/api/jobs/{job_id}", handlers.delete, Scope.OPERATE, "Delete a job that does not run", "jobs", {204: None}, problems=_JOB),
    Operation("GET", "/api/jobs/{job_id}/result", handlers.result, Scope.PUSH, "Fetch the result", "jobs",
              {200: schemas.ResultView, 202: schemas.StateAnswer}, query=_WAIT, problems=_STORE, has_effect=True),
    Operation("GET", "/api/jobs/{job_id}/why", why_handlers.job, Scope.READ, "Tell why a job is not running", "jobs",
              {200: why_schemas.WhyAnswer}, problems=(404, *_STORE), text=_WHY_TEXT),
    Operation("POST", "/api/jobs/{job_id}/cancel", handlers.cancel, Scope.PUSH, "Cancel a waiting or running job", "jobs",
              {200: schemas.JobView}, problems=_JOB, text=_CANCEL_TEXT),
    Operation("POST", "/api/jobs/{job_id}/retry", handlers.retry, Scope.OPERATE, "Run a finished job again", "jobs",
              {200: schemas.JobView}, problems=_JOB),
    Operation("POST", "/api/jobs/{job_id}/run", handlers.run_now, Scope.OPERATE, "Run a job now that waits for a time", "jobs",
              {200: schemas.JobView}, problems=_JOB),
]  # fmt: skip
