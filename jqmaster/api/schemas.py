"""What travels over HTTP, as pydantic models: they check requests and are the OpenAPI document.

Requests are closed (an unknown field is refused) and strict (no bool for int, no string for number).
"""

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    RootModel,
    WithJsonSchema,
    model_validator,
)

from jqmaster.config import Durability
from jqmaster.domain import matcher as matchers
from jqmaster.domain.constraint import (
    MAX_BACKLOG,
    MAX_CONCURRENCY,
    MAX_OVERRIDES,
    MAX_PERIOD_MS,
    MAX_RATE,
    Mode,
)
from jqmaster.domain.constraint import NAME_PATTERN as CONSTRAINT_NAME_PATTERN
from jqmaster.domain.ids import ID_PATTERN
from jqmaster.domain.instant import iso_ms
from jqmaster.domain.job import DEFAULT_RETRY, JobSpec, JobState, RetryPolicy
from jqmaster.domain.outcome import HoldOrder, Outcome
from jqmaster.domain.worker import WorkerSpec
from jqmaster.service.polls import Ask

NAME_PATTERN: Final = r"^[A-Za-z0-9_.:/-]{1,200}$"
TOKEN_PATTERN: Final = r"^[0-9a-f]{32}$"  # noqa: S105 - a pattern
DAY_S: Final = 86_400
LATEST_MS: Final = int(datetime(2100, 1, 1, tzinfo=UTC).timestamp() * 1000)

_ISO_UTC: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)")


def instant_ms(value: object) -> int:
    """Milliseconds of an instant as clients write it. Raises ValueError that says the rule."""
    if isinstance(value, str):
        if len(value) > 40 or not _ISO_UTC.fullmatch(value):
            raise ValueError("must be ISO 8601 with an offset, such as 2026-11-21T04:30:00Z")
        value = datetime.fromisoformat(value)
    if not isinstance(value, datetime):
        raise ValueError("must be an ISO 8601 string or a MessagePack timestamp")
    ms = int(value.timestamp() * 1000)
    if not 0 <= ms <= LATEST_MS:
        raise ValueError("must lie between 1970 and 2100")
    return ms


def is_instant(value: object) -> bool:
    """Whether a field that holds an instant would take it."""
    try:
        instant_ms(value)
    except (ValueError, OverflowError):
        return False
    return True


Instant = Annotated[
    int,
    BeforeValidator(instant_ms),
    WithJsonSchema({"type": "string", "format": "date-time", "examples": ["2026-11-21T04:30:00Z"]}),
]
Seconds = Annotated[float, Field(allow_inf_nan=False)]
Timestamp = Annotated[
    str, WithJsonSchema({"type": "string", "format": "date-time", "examples": ["2026-11-21T04:30:00.123Z"]})
]
# One encoded MessagePack value; bytes here, any type on the wire.
AnyValue = Annotated[
    bytes, WithJsonSchema({"description": 'Any value. In JSON, binary is {"$bin": base64}.'})
]
JobId = Annotated[
    str, Field(pattern=ID_PATTERN, examples=["0198c3f4-5e6a-7b8c-9d0e-1f2a3b4c5d6e"], description="UUIDv7")
]
Token = Annotated[str, Field(pattern=TOKEN_PATTERN, examples=["9f86d081884c7d659a2feaa0c55ad015"])]
ShortText = Annotated[str, Field(min_length=1, max_length=64)]
StoredText = Annotated[str, Field(max_length=1024)]


