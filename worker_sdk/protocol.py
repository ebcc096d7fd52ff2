"""What travels between master, worker and pusher.

Generated from openapi/jqmaster.yaml and openapi/worker.yaml by `make spec`; changes are made there.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

ActionKind = Literal["cancel", "retry", "delete", "run", "set_priority"]
ActionState = Literal["running", "done", "canceled", "stopped", "failed"]
HistorySpan = Literal["1h", "3h", "6h", "24h", "7d", "30d"]
JobState = Literal["scheduled", "ready", "retrying", "running", "succeeded", "failed", "canceled", "skipped"]
Mode = Literal["enforce", "shadow"]
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


class AheadVerdict(TypedDict):
    """Jobs come before it: those that may start and, behind a closed gate, those that wait for the
    same."""

    code: Literal["ahead"]
    # A sentence for the person on call.
    text: str
    count: int
    bound: Literal["exact", "at_least", "about"]
    # Those of other names that the same workers take, by name.
    others: dict[str, int]


class AllMatcher(TypedDict):
    """Each of these matches."""

    all: list[Matcher]


class AnyMatcher(TypedDict):
    """One of these matches, or several."""

    any: list[Matcher]


class AppliedConstraintView(TypedDict):
    """A constraint that would apply to the job."""

    name: str
    mode: Literal["enforce", "shadow"]
    # What splits the constraint; null: one limit for all.
    key: str | None
    # The job's value of the key, for people.
    key_value: str | None
    # What holds at that value.
    limits: LimitsView
    # Waiting jobs; a push beyond gets 429.
    max_backlog: int | None


class AttemptView(TypedDict):
    """One start of the job; `outcome` null: it runs."""

    attempt: int
    worker_id: str
    started_at: str
    finished_at: str | None
    # success, failure, timeout, lost, canceled, deferred, handed_back or returned; more may come.
    outcome: str | None
    # Null also where the caller may not see it; `[redacted]` where nobody may.
    message: str | None
    # The type of the exception, as the worker's SDK named it; shown to everybody. Null: not known.
    error_type: str | None
    # Any value. In JSON, binary is {"$bin": base64}.
    error: Any


class AuditEntryView(TypedDict):
    """One event. `before` null: there was nothing; `after` null: nothing is left."""

    id: str
    # access: logins, sessions, tokens, users and the settings of access, which are kept apart from all other
    # changes.
    log: Literal["changes", "access"]
    at: str
    # How often it happened. Repeated logins, logouts and refused logins share an entry for an hour.
    times: int
    # The first of these times; `at` is the last.
    since: str
    # `user:NAME`; `token:ID`, or for a token of the settings the first 8 digits of its SHA-256; `local` where
    # neither users nor tokens exist; `master` and an ID where a master acted by itself; `unknown` for a
    # refused login that named no user.
    who: str
    # constraint.put, constraint.delete, constraint.value, master.demote, master.take_over, settings.change,
    # session.login, session.refused, session.logout; more may come.
    action: str
    # What was changed, such as the name of a constraint or the ID of a master.
    target: str
    before: Any
    after: Any


class AuditPage(TypedDict):
    """Newest first. A page may be short, even empty, while `next_cursor` says that there is more.  With
    `after`: the oldest first, and `next_cursor` is where the next call goes on, now or later."""

    entries: list[AuditEntryView]
    # Null: that was all.
    next_cursor: str | None
    # On the first page: the value of `after` that gives what is written from now on.
    follow_from: str | None


class Bucket(TypedDict):
    """Durations above the bound of the bucket before and up to `le_ms`."""

    # Null: without a bound.
    le_ms: int | None
    count: int


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


class ClaimAnswer(TypedDict):
    """Jobs for a worker that asked for them: taken with this answer, unless the next call refuses
    them."""

    # Of the newest leadership; jobs under one that is older than any seen are not to be started.
    epoch: int
    store_time_ms: int
    # None: the wait is over, or the worker is to drain.
    jobs: list[Dispatch]
    # Finish what runs; no more will come.
    drain: bool


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


class Condition(TypedDict):
    """One field compares so with a value."""

    # name, priority, tags, max_retry, timeout, keep_result, headers, argument; headers.KEY;
    # argument.a.b[0]["any key"], 16 steps at most.
    field: str
    op: Literal["eq", "ne", "in", "lt", "le", "gt", "ge", "glob", "exists"]
    # A scalar of at most 1024 characters or bytes; for `in` 1 to 1000 of them; for `exists` a boolean (true).
    # glob knows *, ? and [abc].
    value: NotRequired[Any]


class ConstraintDetail(TypedDict):
    """A constraint, and what it does now."""

    name: str
    enabled: bool
    mode: Mode
    matcher: Matcher
    key: str | None
    concurrency: int | None
    rate: RateView | None
    paused: bool
    max_backlog: int | None
    fair: bool
    overrides: list[OverrideView]
    # True: the values of the key are not shown to the caller; in their place stands `[hidden]`, or
    # `[redacted]` where nobody sees them. So do constants that the matcher compares with such values. A
    # constraint that is sent back with them keeps what they stand for.
    values_hidden: bool
    # Changes with every change; the ETag header has it in quotes.
    etag: str
    created_at: str
    changed_at: str
    usage: UsageView
    # A worker asked for it; without a key.
    held_until: str | None
    # Values with the most waiting jobs, up to 20.
    top_keys: list[KeyUsageView]
    # The one that was asked for.
    value: KeyUsageView | None
    # Up to 50; of the value that was asked for, or of all.
    holders: list[HolderView]


class ConstraintList(TypedDict):
    """All constraints, by name."""

    constraints: list[ListedConstraint]


class ConstraintRequest(TypedDict):
    """The whole constraint: what is left out has its default, also when one is changed. Several kinds may
    be given at once, and all must admit a job, as must all constraints that match it."""

    # If given, as in the path.
    name: NotRequired[str | None]
    enabled: NotRequired[bool]
    # shadow: count what would be delayed, and delay nothing.
    mode: NotRequired[Literal["enforce", "shadow"]]
    # Which jobs.
    matcher: Matcher
    key: NotRequired[str | None]
    concurrency: NotRequired[int | None]
    rate: NotRequired[RateRequest | None]
    # True: nothing starts; what runs goes on.
    paused: NotRequired[bool | None]
    max_backlog: NotRequired[int | None]
    # Within a priority the values of the key take turns.
    fair: NotRequired[bool]
    overrides: NotRequired[list[OverrideRequest]]


class ConstraintVerdict(TypedDict):
    """A constraint that lets nothing start now at the job's key value."""

    code: Literal["constraint"]
    # A sentence for the person on call.
    text: str
    name: str
    # The most lasting of `kinds`.
    kind: Literal["paused", "hold", "concurrency", "rate"]
    kinds: list[Literal["paused", "hold", "concurrency", "rate"]]
    key: str | None
    key_value: str | None
    # Of this kind; null for a pause and a hold.
    limit: int | None
    # What is taken of `limit`.
    usage: int | None
    # Of a rate.
    period_s: float | None
    waiting: int
    # Up to ten, those first that run longest.
    holders: list[WhyHolder]
    # Not before; null where no clock decides.
    opens_at: str | None
    is_value_override: bool


