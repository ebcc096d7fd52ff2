"""Routes of jobs."""

from typing import Any, Final

from jqmaster.api.http.endpoint import Operation
from jqmaster.api.jobs import (
    bulk_schemas,
    flow_schemas,
    flows,
    handlers,
    lists,
    part_schemas,
    parts,
    schemas,
    why_handlers,
    why_schemas,
)
from jqmaster.api.logs import routes as log_routes
from jqmaster.domain.identity.access import Scope
from jqmaster.domain.jobs.job import StateGroup
from jqmaster.service.jobs.operator_actions import JobActions
from jqmaster.store.link.pages import MAX_PER_CALL

_STORE: Final = (503,)
_JOB: Final = (404, 409, *_STORE)
_WAIT: Final[dict[str, Any]] = {
    "wait": {
        "schema": {"type": "number", "minimum": 0, "default": 0},
        "description": (
            "Seconds to wait for the end of the job, at most 60. If too many callers already wait, the "
            "answer is 202 at once, with Retry-After."
        ),
    }
}
_INSTANT: Final = {"type": "string", "format": "date-time"}
_FILTERS: Final[dict[str, Any]] = {
    "state": {"schema": {"$ref": "#/components/schemas/JobState"}, "description": "Jobs in this state."},
    "state_group": {
        "schema": {"type": "string", "enum": [str(one) for one in StateGroup]},
        "description": "Jobs in a state of this group. waiting: scheduled, ready, retrying, awaiting_jobs. running: "
        "running, awaiting_callback. succeeded: succeeded, discarded. failed: failed, canceled, skipped.",
    },
    "name": {"schema": {"type": "string"}, "description": "Jobs with exactly this name."},
    "tag": {"schema": {"type": "string"}, "description": "Jobs with this tag."},
    "batch": {
        "schema": {"type": "string", "format": "uuid"},
        "description": "Members of the batch with this ID. They are listed in the order in which they were created.",
    },
    "worker": {
        "schema": {"type": "string"},
        "description": "Jobs with their latest attempt on the worker with this ID.",
    },
    "q": {"schema": {"type": "string"}, "description": "Jobs with this text in their ID or name."},
    "cause": {
        "schema": {"type": "string", "enum": list(lists.CAUSES)},
        "description": "Jobs that ended with this cause.",
    },
    "created_after": {"schema": _INSTANT, "description": "Jobs created at this instant or later."},
    "created_before": {"schema": _INSTANT, "description": "Jobs created at this instant or earlier."},
    "finished_after": {"schema": _INSTANT, "description": "Jobs that ended at this instant or later."},
    "finished_before": {"schema": _INSTANT, "description": "Jobs that ended at this instant or earlier."},
    "text": {
        "schema": {"type": "string"},
        "description": "Jobs with this text in their last error message.",
    },
    "failure_group": {
        "schema": {"type": "string", "pattern": "^[0-9a-f]{16}$"},
        "description": "Jobs that failed for the reason of this failure group (an ID from `/api/failures`).",
    },
    "matcher": {
        "schema": {"type": "string"},
        "description": "Jobs that this matcher selects, as JSON. Its form is that of constraints. Example: "
        '`{"field": "argument.tenant", "op": "eq", "value": "globex"}`',
    },
    "min_attempt": {
        "schema": {"type": "integer", "minimum": 1},
        "description": "Jobs with at least this many attempts.",
    },
    "min_duration": {
        "schema": {"type": "number", "minimum": 0},
        "description": "Finished jobs with a last attempt that took at least this many seconds.",
    },
    "max_duration": {
        "schema": {"type": "number", "minimum": 0},
        "description": "Finished jobs with a last attempt that took at most this many seconds.",
    },
}
_PAGED: Final[dict[str, Any]] = {
    "order": {
        "schema": {"type": "string", "enum": list(lists.ORDERS)},
        "description": (
            "oldest or newest: jobs of all names and states, sorted by time. The time of a finished job is "
            "its end, of a running job its start, and of a ready job its creation. For scheduled and "
            "retrying jobs, and for jobs that await callbacks, it is the time until which they wait. Such "
            "jobs come last in a list of all states. Without an order, the list goes state by state. Within "
            "a state, jobs have the order in which they are processed."
        ),
    },
    "include": {
        "schema": {"type": "string"},
        "description": (
            "Additional fields, which take more reads of the store, separated by commas: "
            f"{', '.join(lists.PARTS)}."
        ),
    },
    "limit": {
        "schema": {"type": "integer", "minimum": 1, "maximum": lists.MAX_PAGE, "default": 50},
        "description": "Maximum number of jobs per page.",
    },
    "cursor": {
        "schema": {"type": "string"},
        "description": "`next_cursor` of the previous page. Repeat the other filters unchanged.",
    },
}
_BULK_TEXT: Final = (
    "The master checks all jobs before it stores any. If a job is not valid, or its ID is taken, the whole "
    f"request is refused and the answer names that job. Up to {MAX_PER_CALL} jobs are stored in one atomic "
    "step, and more jobs in several steps. If the store fails between two steps, the answer is 503 "
    "`outcome_unknown`, and some of the jobs may be stored. In this case, repeat the same request. Give "
    "each job an `id`: a repeat never duplicates such jobs, but may duplicate others."
)
_COUNT_TEXT: Final = (
    "The master counts for at most half a second. If it cannot complete the count, the result is a lower "
    "bound (`is_exact`)."
)
_AFTER: Final[dict[str, Any]] = {
    "after": {
        "schema": {"type": "string", "pattern": "^[0-9]+-[0-9]+$", "default": "0-0"},
        "description": (
            "Return only partial results after this position, which is the `next` of the "
            "previous answer or the ID of an event."
        ),
    }
}
_STREAM: Final[dict[str, Any]] = {
    "after": {
        "schema": {"type": "string", "pattern": "^[0-9]+-[0-9]+([.][0-9]+)?$", "default": "0-0"},
        "description": "Send only the events after the event with this ID.",
    },
    "logs": {
        "schema": {"type": "boolean", "default": True},
        "description": "Whether to include log lines in the events.",
    },
    **log_routes.FILTER,
}
_PARTS_TEXT: Final = (
    "Waits until there are partial results after `after`, the job is over, or another attempt has begun. "
    "Returns no partial results of earlier attempts, because each attempt starts from the beginning."
)
_STREAM_TEXT: Final = (
    "Server-sent events:\n\n* `part` holds `attempt`, `number` and `value`. `value` is null for callers who "
    "may not see job content.\n* `log` holds a log line in the form of `GET …/logs`.\n* `attempt` says that "
    f"another attempt begins.\n* `end` holds the final `state`.\n* `alive` comes every {parts.PING_S} s "
    "regardless of other events.\n\nIf the request has `Last-Event-ID`, which browsers send, the stream "
    "continues after that event. If that event was `end`, the answer is 204. Beyond `max_streams`, the "
    "answer is 503 `too_many_streams`."
)
_SAVE_TEXT: Final = (
    "Stores all partial results of the call, or none. The answer is 409 `stale_token` if the worker does "
    "not hold the job. It is 413 `too_many_parts` if the attempt would exceed `max_parts` or "
    "`max_parts_bytes`. Make only one call at a time for each job. Report the end of the attempt after the "
    "last call."
)
_FLOW_TEXT: Final = "Returns the predecessors and the dependents of this job, direct and indirect."
_CANCEL_TEXT: Final = "Without the scope read, the answer omits argument, headers and attempts."
_RETRY_TEXT: Final = (
    "The job runs again with all its retries. Jobs that were skipped because of this job wait again. Those "
    "that also need other jobs stay skipped. `revives` counts both kinds."
)
_WHOSE: Final = {name: _FILTERS[name] for name in ("name", "tag", "batch")}
_BACKLOG_TEXT: Final = (
    "Groups the ready jobs by common gates and labels. Explains one job of each group in the same way as "
    "`/api/jobs/{job_id}/why`, and merges equal causes. At most 2,000 jobs are examined, the "
    "longest-waiting first, and the twelve largest groups are explained. `examined` is the number of jobs "
    "that the causes cover. Values of constraint keys are shown if the caller may see them."
)
_WHY_TEXT: Final = (
    "The first verdict names what has to change first. The state of each constraint is the state that a "
    "claim would find at this moment. Only the leader knows the circuit breakers and pauses of workers. On "
    "other masters, these fields are null."
)

