"""What travels over HTTP about jobs: as they are pushed, and as they are shown."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, RootModel, model_validator

from jqmaster.api.schemas import (
    DAY_S,
    NAME_PATTERN,
    Answer,
    AnyValue,
    Instant,
    JobId,
    Request,
    Seconds,
    ShortText,
    StoredText,
    Timestamp,
)
from jqmaster.domain.job import DEFAULT_RETRY, JobSpec, JobState, RetryPolicy


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
    priority: int = Field(0, ge=-(2**31), le=2**31 - 1, description="The lowest number runs first.")
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
    message: str | None = Field(
        description="Null also where the caller may not see it; `[redacted]` where nobody may."
    )
    error_type: str | None = Field(
        description="The type of the exception, as the worker's SDK named it; shown to everybody. Null: not known."
    )
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
    cause: str | None = Field(
        description="Why it ended: error, timeout, undecodable, lost, expired, canceled."
    )
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
        description="True: the caller may not see what jobs carry; argument, headers and the values and texts of errors are "
        "left out."
    )
    argument_redacted: bool = Field(
        description="True: `[redacted]` stands in place of parts of the argument. A copy of it is not the argument."
    )
    headers_redacted: bool = Field(description="The same of the headers.")
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
    reason: Literal["other", "timeout", "undecodable"]
    should_retry: bool
    message: str
    error: AnyValue


class ResultView(RootModel[Annotated[SuccessView | FailureView, Field(discriminator="type")]]):
    """What a job ended with."""