class ConstraintView(TypedDict):
    """A constraint."""

    name: str
    enabled: bool
    mode: Mode
    matcher: Matcher
    key: str | None
    concurrency: int | None
    rate: RateView | None
    paused: bool
    max_backlog: int | None
    fair: bool
    overrides: list[OverrideView]
    # True: the values of the key are not shown to the caller; in their place stands `[hidden]`, or
    # `[redacted]` where nobody sees them. So do constants that the matcher compares with such values. A
    # constraint that is sent back with them keeps what they stand for.
    values_hidden: bool
    # Changes with every change; the ETag header has it in quotes.
    etag: str
    created_at: str
    changed_at: str


class DeferredItem(TypedDict):
    """The handler wants to be asked again later; no retry is consumed."""

    # UUIDv7
    job_id: str
    token: str
    finished_at: str
    type: Literal["deferred"]
    # Seconds.
    retry_after: float
    # Until then no other job passes this constraint either, or this value of its key.
    hold: NotRequired[HoldRequest | None]


class DemoteAnswer(TypedDict):
    """The leader was told; the others elect as soon as it has ended its work, in less than a second as a
    rule."""

    id: str
    # Of the leadership that ends.
    epoch: int


class DetachOrder(TypedDict):
    """The worker was cut off: a heartbeat now will say so."""

    epoch: NotRequired[int | None]


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


class Distribution(TypedDict):
    """Durations, estimated from buckets that double in two steps."""

    count: int
    p50_ms: int
    p95_ms: int
    p99_ms: int
    # Exact.
    max_ms: int


class DrainOrder(TypedDict):
    """Take no more jobs, finish those that run."""

    epoch: NotRequired[int | None]


class DueVerdict(TypedDict):
    """It waits for its time, or for its retry."""

    code: Literal["scheduled", "retrying"]
    # A sentence for the person on call.
    text: str
    due_at: str
    # Negative where the instant is past and the leader is about to act.
    in_s: float
    failures: int


class EnqueueAnswer(TypedDict):
    """The job is durable."""

    # UUIDv7
    id: str


class ExpiredVerdict(TypedDict):
    """Its `expires_at` is past; it is about to be skipped."""

    code: Literal["expired"]
    # A sentence for the person on call.
    text: str
    expires_at: str


class FailureGroup(TypedDict):
    """Jobs that failed for good, of one name and cause, whose messages differ in numbers, IDs and the
    like only."""

    # For the filter `failure_group` of jobs, which a caller without the right to content cannot use: to them
    # a group is all failures of one name, cause and type.
    id: str
    name: str
    # error, timeout, undecodable or lost.
    cause: str
    # With placeholders for what varies; `[hidden]` where the caller may not see it, `[redacted]` where nobody
    # may.
    message: str
    # True: one of these stands in place of the message.
    message_hidden: bool
    # The type of the exception, of the latest of its jobs; shown to everybody. Null: not known.
    error_type: str | None
    # Jobs that failed for good since the group is kept; attempts that were retried do not count.
    count: int
    first_seen_at: str
    last_seen_at: str
    # One of the latest; it may be deleted by now.
    example_job_id: str | None


class FailureItem(TypedDict):
    """The handler failed, or ran longer than its timeout; or the job could not be decoded."""

    # UUIDv7
    job_id: str
    token: str
    finished_at: str
    type: Literal["failure"]
    # undecodable: the worker could not decode the job; it is not retried.
    reason: Literal["other", "timeout", "undecodable"]
    # False ends the job at once.
    should_retry: bool
    # Any value. In JSON, binary is {"$bin": base64}.
    error: NotRequired[Any]
    # For people.
    message: NotRequired[str]
    # Seconds; may lengthen the wait before the next attempt.
    retry_after: NotRequired[float | None]


class FailureList(TypedDict):
    """A page of groups, the latest first."""

    groups: list[FailureGroup]
    # For the next page of the same query; null: this is the last.
    next_cursor: str | None


