"""What travels over HTTP about actions on many jobs."""

from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from jqmaster.api.jobs.schemas import JobSummary
from jqmaster.api.schemas import Answer, Instant, JobId, Request, Seconds, ShortText, Timestamp
from jqmaster.domain.bulk_action import ActionKind, ActionState
from jqmaster.domain.job import Cause, JobState
from jqmaster.domain.job_filter import JobFilter
from jqmaster.service.jobs.bulk_actions import Wish

MAX_IDS: Final = 1_000
GROUP_PATTERN: Final = r"^[0-9a-f]{16}$"

CauseName = Literal["error", "timeout", "lost", "expired", "canceled", "undecodable"]
FilterText = Annotated[str, Field(min_length=1, max_length=200)]


class JobFilterRequest(Request):
    """All that are given must hold; the same as the parameters of the list of jobs. Empty: every job."""

    state: JobState | None = Field(None, strict=False)
    name: FilterText | None = Field(None, description="The exact name.")
    tag: ShortText | None = None
    worker: FilterText | None = Field(None, description="ID of the worker of the latest attempt.")
    q: FilterText | None = Field(None, description="Part of the ID or name.")
    cause: CauseName | None = Field(None, description="Why it ended.")
    created_after: Instant | None = None
    created_before: Instant | None = None
    finished_after: Instant | None = None
    finished_before: Instant | None = None
    text: FilterText | None = Field(None, description="Part of the message of the last error.")
    failure_group: str | None = Field(None, pattern=GROUP_PATTERN)

    def to_filter(self) -> JobFilter:
        return JobFilter(
            state=self.state,
            name=self.name,
            tag=self.tag,
            worker=self.worker,
            q=self.q,
            cause=None if self.cause is None else Cause[self.cause.upper()],
            created_after_ms=self.created_after,
            created_before_ms=self.created_before,
            finished_after_ms=self.finished_after,
            finished_before_ms=self.finished_before,
            text=self.text,
            failure_group=self.failure_group,
        )


class JobActionRequest(Request):
    """Something to be done with many jobs, by `filter` or by `ids`."""

    action: ActionKind = Field(strict=False)
    filter: JobFilterRequest | None = None
    ids: list[JobId] | None = Field(None, min_length=1, max_length=MAX_IDS)
    priority: int | None = Field(
        None,
        ge=-(2**31),
        le=2**31 - 1,
        description="The new priority, for set_priority only. The lowest number runs first.",
    )
    dry_run: bool = Field(
        False, description="Only tell how many jobs it would touch now, and change nothing."
    )
    rate_per_s: Seconds | None = Field(None, ge=0.01, le=10_000, description="At most so many jobs a second.")
    stop_at_failure_share: Annotated[float, Field(allow_inf_nan=False)] | None = Field(
        None,
        ge=0,
        le=1,
        description="Of retry: end by itself when of the retried jobs that have ended since more than this share failed "
        "again; counted from 20 on, at their first attempt. No more than 200 of its jobs are under way at a time then.",
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.filter is None) == (self.ids is None):
            raise ValueError("give either filter or ids")
        if (self.priority is None) == (self.action is ActionKind.SET_PRIORITY):
            raise ValueError("priority belongs to set_priority, which needs it")
        if self.stop_at_failure_share is not None and self.action is not ActionKind.RETRY:
            raise ValueError("stop_at_failure_share belongs to retry")
        return self

    def to_wish(self) -> Wish:
        return Wish(
            self.action,
            None if self.filter is None else self.filter.to_filter(),
            self.ids,
            self.priority,
            self.rate_per_s,
            self.stop_at_failure_share,
        )


class JobFilterView(Answer):
    """What was given of a filter; null: not asked for."""

    state: JobState | None
    name: str | None
    tag: str | None
    worker: str | None
    q: str | None
    cause: str | None
    created_after: Timestamp | None
    created_before: Timestamp | None
    finished_after: Timestamp | None
    finished_before: Timestamp | None
    text: str | None
    failure_group: str | None


class JobActionPreview(Answer):
    """What an action would touch now."""

    count: int
    is_exact: bool = Field(
        description="False: there are at least so many; counting all of them takes too long."
    )
    examples: list[JobSummary] = Field(description="Up to 5 of them.")


class JobActionView(Answer):
    """An action on many jobs. It touches jobs that were created before it and are in a state that admits it."""

    id: str
    action: ActionKind
    filter: JobFilterView | None
    ids_count: int | None = Field(description="How many IDs were given; null: by filter.")
    priority: int | None
    rate_per_s: float | None
    stop_at_failure_share: float | None
    state: ActionState = Field(
        description="stopped: too many of the retried jobs failed again. failed: it could not go on."
    )
    matched: int | None = Field(
        description="How many jobs were selected when it began; null where that takes too long to count. At its end: how many it met."
    )
    looked_at: int
    done: int
    refused: int = Field(description="They were gone, or in another state by the time.")
    failed_again: int | None = Field(
        description="Of a retry with stop_at_failure_share: how many are known to have failed again."
    )
    by: str = Field(description="Who asked for it, as the audit log names them.")
    created_at: Timestamp
    finished_at: Timestamp | None
    message: str | None


class JobActionList(Answer):
    """Those that are under way or ended in the last 7 days, 200 at most."""

    actions: list[JobActionView] = Field(description="Newest first.")