class Request(BaseModel):
    """Base of what clients send."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Answer(BaseModel):
    """Base of what the master answers; it may grow."""

    model_config = ConfigDict(frozen=True)


# --- jobs


class RetryRequest(Request):
    """Wait before the n-th retry: min(max_s, base_s · factor^(n−1)), with full jitter."""

    base_s: Seconds = Field(DEFAULT_RETRY.base_s, ge=0, le=DAY_S)
    factor: Seconds = Field(DEFAULT_RETRY.factor, ge=1, le=100)
    max_s: Seconds = Field(DEFAULT_RETRY.max_s, ge=0, le=7 * DAY_S)
    jitter: bool = DEFAULT_RETRY.jitter


class JobRequest(Request):
    """A job to be enqueued."""

    name: Annotated[str, Field(pattern=NAME_PATTERN, description="The kind of job; it selects the handler.")]
    argument: AnyValue = Field(default_factory=lambda: b"\xc0")
    priority: int = Field(0, ge=-(2**31), le=2**31 - 1, description="Smaller runs first.")
    max_retry: int = Field(
        5, ge=0, le=1000, description="How many times a failed run is tried again; 0: never."
    )
    keep_result: bool = Field(False, description="Keep the result for the pusher.")
    timeout: Seconds = Field(30.0, ge=0.001, le=7 * DAY_S, description="Seconds; a longer run has failed.")
    id: JobId | None = Field(
        None,
        description="Chosen by the client, it makes the push safe to repeat for as long as the job is kept.",
    )
    run_at: Instant | None = Field(None, description="Not before this instant.")
    delay: Seconds | None = Field(
        None, ge=0, le=3650 * DAY_S, description="Seconds from now; not together with run_at."
    )
    expires_at: Instant | None = Field(
        None, description="A job that waits after this instant, also for a retry, is skipped."
    )
    retry: RetryRequest | None = None
    rerun_lost: bool = Field(False, description="With max_retry 0: run again when the worker was lost.")
    tags: list[ShortText] = Field(default_factory=list, max_length=16)
    headers: dict[ShortText, StoredText] = Field(default_factory=dict, max_length=32)

    @model_validator(mode="after")
    def _one_time(self) -> "JobRequest":
        if self.run_at is not None and self.delay is not None:
            raise ValueError("run_at and delay exclude each other")
        return self

    def to_spec(self, job_id: str) -> JobSpec:
        retry = self.retry
        return JobSpec(
            id=job_id,
            name=self.name,
            argument=self.argument,
            priority=self.priority,
            max_retry=self.max_retry,
            keep_result=self.keep_result,
            timeout_ms=round(self.timeout * 1000),
            run_at_ms=self.run_at,
            delay_ms=None if self.delay is None else round(self.delay * 1000),
            expires_at_ms=self.expires_at,
            retry=RetryPolicy(retry.base_s, retry.factor, retry.max_s, retry.jitter)
            if retry
            else DEFAULT_RETRY,
            rerun_lost=self.rerun_lost,
            tags=tuple(self.tags),
            headers=self.headers,
        )


class BulkRequest(Request):
    """Jobs that are checked together: one that is refused refuses all."""

    jobs: list[JobRequest] = Field(min_length=1, max_length=10_000)


class EnqueueAnswer(Answer):
    """The job is durable."""

    id: JobId


class BulkAnswer(Answer):
    """All of the jobs are durable; IDs in the order of the request."""

    ids: list[JobId]


class PatchRequest(Request):
    """What to change in a waiting job; null, like nothing, leaves a field as it is."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    priority: int | None = Field(None, ge=-(2**31), le=2**31 - 1)
    run_at: Instant | None = None
    max_retry: int | None = Field(None, ge=0, le=1000)
    timeout: Seconds | None = Field(None, ge=0.001, le=7 * DAY_S)

    @model_validator(mode="after")
    def _something(self) -> "PatchRequest":
        if not self.model_fields_set:
            raise ValueError("name at least one of priority, run_at, max_retry, timeout")
        return self


class AttemptView(Answer):
    """One start of the job; `outcome` null: it runs."""

    attempt: int
    worker_id: str
    started_at: Timestamp
    finished_at: Timestamp | None
    outcome: str | None = Field(
        description="success, failure, timeout, lost, canceled, deferred, handed_back or returned; more may come."
    )
    message: str | None
    error: AnyValue


class JobEvent(Answer):
    """What happened while an attempt ran, and did not end it."""

    at: Timestamp
    event: str = Field(
        description="continued: its worker was detached for its silence, came back and went on; more may come."
    )
    attempt: int
    worker_id: str
    message: str | None


