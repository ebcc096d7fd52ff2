"""All routes, in one list: what is not here does not exist."""

from typing import Any, Final

from jqmaster.api import health, jobs, schemas, workers
from jqmaster.api.auth import Scope
from jqmaster.api.endpoint import Operation
from jqmaster.store.jobs import MAX_PER_CALL

_STORE: Final = (503,)
_JOB: Final = (404, 409, *_STORE)

_WAIT: Final[dict[str, Any]] = {
    "wait": {
        "schema": {"type": "number", "minimum": 0, "default": 0},
        "description": "Seconds to wait for the end; 60 at most.",
    }
}
_LIST: Final[dict[str, Any]] = {
    "state": {"schema": {"$ref": "#/components/schemas/JobState"}, "description": "In this state."},
    "name": {"schema": {"type": "string"}, "description": "The exact name."},
    "tag": {"schema": {"type": "string"}, "description": "With this tag."},
    "worker": {"schema": {"type": "string"}, "description": "ID of the worker of the latest attempt."},
    "q": {"schema": {"type": "string"}, "description": "Part of the ID or name."},
    "limit": {
        "schema": {"type": "integer", "minimum": 1, "maximum": jobs.MAX_PAGE, "default": 50},
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
_READY_TEXT: Final = "Anybody may ask; a bearer token with scope read shows more of what is wrong."

OPERATIONS: Final = [
    Operation("POST", "/api/jobs", jobs.enqueue, Scope.PUSH, "Enqueue a job", "jobs",
              {201: schemas.EnqueueAnswer, 200: schemas.EnqueueAnswer}, schemas.JobRequest, problems=(409, 413, *_STORE)),
    Operation("POST", "/api/jobs/bulk", jobs.enqueue_bulk, Scope.PUSH, "Enqueue many jobs; one bad job refuses all", "jobs",
              {201: schemas.BulkAnswer}, schemas.BulkRequest, problems=(409, 413, *_STORE), text=_BULK_TEXT),
    Operation("GET", "/api/jobs", jobs.list_jobs, Scope.READ, "List jobs", "jobs", {200: schemas.JobPage}, query=_LIST, problems=_STORE),
    Operation("GET", "/api/jobs/{job_id}", jobs.get, Scope.READ, "View a job", "jobs", {200: schemas.JobView}, problems=(404, *_STORE)),
    Operation("PATCH", "/api/jobs/{job_id}", jobs.patch, Scope.OPERATE, "Change a waiting job", "jobs",
              {200: schemas.JobView}, schemas.PatchRequest, problems=_JOB),
    Operation("DELETE", "/api/jobs/{job_id}", jobs.delete, Scope.OPERATE, "Delete a job that does not run", "jobs", {204: None}, problems=_JOB),
    Operation("GET", "/api/jobs/{job_id}/result", jobs.result, Scope.PUSH, "Fetch the result", "jobs",
              {200: schemas.ResultView, 202: schemas.StateAnswer}, query=_WAIT, problems=_STORE),
    Operation("POST", "/api/jobs/{job_id}/cancel", jobs.cancel, Scope.PUSH, "Cancel a waiting or running job", "jobs",
              {200: schemas.JobView}, problems=_JOB, text=_CANCEL_TEXT),
    Operation("POST", "/api/jobs/{job_id}/retry", jobs.retry, Scope.OPERATE, "Run a finished job again", "jobs",
              {200: schemas.JobView}, problems=_JOB),
    Operation("POST", "/api/jobs/{job_id}/run", jobs.run_now, Scope.OPERATE, "Run a job now that waits for a time", "jobs",
              {200: schemas.JobView}, problems=_JOB),
    Operation("POST", "/api/workers", workers.register, Scope.WORK, "Register a worker", "workers",
              {201: schemas.RegisterAnswer}, schemas.RegisterRequest, problems=_STORE),
    Operation("GET", "/api/workers", workers.list_workers, Scope.READ, "List workers", "workers", {200: schemas.WorkerList}, problems=_STORE),
    Operation("GET", "/api/workers/{worker_id}", workers.get, Scope.READ, "View a worker", "workers",
              {200: schemas.WorkerView}, problems=(404, *_STORE)),
    Operation("DELETE", "/api/workers/{worker_id}", workers.leave, Scope.WORK, "Leave", "workers", {204: None}, problems=(404, *_STORE)),
    Operation("POST", "/api/workers/{worker_id}/heartbeat", workers.heartbeat, Scope.WORK, "Report, and renew leases", "workers",
              {200: schemas.HeartbeatAnswer}, schemas.HeartbeatRequest, problems=(404, *_STORE)),
    Operation("POST", "/api/workers/{worker_id}/start", workers.start, Scope.WORK, "Ask whether jobs may start", "workers",
              {200: schemas.StartAnswer}, schemas.StartRequest, problems=(404, *_STORE)),
    Operation("POST", "/api/workers/{worker_id}/results", workers.results, Scope.WORK, "Report how attempts ended", "workers",
              {200: schemas.ResultsAnswer}, schemas.ResultsRequest, problems=(404, 413, *_STORE)),
    Operation("GET", "/healthz", health.healthz, None, "Whether the process lives", "operations", {200: schemas.Health}),
    Operation("GET", "/readyz", health.readyz, None, "Whether this master makes progress", "operations",
              {200: schemas.Readiness, 503: schemas.Readiness}, text=_READY_TEXT),
    Operation("GET", "/openapi.json", health.openapi, None, "This contract", "operations", {200: None}),
]  # fmt: skip
