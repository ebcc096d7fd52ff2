"""What travels between master, worker and pusher.

Generated from openapi/jqmaster.yaml and openapi/worker.yaml by `make spec`; changes are made there.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

JobState = Literal["scheduled", "ready", "retrying", "running", "succeeded", "failed", "canceled", "skipped"]


class AttemptView(TypedDict):
    """One start of the job; `outcome` null: it runs."""

    attempt: int
    worker_id: str
    started_at: str
    finished_at: str | None
    # success, failure, timeout, lost, canceled, deferred, handed_back or returned; more may come.
    outcome: str | None
    message: str | None
    # Any value. In JSON, binary is {"$bin": base64}.
    error: Any


class BulkAnswer(TypedDict):
    """All of the jobs are durable; IDs in the order of the request."""

    ids: list[str]


class BulkRequest(TypedDict):
    """Jobs that are checked together: one that is refused refuses all."""

    jobs: list[JobRequest]


class CancelOrder(TypedDict):
    """Stop the job, if this token is the one that runs."""

    token: str
    epoch: int


class CanceledItem(TypedDict):
    """The job was stopped by order."""

    # UUIDv7
    job_id: str
    token: str
    finished_at: str
    type: Literal["canceled"]


class ChallengeAnswer(TypedDict):
    """The worker knows the secret."""

    # hex HMAC-SHA256(secret, nonce)
    proof: str


class ChallengeRequest(TypedDict):
    """Proof of address. Other nonces must be refused: the proof would else sign a forged request with the
    same key."""

    nonce: str


class ClaimRef(TypedDict):
    """A claim: the job and the right to settle it."""

    # UUIDv7
    job_id: str
    token: str


class ClaimView(TypedDict):
    """A claim that the worker named."""

    # UUIDv7
    job_id: str
    token: str


class DeferredItem(TypedDict):
    """The handler wants to be asked again later; no retry is consumed."""

    # UUIDv7
    job_id: str
    token: str
    finished_at: str
    type: Literal["deferred"]
    # Seconds.
    retry_after: float


class Dispatch(TypedDict):
    """One job that is offered to a worker."""

    # UUIDv7
    job_id: str
    # Starts so far, this one included.
    attempt: int
    # The right to settle this claim; named in heartbeats and results.
    token: str
    # Grows with every claim, also across failovers: hand it to your database to refuse a stale writer.
    fence: int
    # What is to be done; further phases may come.
    phase: Literal["run"]
    # Selects the handler.
    name: str
    # As the pusher sent it.
    argument: Any
    # Seconds; a longer run is to be ended and reported as a timeout.
    timeout: float
    # Store time (Unix ms) after which the offer must be refused as too_late.
    not_after_ms: int
    # Store time until which the first lease holds; an answered heartbeat that names the token lengthens it.
    lease_until_ms: int
    # As the pusher sent them.
    headers: dict[str, str]


class DrainOrder(TypedDict):
    """Take no more jobs, finish those that run."""

    epoch: NotRequired[int | None]


class EnqueueAnswer(TypedDict):
    """The job is durable."""

    # UUIDv7
    id: str


class FailureItem(TypedDict):
    """The handler failed, or ran longer than its timeout."""

    # UUIDv7
    job_id: str
    token: str
    finished_at: str
    type: Literal["failure"]
    reason: Literal["other", "timeout"]
    # False ends the job at once.
    should_retry: bool
    # Any value. In JSON, binary is {"$bin": base64}.
    error: NotRequired[Any]
    # For people.
    message: NotRequired[str]
    # Seconds; may lengthen the wait before the next attempt.
    retry_after: NotRequired[float | None]


class FailureView(TypedDict):
    """The job failed for good."""

    type: Literal["failure"]
    finished_at: str
    reason: Literal["other", "timeout"]
    should_retry: bool
    message: str
    # Any value. In JSON, binary is {"$bin": base64}.
    error: Any


class HandedBackItem(TypedDict):
    """The worker stops before the job is done; another shall have it. No retry is consumed."""

    # UUIDv7
    job_id: str
    token: str
    finished_at: str
    type: Literal["handed_back"]


class Health(TypedDict):
    """The process answers."""

    status: Literal["ok"]


class HeartbeatAnswer(TypedDict):
    """What became of the claims that were named: those in neither list are renewed until
    `lease_until_ms`."""

    epoch: int
    store_time_ms: int
    lease_until_ms: int
    # Somebody canceled the job: stop it; its result will be stale.
    cancel: list[ClaimView]
    # The claim is over: stop the job; its result will be stale.
    lost: list[ClaimView]
    # Finish what runs; no more will come.
    drain: bool
    # The worker was cut off: stop everything and register anew.
    detached: bool


class HeartbeatRequest(TypedDict):
    """The worker lives; each lease whose token it names is renewed."""

    # Every claim whose result no master has answered yet.
    running: list[ClaimRef]
    # How many more jobs it would take. Kept with the worker for people; the master goes by the claims it
    # gave.
    free: int
    # Store time, rounded down, at which `running` was read. An offer that is not named although it was over
    # by then was not taken up, and goes back without being counted as lost.
    as_of_ms: NotRequired[int]


class JobPage(TypedDict):
    """A page may be short, even empty, while `next_cursor` says that there is more."""

    jobs: list[JobSummary]
    # Null: that was all.
    next_cursor: str | None
    # Of all jobs, whatever the filters.
    counts: dict[str, int]


class JobRequest(TypedDict):
    """A job to be enqueued."""

    # The kind of job; it selects the handler.
    name: str
    # Any value. In JSON, binary is {"$bin": base64}.
    argument: NotRequired[Any]
    # Smaller runs first.
    priority: NotRequired[int]
    # How many times a failed run is tried again; 0: never.
    max_retry: NotRequired[int]
    # Keep the result for the pusher.
    keep_result: NotRequired[bool]
    # Seconds; a longer run has failed.
    timeout: NotRequired[float]
    # Chosen by the client, it makes the push safe to repeat for as long as the job is kept.
    id: NotRequired[str | None]
    # Not before this instant.
    run_at: NotRequired[str | None]
    # Seconds from now; not together with run_at.
    delay: NotRequired[float | None]
    # A job that waits after this instant, also for a retry, is skipped.
    expires_at: NotRequired[str | None]
    retry: NotRequired[RetryRequest | None]
    # With max_retry 0: run again when the worker was lost.
    rerun_lost: NotRequired[bool]
    tags: NotRequired[list[str]]
    headers: NotRequired[dict[str, str]]


class JobSummary(TypedDict):
    """A job as lists show it."""

    # UUIDv7
    id: str
    name: str
    state: JobState
    priority: int
    # Starts so far.
    attempt: int
    # Failed attempts that counted against max_retry.
    failures: int
    # Workers that fell silent under it.
    losses: int
    max_retry: int
    timeout: float
    keep_result: bool
    created_at: str
    # When it became, or becomes, due.
    run_at: str | None
    # Of the latest attempt.
    started_at: str | None
    finished_at: str | None
    expires_at: str | None
    # Why it ended: error, timeout, lost, expired, canceled.
    cause: str | None
    # Of the latest attempt.
    worker_id: str | None
    tags: list[str]


class JobView(TypedDict):
    """A job with everything that happened to it."""

    # UUIDv7
    id: str
    name: str
    state: JobState
    priority: int
    # Starts so far.
    attempt: int
    # Failed attempts that counted against max_retry.
    failures: int
    # Workers that fell silent under it.
    losses: int
    max_retry: int
    timeout: float
    keep_result: bool
    created_at: str
    # When it became, or becomes, due.
    run_at: str | None
    # Of the latest attempt.
    started_at: str | None
    finished_at: str | None
    expires_at: str | None
    # Why it ended: error, timeout, lost, expired, canceled.
    cause: str | None
    # Of the latest attempt.
    worker_id: str | None
    tags: list[str]
    attempts: list[AttemptView]
    headers: dict[str, str]
    # As it was sent; null where it is too large to show: see argument_bytes. A caller without scope read gets
    # null, and no attempts and headers.
    argument: Any
    argument_bytes: int


class PatchRequest(TypedDict):
    """What to change in a waiting job; null, like nothing, leaves a field as it is."""

    priority: NotRequired[int | None]
    run_at: NotRequired[str | None]
    max_retry: NotRequired[int | None]
    timeout: NotRequired[float | None]


class Problem(TypedDict):
    """RFC 9457; at most 4 KiB."""

    type: str
    title: str
    status: int
    detail: str
    # Stable; for programs.
    code: str
    errors: list[ProblemField]


class ProblemField(TypedDict):
    """One broken rule: the path of the field, and the rule."""

    loc: list[str | int]
    msg: str


class PushAnswer(TypedDict):
    """What the worker takes; results come later. A token that it has seen before is accepted and not
    started again."""

    accepted: list[str]
    rejected: list[Rejected]


class PushRequest(TypedDict):
    """Jobs that are offered in one call."""

    worker_id: str
    # Of the leader that sends; one that is older than any seen is refused as stale_epoch.
    epoch: int
    store_time_ms: int
    jobs: list[Dispatch]


class Readiness(TypedDict):
    """Whether this master makes progress."""

    status: Literal["ready", "not_ready"]
    # What a 201 promises here.
    durability: Literal["besteffort", "fsync", "fsync+quorum"]
    # Whether this master leads.
    leader: bool
    # `serving`, or what is wrong with it; without scope read `not serving` says no more.
    store: str
    # What is in the way; without scope read only the names of the checks that failed: process, space, leader,
    # store, dispatcher; more may come.
    faults: list[str]


class RegisterAnswer(TypedDict):
    """From now on jobs may arrive, and heartbeats are expected."""

    # Valid until the worker leaves or is forgotten.
    worker_id: str
    # Of the newest leadership; 0 before the first.
    epoch: int
    # The one clock for offers and leases: Unix ms by the store.
    store_time_ms: int
    heartbeat_interval_s: float
    # Life of a lease from the last heartbeat that named its token.
    lease_s: float


class RegisterRequest(TypedDict):
    """A worker says what it is. `url` null: it pulls."""

    url: str | None
    names: list[str]
    max_jobs: int
    node_id: NotRequired[str]
    pid: NotRequired[int]
    labels: NotRequired[dict[str, str]]
    version: NotRequired[str]
    # Chosen by the worker; its UTF-8 bytes are the key.
    secret: str


class Rejected(TypedDict):
    """An offer that the worker does not take; the job has not been attempted."""

    # UUIDv7
    job_id: str
    reason: Literal["busy", "unknown_name", "draining", "stale_epoch", "too_late", "duplicate"]
    # Seconds.
    retry_after: NotRequired[float | None]


class ResultsAnswer(TypedDict):
    """`accepted`: counts, or did already. `stale`: the token is no longer the right to settle; nothing
    changed."""

    accepted: list[str]
    stale: list[str]


class ResultsRequest(TypedDict):
    """Repeat it until it is answered; everything that is answered is done with."""

    results: list[ResultItem]


class RetryRequest(TypedDict):
    """Wait before the n-th retry: min(max_s, base_s · factor^(n−1)), with full jitter."""

    base_s: NotRequired[float]
    factor: NotRequired[float]
    max_s: NotRequired[float]
    jitter: NotRequired[bool]


class RunningClaim(TypedDict):
    """A claim whose result no master has answered yet."""

    # UUIDv7
    job_id: str
    token: str


class StartAnswer(TypedDict):
    """Only the confirmed ones may start."""

    confirmed: list[str]
    stale: list[str]


class StartRequest(TypedDict):
    """Which of the accepted jobs may start now (for handlers that ask first)."""

    starts: list[ClaimRef]


class StateAnswer(TypedDict):
    """The job is not over."""

    state: JobState


class SuccessItem(TypedDict):
    """The handler returned."""

    # UUIDv7
    job_id: str
    token: str
    finished_at: str
    type: Literal["success"]
    # Any value. In JSON, binary is {"$bin": base64}.
    result: Any


class SuccessView(TypedDict):
    """The job succeeded."""

    type: Literal["success"]
    # As the worker reported it.
    finished_at: str
    # Any value. In JSON, binary is {"$bin": base64}.
    result: Any


class WorkerList(TypedDict):
    """All registered workers."""

    workers: list[WorkerView]


class WorkerStatus(TypedDict):
    """What the worker does now."""

    worker_id: str
    running: list[RunningClaim]
    free: int
    max_jobs: int
    names: list[str]
    draining: bool


class WorkerView(TypedDict):
    """A registered worker."""

    # UUIDv7
    id: str
    url: str | None
    names: list[str]
    max_jobs: int
    # Claims that it holds.
    busy: int
    node_id: str
    pid: int
    labels: dict[str, str]
    version: str
    registered_at: str
    last_seen_at: str
    state: Literal["fresh", "stale", "draining", "detached"]
    # Null where this master does not lead.
    breaker: Literal["closed", "open", "half_open"] | None


# How an attempt ended, by its worker's word.
ResultItem = SuccessItem | FailureItem | DeferredItem | HandedBackItem | CanceledItem

# What a job ended with.
ResultView = SuccessView | FailureView