class JobSummary(Answer):
    """A job as lists show it."""

    id: JobId
    name: str
    state: JobState
    priority: int
    attempt: int = Field(description="Starts so far.")
    failures: int = Field(description="Failed attempts that counted against max_retry.")
    losses: int = Field(description="Workers that fell silent under it.")
    max_retry: int
    timeout: float
    keep_result: bool
    created_at: Timestamp
    run_at: Timestamp | None = Field(description="When it became, or becomes, due.")
    started_at: Timestamp | None = Field(description="Of the latest attempt.")
    finished_at: Timestamp | None
    expires_at: Timestamp | None
    cause: str | None = Field(description="Why it ended: error, timeout, lost, expired, canceled.")
    worker_id: str | None = Field(description="Of the latest attempt.")
    tags: list[str]


class JobView(JobSummary):
    """A job with everything that happened to it."""

    attempts: list[AttemptView]
    events: list[JobEvent]
    headers: dict[str, str]
    argument: AnyValue = Field(
        description="As it was sent; null where it is too large to show: see argument_bytes. A caller without scope "
        "read gets null, and no attempts, events and headers."
    )
    argument_bytes: int
    argument_hidden: bool = Field(
        description="True: the caller may not see what jobs carry; argument, headers and the values of errors are left out."
    )
    has_result: bool = Field(description="A result is kept.")
    result: AnyValue = Field(
        description="What the route of the result answers, without fetching it: its life goes on. Null where none is kept, "
        "it is hidden, or too large to show."
    )
    result_hidden: bool = Field(description="True: there is a result, and the caller may not see it.")
    constraints: list[str] = Field(
        description="Names of the enabled constraints that apply to the job; empty when it is over."
    )


class JobPage(Answer):
    """A page may be short, even empty, while `next_cursor` says that there is more."""

    jobs: list[JobSummary]
    next_cursor: str | None = Field(description="Null: that was all.")
    counts: dict[JobState, int] = Field(description="Of all jobs, whatever the filters.")


class StateAnswer(Answer):
    """The job is not over."""

    state: JobState


class SuccessView(Answer):
    """The job succeeded."""

    type: Literal["success"]
    finished_at: Timestamp = Field(description="As the worker reported it.")
    result: AnyValue


class FailureView(Answer):
    """The job failed for good."""

    type: Literal["failure"]
    finished_at: Timestamp
    reason: Literal["other", "timeout"]
    should_retry: bool
    message: str
    error: AnyValue


class ResultView(RootModel[Annotated[SuccessView | FailureView, Field(discriminator="type")]]):
    """What a job ended with."""


# --- workers


class RegisterRequest(Request):
    """A worker says what it is. `url` null: it pulls."""

    url: Annotated[str, Field(min_length=1, max_length=2048)] | None
    names: list[Annotated[str, Field(pattern=NAME_PATTERN)]] = Field(min_length=1, max_length=1000)
    max_jobs: int = Field(ge=1, le=1000)
    node_id: Annotated[str, Field(max_length=200)] = ""
    pid: int = Field(0, ge=0, le=2**31)
    labels: dict[ShortText, Annotated[str, Field(max_length=200)]] = Field(
        default_factory=dict, max_length=32
    )
    version: Annotated[str, Field(max_length=64)] = ""
    secret: Annotated[
        str,
        Field(
            min_length=32, max_length=128, description="Chosen by the worker; its UTF-8 bytes are the key."
        ),
    ]

    def to_spec(self, url: str | None) -> WorkerSpec:
        return WorkerSpec(
            url,
            tuple(dict.fromkeys(self.names)),
            self.max_jobs,
            self.node_id,
            self.pid,
            self.labels,
            self.version,
            self.secret,
        )


class RegisterAnswer(Answer):
    """From now on jobs may arrive, and heartbeats are expected."""

    worker_id: JobId = Field(description="Valid until the worker leaves or is forgotten.")
    epoch: int = Field(description="Of the newest leadership; 0 before the first.")
    store_time_ms: int = Field(description="The one clock for offers and leases: Unix ms by the store.")
    heartbeat_interval_s: float
    lease_s: float = Field(description="Life of a lease from the last heartbeat that named its token.")


