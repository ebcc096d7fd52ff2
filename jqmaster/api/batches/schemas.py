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
from jqmaster.domain.jobs.job_terms import MOST_DELAY_S, MOST_TAGS


class CallbackRequest(DefinitionJob):
    """A job that a batch starts. It has the fields of a pushed job but for its ID and its batch."""

    delay: Seconds | None = Field(
        None,
        ge=0,
        le=MOST_DELAY_S,
        description="Seconds to wait after the instant at which the batch starts it.",
    )

    def to_spec(self) -> JobSpec:
        """Return the job without an ID."""
        spec = super().to_spec()
        spec.delay_ms = None if self.delay is None else round(self.delay * 1000)
        return spec


class BatchRequest(Request):
    """A batch to make."""

    id: JobId | None = Field(
        None,
        description="ID chosen by the client. It makes the request safe to repeat while the batch is kept: "
        "until `batch_retention_s` (7 days by default) after it is complete. After that, a repeat makes a new batch.",
    )
    description: str = Field("", max_length=MAX_DESCRIPTION)
    tags: list[ShortText] = Field(default_factory=list, max_length=MOST_TAGS)
    on_success: CallbackRequest | None = Field(
        None,
        description="Enqueued when all members succeeded or were discarded, also after failed ones were retried.",
    )
    on_complete: CallbackRequest | None = Field(None, description="Enqueued when all members are over.")
    on_failure: CallbackRequest | None = Field(
        None, description="Enqueued when the first member fails for good."
    )
    batch: JobId | None = Field(
        None, description=f"The batch of which this one is a member. Batches can be {MAX_DEPTH} levels deep."
    )
    expires_at: Instant | None = Field(
        None,
        description="A batch that is not complete then is canceled. An instant that is past is refused. Null: "
        "`batch_life_s` after its creation.",
    )
    expires_s: Seconds | None = Field(
        None,
        ge=0.001,
        le=MOST_DELAY_S,
        description="Seconds from now instead of expires_at. Cannot be combined with it.",
    )

    @model_validator(mode="after")
    def _one_expiry(self) -> "BatchRequest":
        if self.expires_at is not None and self.expires_s is not None:
            raise ValueError("give expires_at or expires_s, not both")
        return self

    def to_spec(self, batch_id: str, owner: str) -> BatchSpec:
        """Return the batch; `owner` is the caller who makes it."""
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
    int | None, Field(ge=0, description="Null in lists, and for a batch of more than 5,000 jobs.")
]


class BatchCounts(Answer):
    """The jobs of a batch."""

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
        description="Jobs that were deleted and had not succeeded. The success of the batch is out of reach then."
    )
    gone: Count = Field(
        description="Jobs that are over and no longer kept. They also count by how they ended; no retry reaches them.",
        json_schema_extra=SINCE,
    )


class NestedCounts(Answer):
    """The batches inside a batch."""

    total: Count
    succeeded: Count
    failed: Count = Field(description="Complete ones that did not succeed.")


class CallbackView(Answer):
    """A job that a batch starts."""

    name: str
    state: CallbackState = Field(description="due: about to be enqueued.")
    job_id: JobId = Field(description="ID that the job has, or will have.")


class BatchCallbacks(Answer):
    """The callbacks of a batch. Null: it has none of that kind."""

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
    batch: JobId | None = Field(description="The batch of which this one is a member.")
    created_at: Timestamp
    completed_at: Timestamp | None
    canceled_at: Timestamp | None
    expires_at: Timestamp | None = Field(description="When it is canceled if it is not complete.")


class BatchList(Answer):
    """A page of batches, newest first. It may hold few, or none, although `next_cursor` shows that more follow."""

    batches: list[BatchView]
    next_cursor: str | None = Field(description="Cursor of the next page. Null on the last page.")


class BatchJobs(Answer):
    """A page of the jobs of a batch, oldest first. It may hold few, or none, although more pages follow."""

    jobs: list[JobSummary]
    next_cursor: str | None = Field(description="Cursor of the next page. Null on the last page.")


class BatchReason(Answer):
    """Something that a batch waits for."""

    code: Literal["open", "jobs", "batches", "callback", "failed"] = Field(
        description="open: it is not sealed. jobs, batches: members are not over. callback: a callback is about to be "
        "enqueued. failed: it is complete, and on_success waits for members that did not succeed."
    )
    text: str


class BatchWhy(Answer):
    """The reasons why a batch is not complete, or why its on_success was not started."""

    state: BatchState
    reasons: list[BatchReason]
    jobs: list[JobSummary] = Field(description="The oldest members that it waits for, ten at most.")
