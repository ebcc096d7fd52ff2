"""What travels over HTTP, as pydantic models: they check requests and are the OpenAPI document.

Requests are closed (an unknown field is refused) and strict (no bool for int, no string for number).
"""

import math
import re
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)

from jqmaster.domain.ids import ID_PATTERN
from jqmaster.domain.job import JobSpec, JobState, RetryPolicy
from jqmaster.domain.outcome import Outcome
from jqmaster.domain.worker import WorkerSpec

NAME_PATTERN: Final = r"^[A-Za-z0-9_.:/-]{1,200}$"
TOKEN_PATTERN: Final = r"^[0-9a-f]{32}$"  # noqa: S105 - a pattern
DAY_S: Final = 86_400
LATEST_MS: Final = int(datetime(2100, 1, 1, tzinfo=UTC).timestamp() * 1000)

_ISO_UTC: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)")


def _instant_ms(value: object) -> int:
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


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("must be a finite number")
    return value


Instant = Annotated[
    int,
    BeforeValidator(_instant_ms),
    WithJsonSchema({"type": "string", "format": "date-time", "examples": ["2026-11-21T04:30:00Z"]}),
]
Seconds = Annotated[float, AfterValidator(_finite)]
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

    base_s: Seconds = Field(1.0, ge=0, le=DAY_S)
    factor: Seconds = Field(2.0, ge=1, le=100)
    max_s: Seconds = Field(3600.0, ge=0, le=7 * DAY_S)
    jitter: bool = True