class ClaimRef(Request):
    """A claim: the job and the right to settle it."""

    job_id: JobId
    token: Token


class HeartbeatRequest(Request):
    """The worker lives; each lease whose token it names is renewed."""

    running: list[ClaimRef] = Field(
        max_length=1000, description="Every claim whose result no master has answered yet."
    )
    free: int = Field(
        ge=0,
        le=100_000,
        description="How many more jobs it would take. Kept with the worker for people; the master goes by the claims it gave.",
    )
    as_of_ms: int = Field(
        0,
        ge=0,
        le=2**53,
        description="Store time, rounded down, at which `running` was read. An offer that is not named although it was "
        "over by then was not taken up, and goes back without being counted as lost.",
    )
    asks_to_continue: bool = Field(
        False,
        description="The answer before said `detached`: may the worker go on with what it runs? Yes is an answer without it.",
    )


class ClaimView(Answer):
    """A claim that the worker named."""

    job_id: JobId
    token: Token


class HeartbeatAnswer(Answer):
    """What became of the claims that were named: those in neither list are renewed until `lease_until_ms`."""

    epoch: int
    store_time_ms: int
    lease_until_ms: int = Field(
        description="Equal to `store_time_ms` where nothing was renewed: the leases end when they were to end before."
    )
    heartbeat_interval_s: float = Field(
        description="From now on. Masters older than this field do not send it: it stays what it was."
    )
    lease_s: float = Field(
        description="Life of a lease from now on; may be missing as `heartbeat_interval_s`."
    )
    cancel: list[ClaimView] = Field(
        description="Somebody canceled the job: stop it; its result will be stale."
    )
    lost: list[ClaimView] = Field(description="The claim is over: stop the job; its result will be stale.")
    drain: bool = Field(description="Finish what runs; no more will come.")
    detached: bool = Field(
        description="The worker was cut off: ask with `asks_to_continue`, three times, 0.3 s apart; if nobody confirms, "
        "stop everything and register anew."
    )


class StartRequest(Request):
    """Which of the accepted jobs may start now (for handlers that ask first)."""

    starts: list[ClaimRef] = Field(min_length=1, max_length=500)


class StartAnswer(Answer):
    """Only the confirmed ones may start."""

    confirmed: list[JobId]
    stale: list[JobId]


class ClaimRequest(Request):
    """A worker without an address asks for jobs. One call at a time: a later one ends the one before it."""

    max: int = Field(ge=1, le=1000, description="Most jobs that it takes now.")
    wait: Seconds = Field(
        0, ge=0, description="Seconds to wait for the first of them; 60 at most, a quarter of one at least."
    )
    poll_id: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9_-]{1,64}$",
        description="Chosen anew for each call. When its answer was not heard, the same call again, at any master, is given "
        "the same jobs; another one says that the answers before were heard.",
    )
    refused: list[ClaimRef] = Field(
        default_factory=list,
        max_length=1000,
        description="Jobs of earlier answers that it has not begun and does not take. They go back as if never given.",
    )
    withdraw: bool = Field(
        False,
        description="It takes the call of this `poll_id` back and wants none: what that was given goes back.",
    )

    @model_validator(mode="after")
    def _names_what_it_withdraws(self) -> "ClaimRequest":
        if self.withdraw and self.poll_id is None:
            raise ValueError("poll_id names what is to be withdrawn")
        return self

    def to_ask(self) -> Ask:
        return Ask(
            self.max,
            self.wait,
            self.poll_id or "",
            [(claim.job_id, claim.token) for claim in self.refused],
            self.withdraw,
        )


def _reported_time(value: object) -> str:
    if isinstance(value, str):
        instant_ms(value)
        return value
    return iso_ms(instant_ms(value))


class Ending(Request):
    """How an attempt ended, by its worker's word."""

    job_id: JobId
    token: Token
    finished_at: Annotated[
        str, BeforeValidator(_reported_time), WithJsonSchema({"type": "string", "format": "date-time"})
    ]