class FailureView(TypedDict):
    """The job failed for good."""

    type: Literal["failure"]
    finished_at: str
    reason: Literal["other", "timeout", "undecodable"]
    should_retry: bool
    message: str
    # Any value. In JSON, binary is {"$bin": base64}.
    error: Any


class FinishedVerdict(TypedDict):
    """It is over."""

    code: Literal["finished"]
    # A sentence for the person on call.
    text: str
    state: JobState
    cause: str | None
    finished_at: str


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
    # Of this process, as in the list of masters; another one after a restart.
    id: str


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


class HeldJob(TypedDict):
    """A job that a worker runs, or was offered."""

    # UUIDv7
    job_id: str
    name: str
    attempt: int
    started_at: str


class HoldRequest(TypedDict):
    """Which gate to hold. One that does not exist holds nothing, and the deferral counts all the same."""

    # Name of the constraint.
    constraint: str
    # The value of its key, null too; absent for a constraint without a key.
    key: NotRequired[Any]


class HolderView(TypedDict):
    """A running job that has a slot."""

    # UUIDv7
    job_id: str
    worker_id: str
    since: str
    # Of the key, for people; null without a key.
    value: str | None


class IndexMissingVerdict(TypedDict):
    """It is ready, and the store's index does not lead to it; the leader repairs that."""

    code: Literal["index_missing"]
    # A sentence for the person on call.
    text: str
    # What is wrong with the lane that it lies in.
    fault: str


class JobActionList(TypedDict):
    """Those that are under way or ended in the last 7 days, 200 at most."""

    # Newest first.
    actions: list[JobActionView]


class JobActionPreview(TypedDict):
    """What an action would touch now."""

    count: int
    # False: there are at least so many; counting all of them takes too long.
    is_exact: bool
    # Up to 5 of them.
    examples: list[JobSummary]


class JobActionRequest(TypedDict):
    """Something to be done with many jobs, by `filter` or by `ids`."""

    action: ActionKind
    filter: NotRequired[JobFilterRequest | None]
    ids: NotRequired[list[str] | None]
    # The new priority, for set_priority only. The lowest number runs first.
    priority: NotRequired[int | None]
    # Only tell how many jobs it would touch now, and change nothing.
    dry_run: NotRequired[bool]
    # At most so many jobs a second.
    rate_per_s: NotRequired[float | None]
    # Of retry: end by itself when of the retried jobs that have ended since more than this share failed
    # again; counted from 20 on, at their first attempt. No more than 200 of its jobs are under way at a time
    # then.
    stop_at_failure_share: NotRequired[float | None]


class JobActionView(TypedDict):
    """An action on many jobs. It touches jobs that were created before it and are in a state that admits
    it."""

    id: str
    action: ActionKind
    filter: JobFilterView | None
    # How many IDs were given; null: by filter.
    ids_count: int | None
    priority: int | None
    rate_per_s: float | None
    stop_at_failure_share: float | None
    # stopped: too many of the retried jobs failed again. failed: it could not go on.
    state: ActionState
    # How many jobs were selected when it began; null where that takes too long to count. At its end: how many
    # it met.
    matched: int | None
    looked_at: int
    done: int
    # They were gone, or in another state by the time.
    refused: int
    # Of a retry with stop_at_failure_share: how many are known to have failed again.
    failed_again: int | None
    # Who asked for it, as the audit log names them.
    by: str
    created_at: str
    finished_at: str | None
    message: str | None


class JobEvent(TypedDict):
    """What happened while an attempt ran, and did not end it."""

    at: str
    # continued: its worker was detached for its silence, came back and went on; more may come.
    event: str
    attempt: int
    worker_id: str
    message: str | None


class JobFilterRequest(TypedDict):
    """All that are given must hold; the same as the parameters of the list of jobs. Empty: every job."""

    state: NotRequired[JobState | None]
    # The exact name.
    name: NotRequired[str | None]
    tag: NotRequired[str | None]
    # ID of the worker of the latest attempt.
    worker: NotRequired[str | None]
    # Part of the ID or name.
    q: NotRequired[str | None]
    # Why it ended.
    cause: NotRequired[Literal["error", "timeout", "lost", "expired", "canceled", "undecodable"] | None]
    created_after: NotRequired[str | None]
    created_before: NotRequired[str | None]
    finished_after: NotRequired[str | None]
    finished_before: NotRequired[str | None]
    # Part of the message of the last error.
    text: NotRequired[str | None]
    failure_group: NotRequired[str | None]


class JobFilterView(TypedDict):
    """What was given of a filter; null: not asked for."""

    state: JobState | None
    name: str | None
    tag: str | None
    worker: str | None
    q: str | None
    cause: str | None
    created_after: str | None
    created_before: str | None
    finished_after: str | None
    finished_before: str | None
    text: str | None
    failure_group: str | None


class JobPage(TypedDict):
    """A page may be short, even empty, while `next_cursor` says that there is more."""

    jobs: list[JobSummary]
    # Null: that was all.
    next_cursor: str | None
    # Of all jobs, whatever the filters.
    counts: dict[str, int]


class JobPreview(TypedDict):
    """The job is valid."""

    constraints: list[AppliedConstraintView]