OPERATIONS: Final = [
    Operation("POST", "/api/jobs", handlers.enqueue, Scope.PUSH, "Enqueue a job", "jobs",
              {201: schemas.EnqueueAnswer, 200: schemas.EnqueueAnswer}, schemas.JobRequest,
              problems=(409, 413, 429, *_STORE),
              push="single"),
    Operation("POST", "/api/jobs/bulk", handlers.enqueue_bulk, Scope.PUSH, "Enqueue many jobs, all or none", "jobs",
              {201: schemas.BulkAnswer}, bulk_schemas.BulkRequest, problems=(409, 413, 429, *_STORE), text=_BULK_TEXT,
              push="bulk"),
    Operation("GET", "/api/jobs", lists.list_jobs, Scope.READ, "List jobs", "jobs", {200: schemas.JobPage},
              query=_FILTERS | _PAGED, problems=_STORE),
    Operation("GET", "/api/jobs/count", lists.count_jobs, Scope.READ, "Count jobs", "jobs", {200: schemas.JobCount},
              query=_FILTERS, problems=_STORE, text=_COUNT_TEXT),
    Operation("GET", "/api/jobs/why", why_handlers.backlog, Scope.READ, "Explain what ready jobs wait for", "jobs",
              {200: why_schemas.BacklogWhyAnswer}, query=_WHOSE, problems=_STORE, text=_BACKLOG_TEXT),
    Operation("GET", "/api/jobs/{job_id}", handlers.get, Scope.READ, "Get a job", "jobs", {200: schemas.JobView},
              problems=(404, *_STORE)),
    Operation("PATCH", "/api/jobs/{job_id}", handlers.patch, Scope.OPERATE, "Change a waiting job", "jobs",
              {200: schemas.JobView}, schemas.PatchRequest, problems=_JOB),
    Operation("DELETE", "/api/jobs/{job_id}", handlers.delete, Scope.OPERATE, "Delete a job that is not running",
              "jobs", {204: None}, problems=_JOB),
    Operation("GET", "/api/jobs/{job_id}/result", handlers.result, Scope.PUSH, "Get the result of a job", "jobs",
              {200: schemas.ResultView, 202: schemas.StateAnswer}, query=_WAIT, problems=_STORE, has_effect=True),
    Operation("GET", "/api/jobs/{job_id}/parts", parts.page, Scope.PUSH, "Get partial results of a job", "jobs",
              {200: part_schemas.PartsPage}, query=_AFTER | _WAIT, problems=(404, *_STORE), text=_PARTS_TEXT,
              has_effect=True),
    Operation("GET", "/api/jobs/{job_id}/stream", parts.stream, Scope.READ, "Stream partial results of a job", "jobs",
              {200: None, 204: None}, query=_STREAM, problems=(404, *_STORE), text=_STREAM_TEXT,
              is_stream=True, has_effect=True),
    Operation("POST", "/api/workers/{worker_id}/parts", parts.save, Scope.WORK, "Send partial results", "workers",
              {200: part_schemas.PartsAnswer}, part_schemas.PartsRequest, problems=(404, 409, 413, *_STORE),
              text=_SAVE_TEXT),
    Operation("GET", "/api/jobs/{job_id}/why", why_handlers.job, Scope.READ, "Explain why a job is not running", "jobs",
              {200: why_schemas.WhyAnswer}, problems=(404, *_STORE), text=_WHY_TEXT),
    Operation("GET", "/api/jobs/{job_id}/flow", flows.of_job, Scope.READ, "Get the flow around a job", "jobs",
              {200: flow_schemas.FlowView}, query=flows.LIMIT, problems=(404, *_STORE), text=_FLOW_TEXT),
    Operation("POST", "/api/jobs/{job_id}/cancel", handlers.cancel, Scope.PUSH, "Cancel a waiting or running job",
              "jobs",
              {200: schemas.JobView}, problems=_JOB, text=_CANCEL_TEXT, also=Scope.OPERATE),
    Operation("POST", "/api/jobs/{job_id}/retry", handlers.retry,
              Scope.OPERATE, "Run a finished job again", "jobs",
              {200: schemas.JobView}, schemas.RetryJobRequest, problems=(400, *_JOB), text=_RETRY_TEXT,
              has_optional_body=True),
    Operation("POST", "/api/jobs/{job_id}/run", handlers.acting(JobActions.run_now, "job.run"),
              Scope.OPERATE, "Run a scheduled or retrying job now", "jobs",
              {200: schemas.JobView}, problems=_JOB),
]  # fmt: skip