class SuccessItem(Ending):
    """The handler returned."""

    type: Literal["success"]
    result: AnyValue

    def to_outcome(self) -> Outcome:
        return Outcome(self.job_id, self.token, self.type, result=self.result, finished_at=self.finished_at)


class FailureItem(Ending):
    """The handler failed, or ran longer than its timeout."""

    type: Literal["failure"]
    reason: Literal["other", "timeout"]
    should_retry: bool = Field(description="False ends the job at once.")
    error: AnyValue = Field(default_factory=lambda: b"\xc0")
    message: Annotated[str, Field(max_length=10_000)] = Field("", description="For people.")
    retry_after: Seconds | None = Field(
        None, ge=0, le=7 * DAY_S, description="Seconds; may lengthen the wait before the next attempt."
    )

    def to_outcome(self) -> Outcome:
        return Outcome(
            self.job_id,
            self.token,
            self.type,
            reason=self.reason,
            should_retry=self.should_retry,
            error=self.error,
            message=self.message,
            retry_after_s=self.retry_after,
            finished_at=self.finished_at,
        )


class HoldRequest(Request):
    """Which gate to hold. One that does not exist holds nothing, and the deferral counts all the same."""

    constraint: Annotated[str, Field(max_length=1024)] = Field(description="Name of the constraint.")
    key: Any = Field(
        None, description="The value of its key, null too; absent for a constraint without a key."
    )

    def to_order(self) -> HoldOrder:
        return HoldOrder(self.constraint, self.key, "key" in self.model_fields_set)


class DeferredItem(Ending):
    """The handler wants to be asked again later; no retry is consumed."""

    type: Literal["deferred"]
    retry_after: Seconds = Field(ge=0, le=7 * DAY_S, description="Seconds.")
    hold: HoldRequest | None = Field(
        None, description="Until then no other job passes this constraint either, or this value of its key."
    )

    def to_outcome(self) -> Outcome:
        return Outcome(
            self.job_id,
            self.token,
            self.type,
            retry_after_s=self.retry_after,
            finished_at=self.finished_at,
            hold=self.hold.to_order() if self.hold else None,
        )


class HandedBackItem(Ending):
    """The worker stops before the job is done; another shall have it. No retry is consumed."""

    type: Literal["handed_back"]

    def to_outcome(self) -> Outcome:
        return Outcome(self.job_id, self.token, self.type, finished_at=self.finished_at)


class CanceledItem(Ending):
    """The job was stopped by order."""

    type: Literal["canceled"]

    def to_outcome(self) -> Outcome:
        return Outcome(self.job_id, self.token, self.type, finished_at=self.finished_at)


ReportedEnding = SuccessItem | FailureItem | DeferredItem | HandedBackItem | CanceledItem
ENDINGS: Final[dict[str, type[ReportedEnding]]] = {
    "success": SuccessItem,
    "failure": FailureItem,
    "deferred": DeferredItem,
    "handed_back": HandedBackItem,
    "canceled": CanceledItem,
}


class ResultItem(RootModel[Annotated[ReportedEnding, Field(discriminator="type")]]):
    """How an attempt ended, by its worker's word."""


class ResultsRequest(Request):
    """Repeat it until it is answered; everything that is answered is done with."""

    results: list[ResultItem] = Field(min_length=1, max_length=500)


class ResultsAnswer(Answer):
    """`accepted`: counts, or did already. `stale`: the token is no longer the right to settle; nothing changed."""

    accepted: list[JobId]
    stale: list[JobId]


class WorkerView(Answer):
    """A registered worker."""

    id: JobId
    url: str | None
    names: list[str]
    max_jobs: int
    busy: int = Field(description="Claims that it holds.")
    load: float = Field(description="`busy` of `max_jobs`.")
    role: Literal["push", "pull"] = Field(description="Whether masters call it, or it asks them for jobs.")
    node_id: str
    pid: int
    labels: dict[str, str]
    version: str
    registered_at: Timestamp
    last_seen_at: Timestamp
    state: Literal["fresh", "stale", "draining", "detached"]
    detached_by: Literal["silence", "operator", "successor"] | None = Field(
        description="Who cut it off: the leader, as it was silent; people; or a worker that serves its address now."
    )
    breaker: Literal["closed", "open", "half_open"] | None = Field(
        description="Null where this master does not lead."
    )