class JobRequest(TypedDict):
    """A job to be enqueued."""

    # The kind of job; it selects the handler.
    name: str
    # Any value. In JSON, binary is {"$bin": base64}.
    argument: NotRequired[Any]
    # The lowest number runs first.
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
    # Why it ended: error, timeout, undecodable, lost, expired, canceled.
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
    # Why it ended: error, timeout, undecodable, lost, expired, canceled.
    cause: str | None
    # Of the latest attempt.
    worker_id: str | None
    tags: list[str]
    attempts: list[AttemptView]
    events: list[JobEvent]
    headers: dict[str, str]
    # As it was sent; null where it is too large to show: see argument_bytes. A caller without scope read gets
    # null, and no attempts, events and headers.
    argument: Any
    argument_bytes: int
    # True: the caller may not see what jobs carry; argument, headers and the values and texts of errors are
    # left out.
    argument_hidden: bool
    # True: `[redacted]` stands in place of parts of the argument. A copy of it is not the argument.
    argument_redacted: bool
    # The same of the headers.
    headers_redacted: bool
    # A result is kept.
    has_result: bool
    # What the route of the result answers, without fetching it: its life goes on. Null where none is kept, it
    # is hidden, or too large to show.
    result: Any
    # True: there is a result, and the caller may not see it.
    result_hidden: bool
    # Names of the enabled constraints that apply to the job; empty when it is over.
    constraints: list[str]


class KeyCount(TypedDict):
    """Waiting jobs with one value of the key."""

    value: str
    count: int


class KeyUsageView(TypedDict):
    """One value of the key."""

    # For people: text as it is unless it could be read as another value, else JSON; binary as 0x…; of at most
    # 128 characters.
    value: str
    waiting: int
    running: int | None
    starts_in_window: int | None
    limits: LimitsView
    # A worker asked for it.
    held_until: str | None
    next_opening: str | None
    # A job could start now, as far as this constraint goes.
    is_open: bool


class LimitsView(TypedDict):
    """What holds for one value."""

    concurrency: int | None
    rate: RateView | None
    paused: bool


class ListedConstraint(TypedDict):
    """A constraint as lists show it."""

    name: str
    enabled: bool
    mode: Mode
    matcher: Matcher
    key: str | None
    concurrency: int | None
    rate: RateView | None
    paused: bool
    max_backlog: int | None
    fair: bool
    overrides: list[OverrideView]
    # True: the values of the key are not shown to the caller; in their place stands `[hidden]`, or
    # `[redacted]` where nobody sees them. So do constants that the matcher compares with such values. A
    # constraint that is sent back with them keeps what they stand for.
    values_hidden: bool
    # Changes with every change; the ETag header has it in quotes.
    etag: str
    created_at: str
    changed_at: str
    usage: UsageView


class LoginRequest(TypedDict):
    """A user with a password, or a token."""

    user: NotRequired[str | None]
    password: NotRequired[str | None]
    token: NotRequired[str | None]


class MasterList(TypedDict):
    """The masters of the store; one that died is listed for a minute."""

    # The longest running first.
    masters: list[MasterView]
    # Of the newest leadership; 0 before the first.
    epoch: int


class MasterView(TypedDict):
    """A master process."""

    # Made at its start.
    id: str
    # The leader dispatches; the sub-leader watches it and is the next; all serve the whole API.
    role: Literal["leader", "sub_leader", "follower"]
    # Stale: no sign of life lately.
    state: Literal["fresh", "stale"]
    # The machine, by the setting node_id or its host name.
    node_id: str
    pid: int
    # Where other masters reach it.
    url: str
    version: str
    started_at: str
    last_seen_at: str


class NameDetail(TypedDict):
    """One name over a span, with its histograms; empty buckets are left out."""

    pushed: int
    succeeded: int
    # For good.
    failed: int
    canceled: int
    skipped: int
    # Attempts that failed or were lost, and whose job goes on.
    retried: int
    # From when a job became ready to when it was claimed, of each attempt; null: there was none.
    wait: Distribution | None
    # Of each attempt that ended by itself; null: there was none.
    run: Distribution | None
    # `(other)` stands for all names beyond the bound of those that are told apart.
    name: str
    # Now.
    ready: int
    # Of the jobs that succeeded or failed for good; null where none did.
    success_share: float | None
    # Something was counted, within some seconds.
    last_seen_at: str | None
    wait_histogram: list[Bucket]
    run_histogram: list[Bucket]
    span: HistorySpan


class NameList(TypedDict):
    """A page of names."""

    names: list[NameStats]
    # For the next page of the same query; null: this is the last.
    next_cursor: str | None
    span: HistorySpan


class NameStats(TypedDict):
    """One name over a span."""

    pushed: int
    succeeded: int
    # For good.
    failed: int
    canceled: int
    skipped: int
    # Attempts that failed or were lost, and whose job goes on.
    retried: int
    # From when a job became ready to when it was claimed, of each attempt; null: there was none.
    wait: Distribution | None
    # Of each attempt that ended by itself; null: there was none.
    run: Distribution | None
    # `(other)` stands for all names beyond the bound of those that are told apart.
    name: str
    # Now.
    ready: int
    # Of the jobs that succeeded or failed for good; null where none did.
    success_share: float | None
    # Something was counted, within some seconds.
    last_seen_at: str | None


class NewTokenView(TypedDict):
    """A token that was just made."""

    id: str
    label: str
    scopes: list[Literal["push", "work", "read", "operate", "admin"]]
    # Patterns of the names that it may push and work; empty: all.
    names: list[str]
    created_at: str
    created_by: str
    expires_at: str | None
    # Written once a minute.
    last_used_at: str | None
    # Shown this once.
    token: str


class NextVerdict(TypedDict):
    """The first free slot of its workers takes it."""

    code: Literal["next"]
    # A sentence for the person on call.
    text: str


class NoLeaderVerdict(TypedDict):
    """Nobody dispatches."""

    code: Literal["no_leader"]
    # A sentence for the person on call.
    text: str


