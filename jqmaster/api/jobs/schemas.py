"""HTTP models of jobs: requests to push them, and views of them."""

from collections import Counter
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    RootModel,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from jqmaster.api.jobs.unique_schemas import DebounceRequest, UniqueRequest, UniqueView
from jqmaster.api.schemas import (
    SINCE,
    Answer,
    AnyValue,
    Count,
    Instant,
    JobId,
    JobName,
    Request,
    Requires,
    Seconds,
    ShortText,
    StoredText,
    Timestamp,
)
from jqmaster.domain.jobs.job import DEFAULT_RETRY, OUTCOMES, JobSpec, JobState, Notify, RetryPolicy
from jqmaster.domain.jobs.job_terms import (
    KEY_TTL_S,
    MAX_DELAY_S,
    MAX_HEADERS,
    MAX_KEY_BYTES,
    MAX_RETRY,
    MAX_TAGS,
    PRIORITY,
    RETRY_BASE_S,
    RETRY_FACTOR,
    RETRY_JITTER,
    RETRY_MAX_S,
    TIMEOUT_S,
)
from jqmaster.domain.jobs.predecessors import MAX_PREDECESSORS, After, AfterWhen
from jqmaster.domain.notices.webhook import MAX_URL_CHARS, url_fault


def _webhook_url(url: str) -> str:
    if fault := url_fault(url):
        raise ValueError(fault)
    return url


def _final(state: JobState) -> JobState:
    if state not in OUTCOMES:
        raise ValueError(f"must be one of {', '.join(OUTCOMES)}")
    return state


WebhookUrl = Annotated[
    str,
    Field(max_length=MAX_URL_CHARS, description="http or https, without a user and without a fragment."),
    AfterValidator(_webhook_url),
]
# Accept text here, because JSON has no other form for a state. Other fields of requests are strict.
FinalState = Annotated[
    JobState,
    Field(strict=False),
    AfterValidator(_final),
    WithJsonSchema({"type": "string", "enum": [str(state) for state in OUTCOMES]}),
]


class RetryRequest(Request):
    """Backoff: the wait before the n-th retry is min(max_s, base_s · factor^(n−1)), with full jitter."""

    base_s: Seconds = Field(RETRY_BASE_S.default, ge=RETRY_BASE_S.least, le=RETRY_BASE_S.most)
    factor: Seconds = Field(RETRY_FACTOR.default, ge=RETRY_FACTOR.least, le=RETRY_FACTOR.most)
    max_s: Seconds = Field(RETRY_MAX_S.default, ge=RETRY_MAX_S.least, le=RETRY_MAX_S.most)
    jitter: bool = RETRY_JITTER


class NotifyRequest(Request):
    """The webhook that is called when the job is over."""

    url: WebhookUrl
    on: list[FinalState] = Field(
        default_factory=lambda: list(OUTCOMES),
        min_length=1,
        max_length=len(OUTCOMES),
        description="Final states for which the webhook is called. Default: all.",
    )
    with_result: bool = Field(
        False, description="True: the webhook contains the result. Requires keep_result."
    )

    def to_notify(self) -> Notify:
        return Notify(self.url, tuple(state for state in OUTCOMES if state in self.on), self.with_result)


class AfterRequest(Request):
    """The jobs for which a job waits, its predecessors."""

    jobs: Annotated[
        list[JobId],
        Field(
            min_length=1,
            max_length=MAX_PREDECESSORS,
            description=(
                "IDs of jobs in the store or in the same bulk, without duplicates. The job gets the "
                "results of these jobs in this order."
            ),
        ),
    ]
    # Accept text here, because JSON has no other form for the condition. Other fields of requests are strict.
    when: AfterWhen = Field(
        AfterWhen.SUCCEEDED,
        strict=False,
        description=(
            "succeeded: the job runs when all predecessors have succeeded, and is skipped when one of "
            "them ends otherwise. finished: the job runs when all predecessors are over, however they "
            "ended."
        ),
    )

    @field_validator("jobs")
    @classmethod
    def _are_distinct(cls, value: list[str]) -> list[str]:
        if doubled := [job_id for job_id, count in Counter(value).items() if count > 1]:
            raise ValueError(f"names job {doubled[0]} twice")
        return value