class HeldJob(Answer):
    """A job that a worker runs, or was offered."""

    job_id: JobId
    name: str
    attempt: int
    started_at: Timestamp


class WorkerDetail(WorkerView):
    """A registered worker with what it runs."""

    jobs: list[HeldJob] = Field(description="The oldest first.")


class WorkerList(Answer):
    """All registered workers."""

    workers: list[WorkerView]


# --- constraints

MATCHER_SCHEMA: Final[dict[str, Any]] = {
    "description": (
        "Selects jobs. A path that leads nowhere and a value of another type match nothing, not even `ne`; `exists` "
        "with false asks for a missing path. Numbers compare exactly, a boolean is no number, binary no text. tags "
        f"match when any tag does, `ne` when none is equal. At most {matchers.MAX_NODES} conditions, "
        f"{matchers.MAX_DEPTH} deep."
    ),
    "oneOf": [
        *(
            {
                "type": "object",
                "properties": {
                    kind: {"type": "array", "items": {"$ref": "#/components/schemas/Matcher"}, "minItems": 1}
                },
                "required": [kind],
                "additionalProperties": False,
            }
            for kind in ("all", "any")
        ),
        {
            "type": "object",
            "properties": {"not": {"$ref": "#/components/schemas/Matcher"}},
            "required": ["not"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {
                "field": {
                    "type": "string",
                    "maxLength": matchers.MAX_TEXT,
                    "description": f'{", ".join(matchers.FIELDS)}; headers.KEY; argument.a.b[0]["any key"], '
                    f"{matchers.MAX_PATH_SEGMENTS} steps at most.",
                },
                "op": {"type": "string", "enum": list(matchers.OPS)},
                "value": {
                    "description": f"A scalar of at most {matchers.MAX_TEXT} characters or bytes; for `in` 1 to "
                    f"{matchers.MAX_IN_VALUES} of them; for `exists` a boolean (true). glob knows *, ? and [abc]."
                },
            },
            "required": ["field", "op"],
            "additionalProperties": False,
        },
    ],
}
# pydantic knows no schema but its own models: openapi.py makes a reference of it.
MatcherDocument = Annotated[Any, WithJsonSchema({"x-schema": "Matcher"})]
KeyPath = Annotated[
    str,
    Field(
        description="A path as in matchers; each of its values has limits of its own. A job without it is not limited.",
        examples=["argument.host"],
        json_schema_extra={"maxLength": matchers.MAX_TEXT},
    ),
]
KeyScalar = Annotated[
    Any, WithJsonSchema({"description": "A value of the key: null, a boolean, a number, text or binary."})
]


# Bounds are written down here and judged by domain/constraint.py, which says what to do instead.
def _bounded(least: float, most: float, description: str) -> Any:
    return Field(description=description, json_schema_extra={"minimum": least, "maximum": most})


Concurrency = Annotated[int, _bounded(1, MAX_CONCURRENCY, "Jobs that run at once.")]


class RateRequest(Request):
    """At most `limit` starts in any window of `period_s` seconds."""

    limit: Annotated[int, _bounded(1, MAX_RATE, "Starts.")]
    period_s: Annotated[Seconds, _bounded(0.001, MAX_PERIOD_MS / 1000, "Seconds.")]


class OverrideRequest(Request):
    """Other limits for one value of the key; null: as the constraint has it. `paused` adds to its pause."""

    value: KeyScalar
    concurrency: Concurrency | None = None
    rate: RateRequest | None = None
    paused: bool = False


class ConstraintRequest(Request):
    """The whole constraint: what is left out has its default, also when one is changed. Several kinds may be given at
    once, and all must admit a job, as must all constraints that match it."""

    name: Annotated[str, Field(pattern=CONSTRAINT_NAME_PATTERN)] | None = Field(
        None, description="If given, as in the path."
    )
    enabled: bool = True
    mode: Literal["enforce", "shadow"] = Field(
        "enforce", description="shadow: count what would be delayed, and delay nothing."
    )
    matcher: MatcherDocument = Field(description="Which jobs.")
    key: KeyPath | None = None
    concurrency: Concurrency | None = None
    rate: RateRequest | None = None
    paused: bool | None = Field(None, description="True: nothing starts; what runs goes on.")
    max_backlog: Annotated[int, _bounded(0, MAX_BACKLOG, "Waiting jobs; a push beyond gets 429.")] | None = (
        None
    )
    fair: bool = Field(False, description="Within a priority the values of the key take turns.")
    overrides: list[OverrideRequest] = Field(
        default_factory=list, json_schema_extra={"maxItems": MAX_OVERRIDES}
    )


class ValueRequest(Request):
    """What holds for one value of the key; nothing but the value: as for all values."""

    value: KeyScalar
    concurrency: Concurrency | None = None
    rate: RateRequest | None = None
    paused: bool | None = None


class PreviewRequest(Request):
    """Which waiting jobs would a constraint apply to?"""

    matcher: MatcherDocument
    key: KeyPath | None = None
    limit: int = Field(20, ge=0, le=20, description="Most examples.")


class RateView(Answer):
    """At most `limit` starts in any window of `period_s` seconds."""

    limit: int
    period_s: float


class OverrideView(Answer):
    """Other limits for one value of the key; null: as the constraint has it."""

    value: KeyScalar
    concurrency: int | None
    rate: RateView | None
    paused: bool


class UsageView(Answer):
    """What the constraint does now. Null: nothing counts it; or, in a list where constraints have more than 1,000 values
    of keys together, not summed up, and `is_exact` is false."""

    waiting: int | None = Field(description="Unfinished jobs behind it that do not run, due or not.")
    running: int | None = Field(description="Jobs that have a slot; null without `concurrency`.")
    starts_in_window: int | None = Field(description="Null without `rate`.")
    shadow_delayed: int = Field(description="Starts that a shadow constraint would have delayed so far.")
    next_opening: Timestamp | None = Field(
        description="When the first of its closed gates opens by time alone; null where none does."
    )
    in_force: bool = Field(description="Every job has been matched with the constraint as it is.")
    keys: int | None = Field(description="Values of the key that unfinished jobs have; null without a key.")
    is_exact: bool = Field(description="False: there are more values than were looked at.")


class ConstraintView(Answer):
    """A constraint."""

    name: str
    enabled: bool
    mode: Mode
    matcher: MatcherDocument
    key: str | None
    concurrency: int | None
    rate: RateView | None
    paused: bool
    max_backlog: int | None
    fair: bool
    overrides: list[OverrideView]
    etag: str = Field(description="Changes with every change; the ETag header has it in quotes.")
    created_at: Timestamp
    changed_at: Timestamp


class ListedConstraint(ConstraintView):
    """A constraint as lists show it."""

    usage: UsageView


class ConstraintList(Answer):
    """All constraints, by name."""

    constraints: list[ListedConstraint]


class LimitsView(Answer):
    """What holds for one value."""

    concurrency: int | None
    rate: RateView | None
    paused: bool


class KeyUsageView(Answer):
    """One value of the key."""

    value: str = Field(
        description="For people: text as it is unless it could be read as another value, else JSON; binary as 0x…; of at "
        "most 128 characters."
    )
    waiting: int
    running: int | None
    starts_in_window: int | None
    limits: LimitsView
    held_until: Timestamp | None = Field(description="A worker asked for it.")
    next_opening: Timestamp | None
    is_open: bool = Field(description="A job could start now, as far as this constraint goes.")


class HolderView(Answer):
    """A running job that has a slot."""

    job_id: JobId
    worker_id: str
    since: Timestamp
    value: str | None = Field(description="Of the key, for people; null without a key.")


class ConstraintDetail(ConstraintView):
    """A constraint, and what it does now."""

    usage: UsageView
    held_until: Timestamp | None = Field(description="A worker asked for it; without a key.")
    top_keys: list[KeyUsageView] = Field(description="Values with the most waiting jobs, up to 20.")
    value: KeyUsageView | None = Field(description="The one that was asked for.")
    holders: list[HolderView] = Field(description="Up to 50; of the value that was asked for, or of all.")


class KeyCount(Answer):
    """Waiting jobs with one value of the key."""

    value: str
    count: int


class PreviewAnswer(Answer):
    """The waiting jobs that a constraint would apply to."""

    count: int
    without_key: int = Field(
        description="Jobs that match and lack the key, so that it would not apply to them."
    )
    looked_at: int = Field(description="Jobs that had to be read one by one.")
    is_exact: bool = Field(description="False: there were more jobs than could be read in bounds.")
    examples: list[JobSummary]
    keys: list[KeyCount] | None = Field(description="The most frequent values of the key, up to 20.")
    distinct_keys: int | None


# --- masters


class MasterView(Answer):
    """A master process."""

    id: str = Field(description="Made at its start.")
    role: Literal["leader", "sub_leader", "follower"] = Field(
        description="The leader dispatches; the sub-leader watches it and is the next; all serve the whole API."
    )
    state: Literal["fresh", "stale"] = Field(description="Stale: no sign of life lately.")
    node_id: str = Field(description="The machine, by the setting node_id or its host name.")
    pid: int
    url: str = Field(description="Where other masters reach it.")
    version: str
    started_at: Timestamp
    last_seen_at: Timestamp


class MasterList(Answer):
    """The masters of the store; one that died is listed for a minute."""

    masters: list[MasterView] = Field(description="The longest running first.")
    epoch: int = Field(description="Of the newest leadership; 0 before the first.")


class DemoteAnswer(Answer):
    """The leader was told; the others elect as soon as it has ended its work, in less than a second as a rule."""

    id: str
    epoch: int = Field(description="Of the leadership that ends.")


# --- audit


class AuditEntryView(Answer):
    """One change. `before` null: there was nothing; `after` null: nothing is left."""

    id: str
    at: Timestamp
    who: str = Field(
        description="`user:NAME`; `token:ID`, or for a token of the settings the first 8 digits of its SHA-256; `local` where "
        "neither users nor tokens exist; `master` and an ID where a master acted by itself."
    )
    action: str = Field(
        description="constraint.put, constraint.delete, constraint.value, master.demote, master.take_over, settings.change; more "
        "may come."
    )
    target: str = Field(
        description="What was changed, such as the name of a constraint or the ID of a master."
    )
    before: Any
    after: Any


class AuditPage(Answer):
    """Newest first. A page may be short, even empty, while `next_cursor` says that there is more."""

    entries: list[AuditEntryView]
    next_cursor: str | None = Field(description="Null: that was all.")


# --- probes and problems


class Health(Answer):
    """The process answers."""

    status: Literal["ok"]
    id: str = Field(description="Of this process, as in the list of masters; another one after a restart.")


class Readiness(Answer):
    """Whether this master makes progress."""

    status: Literal["ready", "not_ready"]
    durability: Durability = Field(
        description="What a 201 promises here: the configured level, or less while the store does not give it."
    )
    durability_available: Durability = Field(
        description="The most that the store gives, as last probed: what a push may ask for."
    )
    leader: bool = Field(description="Whether this master leads.")
    store: str = Field(
        description="`serving`, or what is wrong with it; without scope read `not serving` says no more."
    )
    faults: list[str] = Field(
        description="What is in the way; without scope read only the names of the checks that failed: process, space, "
        "fitness, durability, leader, store, dispatcher; more may come."
    )


class ProblemField(Answer):
    """One broken rule: the path of the field, and the rule."""

    loc: list[str | int]
    msg: str


class Problem(Answer):
    """RFC 9457; at most 4 KiB."""

    type: str
    title: str
    status: int
    detail: str
    code: str = Field(description="Stable; for programs.")
    errors: list[ProblemField]