class JobRequest(Request):
    """A job to be enqueued."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"name": "mail.send", "argument": {"user_id": 42}}, {"name": "feed.insert", "argument": [7, 1001], "priority": -5, "max_retry": 3, "keep_result": True, "timeout": 10}]
        }
    )  # fmt: skip

    name: Annotated[str, Field(pattern=NAME_PATTERN, description="The kind of job; it selects the handler.")]
    argument: AnyValue = Field(default_factory=lambda: b"\xc0")
    priority: int = Field(0, ge=-(2**31), le=2**31 - 1, description="Smaller runs first.")
    max_retry: int = Field(
        5, ge=0, le=1000, description="How many times a failed run is tried again; 0: never."
    )
    keep_result: bool = Field(False, description="Keep the result for the pusher.")
    timeout: Seconds = Field(30.0, ge=0.001, le=7 * DAY_S, description="Seconds; a longer run has failed.")
    id: JobId | None = Field(None, description="Chosen by the client, it makes the push safe to repeat.")
    run_at: Instant | None = Field(None, description="Not before this instant.")
    delay: Seconds | None = Field(
        None, ge=0, le=3650 * DAY_S, description="Seconds from now; not together with run_at."
    )
    expires_at: Instant | None = Field(None, description="Skipped if it has not started by then.")
    retry: RetryRequest | None = None
    rerun_lost: bool = Field(False, description="With max_retry 0: run again when the worker was lost.")
    tags: list[ShortText] = Field(default_factory=list, max_length=16)
    headers: dict[ShortText, StoredText] = Field(default_factory=dict, max_length=32)

    @model_validator(mode="after")
    def _one_time(self) -> "JobRequest":
        if self.run_at is not None and self.delay is not None:
            raise ValueError("run_at and delay exclude each other")
        return self

    def to_spec(self, new_id: str) -> JobSpec:
        retry = self.retry
        return JobSpec(
            id=self.id or new_id,
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
            else _DEFAULT_RETRY,
            rerun_lost=self.rerun_lost,
            tags=tuple(self.tags),
            headers=self.headers,
        )


_DEFAULT_RETRY: Final = RetryPolicy()


class BulkRequest(Request):
    """Jobs that are accepted together or not at all."""

    jobs: list[JobRequest] = Field(min_length=1, max_length=10_000)


class EnqueueAnswer(Answer):
    id: JobId


class BulkAnswer(Answer):
    ids: list[JobId]


class PatchRequest(Request):
    """What to change in a waiting job."""

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
    started_at: str
    finished_at: str | None
    outcome: str | None
    message: str | None
    error: AnyValue | None


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
    created_at: str
    run_at: str | None
    started_at: str | None
    finished_at: str | None
    expires_at: str | None
    cause: str | None = Field(description="Why it ended: error, timeout, lost, expired, canceled.")
    worker_id: str | None
    tags: list[str]


class JobView(JobSummary):
    """A job with everything that happened to it."""

    attempts: list[AttemptView]
    headers: dict[str, str]
    argument: AnyValue | None = Field(description="Null where it is too large to show: see argument_bytes.")
    argument_bytes: int


class JobPage(Answer):
    jobs: list[JobSummary]
    next_cursor: str | None
    counts: dict[str, int]


class StateAnswer(Answer):
    """The job is not over."""

    state: JobState


class ResultView(Answer):
    """What a job ended with."""

    type: Literal["success", "failure"]
    finished_at: str
    result: AnyValue | None = None
    reason: Literal["other", "timeout"] | None = None
    should_retry: bool | None = None
    message: str | None = None
    error: AnyValue | None = None


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
    worker_id: str
    epoch: int
    store_time_ms: int
    heartbeat_interval_s: float
    lease_s: float


class ClaimRef(Request):
    """A claim: the job and the right to settle it."""

    job_id: JobId
    token: Token


class HeartbeatRequest(Request):
    running: list[ClaimRef] = Field(
        max_length=1000, description="Every claim whose result no master has answered yet."
    )
    free: int = Field(ge=0, le=100_000)


class ClaimView(Answer):
    job_id: str
    token: str


class HeartbeatAnswer(Answer):
    epoch: int
    store_time_ms: int
    lease_until_ms: int
    cancel: list[ClaimView]
    lost: list[ClaimView]
    drain: bool
    detached: bool


class StartRequest(Request):
    starts: list[ClaimRef] = Field(min_length=1, max_length=500)


class StartAnswer(Answer):
    confirmed: list[str]
    stale: list[str]


def _reported_time(value: object) -> str:
    if isinstance(value, str):
        _instant_ms(value)
        return value
    ms = _instant_ms(value)
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class ResultItem(Request):
    """How an attempt ended, by its worker's word."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"job_id": "0198c3f4-5e6a-7b8c-9d0e-1f2a3b4c5d6e", "token": "9f86d081884c7d659a2feaa0c55ad015", "type": "success", "finished_at": "2026-11-21T04:30:00.123Z", "result": {"sent": True}}
            ]
        }
    )  # fmt: skip

    job_id: JobId
    token: Token
    type: Literal["success", "failure", "deferred", "handed_back", "canceled"]
    finished_at: Annotated[
        str, BeforeValidator(_reported_time), WithJsonSchema({"type": "string", "format": "date-time"})
    ]
    result: AnyValue | None = None
    reason: Literal["other", "timeout"] | None = None
    should_retry: bool | None = None
    error: AnyValue | None = None
    message: Annotated[str, Field(max_length=10_000)] = ""
    retry_after: Seconds | None = Field(None, ge=0, le=7 * DAY_S)

    @model_validator(mode="after")
    def _complete(self) -> "ResultItem":
        if self.type == "success" and self.result is None:
            raise ValueError("success needs a result (which may be nil)")
        if self.type == "failure" and (self.reason is None or self.should_retry is None):
            raise ValueError("failure needs reason and should_retry")
        return self

    def to_outcome(self) -> Outcome:
        return Outcome(
            self.job_id,
            self.token,
            self.type,
            self.result,
            self.reason or "other",
            self.should_retry is not False,
            self.error,
            self.message,
            self.retry_after,
            self.finished_at,
        )


class ResultsRequest(Request):
    results: list[ResultItem] = Field(min_length=1, max_length=500)


class ResultsAnswer(Answer):
    accepted: list[str]
    stale: list[str]


class WorkerView(Answer):
    id: str
    url: str | None
    names: list[str]
    max_jobs: int
    busy: int
    node_id: str
    pid: int
    labels: dict[str, str]
    version: str
    registered_at: str
    last_seen_at: str
    state: Literal["fresh", "stale", "draining", "detached"]
    breaker: Literal["closed", "open", "half_open"] | None = Field(
        description="Null where this master does not lead."
    )


class WorkerList(Answer):
    workers: list[WorkerView]


# --- probes and problems


class Health(Answer):
    status: Literal["ok"]


class Readiness(Answer):
    status: Literal["ready", "not_ready"]
    durability: str = Field(description="What a 201 promises here: besteffort, fsync or fsync+quorum.")
    leader: bool = Field(description="Whether this master leads.")
    store: str
    faults: list[str]


class ProblemField(Answer):
    loc: list[str | int]
    msg: str


class Problem(Answer):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: list[ProblemField]


Json = dict[str, Any]
