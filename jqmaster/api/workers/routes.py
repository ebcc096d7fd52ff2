"""Routes of workers."""

from typing import Any, Final

from jqmaster.api.http.endpoint import Operation
from jqmaster.api.jobs import outcome_schemas
from jqmaster.api.workers import fleet_schemas, handlers, push_schemas, schemas
from jqmaster.domain.identity.access import Scope

_STORE: Final = (503,)
_REGISTER_TEXT: Final = (
    "The answer is 422 `address_unverified` if the worker did not prove that the address is its own. The "
    "master logs the reason. The answer contains the reason only if the address was proved. After too many "
    "failed registrations, the answer is 429 `too_many_registrations`."
)
_BY: Final[dict[str, Any]] = {
    "schema": {"type": "string", "enum": list(handlers.GROUP_KINDS), "default": "node"},
    "description": "Group the workers by `node_id`, by `version`, or by the values of their labels.",
}
_GROUPS_TEXT: Final = (
    "The registered workers grouped by machine, version or label, with the combined figures of each group. "
    "Workers without a value are in no group."
)
_SET_TEXT: Final = (
    "Drains the selected workers that are not draining yet, like the call for a single worker. Does not "
    "drain workers that register later. `GET /api/workers` shows how many jobs the workers still run."
)
_DRAIN_TEXT: Final = (
    "The worker finishes its running jobs and gets no more jobs. Masters notify it at once, and again with "
    "each heartbeat. Draining a worker that is already draining changes nothing."
)
_DETACH_TEXT: Final = (
    "The worker gets no more jobs, and masters stop renewing its leases. Masters tell the worker to stop "
    "its jobs. The jobs run elsewhere as soon as the worker registers again, or when their leases end. Each "
    "of these jobs counts a loss. To let the worker finish its jobs, drain it instead."
)
_LEAVING_TEXT: Final = (
    "A worker makes this call as soon as its process is told to end (SIGTERM). It gets no more jobs. It "
    "still renews its leases, finishes jobs or hands them back, and finally unregisters. If the lease of "
    "one of its jobs ends after this call, for example because the process was killed, the job waits again "
    "without counting a loss. A job with `max_retry` 0 that was not handed back fails instead, because "
    "nobody knows whether it ended. Before the worker unregisters, it must have named each accepted job in "
    "an answered heartbeat, or reported the job's end. Repeating the call changes nothing."
)
_LEAVE_TEXT: Final = (
    "Jobs that the worker still holds wait again when their leases end. This does not count as a loss. A "
    "job with `max_retry` 0 fails instead. If the worker announced its end (`POST …/leaving`), jobs that no "
    "heartbeat named return to their former state, as if the worker had never got them. Hand jobs back "
    "before this call to let them run elsewhere at once."
)
_CLAIM_TEXT: Final = (
    "Answers as soon as there are jobs. The jobs have leases, exactly like pushed jobs: name them in "
    "heartbeats, and report their results. The answer is 409 `not_pulling` if the worker registered an "
    "address, 409 `worker_detached` if it was detached, and 429 `poll_replaced` if it made a later call."
)
_OBSERVE_TEXT: Final = (
    "Make this call when an answer of another system tells its remaining capacity, for example in "
    "`RateLimit-Remaining`. A later observation replaces an earlier one. If the constraint is unknown, "
    "disabled or of another kind, the answer is 200 and the observation is ignored."
)

_RESULTS_TEXT: Final = (
    "With the header `JQ-Jobs-After`, the answer to successes may contain `jobs` for the freed slots. This "
    "saves a push if the jobs are few and small. The value of the header is the newest fence of all jobs "
    "that came in such answers. The first value is 0. If an answer is lost, its jobs are pushed."
)

_SLOTS_TEXT: Final = (
    "The number applies from the next claim on. The worker learns it from the answer to its next heartbeat. "
    "A lower number stops no job: the worker gets new jobs when it runs fewer jobs than the new number. "
    "Workers of release 0.2 refuse jobs beyond the number with which they registered."
)

