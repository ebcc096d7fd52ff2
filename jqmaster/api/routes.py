"""All routes, in one list: what is not here does not exist."""

from typing import Any, Final

from jqmaster.api import (
    audit,
    constraints,
    health,
    jobs,
    masters,
    schemas,
    why,
    why_schemas,
    worker_schemas,
    workers,
)
from jqmaster.api.auth import Scope
from jqmaster.api.endpoint import Operation
from jqmaster.service.preview import PREVIEW_MAX_JOBS, PREVIEW_MAX_S
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
_WHY_TEXT: Final = (
    "The first verdict is what has to change first. Constraints are told as a claim would find them at that instant. "
    "What a circuit breaker or a pause keeps from a worker only the leader knows; others answer null there."
)
_READY_TEXT: Final = "Anybody may ask; a bearer token with scope read shows more of what is wrong."

_VALUE: Final[dict[str, Any]] = {
    "value": {
        "schema": {"type": "string"},
        "description": 'Show one value of the key: JSON (`42`, `null`, `"42"`), or else text as it is.',
    }
}
_AUDIT: Final[dict[str, Any]] = {
    "limit": {
        "schema": {"type": "integer", "minimum": 1, "maximum": audit.MAX_PAGE, "default": 50},
        "description": "Most entries on a page.",
    },
    "cursor": {
        "schema": {"type": "string"},
        "description": "`next_cursor` of the page before; other filters as there.",
    },
    "target": {"schema": {"type": "string"}, "description": "Changes of this only."},
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
_DRAIN_TEXT: Final = "It keeps what it runs. It is told at once, and again with each heartbeat. What changes nothing is no change."
_DETACH_TEXT: Final = (
    "It gets no more jobs and no more leases. It is told to stop what it runs, which then runs elsewhere: as soon as it "
    "registers anew, or else when its leases are over; each of these jobs counts a loss. To be gentle, drain it."
)
_CLAIM_TEXT: Final = (
    "Answers as soon as there are jobs, with as many as there are. What is answered is leased as what is pushed: heartbeats "
    "name it, results end it. 409 `not_pulling` for a worker with an address, `worker_detached`; 429 `poll_replaced` where "
    "another call of the same worker came later."
)
_AUDIT_TEXT: Final = "Who changed what, and when: for those who may change it as well."
_DEMOTE_TEXT: Final = (
    "It ends what it has under way, and leaves the lead to the others. 409 `not_leader` where it does not lead, "
    "`no_other_master` where nobody could."
)
_CONSTRAINT: Final = (404, 412, *_STORE)

OPERATIONS: Final = [
    Operation("POST", "/api/jobs", jobs.enqueue, Scope.PUSH, "Enqueue a job", "jobs",
              {201: schemas.EnqueueAnswer, 200: schemas.EnqueueAnswer}, schemas.JobRequest, problems=(409, 413, 429, *_STORE)),
    Operation("POST", "/api/jobs/bulk", jobs.enqueue_bulk, Scope.PUSH, "Enqueue many jobs; one bad job refuses all", "jobs",
              {201: schemas.BulkAnswer}, schemas.BulkRequest, problems=(409, 413, 429, *_STORE), text=_BULK_TEXT),
    Operation("GET", "/api/jobs", jobs.list_jobs, Scope.READ, "List jobs", "jobs", {200: schemas.JobPage}, query=_LIST, problems=_STORE),
    Operation("GET", "/api/jobs/{job_id}", jobs.get, Scope.READ, "View a job", "jobs", {200: schemas.JobView}, problems=(404, *_STORE)),
    Operation("PATCH", "/api/jobs/{job_id}", jobs.patch, Scope.OPERATE, "Change a waiting job", "jobs",
              {200: schemas.JobView}, schemas.PatchRequest, problems=_JOB),
    Operation("DELETE", "/api/jobs/{job_id}", jobs.delete, Scope.OPERATE, "Delete a job that does not run", "jobs", {204: None}, problems=_JOB),
    Operation("GET", "/api/jobs/{job_id}/result", jobs.result, Scope.PUSH, "Fetch the result", "jobs",
              {200: schemas.ResultView, 202: schemas.StateAnswer}, query=_WAIT, problems=_STORE),
    Operation("GET", "/api/jobs/{job_id}/why", why.job, Scope.READ, "Tell why a job is not running", "jobs",
              {200: why_schemas.WhyAnswer}, problems=(404, *_STORE), text=_WHY_TEXT),
    Operation("POST", "/api/jobs/{job_id}/cancel", jobs.cancel, Scope.PUSH, "Cancel a waiting or running job", "jobs",
              {200: schemas.JobView}, problems=_JOB, text=_CANCEL_TEXT),
    Operation("POST", "/api/jobs/{job_id}/retry", jobs.retry, Scope.OPERATE, "Run a finished job again", "jobs",
              {200: schemas.JobView}, problems=_JOB),
    Operation("POST", "/api/jobs/{job_id}/run", jobs.run_now, Scope.OPERATE, "Run a job now that waits for a time", "jobs",
              {200: schemas.JobView}, problems=_JOB),
    Operation("POST", "/api/workers", workers.register, Scope.WORK, "Register a worker", "workers",
              {201: schemas.RegisterAnswer}, schemas.RegisterRequest, problems=_STORE),
    Operation("GET", "/api/workers", workers.list_workers, Scope.READ, "List workers", "workers", {200: schemas.WorkerList}, problems=_STORE),
    Operation("GET", "/api/workers/{worker_id}", workers.get, Scope.READ, "View a worker and what it runs", "workers",
              {200: schemas.WorkerDetail}, problems=(404, *_STORE)),
    Operation("POST", "/api/workers/{worker_id}/drain", workers.drain, Scope.OPERATE, "Let a worker finish, and give it no more", "workers",
              {200: schemas.WorkerDetail}, problems=(404, 409, *_STORE), text=_DRAIN_TEXT),
    Operation("POST", "/api/workers/{worker_id}/resume", workers.resume, Scope.OPERATE, "Give a draining worker jobs again", "workers",
              {200: schemas.WorkerDetail}, problems=(404, 409, *_STORE)),
    Operation("POST", "/api/workers/{worker_id}/detach", workers.detach, Scope.OPERATE, "Cut a worker off", "workers",
              {200: schemas.WorkerDetail}, problems=(404, *_STORE), text=_DETACH_TEXT),
    Operation("DELETE", "/api/workers/{worker_id}", workers.leave, Scope.WORK, "Leave", "workers", {204: None}, problems=(404, *_STORE)),
    Operation("POST", "/api/workers/{worker_id}/heartbeat", workers.heartbeat, Scope.WORK, "Report, and renew leases", "workers",
              {200: schemas.HeartbeatAnswer}, schemas.HeartbeatRequest, problems=(404, *_STORE)),
    Operation("POST", "/api/workers/{worker_id}/start", workers.start, Scope.WORK, "Ask whether jobs may start", "workers",
              {200: schemas.StartAnswer}, schemas.StartRequest, problems=(404, *_STORE)),
    Operation("POST", "/api/workers/{worker_id}/results", workers.results, Scope.WORK, "Report how attempts ended", "workers",
              {200: schemas.ResultsAnswer}, schemas.ResultsRequest, problems=(404, 413, *_STORE)),
    Operation("POST", "/api/workers/{worker_id}/claim", workers.claim, Scope.WORK, "Wait for jobs (a worker without an address)", "workers",
              {200: worker_schemas.ClaimAnswer}, schemas.ClaimRequest, problems=(404, 409, 429, *_STORE), text=_CLAIM_TEXT),
    Operation("GET", "/api/constraints", constraints.list_constraints, Scope.READ, "List constraints", "constraints",
              {200: schemas.ConstraintList}, problems=_STORE),
    Operation("POST", "/api/constraints/preview", constraints.preview, Scope.READ, "Which waiting jobs would it apply to?", "constraints",
              {200: schemas.PreviewAnswer}, schemas.PreviewRequest, problems=_STORE, text=_PREVIEW_TEXT),
    Operation("GET", "/api/constraints/{name}", constraints.get, Scope.READ, "View a constraint and what it does now", "constraints",
              {200: schemas.ConstraintDetail}, query=_VALUE, problems=(404, *_STORE)),
    Operation("PUT", "/api/constraints/{name}", constraints.put, Scope.OPERATE, "Make or change a constraint", "constraints",
              {200: schemas.ConstraintView, 201: schemas.ConstraintView}, schemas.ConstraintRequest, problems=(409, 412, *_STORE), text=_PUT_TEXT),
    Operation("DELETE", "/api/constraints/{name}", constraints.delete, Scope.OPERATE, "Remove a constraint", "constraints",
              {204: None}, problems=_CONSTRAINT, text=_DELETE_TEXT),
    Operation("POST", "/api/constraints/{name}/values", constraints.put_value, Scope.OPERATE, "Limit or pause one value of the key", "constraints",
              {200: schemas.ConstraintView}, schemas.ValueRequest, problems=_CONSTRAINT, text=_VALUE_TEXT),
    Operation("GET", "/api/masters", masters.list_masters, Scope.READ, "List masters", "operations", {200: schemas.MasterList}, problems=_STORE),
    Operation("POST", "/api/masters/{master_id}/demote", masters.demote, Scope.OPERATE, "Have another master lead", "operations",
              {202: schemas.DemoteAnswer}, problems=(404, 409, *_STORE), text=_DEMOTE_TEXT),
    Operation("GET", "/api/audit", audit.list_entries, Scope.OPERATE, "List changes", "operations",
              {200: schemas.AuditPage}, query=_AUDIT, problems=_STORE, text=_AUDIT_TEXT),
    Operation("GET", "/healthz", health.healthz, None, "Whether the process lives", "operations", {200: schemas.Health}),
    Operation("GET", "/readyz", health.readyz, None, "Whether this master makes progress", "operations",
              {200: schemas.Readiness, 503: schemas.Readiness}, text=_READY_TEXT),
    Operation("GET", "/openapi.json", health.openapi, None, "This contract", "operations", {200: None}),
]  # fmt: skip
