"""The messages between master, worker and pusher.

Generated from openapi/jqmaster.yaml and openapi/worker.yaml by `make spec`; changes are made there.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NotRequired, TypedDict

ProblemCode = Literal[
    "action_over", "address_refused", "address_unresolved", "address_unverified", "admin_only", "agents_off",
    "already_expired", "archive_damaged", "archive_unavailable", "argument_over_quota", "argument_too_large",
    "backlog_full", "bad_base64", "bad_ext", "bad_host", "bad_request_line", "bad_signature", "bad_timestamp",
    "batch_complete", "batch_over", "body_too_large", "calendar_exists", "calendar_in_use",
    "calendars_not_installed", "callback_conflict", "challenge_answered", "challenge_over",
    "changed_meanwhile", "conflict", "constraint_exists", "content_hidden", "cross_site", "csrf", "damaged",
    "default_namespace", "definition_exists", "delivery_loop", "duplicate_key", "durability_unavailable",
    "empty_body", "error_too_large", "first_must_be_admin", "forbidden", "foreign_worker", "form_too_large",
    "head_too_large", "http_version_not_supported", "id_taken", "id_token_invalid", "idempotency_key_reused",
    "integer_out_of_range", "internal", "invalid", "invalid_argument", "invalid_cursor",
    "job_awaiting_callback", "job_awaiting_jobs", "job_canceled", "job_discarded", "job_failed", "job_ready",
    "job_retrying", "job_running", "job_scheduled", "job_skipped", "job_succeeded", "key_not_str",
    "last_admin", "local_only", "log_open", "login_denied", "login_expired", "login_failed", "mail_off",
    "masters_too_old", "meta_too_large", "method_not_allowed", "more_than_at_most", "move_record_damaged",
    "move_refused", "move_under_way", "name_forbidden", "namespace_closed", "namespace_exists",
    "namespace_faulted", "namespace_full", "namespace_has_data", "namespace_moving", "namespace_not_empty",
    "namespace_open", "namespace_rate", "namespace_starting", "namespace_tag_taken", "no_form",
    "no_login_name", "no_login_provider", "no_other_master", "no_public_url", "no_role", "no_session",
    "no_such_poll", "not_a_map", "not_a_user", "not_acceptable", "not_an_array", "not_found", "not_leader",
    "not_moving", "not_on_cluster", "not_pulling", "not_unique", "notice_exists", "number_out_of_range",
    "offer_under_way", "other_store", "outcome_unknown", "overloaded", "payload_too_large", "poll_replaced",
    "precondition_failed", "predecessor_over", "provider_unavailable", "push_over_quota", "rate_limited",
    "receipt_deadline", "result_too_large", "retried_before", "settings_changing", "stale_token",
    "started_by_events", "store_full", "store_unavailable", "store_unfit", "target_exists",
    "target_name_taken", "target_too_long", "token_expired", "too_deep", "too_large", "too_many_actions",
    "too_many_agent_calls", "too_many_calendars", "too_many_callbacks", "too_many_constraints",
    "too_many_definitions", "too_many_fireworq", "too_many_headers", "too_many_items", "too_many_logins",
    "too_many_matches", "too_many_namespaces", "too_many_nodes", "too_many_notices", "too_many_parts",
    "too_many_previews", "too_many_registrations", "too_many_sources", "too_many_streams", "too_many_targets",
    "too_many_tokens", "too_many_users", "trailing_bytes", "truncated", "unauthorized", "unchecked_argument",
    "unknown_action", "unknown_batch", "unknown_calendar", "unknown_challenge", "unknown_constraint",
    "unknown_contract", "unknown_definition", "unknown_delivery", "unknown_event", "unknown_failure_group",
    "unknown_incident", "unknown_job", "unknown_key_value", "unknown_method", "unknown_name",
    "unknown_namespace", "unknown_notice", "unknown_predecessor", "unknown_session", "unknown_slot_rule",
    "unknown_target", "unknown_token", "unknown_user", "unknown_worker", "unparsable", "unserved_name",
    "unsupported_media_type", "unsupported_transfer_encoding", "user_exists", "value_erased", "webhooks_off",
    "worker_detached", "wrong_password"
]
# Codes of status 503 that prove that the request had no effect. After any other 503, the request may have had an effect.
NO_EFFECT_CODES: Final[frozenset[ProblemCode]] = frozenset(
    {
        "durability_unavailable", "namespace_closed", "namespace_faulted", "namespace_moving",
        "namespace_starting", "overloaded", "store_full", "store_unavailable", "store_unfit",
        "too_many_streams"
    }
)  # fmt: skip


class ClaimRef(TypedDict):
    """A claim: a job and the token to settle it."""

    # UUID in lower case. Masters generate UUIDv7.
    job_id: str
    token: str


class ClaimRequest(TypedDict):
    """Poll of a worker without an address. Make one call at a time: a later call ends the previous
    call."""

    # True: withdraw the call with this `poll_id`. Jobs in its answer wait again.
    withdraw: NotRequired[bool]
    # Maximum number of jobs to take now. Required if `withdraw` is not true.
    max: NotRequired[int | None]
    # Seconds to wait for the first job: at most 60, and at least 0.25.
    wait: NotRequired[float]
    # ID of the call. The worker chooses a new ID for each call. If the answer was lost, repeat the call with
    # the same ID at any master to get the same jobs. A new ID confirms that the previous answers arrived.
    poll_id: NotRequired[str | None]
    # Jobs of earlier answers that the worker did not start and refuses. They wait again as if they had never
    # been claimed.
    refused: NotRequired[list[ClaimRef]]


class ClaimView(TypedDict):
    """A claim that the worker named."""

    # UUID in lower case. Masters generate UUIDv7.
    job_id: str
    token: str


class ContractRequest(TypedDict):
    """The contract of a job name, as the worker that runs these jobs declares it."""

    # Version of the contract, for people.
    version: NotRequired[str]
    # JSON Schema (draft 2020-12) of the argument, without references to other documents. Null: any argument.
    # The schema applies to a JSON form of the argument, with base64 text for binary, ISO 8601 text for
    # timestamps, and texts for map keys. Masters check the formats `byte`, `date`, `date-time`, `decimal`,
    # `duration`, `time` and `uuid`. Other formats are only informative.
    argument_schema: NotRequired[dict[str, Any] | None]
    # Default options of jobs with this name, for people and for forms.
    options: NotRequired[dict[str, Any]]


class Dispatch(TypedDict):
    """A job offered to a worker."""

    # UUID in lower case. Masters generate UUIDv7.
    job_id: str
    # Number of attempts so far, including this one.
    attempt: int
    # Right to settle this claim. Name it in heartbeats and results.
    token: str
    # Number that grows with every claim, even across failovers. Your database can use it to reject a late
    # writer.
    fence: int
    # Action to perform. `callback`: the attempt continues with the callbacks of its challenge. Only an
    # attempt that reported `challenged` gets this phase. Future releases may add phases.
    phase: Literal["run", "callback"]
    # Selects the handler.
    name: str
    # Argument as the pusher sent it.
    argument: Any
    # Maximum run time in seconds. End a longer run and report it as a timeout.
    timeout: float
    # Store time (Unix ms) after which the worker must refuse the offer as too_late.
    not_after_ms: int
    # Store time at which the first lease ends. An answered heartbeat that names the token extends it.
    lease_until_ms: int
    # Headers as the pusher sent them.
    headers: dict[str, str]
    # The last checkpoint that an earlier attempt saved. Omitted if there is none.
    checkpoint: NotRequired[Any | None]
    # The batch to which the job belongs, or that started the job. Omitted if there is none.
    batch: NotRequired[str | None]
    # The callback, in the phase `callback`.
    callback: NotRequired[OutsideCallback | None]
    # All callbacks, if the challenge expected several.
    callbacks: NotRequired[list[OutsideCallback] | None]
    # The predecessors of the job, in the order in which its push named them. Omitted if it has none.
    inputs: NotRequired[list[JobInput] | None]


class HeartbeatAnswer(TypedDict):
    """State of the named claims. Claims in neither `cancel` nor `lost` are renewed until
    `lease_until_ms`."""

    epoch: int
    store_time_ms: int
    # Newest fence of any claim at `store_time_ms`. If `store_time_ms` is impossibly early, the store's clock
    # was set back. In this case, refuse offers with this fence or a lower fence as `too_late`. If omitted: 0.
    fence: NotRequired[int]
    # New end of the renewed leases. If no lease was renewed, this equals `store_time_ms`, and the leases keep
    # their previous end.
    lease_until_ms: int
    # Heartbeat interval from now on. If omitted, it is unchanged.
    heartbeat_interval_s: NotRequired[float]
    # Duration of leases from now on. If omitted, it is unchanged.
    lease_s: NotRequired[float]
    # Claims of canceled jobs. Stop each job and report `canceled`, which frees its slot at once. Any other
    # result is answered `stale` and changes nothing.
    cancel: list[ClaimView]
    # Claims that are over. Stop each job and report nothing.
    lost: list[ClaimView]
    # True: finish the running jobs. No more will come.
    drain: bool
    # True: the worker was detached. Send up to `continue_questions` heartbeats with `asks_to_continue`,
    # `continue_pause_s` seconds apart. If no answer permits the worker to continue, stop all jobs and
    # register again.
    detached: bool
    # Number of jobs that the worker may run from now on. An operator may have changed this number. Finish the
    # running jobs even if they exceed it. If omitted, the registered number applies.
    max_jobs: NotRequired[int]
    # Maximum number of heartbeats with `asks_to_continue`. If omitted: 3.
    continue_questions: NotRequired[int]
    # Seconds between two heartbeats with `asks_to_continue`. If omitted: 0.3.
    continue_pause_s: NotRequired[float]
    # Invalid fields of the heartbeat, which were ignored, with their faults. Missing if there are none.
    ignored: NotRequired[list[ProblemField]]


class HeartbeatRequest(TypedDict):
    """Sign of life of a worker. It renews the leases of all tokens that it names, even if other fields
    are invalid. Invalid fields are ignored, and the answer names them in `ignored`."""

    # All claims for which no master has confirmed a result yet.
    running: list[ReportedClaim]
    # Number of further jobs that the worker would take. Only people see this number. Masters count the
    # worker's claims instead.
    free: int
    # Store time, rounded down, at which `running` was read. If an offer had ended by this time and is not in
    # `running`, the worker did not accept it. Its job then waits again without counting a loss. If this field
    # is omitted, the job waits again only when a heartbeat arrives more than a lease after the end of the
    # offer.
    as_of_ms: NotRequired[int]
    # Number of jobs that the worker can run at the same time from now on. Send it if it differs from the
    # registered number, for example because the worker shares its slots between namespaces. A number that an
    # operator has set is an upper bound. If omitted, the number is unchanged.
    max_jobs: NotRequired[int | None]
    # True: the previous answer was `detached`, and the worker asks to continue its jobs. An answer without
    # `detached` permits this.
    asks_to_continue: NotRequired[bool]
    # Proof of a running worker that its bearer token was replaced. Send it only after a 403 `foreign_worker`.
    # It is the hex HMAC-SHA256(secret, text). The text consists of `adopt`, the worker ID and the hex SHA-256
    # of the bearer token, joined by line feeds. The worker then belongs to the new token.
    proof: NotRequired[str | None]


class JobInput(TypedDict):
    """A predecessor of the job, and its result."""

    # UUID in lower case. Masters generate UUIDv7.
    job_id: str
    # State of the predecessor. Null: the predecessor was deleted.
    state: str | None
    # Result of the predecessor, as `GET /api/jobs/{job_id}/result` returns it. Null: `omitted` gives the
    # reason.
    result: Any
    # Reason why the result is not included. not_kept: there is no result. too_large: the results of all
    # predecessors share 1 MiB, and this result does not fit. Null: the result is included. Future releases
    # may add values.
    omitted: Literal["too_large", "not_kept"] | None


class OutsideCallback(TypedDict):
    """A callback of an outside system, as it was received."""

    content_type: str
    # Binary. In JSON: {"$bin": base64}.
    body: Any
    # Store time (Unix ms) at which the callback arrived.
    received_at_ms: int


class Problem(TypedDict):
    """RFC 9457; at most 4 KiB."""

    type: str
    title: str
    status: int
    detail: str
    # Stable code for programs. docs/errors.md describes all codes. Future releases may add codes. Treat an
    # unknown code according to the status.
    code: ProblemCode | str
    errors: list[ProblemField]
    # The job that holds the uniqueness key. Sent only with the codes not_unique and offer_under_way.
    job_id: NotRequired[str]
    # Position at which the part of the log in the store begins. Pass it as `after` to read that part without
    # the archive. Sent only with the code archive_unavailable, if the store still has part of the log.
    stored_after: NotRequired[int]


class ProblemField(TypedDict):
    """One invalid field: its path, and its fault."""

    loc: list[str | int]
    msg: str


class ProgressRequest(TypedDict):
    """Progress of a job, for people."""

    # Share of the work that is done, from 0 to 1. Null: unknown.
    fraction: NotRequired[float | None]
    message: NotRequired[str]


class PushAnswer(TypedDict):
    """The worker's answer to a push. Every job of the push is in one of the lists. If the worker has seen
    a token before, it accepts the job but does not start it again. Results follow later."""

    accepted: list[str]
    rejected: list[Rejected]


class RegisterAnswer(TypedDict):
    """Confirmation of a registration. From this time on, jobs may arrive, and the master expects
    heartbeats."""

    # ID of the worker. Valid until the worker unregisters or is forgotten.
    worker_id: str
    # Epoch of the newest leadership. 0 before the first election.
    epoch: int
    # Store time (Unix ms), the only clock for offers and leases.
    store_time_ms: int
    heartbeat_interval_s: float
    # Duration of a lease, counted from the last heartbeat that named the lease's token.
    lease_s: float


class RegisterRequest(TypedDict):
    """Registration of a worker."""

    # URL at which masters reach the worker. Null: the worker pulls. The field is required so that nobody
    # forgets it.
    url: str | None
    names: list[str]
    max_jobs: int
    node_id: NotRequired[str]
    pid: NotRequired[int]
    labels: NotRequired[dict[str, str]]
    version: NotRequired[str]
    # Secret that the worker chose. Its UTF-8 bytes are the key of all signatures. A worker that pulls must
    # also send a secret, although nothing is signed for it.
    secret: str
    # Name of the current boot of this machine. Send it only if the process holds a lock that every worker at
    # this `url` must hold. If the previous worker at the URL sent the same name, that worker must have ended,
    # so its jobs can run again at once. Otherwise, they can run again when their leases end.
    place: NotRequired[str]
    # Contracts of all or some of the names. Masters of release 0.2 refuse a registration with this field. In
    # that case, register without this field.
    contracts: NotRequired[dict[str, ContractRequest]]


class Rejected(TypedDict):
    """An offer that the worker refuses. The job was not started."""

    # UUID in lower case. Masters generate UUIDv7.
    job_id: str
    reason: Literal["busy", "unknown_name", "draining", "stale_epoch", "too_late", "duplicate"]
    # Seconds until the worker wants offers again.
    retry_after: NotRequired[float | None]


class ReportedClaim(TypedDict):
    """A claim with a lease to renew, and new information about the claim's job."""

    # UUID in lower case. Masters generate UUIDv7.
    job_id: str
    token: str
    progress: NotRequired[ProgressRequest | None]
    # Checkpoint: binary of at most 16 KiB, in JSON `{"$bin": base64}`. Any other value is stored as its
    # MessagePack encoding. The next attempt, on any worker, gets the binary in the field `checkpoint` of its
    # `Dispatch`, so that it can continue where this attempt stops. Masters do not interpret the binary.
    # `worker_sdk` writes MessagePack. If the heartbeat is answered, the checkpoint is saved, with these
    # exceptions: `cancel` or `lost` contains the claim, or `ignored` names the checkpoint.
    checkpoint: NotRequired[Any | None]
    # Number of this report. It must grow with each heartbeat that has `progress` or `checkpoint` of the
    # claim. A master that stood still may process a heartbeat long after the worker stopped waiting for the
    # answer. Such a report is ignored if a later report is already saved. If `seq` is omitted, the report
    # replaces any other report.
    seq: NotRequired[int | None]


class RunningClaim(TypedDict):
    """A claim with a result that no master has confirmed yet."""

    # UUID in lower case. Masters generate UUIDv7.
    job_id: str
    token: str


class StartRequest(TypedDict):
    """Accepted jobs that the worker wants to start, if their handlers need a confirmation first."""

    starts: list[ClaimRef]


class WorkerStatus(TypedDict):
    """Current state of the worker."""

    worker_id: str
    running: list[RunningClaim]
    free: int
    max_jobs: int
    names: list[str]
    draining: bool