class JobTermsRequest(Request):
    """The options of a job that is enqueued now or later."""

    name: JobName
    argument: AnyValue = Field(default_factory=lambda: b"\xc0")
    priority: int = Field(
        PRIORITY.default, ge=PRIORITY.least, le=PRIORITY.most, description="The lowest number runs first."
    )
    max_retry: int = Field(
        MAX_RETRY.default,
        ge=MAX_RETRY.least,
        le=MAX_RETRY.most,
        description="Maximum number of retries after failed runs. 0: never retry.",
    )
    keep_result: bool = Field(False, description="Keep the result so that it can be fetched.")
    timeout: Seconds = Field(
        TIMEOUT_S.default,
        ge=TIMEOUT_S.least,
        le=TIMEOUT_S.most,
        description="Maximum run time in seconds. A longer run fails.",
    )
    retry: RetryRequest | None = None
    rerun_lost: bool = Field(
        False, description="Run the job again when its worker was lost, even if max_retry is 0."
    )
    tags: list[ShortText] = Field(default_factory=list, max_length=MAX_TAGS)
    headers: dict[ShortText, StoredText] = Field(default_factory=dict, max_length=MAX_HEADERS)
    requires: Requires | None = Field(
        None,
        description="Labels, each with its value. Only a worker that registered with all of them gets the job.",
        json_schema_extra=SINCE,
    )
    expires_s: Seconds | None = Field(
        None,
        ge=0.001,
        le=MAX_DELAY_S,
        description=(
            "Seconds from the push, by the clock of the store. After this time, the job is skipped if it "
            "still waits, even for a retry. Cannot be combined with expires_at."
        ),
        json_schema_extra=SINCE,
    )

    def terms(self) -> dict[str, Any]:
        """Return these options as fields of a `JobSpec`."""
        retry = self.retry
        return {
            "name": self.name,
            "priority": self.priority,
            "max_retry": self.max_retry,
            "keep_result": self.keep_result,
            "timeout_ms": round(self.timeout * 1000),
            "retry": RetryPolicy(retry.base_s, retry.factor, retry.max_s, retry.jitter)
            if retry
            else DEFAULT_RETRY,
            "rerun_lost": self.rerun_lost,
            "tags": tuple(self.tags),
            "headers": self.headers,
            "requires": self.requires,
            "expires_ms": None if self.expires_s is None else round(self.expires_s * 1000),
        }


class RetryView(Answer):
    """Backoff: the wait before the n-th retry is min(max_s, base_s · factor^(n−1)), with full jitter."""

    base_s: float
    factor: float
    max_s: float
    jitter: bool


class JobTermsView(Answer):
    """The options of a job that is enqueued later."""

    priority: int
    max_retry: int
    keep_result: bool
    timeout: float
    retry: RetryView
    rerun_lost: bool
    tags: list[str]
    headers: dict[str, str]
    requires: dict[str, str] | None = Field(
        description="Labels that the worker must have.", json_schema_extra=SINCE
    )
    expires_s: float | None = Field(
        description=(
            "Seconds from the time at which the job is enqueued. After this time, the job is "
            "skipped if it still waits."
        ),
        json_schema_extra=SINCE,
    )


