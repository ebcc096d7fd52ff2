"""Routes of workers."""

from typing import Final

from jqmaster.api.http.endpoint import Operation
from jqmaster.api.jobs import outcome_schemas
from jqmaster.api.workers import handlers, push_schemas, schemas
from jqmaster.domain.access import Scope

_STORE: Final = (503,)
_REGISTER_TEXT: Final = (
    "422 `address_unverified`: the address was not proven to be the worker's; why is in the master's log, and told only to who "
    "did prove it. 429 `too_many_registrations` when that was so too often."
)
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

OPERATIONS: Final = [
    Operation("POST", "/api/workers", handlers.register, Scope.WORK, "Register a worker", "workers",
              {201: schemas.RegisterAnswer}, schemas.RegisterRequest, problems=(429, *_STORE), text=_REGISTER_TEXT),
    Operation("GET", "/api/workers", handlers.list_workers, Scope.READ, "List workers", "workers", {200: schemas.WorkerList}, problems=_STORE),
    Operation("GET", "/api/workers/{worker_id}", handlers.get, Scope.READ, "View a worker and what it runs", "workers",
              {200: schemas.WorkerDetail}, problems=(404, *_STORE)),
    Operation("POST", "/api/workers/{worker_id}/drain", handlers.drain, Scope.OPERATE, "Let a worker finish, and give it no more", "workers",
              {200: schemas.WorkerDetail}, problems=(404, 409, *_STORE), text=_DRAIN_TEXT),
    Operation("POST", "/api/workers/{worker_id}/resume", handlers.resume, Scope.OPERATE, "Give a draining worker jobs again", "workers",
              {200: schemas.WorkerDetail}, problems=(404, 409, *_STORE)),
    Operation("POST", "/api/workers/{worker_id}/detach", handlers.detach, Scope.OPERATE, "Cut a worker off", "workers",
              {200: schemas.WorkerDetail}, problems=(404, *_STORE), text=_DETACH_TEXT),
    Operation("DELETE", "/api/workers/{worker_id}", handlers.leave, Scope.WORK, "Leave", "workers", {204: None}, problems=(404, *_STORE)),
    Operation("POST", "/api/workers/{worker_id}/heartbeat", handlers.heartbeat, Scope.WORK, "Report, and renew leases", "workers",
              {200: schemas.HeartbeatAnswer}, schemas.HeartbeatRequest, problems=(404, *_STORE)),
    Operation("POST", "/api/workers/{worker_id}/start", handlers.start, Scope.WORK, "Ask whether jobs may start", "workers",
              {200: schemas.StartAnswer}, schemas.StartRequest, problems=(404, *_STORE)),
    Operation("POST", "/api/workers/{worker_id}/results", handlers.results, Scope.WORK, "Report how attempts ended", "workers",
              {200: outcome_schemas.ResultsAnswer}, outcome_schemas.ResultsRequest, problems=(404, 413, *_STORE)),
    Operation("POST", "/api/workers/{worker_id}/claim", handlers.claim, Scope.WORK, "Wait for jobs (a worker without an address)", "workers",
              {200: push_schemas.ClaimAnswer}, schemas.ClaimRequest, problems=(404, 409, 429, *_STORE), text=_CLAIM_TEXT),
]  # fmt: skip