class NoWorkerVerdict(TypedDict):
    """No live worker is registered for the name."""

    code: Literal["no_worker"]
    # A sentence for the person on call.
    text: str
    name: str
    # Silent ones that know the name.
    stale: int
    detached: int
    last_seen_at: str | None


# This does not match.
NotMatcher = TypedDict("NotMatcher", {"not": "Matcher"})


class OverrideRequest(TypedDict):
    """Other limits for one value of the key; null: as the constraint has it. `paused` adds to its
    pause."""

    # A value of the key: null, a boolean, a number, text or binary.
    value: Any
    concurrency: NotRequired[int | None]
    rate: NotRequired[RateRequest | None]
    paused: NotRequired[bool]


class OverrideView(TypedDict):
    """Other limits for one value of the key; null: as the constraint has it."""

    # A value of the key: null, a boolean, a number, text or binary.
    value: Any
    concurrency: int | None
    rate: RateView | None
    paused: bool


class OwnPasswordRequest(TypedDict):
    """Users change their own password."""

    old_password: str
    # At least 12 characters, and not one of those that are guessed first.
    new_password: str


class OwnSessionList(TypedDict):
    """The newest first."""

    sessions: list[OwnSessionView]


class OwnSessionView(TypedDict):
    """A login of the one who asks."""

    id: str
    # The one that asks.
    is_current: bool
    # Null: a master of an earlier release opened it.
    opened_at: str | None
    # To the minute or so.
    last_used_at: str
    expires_at: str
    # Where the login came from; empty where it is not known.
    address: str


class PatchRequest(TypedDict):
    """What to change in a waiting job; null, like nothing, leaves a field as it is."""

    priority: NotRequired[int | None]
    run_at: NotRequired[str | None]
    max_retry: NotRequired[int | None]
    timeout: NotRequired[float | None]


class PreviewAnswer(TypedDict):
    """The waiting jobs that a constraint would apply to."""

    count: int
    # Jobs that match and lack the key, so that it would not apply to them.
    without_key: int
    # Jobs that had to be read one by one.
    looked_at: int
    # False: there were more jobs than could be read in bounds.
    is_exact: bool
    examples: list[JobSummary]
    # The most frequent values of the key, up to 20.
    keys: list[KeyCount] | None
    distinct_keys: int | None


class PreviewRequest(TypedDict):
    """Which waiting jobs would a constraint apply to?"""

    matcher: Matcher
    key: NotRequired[str | None]
    # Most examples.
    limit: NotRequired[int]


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


class PushRequest(TypedDict):
    """Jobs that are offered in one call."""

    worker_id: str
    # Of the leader that sends; one that is older than any seen is refused as stale_epoch.
    epoch: int
    store_time_ms: int
    jobs: list[Dispatch]


class RateRequest(TypedDict):
    """At most `limit` starts in any window of `period_s` seconds."""

    # Starts.
    limit: int
    # Seconds.
    period_s: float


class RateView(TypedDict):
    """At most `limit` starts in any window of `period_s` seconds."""

    limit: int
    period_s: float


class Readiness(TypedDict):
    """Whether this master makes progress."""

    status: Literal["ready", "not_ready"]
    # What a 201 promises here: the configured level, or less while the store does not give it.
    durability: Literal["besteffort", "fsync", "fsync+quorum"]
    # The most that the store gives, as last probed: what a push may ask for.
    durability_available: Literal["besteffort", "fsync", "fsync+quorum"]
    # Whether this master leads.
    leader: bool
    # `serving`, or what is wrong with it; without scope read `not serving` says no more.
    store: str
    # What is in the way; without scope read only the names of the checks that failed: process, space,
    # fitness, durability, leader, store, dispatcher; more may come.
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


class ResultsAnswer(TypedDict):
    """`accepted`: counts, or did already. `stale`: the token is no longer the right to settle; nothing
    changed."""

    accepted: list[str]
    stale: list[str]


class ResultsRequest(TypedDict):
    """Repeat it until it is answered; everything that is answered is done with."""

    results: list[ResultItem]


class ResumeOrder(TypedDict):
    """Take jobs again."""

    epoch: NotRequired[int | None]


class RetryRequest(TypedDict):
    """Wait before the n-th retry: min(max_s, base_s · factor^(n−1)), with full jitter."""

    base_s: NotRequired[float]
    factor: NotRequired[float]
    max_s: NotRequired[float]
    jitter: NotRequired[bool]


class RotateRequest(TypedDict):
    """The old token holds for `overlap_s` more."""

    overlap_s: NotRequired[float]


class RulesChangingVerdict(TypedDict):
    """The constraints were changed a moment ago; this job is not yet under the new ones."""

    code: Literal["rules_changing"]
    # A sentence for the person on call.
    text: str
    edition: int
    # In force.
    settled_edition: int
    # Under which the job was matched; -1: unknown.
    lane_edition: int


class RunningClaim(TypedDict):
    """A claim whose result no master has answered yet."""

    # UUIDv7
    job_id: str
    token: str


class RunningVerdict(TypedDict):
    """It runs, or was at least offered."""

    code: Literal["running"]
    # A sentence for the person on call.
    text: str
    # UUIDv7
    worker_id: str
    attempt: int
    since: str
    # The master ends the attempt by then.
    deadline: str
    # Unless the worker renews it.
    lease_until: str | None
    # A heartbeat of the worker named it.
    confirmed: bool
    # Null: the worker is not registered any more.
    worker_last_seen_at: str | None