class JobRequest(JobTermsRequest):
    """A job to enqueue."""

    id: JobId | None = Field(
        None,
        description=(
            "ID chosen by the client. It makes the push safe to repeat for as long as the job is "
            "kept. Jobs of equal priority run in the order of their IDs. Choose a UUIDv7 to run the "
            "oldest first."
        ),
    )
    key: Annotated[str, Field(min_length=1, max_length=MAX_KEY_BYTES)] | None = Field(
        None,
        description=(
            "Idempotency key: at most 200 bytes of UTF-8. A second push of the same name with the same key "
            "and content creates no job. Its answer has the ID of the first job, even if the second push "
            "has another `id` or the first job is gone. A second push with different content is refused "
            "with 409. Each token has its own keys."
        ),
    )
    key_ttl: Seconds = Field(
        KEY_TTL_S.default,
        ge=KEY_TTL_S.least,
        le=KEY_TTL_S.most,
        description="Seconds for which the key is remembered, from its first use.",
    )
    run_at: Instant | None = Field(None, description="Earliest time to run the job.")
    delay: Seconds | None = Field(
        None,
        ge=0,
        le=MAX_DELAY_S,
        description="Seconds from now until the job may run. Cannot be combined with run_at.",
    )
    expires_at: Instant | None = Field(
        None,
        description=(
            "Time after which the job is skipped if it still waits, even for a retry. A push with a "
            "time in the past is refused."
        ),
    )
    unique: UniqueRequest | None = None
    debounce: DebounceRequest | None = Field(
        None, description="Cannot be combined with unique, delay or run_at."
    )

    batch: JobId | None = Field(
        None,
        description=(
            "The batch to which the job belongs. The batch must not be complete or canceled. If another job "
            "holds the uniqueness key, that job keeps its own batch. If it takes the content of this push, "
            "it moves to this batch."
        ),
        json_schema_extra=SINCE,
    )

    notify: NotifyRequest | None = Field(
        None,
        description=(
            "Webhook to call when the job is over. It is called at least once, according to "
            "Standard Webhooks. docs/notices.md shows its body and its signature."
        ),
        json_schema_extra=SINCE,
    )
    notify_url: WebhookUrl | None = Field(
        None,
        description="Short form of `notify` with only this URL. Cannot be combined with `notify`.",
        json_schema_extra=SINCE,
    )
    after: AfterRequest | None = Field(
        None,
        description=(
            "Predecessors of the job. It waits for them in the state awaiting_jobs. Cannot be "
            "combined with unique or debounce."
        ),
        json_schema_extra=SINCE,
    )

    @field_validator("key")
    @classmethod
    def _is_short(cls, value: str | None) -> str | None:
        if value is not None and len(value.encode()) > MAX_KEY_BYTES:
            raise ValueError(f"must have at most {MAX_KEY_BYTES} bytes")
        return value

    @model_validator(mode="after")
    def _one_time(self) -> "JobRequest":
        if self.run_at is not None and self.delay is not None:
            raise ValueError("give run_at or delay, not both")
        if self.expires_at is not None and self.expires_s is not None:
            raise ValueError("give expires_at or expires_s, not both")
        if self.notify is not None and self.notify_url is not None:
            raise ValueError("give notify or notify_url, not both")
        if self.notify is not None and self.notify.with_result and not self.keep_result:
            raise ValueError("notify.with_result needs keep_result")
        if self.debounce is not None:
            others = ("unique", "delay", "run_at")
            if given := [field for field in others if getattr(self, field) is not None]:
                raise ValueError(f"give debounce or {given[0]}, not both")
        if self.after is not None:
            if self.unique is not None or self.debounce is not None:
                raise ValueError("give after or a uniqueness key, not both")
            if self.id in self.after.jobs:
                raise ValueError("a job cannot wait for itself")
        return self

    def to_spec(self, job_id: str) -> JobSpec:
        claim = self.unique or self.debounce
        delay_ms = None if self.delay is None else round(self.delay * 1000)
        return JobSpec(
            **self.terms(),
            id=job_id,
            argument=self.argument,
            run_at_ms=self.run_at,
            delay_ms=self.debounce.wait_ms if self.debounce else delay_ms,
            expires_at_ms=self.expires_at,
            key=self.key or "",
            key_life_ms=round(self.key_ttl * 1000),
            unique=claim.to_unique(self.name, self.argument) if claim else None,
            batch=self.batch,
            notify=self._to_notify(),
            after=After(tuple(self.after.jobs), self.after.when) if self.after else None,
        )

    def _to_notify(self) -> Notify | None:
        if self.notify_url is not None:
            return Notify(self.notify_url, OUTCOMES)
        return self.notify.to_notify() if self.notify else None


class EnqueueAnswer(Answer):
    """The ID of the stored job."""

    id: JobId
    duplicate: bool = Field(
        description=(
            "True: no job was created, because the job with this `id` holds the uniqueness key. Missing "
            "otherwise."
        ),
        json_schema_extra=SINCE,
    )
    replaced: bool = Field(
        description=(
            "True: no job was created. Instead, the waiting job with this `id` took the content of this "
            "push. Missing otherwise."
        ),
        json_schema_extra=SINCE,
    )


