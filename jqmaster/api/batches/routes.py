"""Routes of batches."""

from typing import Any, Final

from jqmaster.api.batches import handlers, schemas
from jqmaster.api.http.endpoint import Operation
from jqmaster.api.jobs import flows
from jqmaster.api.jobs.flow_schemas import FlowView
from jqmaster.domain.batches.batch import BatchState
from jqmaster.domain.identity.access import Scope
from jqmaster.domain.jobs.job import JobState
from jqmaster.service.jobs.flows import MAX_MEMBERS

_STORE: Final = (503,)
_PAGE: Final[dict[str, Any]] = {
    "limit": {
        "schema": {"type": "integer", "minimum": 1, "maximum": handlers.MAX_PAGE, "default": 50},
        "description": "Maximum number of entries.",
    },
    "cursor": {"schema": {"type": "string"}, "description": "`next_cursor` of the previous page."},
}
_FILTER: Final[dict[str, Any]] = {
    "state": {
        "schema": {"type": "string", "enum": [str(state) for state in BatchState]},
        "description": "Show only batches in this state.",
    },
    "tag": {"schema": {"type": "string"}, "description": "Show only batches with this tag."},
    "q": {
        "schema": {"type": "string"},
        "description": "Show only batches with this text in their ID or description.",
    },
}
_JOB_STATE: Final[dict[str, Any]] = {
    "state": {
        "schema": {"type": "string", "enum": [str(state) for state in JobState]},
        "description": "Show only jobs in this state.",
    }
}
_CREATE_TEXT: Final = (
    "The batch is open: push jobs with its ID in `batch`, then seal it. Each callback is a job that is "
    "enqueued once. Its ID is derived from the ID of the batch. A repeat of the request with the same `id` "
    "answers 200 while the batch is kept."
)
_FLOW_TEXT: Final = (
    "Returns the members that wait for other jobs, the members for which other jobs wait, and the jobs "
    f"connected with them. It reads only the oldest {MAX_MEMBERS} members."
)
_SEAL_TEXT: Final = (
    "The batch becomes complete when all of its jobs are over. A batch without jobs is complete at once. "
    "Until the batch is complete, its jobs may add more jobs. A repeated request changes nothing."
)
_CANCEL_TEXT: Final = (
    "The batch takes no new jobs. The leader cancels its unfinished jobs page by page, including the jobs "
    "of nested batches. on_complete is still enqueued, but on_success is not."
)
_RETRY_TEXT: Final = (
    "The leader retries the failed jobs page by page, including the jobs of nested batches. on_success is "
    "enqueued if all jobs have succeeded after the retries. on_complete and on_failure are not enqueued "
    "again."
)

OPERATIONS: Final = [
    Operation("POST", "/api/batches", handlers.create, Scope.PUSH, "Create a batch", "batches",
              {201: schemas.BatchCreated, 200: schemas.BatchCreated}, schemas.BatchRequest,
              problems=(409, 413, *_STORE), text=_CREATE_TEXT),
    Operation("GET", "/api/batches", handlers.list_batches, Scope.READ, "List batches", "batches",
              {200: schemas.BatchList}, query={**_FILTER, **_PAGE}, problems=_STORE),
    Operation("GET", "/api/batches/{batch_id}", handlers.get, Scope.READ, "Get a batch", "batches",
              {200: schemas.BatchView}, problems=(404, *_STORE)),
    Operation("GET", "/api/batches/{batch_id}/jobs", handlers.jobs, Scope.READ, "List the jobs of a batch", "batches",
              {200: schemas.BatchJobs}, query={**_JOB_STATE, **_PAGE}, problems=(404, *_STORE)),
    Operation("GET", "/api/batches/{batch_id}/why", handlers.why, Scope.READ, "Explain what a batch waits for",
              "batches", {200: schemas.BatchWhy}, problems=(404, *_STORE)),
    Operation("GET", "/api/batches/{batch_id}/flow", flows.of_batch, Scope.READ, "Get the flow of a batch", "batches",
              {200: FlowView}, query=flows.LIMIT, problems=(404, *_STORE), text=_FLOW_TEXT),
    Operation("POST", "/api/batches/{batch_id}/seal", handlers.seal, Scope.PUSH, "Seal a batch", "batches",
              {200: schemas.BatchView}, problems=(404, *_STORE), text=_SEAL_TEXT),
    Operation("POST", "/api/batches/{batch_id}/cancel", handlers.cancel, Scope.PUSH, "Cancel a batch", "batches",
              {202: schemas.BatchView}, problems=(404, 409, *_STORE), text=_CANCEL_TEXT, also=Scope.OPERATE),
    Operation("POST", "/api/batches/{batch_id}/retry", handlers.retry, Scope.OPERATE,
              "Retry the failed jobs of a batch", "batches", {202: schemas.BatchView}, problems=(404, *_STORE),
              text=_RETRY_TEXT),
]  # fmt: skip