class SessionView(TypedDict):
    """Who the caller is. Nobody: `who`, `role` and `method` are null."""

    # As the audit log names the caller.
    who: str | None
    # The most that the scopes amount to; null where they do not include read.
    role: Literal["viewer", "operator", "admin"] | None
    scopes: list[Literal["push", "work", "read", "operate", "admin"]]
    # local: no token and no user exists, and the caller is on this machine.
    method: Literal["local", "token", "session"] | None
    # To be sent as X-CSRF-Token with what a session changes.
    csrf_token: str | None
    # When the session ends at the latest.
    expires_at: str | None
    # There are users; otherwise only tokens log in.
    login_by_user: bool


class SettingView(TypedDict):
    """One setting and what it does."""

    key: str
    group: str
    label: str
    # One sentence, or two.
    effect: str
    type: Literal["integer", "number", "boolean", "text", "list", "choice"]
    # ms, s or bytes.
    unit: str | None
    # In force at this master; null where it is secret, or where there is none.
    value: Any
    default: Any
    # A `gt` bound is told as this too.
    minimum: float | None
    maximum: float | None
    choices: list[str] | None
    # It can be changed here; others are read when a master starts.
    is_runtime: bool
    is_secret: bool
    # True: it is not shown to a caller who may only look.
    is_hidden: bool
    # What a caller needs to change it at run time; null: nobody can.
    change_scope: Literal["operate", "admin"] | None
    # Where its value is from.
    source: Literal["default", "configured", "runtime"]


class SettingsAnswer(TypedDict):
    """All settings, those of a group together."""

    settings: list[SettingView]
    # Of what was changed at run time; 0: nothing was.
    version: int


class SettingsRequest(TypedDict):
    """What is to change; null: back to what is configured. Leave out what is to stay."""

    # Life of a lease. Each heartbeat renews it.
    lease_ms: NotRequired[int | None]
    # Time in which a worker may accept a pushed job.
    offer_ms: NotRequired[int | None]
    # Interval between a worker's heartbeats.
    heartbeat_interval_s: NotRequired[float | None]
    # Timeout of a worker's answer to a push.
    push_timeout_s: NotRequired[float | None]
    # Most jobs in one push to a worker.
    max_push_jobs: NotRequired[int | None]
    # Time after a run's timeout at which the master ends the run itself.
    timeout_grace_s: NotRequired[float | None]
    # A job fails with cause `lost` when this many workers have been lost while running it.
    max_losses: NotRequired[int | None]
    # Before its last attempt, a job under which workers were lost waits up to this long for an idle worker
    # that runs nothing else. After that it runs beside other jobs.
    alone_wait_s: NotRequired[float | None]
    # A worker that sends no heartbeat for this long gets no new jobs.
    worker_stale_s: NotRequired[float | None]
    # Timeout of a ping. Only workers whose heartbeats stop are pinged.
    ping_timeout_s: NotRequired[float | None]
    # Missed pings in a row, one per second, after which a silent worker is detached.
    max_missed_pings: NotRequired[int | None]
    # If more than this share of the fresh workers falls silent within `worker_stale_s`, no job is reclaimed
    # and no worker detached for a grace period.
    crowd_share: NotRequired[float | None]
    # Fewest silent workers that can start the grace period of `crowd_share`.
    crowd_least: NotRequired[int | None]
    # A worker that is silent for this long and holds no jobs is forgotten.
    worker_forget_s: NotRequired[float | None]
    # Life of the leader's lock. The leader renews it three times in that period.
    leader_ttl_s: NotRequired[float | None]
    # How long to keep succeeded, canceled and skipped jobs.
    retention_succeeded_s: NotRequired[float | None]
    # Most jobs to keep in each of the states succeeded, canceled and skipped.
    retention_succeeded_max: NotRequired[int | None]
    # How long to keep failed jobs.
    retention_failed_s: NotRequired[float | None]
    # Most failed jobs to keep. The oldest are removed first.
    retention_failed_max: NotRequired[int | None]
    # How long to keep a result that nobody fetches.
    result_ttl_s: NotRequired[float | None]
    # How long a result can be fetched again after it was fetched.
    result_grace_s: NotRequired[float | None]
    # Largest request body.
    max_body_bytes: NotRequired[int | None]
    # Largest encoded argument of a job.
    max_argument_bytes: NotRequired[int | None]
    # Largest encoded result or error of a job.
    max_result_bytes: NotRequired[int | None]
    # Deepest nesting of a value.
    max_nesting: NotRequired[int | None]
    # Most values inside one argument or result.
    max_argument_nodes: NotRequired[int | None]
    # Most jobs in one bulk enqueue.
    max_bulk_jobs: NotRequired[int | None]
    # Largest request line and headers together.
    max_header_bytes: NotRequired[int | None]
    # Most header lines of a request.
    max_header_count: NotRequired[int | None]
    # Most connections served at once, and at most half of the allowed file descriptors. Further connections
    # get 503.
    max_connections: NotRequired[int | None]
    # Share of `max_connections` for connections that have not yet presented a valid credential. Beyond it,
    # the one that has been idle longest is closed.
    unproven_share: NotRequired[float | None]
    # Share of `max_connections` that one address may hold. An IPv6 /64 counts as one address; connections of
    # workers do not count. Further connections get 503. Addresses in `trusted_proxies` are exempt.
    address_share: NotRequired[float | None]
    # Most bytes of push bodies that a master process holds at once. Further pushes get 503 with Retry-After.
    max_intake_bytes: NotRequired[int | None]
    # Most dashboards that one process serves with live events at once. Further ones get 503.
    max_streams: NotRequired[int | None]
    # Constraint previews allowed per caller and minute. Further ones get 429.
    previews_per_minute: NotRequired[int | None]
    # Time in which a request must arrive, plus 1 s per 64 KiB of body. Otherwise it gets 408.
    receipt_deadline_s: NotRequired[float | None]
    # A client that reads nothing for this long is disconnected.
    write_deadline_s: NotRequired[float | None]
    # Show job content to callers that have only scope read (role viewer): arguments, headers, results, error
    # values and messages, and the values of constraint keys.
    viewers_see_content: NotRequired[bool | None]
    # Parts of job content that no view shows to anyone: `argument.password`, `result.*.token`,
    # `argument.**.pin`, `error.message`, `headers.authorization`. Workers, and clients that fetch a result,
    # still receive everything.
    redact_paths: NotRequired[list[str] | None]
    # Longest life of a login session.
    session_life_s: NotRequired[float | None]
    # A login session ends after this long without use.
    session_idle_s: NotRequired[float | None]
    # Failed logins allowed per user and minute; three times as many are allowed per address. Further attempts
    # get 429. Browsers in which the user has logged in before are counted separately.
    login_attempts_per_minute: NotRequired[int | None]
    # Worker registrations per caller (token and address) and minute that may fail to prove their address.
    # Further ones get 429.
    failed_registrations_per_minute: NotRequired[int | None]
    # Lowest level to log.
    log_level: NotRequired[Literal["debug", "info", "warning", "error"] | None]


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