class BulkAnswer(Answer):
    """The IDs of the stored jobs, in the order of the request."""

    ids: list[JobId]
    batch: JobId = Field(
        description="The batch that the request created. Missing if it created none.", json_schema_extra=SINCE
    )
    duplicates: list[int] = Field(
        description=(
            "Indexes of jobs that were not created, because another job holds the uniqueness key. `ids` has "
            "the ID of that job at the same index. Missing if there are none."
        ),
        json_schema_extra=SINCE,
    )
    replaced: list[int] = Field(
        description=(
            "Indexes of jobs that were not created, because a waiting job took the content. `ids` has the "
            "ID of that job at the same index. Missing if there are none."
        ),
        json_schema_extra=SINCE,
    )


class CallbackOfView(Answer):
    """The batch that started a job."""

    batch: JobId
    callback: str = Field(
        description="on_success, on_complete or on_failure. Future releases may add values."
    )


class LinkedJob(Answer):
    """A predecessor or a dependent of another job."""

    id: JobId
    state: JobState | None = Field(description="Null: the job is gone, or the caller may not see its state.")


class PredecessorView(LinkedJob):
    """A job for which another job waits or waited."""

    pending: bool = Field(description="True: the job still waits for it.")


class AfterView(Answer):
    """The predecessors of a job."""

    when: AfterWhen
    jobs: list[PredecessorView]


class RetryJobRequest(Request):
    """The state of the job as the caller last saw it. The body may be empty."""

    attempt: int | None = Field(
        None,
        ge=0,
        description=(
            "The number of attempts that the caller has seen. If the job has had further attempts, the "
            "answer is 409 `retried_before`. So a repeated call never runs a job twice."
        ),
    )