OPERATIONS: Final = [
    Operation("POST", "/api/workers", handlers.register, Scope.WORK, "Register a worker", "workers",
              {201: schemas.RegisterAnswer}, schemas.RegisterRequest, problems=(429, *_STORE), text=_REGISTER_TEXT),
    Operation("GET", "/api/workers", handlers.list_workers, Scope.READ, "List workers", "workers",
              {200: fleet_schemas.WorkerList}, problems=_STORE),
    Operation("GET", "/api/workers/groups", handlers.list_groups, Scope.READ, "List groups of workers", "workers",
              {200: fleet_schemas.WorkerGroupList}, query={"by": _BY}, problems=_STORE, text=_GROUPS_TEXT),
    Operation("POST", "/api/workers/drain", handlers.drain_set, Scope.OPERATE, "Drain a set of workers", "workers",
              {200: fleet_schemas.WorkerSetAnswer}, fleet_schemas.WorkerSelectionRequest, problems=_STORE,
              text=_SET_TEXT),
    Operation("POST", "/api/workers/resume", handlers.resume_set, Scope.OPERATE, "Resume a set of draining workers",
              "workers",
              {200: fleet_schemas.WorkerSetAnswer}, fleet_schemas.WorkerSelectionRequest, problems=_STORE),
    Operation("GET", "/api/workers/{worker_id}", handlers.get, Scope.READ, "Get a worker and its jobs", "workers",
              {200: fleet_schemas.WorkerDetail}, problems=(404, *_STORE)),
    Operation("POST", "/api/workers/{worker_id}/drain", handlers.command("drain"), Scope.OPERATE, "Drain a worker",
              "workers",
              {200: fleet_schemas.WorkerDetail}, problems=(404, 409, *_STORE), text=_DRAIN_TEXT),
    Operation("POST", "/api/workers/{worker_id}/resume", handlers.command("resume"), Scope.OPERATE,
              "Resume a draining worker", "workers",
              {200: fleet_schemas.WorkerDetail}, problems=(404, 409, *_STORE)),
    Operation("POST", "/api/workers/{worker_id}/detach", handlers.command("detach"), Scope.OPERATE, "Detach a worker",
              "workers",
              {200: fleet_schemas.WorkerDetail}, problems=(404, *_STORE), text=_DETACH_TEXT),
    Operation("POST", "/api/workers/{worker_id}/slots", handlers.set_slots, Scope.OPERATE, "Set the slots of a worker",
              "workers",
              {200: fleet_schemas.WorkerDetail}, fleet_schemas.SlotsRequest, problems=(404, 409, *_STORE),
              text=_SLOTS_TEXT),
    Operation("GET", "/api/slot-rules", handlers.list_slot_rules, Scope.READ, "List the rules for slots",
              "workers",
              {200: fleet_schemas.SlotRuleList}, problems=_STORE),
    Operation("DELETE", "/api/slot-rules/{rule_id}", handlers.drop_slot_rule, Scope.OPERATE,
              "Remove a slot rule of a node", "workers",
              {204: None}, problems=(404, *_STORE)),
    Operation("POST", "/api/workers/{worker_id}/leaving", handlers.announce_leave, Scope.WORK,
              "Announce the end of a worker", "workers",
              {204: None}, problems=(404, *_STORE), text=_LEAVING_TEXT),
    Operation("DELETE", "/api/workers/{worker_id}", handlers.leave, Scope.WORK, "Unregister a worker", "workers",
              {204: None}, problems=(404, *_STORE), text=_LEAVE_TEXT),
    Operation("POST", "/api/workers/{worker_id}/heartbeat", handlers.heartbeat, Scope.WORK,
              "Send a heartbeat and renew leases", "workers",
              {200: schemas.HeartbeatAnswer}, schemas.HeartbeatRequest, problems=(404, *_STORE)),
    Operation("POST", "/api/workers/{worker_id}/start", handlers.start, Scope.WORK,
              "Request confirmation that jobs may start", "workers",
              {200: schemas.StartAnswer}, schemas.StartRequest, problems=(404, *_STORE)),
    Operation("POST", "/api/workers/{worker_id}/results", handlers.results, Scope.WORK, "Report the ends of attempts",
              "workers",
              {200: push_schemas.ResultsAnswer}, outcome_schemas.ResultsRequest, problems=(404, 413, *_STORE),
              text=_RESULTS_TEXT),
    Operation("POST", "/api/workers/{worker_id}/observations", handlers.observe, Scope.WORK,
              "Report the remaining capacity of another system", "workers",
              {200: schemas.ObservationAnswer}, schemas.ObservationRequest, problems=(404, *_STORE),
              text=_OBSERVE_TEXT),
    Operation("POST", "/api/workers/{worker_id}/claim", handlers.claim, Scope.WORK,
              "Poll for jobs (workers without an address)", "workers",
              {200: push_schemas.ClaimAnswer}, schemas.ClaimRequest, problems=(404, 409, 429, *_STORE),
              text=_CLAIM_TEXT),
]  # fmt: skip
