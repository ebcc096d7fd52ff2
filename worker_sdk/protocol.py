"""What travels between master, worker and pusher.

Generated from openapi/jqmaster.yaml and openapi/worker.yaml by `make spec`; changes are made there.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

ProblemCode = Literal[
    "action_over", "address_refused", "address_unresolved", "address_unverified", "admin_only",
    "argument_too_large", "backlog_full", "bad_base64", "bad_ext", "bad_host", "bad_request_line",
    "bad_timestamp", "body_too_large", "changed_meanwhile", "conflict", "constraint_exists", "content_hidden",
    "cross_site", "csrf", "damaged", "duplicate_key", "durability_unavailable", "empty_body",
    "error_too_large", "first_must_be_admin", "forbidden", "foreign_worker", "head_too_large",
    "http_version_not_supported", "id_taken", "idempotency_key_reused", "integer_out_of_range", "internal",
    "invalid", "invalid_cursor", "job_canceled", "job_failed", "job_ready", "job_retrying", "job_running",
    "job_scheduled", "job_skipped", "job_succeeded", "key_not_str", "last_admin", "local_only",
    "login_failed", "method_not_allowed", "name_forbidden", "no_other_master", "no_session", "no_such_poll",
    "not_a_map", "not_a_user", "not_acceptable", "not_found", "not_leader", "not_pulling",
    "number_out_of_range", "other_store", "outcome_unknown", "overloaded", "poll_replaced",
    "precondition_failed", "rate_limited", "receipt_deadline", "result_too_large", "settings_changing",
    "store_full", "store_unavailable", "store_unfit", "target_too_long", "token_expired", "too_deep",
    "too_large", "too_many_actions", "too_many_constraints", "too_many_headers", "too_many_items",
    "too_many_logins", "too_many_nodes", "too_many_previews", "too_many_registrations", "too_many_streams",
    "too_many_tokens", "too_many_users", "trailing_bytes", "truncated", "unauthorized", "unknown_action",
    "unknown_constraint", "unknown_job", "unknown_method", "unknown_name", "unknown_session", "unknown_token",
    "unknown_user", "unknown_worker", "unparsable", "unsupported_media_type", "unsupported_transfer_encoding",
    "user_exists", "worker_detached", "wrong_password"
]


class ClaimRef(TypedDict):
    """A claim: the job and the right to settle it."""

    # UUIDv7
    job_id: str
    token: str


class ClaimRequest(TypedDict):
    """A worker without an address asks for jobs. One call at a time: a later one ends the one before
    it."""

    # It takes the call of this `poll_id` back and wants none: what that was given goes back.
    withdraw: NotRequired[bool]
    # Most jobs that it takes now; needed unless it withdraws a call.
    max: NotRequired[int | None]
    # Seconds to wait for the first of them; 60 at most, a quarter of one at least.
    wait: NotRequired[float]
    # Chosen anew for each call. When its answer was not heard, the same call again, at any master, is given
    # the same jobs; another one says that the answers before were heard.
    poll_id: NotRequired[str | None]
    # Jobs of earlier answers that it has not begun and does not take. They go back as if never given.
    refused: NotRequired[list[ClaimRef]]


class ClaimView(TypedDict):
    """A claim that the worker named."""

    # UUIDv7
    job_id: str
    token: str


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


class HeartbeatAnswer(TypedDict):
    """What became of the claims that were named: those in neither list are renewed until
    `lease_until_ms`."""

    epoch: int
    store_time_ms: int
    # The newest fence that a claim had got at `store_time_ms`. Where that is less than it may be, the store's
    # clock was set back: refuse what is offered with this fence or an older one as `too_late`. Without it: 0.
    fence: NotRequired[int]
    # Equal to `store_time_ms` where nothing was renewed: the leases end when they were to end before.
    lease_until_ms: int
    # From now on; without it, as it was.
    heartbeat_interval_s: NotRequired[float]
    # Life of a lease from now on; without it, as it was.
    lease_s: NotRequired[float]
    # Somebody canceled the job: stop it and report `canceled`, which frees its slot at once. Another result
    # is answered `stale` and changes nothing.
    cancel: list[ClaimView]
    # The claim is over: stop the job and report nothing.
    lost: list[ClaimView]
    # Finish what runs; no more will come.
    drain: bool
    # The worker was cut off: ask with `asks_to_continue`, three times, 0.3 s apart; if nobody confirms, stop
    # everything and register anew.
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
    # The answer before said `detached`: may the worker go on with what it runs? Yes is an answer without it.
    asks_to_continue: NotRequired[bool]
    # Only after a 403 `foreign_worker`, by a worker whose token was changed while it runs: hex HMAC-
    # SHA256(secret, text) of `adopt`, the worker ID and the hex SHA-256 of the bearer token, joined by line
    # feeds. The worker then belongs to that token.
    proof: NotRequired[str | None]


class Problem(TypedDict):
    """RFC 9457; at most 4 KiB."""

    type: str
    title: str
    status: int
    detail: str
    # Stable; for programs. docs/errors.md says what each means. New ones may come: treat an unknown code as
    # its status says.
    code: ProblemCode | str
    errors: list[ProblemField]


class ProblemField(TypedDict):
    """One broken rule: the path of the field, and the rule."""

    loc: list[str | int]
    msg: str


class PushAnswer(TypedDict):
    """What the worker takes; results come later. Every job of the push is in one of the lists. A token
    that it has seen before is accepted and not started again."""

    accepted: list[str]
    rejected: list[Rejected]


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
    """A worker says what it is."""

    # Where masters reach the worker; null: it pulls. Always sent, so that no address is forgotten.
    url: str | None
    names: list[str]
    max_jobs: int
    node_id: NotRequired[str]
    pid: NotRequired[int]
    labels: NotRequired[dict[str, str]]
    version: NotRequired[str]
    # Chosen by the worker; its UTF-8 bytes are the key of all signatures. Also sent by one that pulls, for
    # which nothing is signed.
    secret: str
    # Names this machine since its start, from a process that holds a lock there which any other process at
    # this `url` would need. Where the former worker at the URL gave the same name, it is known to have ended,
    # and its jobs are free at once; else they are when their leases end.
    place: NotRequired[str]


class Rejected(TypedDict):
    """An offer that the worker does not take; the job has not been attempted."""

    # UUIDv7
    job_id: str
    reason: Literal["busy", "unknown_name", "draining", "stale_epoch", "too_late", "duplicate"]
    # Seconds.
    retry_after: NotRequired[float | None]


class RunningClaim(TypedDict):
    """A claim whose result no master has answered yet."""

    # UUIDv7
    job_id: str
    token: str


class StartRequest(TypedDict):
    """Which of the accepted jobs may start now (for handlers that ask first)."""

    starts: list[ClaimRef]


class WorkerStatus(TypedDict):
    """What the worker does now."""

    worker_id: str
    running: list[RunningClaim]
    free: int
    max_jobs: int
    names: list[str]
    draining: bool