class PatchRequest(Request):
    """Changes to a waiting job. A field that is null or omitted stays unchanged."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    priority: int | None = Field(None, ge=PRIORITY.least, le=PRIORITY.most)
    run_at: Instant | None = None
    max_retry: int | None = Field(None, ge=MAX_RETRY.least, le=MAX_RETRY.most)
    timeout: Seconds | None = Field(None, ge=TIMEOUT_S.least, le=TIMEOUT_S.most)

    @model_validator(mode="after")
    def _require_any_field(self) -> "PatchRequest":
        if not self.model_fields_set:
            raise ValueError("name at least one of priority, run_at, max_retry, timeout")
        return self


class AttemptView(Answer):
    """One attempt of the job. `outcome` is null while it runs."""

    attempt: int
    worker_id: str
    started_at: Timestamp
    finished_at: Timestamp | None
    outcome: str | None = Field(
        description="success, failure, timeout, lost, canceled, deferred, not_ready, callback_timeout, discarded, "
        "handed_back or returned. Future releases may add values."
    )
    message: str | None = Field(
        description=(
            "Error message. Null if there is none or the caller may not see it. `[redacted]` if "
            "nobody may see it."
        )
    )
    code: str | None = Field(description="Name that the worker gave to the failure.", json_schema_extra=SINCE)
    error_type: str | None = Field(
        description="Type of the exception, as the worker's SDK named it. Every caller sees it. Null if unknown."
    )
    error: AnyValue


class JobEvent(Answer):
    """An event that happened during an attempt without ending it."""

    at: Timestamp
    event: str = Field(
        description=(
            "continued: the worker was detached because it was silent. It then came back and continued the "
            "job. Future releases may add values."
        )
    )
    attempt: int
    worker_id: str
    message: str | None


class JobSummary(Answer):
    """A job in a list."""

    id: JobId
    name: str
    state: JobState
    priority: int
    attempt: int = Field(description="Number of attempts so far.")
    failures: int = Field(description="Number of failed attempts that counted against max_retry.")
    losses: int = Field(description="Number of workers that were lost while running the job.")
    max_retry: int
    timeout: float
    keep_result: bool
    created_at: Timestamp
    run_at: Timestamp | None = Field(description="Time at which the job became or becomes due.")
    started_at: Timestamp | None = Field(description="Start of the latest attempt.")
    finished_at: Timestamp | None
    expires_at: Timestamp | None
    cause: str | None = Field(
        description="Reason why the job ended: error, timeout, undecodable, invalid_argument, lost, expired, "
        "dependency, superseded or canceled."
    )
    worker_id: str | None = Field(description="Worker of the latest attempt.")
    tags: list[str]


class ProgressView(Answer):
    """The progress of a job that its worker last reported."""

    fraction: float | None = Field(description="0 to 1. Null: unknown.")
    message: str | None = Field(description="Null if the caller may not see job content.")
    at: Timestamp


class StepView(Answer):
    """A step that has ended. Later attempts of the job do not run it again."""

    name: str | None = Field(description="Null if the caller may not see job content.")
    at: Timestamp = Field(description="Time at which the step ended, by the clock of its worker.")
    took_s: float


class OriginView(Answer):
    """The definition that started a job."""

    name: str
    due_at: Timestamp = Field(description="The instant for which the job was started.")


class NotifyView(Answer):
    """The webhook that is called when the job is over."""

    url: str = Field(description="Without its query.")
    on: list[str] = Field(description="The final states to report.")
    with_result: bool


class OutsideLink(Answer):
    """A link of a job to another system."""

    label: str
    url: str


class RevivalView(Answer):
    """The effect of a retry on the jobs that were skipped because of the retried job."""

    jobs: Count = Field(description="Number of skipped jobs that wait again after the retry.")
    held: Count = Field(
        description="Number of skipped jobs that stay skipped, because they also need other jobs."
    )
    gone: Count = Field(description="Number of dependent jobs that were removed. They will not run.")
    is_complete: bool = Field(description="False: there are more jobs than were examined.")


class JobView(JobSummary):
    """A job with its content and history."""

    attempts: list[AttemptView]
    events: list[JobEvent]
    links: list[OutsideLink] = Field(
        description="Links to other systems, built from the setting `link_templates`.",
        json_schema_extra=SINCE,
    )
    headers: dict[str, str]
    argument: AnyValue = Field(
        description=(
            "The argument as it was sent. Null if it is too large to show; see argument_bytes. A "
            "caller without the scope read gets null here, and no attempts, events or headers."
        )
    )
    argument_bytes: int
    argument_hidden: bool = Field(
        description="True: the caller may not see job content. Argument, headers, error values and error messages "
        "are omitted."
    )
    argument_redacted: bool = Field(
        description="True: parts of the argument are replaced by `[redacted]`. Do not enqueue a copy of it."
    )
    erased: list[str] = Field(
        description=(
            "Paths of values that people erased, such as `argument.email`. If the argument or the "
            "headers have lost a value, the job cannot be retried."
        ),
        json_schema_extra=SINCE,
    )
    requires: dict[str, str] | None = Field(
        description=(
            "Labels that the worker must have. Null: any worker for the job's name may run the job."
        ),
        json_schema_extra=SINCE,
    )
    headers_redacted: bool = Field(description="True: parts of the headers are replaced by `[redacted]`.")
    has_result: bool = Field(description="True: a result is kept.")
    result: AnyValue = Field(
        description=(
            "The result, as `GET /api/jobs/{job_id}/result` returns it. Viewing it here does not "
            "count as fetching it. Null if no result is kept, or if the result is hidden or too "
            "large to show."
        )
    )
    result_hidden: bool = Field(description="True: a result is kept, but the caller may not see it.")
    constraints: list[str] = Field(
        description="Names of the enabled constraints that apply to the job. Empty when the job is over."
    )
    unique: UniqueView | None = Field(
        description="Null if the job has no uniqueness key.", json_schema_extra=SINCE
    )
    progress: ProgressView | None = Field(
        description="Progress of the job. Null if no attempt has reported progress.", json_schema_extra=SINCE
    )
    steps: list[StepView] = Field(
        description="The steps (`ctx.step` of the Python SDK) that have ended so far, in this order.",
        json_schema_extra=SINCE,
    )
    definition: OriginView | None = Field(
        description=("The definition that started the job. Null if a push created the job."),
        json_schema_extra=SINCE,
    )
    batch: JobId | None = Field(description="The batch to which the job belongs.", json_schema_extra=SINCE)
    callback_of: CallbackOfView | None = Field(
        description=("The batch that started the job as its callback. Null if no batch started it."),
        json_schema_extra=SINCE,
    )
    notify: NotifyView | None = Field(
        description="Null if no webhook is called, or the caller may not see job content.",
        json_schema_extra=SINCE,
    )
    after: AfterView | None = Field(
        description="The jobs for which this job waits or waited. Null if it has no predecessors.",
        json_schema_extra=SINCE,
    )
    dependents: list[LinkedJob] = Field(
        description="The first 100 jobs that wait or waited for this job.", json_schema_extra=SINCE
    )
    dependents_count: int = Field(
        description="Number of all jobs that wait or waited for this job.", json_schema_extra=SINCE
    )
    revives: RevivalView | None = Field(
        description=(
            "The effect that a retry would have on the jobs that were skipped because of this job. "
            "In the answer to a retry: the effect of that retry. Null if the job is unfinished, has "
            "succeeded or has no dependents."
        ),
        json_schema_extra=SINCE,
    )
    skipped_by: LinkedJob | None = Field(
        description=(
            "The job that caused this job to be skipped, directly or through other jobs, and the state in "
            "which it ended. Null if no other job caused this job to be skipped."
        ),
        json_schema_extra=SINCE,
    )


class ListedJob(JobSummary):
    """A job in a page of the list. A field is null if `include` does not name it, or if the caller may not see it."""

    error: str | None = Field(description="Beginning of the last error message.")
    argument_excerpt: str | None = Field(
        description="Beginning of the argument as JSON, for reading only. Null for a long argument."
    )
    worker_name: str | None = Field(
        description="Node and process ID of the worker of the latest attempt, if it is registered."
    )
    progress: ProgressView | None = Field(
        description=("Progress of the job. Also null if no attempt has reported progress."),
        json_schema_extra=SINCE,
    )


class JobPage(Answer):
    """A page of jobs. The page may have few jobs, or none, although more pages follow. `next_cursor` is null only
    on the last page."""

    jobs: list[ListedJob]
    next_cursor: str | None = Field(description="Cursor of the next page. Null on the last page.")
    counts: dict[JobState, int] = Field(description="Number of all jobs by state, regardless of the filters.")
    looked_at: int = Field(description="Number of jobs to which the filters were applied for this page.")
    is_partial: bool = Field(
        description=(
            "True: the list leaves out some ready jobs, because they have too many different "
            "priorities or constraint keys to be sorted by time."
        )
    )


class StateCount(Answer):
    """The number of selected jobs in one state."""

    count: int
    is_exact: bool = Field(description="False: `count` is a lower bound.")


class JobCount(Answer):
    """The number of jobs that the filters select."""

    count: int
    is_exact: bool = Field(description="False: `count` is a lower bound.")
    states: dict[JobState, StateCount] = Field(description="The states that the filters may select.")


class StateAnswer(Answer):
    """The state of a job that is not over."""

    state: JobState
    last_error: str | None = Field(
        description="Beginning of the last error message, if the job is `retrying`. Null if the caller may not see it.",
        json_schema_extra=SINCE,
    )


class SuccessView(Answer):
    """The result of a job that succeeded."""

    type: Literal["success"]
    finished_at: Timestamp = Field(description="End of the run, as the worker reported it.")
    result: AnyValue


class FailureView(Answer):
    """The error of a job that failed for good."""

    type: Literal["failure"]
    finished_at: Timestamp
    reason: Literal["other", "timeout", "undecodable", "invalid_argument", "callback_timeout", "not_ready"]
    code: str = Field(
        description="Name that the worker gave to the failure. Omitted: none.", json_schema_extra=SINCE
    )
    should_retry: bool
    message: str
    error: AnyValue


class ResultView(RootModel[Annotated[SuccessView | FailureView, Field(discriminator="type")]]):
    """The result of a job that is over."""