class Stats(TypedDict):
    """The present state, a second old at most."""

    at: str
    # All jobs by state.
    counts: dict[str, int]
    # Age of the ready job that waits for longest, as far as a bounded look tells; null: none waits.
    oldest_wait_ms: int | None
    rates: StatsRates
    workers: StatsWorkers
    masters: StatsMasters
    store: StatsStore


class StatsHistory(TypedDict):
    """What was counted, step by step, the oldest first. The last step is not over yet."""

    # Null: of all jobs.
    name: str | None
    span: HistorySpan
    # 60 up to 24h, 3600 beyond.
    step_s: int
    points: list[StatsPoint]


class StatsMasters(TypedDict):
    """Masters by state."""

    fresh: int
    stale: int
    # Null: none leads.
    leader_id: str | None
    # Growing part of the newest epoch; 0 before the first election.
    epoch: int


class StatsPoint(TypedDict):
    """One minute or hour."""

    pushed: int
    succeeded: int
    # For good.
    failed: int
    canceled: int
    skipped: int
    # Attempts that failed or were lost, and whose job goes on.
    retried: int
    # From when a job became ready to when it was claimed, of each attempt; null: there was none.
    wait: Distribution | None
    # Of each attempt that ended by itself; null: there was none.
    run: Distribution | None
    # When it began.
    at: str
    # The most ready jobs that the leader saw; null: nobody looked.
    backlog: int | None
    # The longest that it saw one wait.
    oldest_wait_ms: int | None


class StatsRates(TypedDict):
    """What happened within the last minute, per second."""

    # Per second, over the last minute, of all masters.
    pushed: float
    # Per second, over the last minute, of all masters.
    succeeded: float
    # For good.
    failed: float
    # Per second, over the last minute, of all masters.
    canceled: float
    # Per second, over the last minute, of all masters.
    skipped: float
    # Attempts that failed or were lost, and whose job goes on.
    retried: float


class StatsStore(TypedDict):
    """The store."""

    # Kind and version.
    server: str
    # What is kept of the configured level.
    durability: Literal["besteffort", "fsync", "fsync+quorum"]
    durability_available: Literal["besteffort", "fsync", "fsync+quorum"]
    used_memory_bytes: int
    # Null: no limit is set.
    max_memory_bytes: int | None
    # Of one call, from this master and back.
    latency_ms: float | None
    # Why new jobs are refused at present; empty: they are not.
    faults: list[str]


class StatsWorkers(TypedDict):
    """Workers by state; each counts once."""

    fresh: int
    # Silent for a while.
    stale: int
    draining: int
    detached: int
    # Slots of the fresh ones.
    max_jobs: int
    # Jobs that workers hold.
    busy: int


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


class TokenList(TypedDict):
    """The newest first. Those of the settings are not among them."""

    tokens: list[TokenView]


class TokenRequest(TypedDict):
    """A new token. Without an end it holds until it is revoked."""

    # For people: what uses it.
    label: str
    scopes: list[Literal["push", "work", "read", "operate", "admin"]]
    # Only with no other scopes than push and work: patterns (*, ?, [abc]) of the names of jobs that it may
    # push, cancel and have the results of, and that workers may register for with it.
    names: NotRequired[list[str]]
    expires_at: NotRequired[str | None]
    # Instead of expires_at.
    ttl_s: NotRequired[float | None]


class TokenView(TypedDict):
    """A token; what opens is not kept."""

    id: str
    label: str
    scopes: list[Literal["push", "work", "read", "operate", "admin"]]
    # Patterns of the names that it may push and work; empty: all.
    names: list[str]
    created_at: str
    created_by: str
    expires_at: str | None
    # Written once a minute.
    last_used_at: str | None


class UsageView(TypedDict):
    """What the constraint does now. Null: nothing counts it; or, in a list where constraints have more
    than 1,000 values of keys together, not summed up, and `is_exact` is false."""

    # Unfinished jobs behind it that do not run, due or not.
    waiting: int | None
    # Jobs that have a slot; null without `concurrency`.
    running: int | None
    # Null without `rate`.
    starts_in_window: int | None
    # Starts that a shadow constraint would have delayed so far.
    shadow_delayed: int
    # When the first of its closed gates opens by time alone; null where none does.
    next_opening: str | None
    # Every job has been matched with the constraint as it is.
    in_force: bool
    # Values of the key that unfinished jobs have; null without a key.
    keys: int | None
    # False: there are more values than were looked at.
    is_exact: bool


