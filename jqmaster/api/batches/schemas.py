"""HTTP models of batches."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from jqmaster.api.definitions.schemas import DefinitionJob
from jqmaster.api.jobs.schemas import JobSummary
from jqmaster.api.schemas import (
    SINCE,
    Answer,
    Count,
    Instant,
    JobId,
    Request,
    Seconds,
    ShortText,
    Timestamp,
)
from jqmaster.domain.batches.batch import MAX_DEPTH, MAX_DESCRIPTION, BatchSpec, BatchState, CallbackState
from jqmaster.domain.batches.batch import BatchCallback as Callback
from jqmaster.domain.jobs.job import JobSpec
from jqmaster.domain.jobs.job_terms import MAX_DELAY_S, MAX_TAGS


class CallbackRequest(DefinitionJob):
    """A job that a batch starts. It has the fields of a pushed job, except `id` and `batch`."""

    delay: Seconds | None = Field(
        None,
        ge=0,
        le=MAX_DELAY_S,
        description="Seconds to wait after the batch starts this job.",
    )

    def to_spec(self) -> JobSpec:
        """Return the job without an ID."""
        spec = super().to_spec()
        spec.delay_ms = None if self.delay is None else round(self.delay * 1000)
        return spec


class BatchRequest(Request):
    """A batch to create."""

    id: JobId | None = Field(
        None,
        description=(
            "ID chosen by the client. It makes the request safe to repeat while the batch is kept. "
            "A batch is kept for `batch_retention_s` (7 days by default) after it is complete. "
            "After that, a repeat creates a new batch."
        ),
    )
    description: str = Field("", max_length=MAX_DESCRIPTION)
    tags: list[ShortText] = Field(default_factory=list, max_length=MAX_TAGS)
    on_success: CallbackRequest | None = Field(
        None,
        description=(
            "Job to enqueue when all members have succeeded or were discarded. Members that failed "
            "and succeeded after a retry count as succeeded."
        ),
    )
    on_complete: CallbackRequest | None = Field(None, description="Job to enqueue when all members are over.")
    on_failure: CallbackRequest | None = Field(
        None, description="Job to enqueue when the first member fails for good."
    )
    batch: JobId | None = Field(
        None, description=f"The batch to which this batch belongs. Batches can be {MAX_DEPTH} levels deep."
    )
    expires_at: Instant | None = Field(
        None,
        description="If the batch is not complete at this time, it is canceled. A time in the past is refused. Null: "
        "`batch_life_s` after its creation.",
    )
    expires_s: Seconds | None = Field(
        None,
        ge=0.001,
        le=MAX_DELAY_S,
        description="Seconds from now until the batch expires. Cannot be combined with expires_at.",
    )

    @model_validator(mode="after")
    def _one_expiry(self) -> "BatchRequest":
        if self.expires_at is not None and self.expires_s is not None:
            raise ValueError("give expires_at or expires_s, not both")
        return self

    def to_spec(self, batch_id: str, owner: str) -> BatchSpec:
        """Return the batch. `owner`: the caller who creates it."""
        asked = {callback: getattr(self, str(callback)) for callback in Callback}
        return BatchSpec(
            id=batch_id,
            description=self.description,
            tags=tuple(self.tags),
            callbacks={callback: job.to_spec() for callback, job in asked.items() if job is not None},
            parent=self.batch,
            expires_at_ms=self.expires_at,
            life_ms=None if self.expires_s is None else round(self.expires_s * 1000),
            owner=owner,
        )


class BatchCreated(Answer):
    """The ID of the batch."""

    id: JobId


StateCounted = Annotated[
    int | None, Field(ge=0, description="Null in lists, and for batches with more than 5,000 jobs.")
]


class BatchCounts(Answer):
    """Counts of the jobs of a batch."""

    total: Count
    unfinished: Count = Field(description="Jobs that are not over.")
    scheduled: StateCounted
    ready: StateCounted
    retrying: StateCounted
    running: StateCounted
    succeeded: Count
    discarded: Count
    failed: Count
    canceled: Count
    skipped: Count
    deleted: Count = Field(
        description="Jobs that were deleted before they succeeded. If there are any, the batch can no longer succeed."
    )
    gone: Count = Field(
        description=(
            "Jobs that are over and were deleted. They also count in the state in which they ended. "
            "They cannot be retried."
        ),
        json_schema_extra=SINCE,
    )


class NestedCounts(Answer):
    """Counts of the batches nested in a batch."""

    total: Count
    succeeded: Count
    failed: Count = Field(description="Complete batches that did not succeed.")


class CallbackView(Answer):
    """A job that a batch starts."""

    name: str
    state: CallbackState = Field(description="due: the job is about to be enqueued.")
    job_id: JobId = Field(description="ID that the job has, or will have.")


class BatchCallbacks(Answer):
    """The callbacks of a batch. Null: the batch has no callback of this kind."""

    on_success: CallbackView | None
    on_complete: CallbackView | None
    on_failure: CallbackView | None


class BatchView(Answer):
    """A batch."""

    id: JobId
    state: BatchState
    counts: BatchCounts
    batches: NestedCounts
    description: str
    tags: list[str]
    callbacks: BatchCallbacks
    batch: JobId | None = Field(description="The batch to which this batch belongs.")
    created_at: Timestamp
    completed_at: Timestamp | None
    canceled_at: Timestamp | None
    expires_at: Timestamp | None = Field(
        description="Time at which the batch is canceled if it is not complete."
    )


class BatchList(Answer):
    """A page of batches, newest first. The page may hold few batches, or none, although more pages follow.
    `next_cursor` is null only on the last page."""

    batches: list[BatchView]
    next_cursor: str | None = Field(description="Cursor of the next page. Null on the last page.")


class BatchJobs(Answer):
    """A page of the jobs of a batch, oldest first. The page may hold few jobs, or none, although more pages follow."""

    jobs: list[JobSummary]
    next_cursor: str | None = Field(description="Cursor of the next page. Null on the last page.")


class BatchReason(Answer):
    """Something that a batch waits for."""

    code: Literal["open", "jobs", "batches", "callback", "failed"] = Field(
        description="open: the batch is not sealed. jobs, batches: members are not over. callback: a callback is "
        "about to be enqueued. failed: the batch is complete, and on_success waits for members that did "
        "not succeed."
    )
    text: str


class BatchWhy(Answer):
    """The reasons why a batch is not complete, or why its on_success job was not started."""

    state: BatchState
    reasons: list[BatchReason]
    jobs: list[JobSummary] = Field(description="The oldest jobs for which the batch waits, ten at most.")