class UserList(TypedDict):
    """All users, by name."""

    users: list[UserView]


class UserPatch(TypedDict):
    """What is left out stays. Any change ends the user's sessions."""

    role: NotRequired[Literal["viewer", "operator", "admin"] | None]
    password: NotRequired[str | None]
    is_disabled: NotRequired[bool | None]


class UserRequest(TypedDict):
    """A new user."""

    name: str
    # At least 12 characters, and not one of those that are guessed first.
    password: str
    role: Literal["viewer", "operator", "admin"]


class UserView(TypedDict):
    """A user."""

    name: str
    role: Literal["viewer", "operator", "admin"]
    created_at: str
    last_login_at: str | None
    is_disabled: bool


class ValueRequest(TypedDict):
    """What holds for one value of the key; nothing but the value: as for all values. Give either `value`
    or `job_id`."""

    # A value of the key: null, a boolean, a number, text or binary.
    value: NotRequired[Any]
    # Instead of value: the value that this job has. So can one be limited that nobody may see.
    job_id: NotRequired[str | None]
    concurrency: NotRequired[int | None]
    rate: NotRequired[RateRequest | None]
    paused: NotRequired[bool | None]


class WhyAnswer(TypedDict):
    """What has to change before the job can run, in order; later versions may add codes."""

    state: JobState
    as_of: str
    verdicts: list[NoLeaderVerdict | ExpiredVerdict | DueVerdict | RulesChangingVerdict | ConstraintVerdict | NoWorkerVerdict | WorkersUnavailableVerdict | AheadVerdict | IndexMissingVerdict | NextVerdict | RunningVerdict | FinishedVerdict]
    # All that apply to the unfinished job; empty while it is matched again.
    constraints: list[WhyConstraint]


class WhyConstraint(TypedDict):
    """A constraint that applies to the job, with what is in use at its key value."""

    name: str
    # What splits the constraint; null: one limit for all.
    key: str | None
    # This job's value of the key, as text.
    key_value: str | None
    mode: Literal["enforce", "shadow"]
    # False: it lets nothing start now; a shadow one would not, were it enforced.
    passes: bool
    # What closes it, the most lasting first.
    kinds: list[Literal["paused", "hold", "concurrency", "rate"]]
    concurrency: int | None
    # Slots that are taken; null where nothing limits them.
    running: int | None
    rate: WhyRate | None
    # Starts in the last `period_s`.
    starts: int | None
    paused: bool
    # A worker asked that nothing passes before.
    held_until: str | None
    fair: bool
    # Unfinished jobs that do not run and have to pass here.
    waiting: int
    # The limits are those of this key value alone.
    is_value_override: bool
    # Not before; null where no clock decides, or it is open.
    opens_at: str | None


class WhyHolder(TypedDict):
    """A running job that has a slot."""

    # UUIDv7
    job_id: str
    # UUIDv7
    worker_id: str
    since: str


class WhyRate(TypedDict):
    """At most `limit` starts in any `period_s`."""

    limit: int
    period_s: float


class WorkerDetail(TypedDict):
    """A registered worker with what it runs."""

    # UUIDv7
    id: str
    url: str | None
    names: list[str]
    max_jobs: int
    # Claims that it holds.
    busy: int
    # `busy` of `max_jobs`.
    load: float
    # Whether masters call it, or it asks them for jobs.
    role: Literal["push", "pull"]
    node_id: str
    pid: int
    labels: dict[str, str]
    version: str
    registered_at: str
    last_seen_at: str
    state: Literal["fresh", "stale", "draining", "detached"]
    # Who cut it off: the leader, as it was silent; people; or a worker that serves its address now.
    detached_by: Literal["silence", "operator", "successor"] | None
    # Null where this master does not lead.
    breaker: Literal["closed", "open", "half_open"] | None
    # The oldest first.
    jobs: list[HeldJob]


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
    # `busy` of `max_jobs`.
    load: float
    # Whether masters call it, or it asks them for jobs.
    role: Literal["push", "pull"]
    node_id: str
    pid: int
    labels: dict[str, str]
    version: str
    registered_at: str
    last_seen_at: str
    state: Literal["fresh", "stale", "draining", "detached"]
    # Who cut it off: the leader, as it was silent; people; or a worker that serves its address now.
    detached_by: Literal["silence", "operator", "successor"] | None
    # Null where this master does not lead.
    breaker: Literal["closed", "open", "half_open"] | None


class WorkersUnavailableVerdict(TypedDict):
    """Of the live workers for the name none takes a job now; each counts once."""

    code: Literal["workers_unavailable"]
    # A sentence for the person on call.
    text: str
    name: str
    workers: int
    full: int
    draining: int
    # Pull, and do not ask for jobs at this moment.
    pulling: int
    # Circuit breaker open. Null, as the next two, where this master does not lead.
    broken: int | None
    # Asked for no offers for a while.
    paused: int | None
    # Registered for the name and refused it as unknown.
    refusing: int | None
    # Slots taken, of all these workers.
    busy: int
    max_jobs: int


# Selects jobs. A path that leads nowhere and a value of another type match nothing, not even `ne`; `exists`
# with false asks for a missing path. Numbers compare exactly, a boolean is no number, binary no text. tags
# match when any tag does, `ne` when none is equal. At most 100 conditions, 8 deep.
Matcher = AllMatcher | AnyMatcher | NotMatcher | Condition

# How an attempt ended, by its worker's word.
ResultItem = SuccessItem | FailureItem | DeferredItem | HandedBackItem | CanceledItem

# What a job ended with.
ResultView = SuccessView | FailureView
