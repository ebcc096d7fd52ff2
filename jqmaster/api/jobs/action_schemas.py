"""HTTP models of actions on many jobs."""

from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from jqmaster.api.jobs.schemas import JobSummary
from jqmaster.api.schemas import (
    SINCE,
    Answer,
    Instant,
    JobId,
    MatcherDocument,
    Request,
    Seconds,
    ShortText,
    Timestamp,
)
from jqmaster.domain.jobs.bulk_action import ActionState
from jqmaster.domain.jobs.job import ActionKind, Cause, JobState
from jqmaster.domain.jobs.job_filter import JobFilter
from jqmaster.domain.jobs.job_terms import PRIORITY
from jqmaster.domain.matching.checks import MatcherError
from jqmaster.domain.matching.matcher import Matcher, parse_matcher
from jqmaster.errors import FieldError, InvalidError
from jqmaster.service.jobs.bulk_actions import RequestedAction

MAX_IDS: Final = 1_000
GROUP_PATTERN: Final = r"^[0-9a-f]{16}$"

CauseName = Literal["error", "timeout", "lost", "expired", "canceled", "undecodable", "invalid_argument"]
FilterText = Annotated[str, Field(min_length=1, max_length=200)]


class JobFilterRequest(Request):
    """A filter of jobs, with the same fields as the list of jobs. All given fields must match. Empty: every job."""

    state: JobState | None = Field(None, strict=False)
    name: FilterText | None = Field(None, description="Jobs with exactly this name.")
    tag: ShortText | None = None
    batch: JobId | None = Field(None, description="Members of the batch with this ID.")
    worker: FilterText | None = Field(
        None, description="Jobs with their latest attempt on the worker with this ID."
    )
    q: FilterText | None = Field(None, description="Jobs with this text in their ID or name.")
    cause: CauseName | None = Field(None, description="Jobs that ended with this cause.")
    created_after: Instant | None = None
    created_before: Instant | None = None
    finished_after: Instant | None = None
    finished_before: Instant | None = None
    text: FilterText | None = Field(None, description="Jobs with this text in their last error message.")
    failure_group: str | None = Field(None, pattern=GROUP_PATTERN)
    matcher: MatcherDocument | None = Field(
        None, description="Jobs that this matcher selects, for example by a value in their argument."
    )
    min_attempt: int | None = Field(
        None, ge=1, le=2**31, description="Jobs with at least this many attempts."
    )
    min_duration: Seconds | None = Field(
        None, ge=0, description="Finished jobs with a last attempt that took at least this many seconds."
    )
    max_duration: Seconds | None = Field(
        None, ge=0, description="Finished jobs with a last attempt that took at most this many seconds."
    )

    def to_filter(self) -> JobFilter:
        return JobFilter(
            state=self.state,
            name=self.name,
            tag=self.tag,
            batch=self.batch,
            worker=self.worker,
            q=self.q,
            cause=None if self.cause is None else Cause[self.cause.upper()],
            created_after_ms=self.created_after,
            created_before_ms=self.created_before,
            finished_after_ms=self.finished_after,
            finished_before_ms=self.finished_before,
            text=self.text,
            failure_group=self.failure_group,
            matcher=None if self.matcher is None else _parsed(self.matcher),
            min_attempt=self.min_attempt,
            min_duration_ms=None if self.min_duration is None else round(self.min_duration * 1000),
            max_duration_ms=None if self.max_duration is None else round(self.max_duration * 1000),
        )


def _parsed(document: object) -> Matcher:
    try:
        return parse_matcher(document)
    except MatcherError as error:
        loc = ("filter", "matcher", *error.loc)
        raise InvalidError(
            f"the matcher is not valid: {error}", errors=[FieldError(loc, error.msg)]
        ) from None


class JobActionRequest(Request):
    """An action on many jobs, selected by `filter` or by `ids`."""

    action: ActionKind = Field(strict=False)
    filter: JobFilterRequest | None = None
    ids: list[JobId] | None = Field(None, min_length=1, max_length=MAX_IDS)
    priority: int | None = Field(
        None,
        ge=PRIORITY.least,
        le=PRIORITY.most,
        description="New priority, for set_priority only. The lowest number runs first.",
    )
    dry_run: bool = Field(
        False, description="Only count the jobs that the action would change now. Changes nothing."
    )
    rate_per_s: Seconds | None = Field(
        None, ge=0.01, le=10_000, description="Maximum number of jobs per second that the action changes."
    )
    stop_at_failure_share: Annotated[float, Field(allow_inf_nan=False)] | None = Field(
        None,
        ge=0,
        le=1,
        description=(
            "For retry only: the action stops when more than this share of the retried jobs has "
            "failed again. Only the first new attempt of each job counts. The share is checked "
            "after 20 jobs have ended. With this option, at most 200 of the retried jobs are "
            "unfinished at a time."
        ),
    )
    at_most: int | None = Field(
        None,
        ge=0,
        le=1_000_000_000,
        description=(
            "Maximum number of jobs to change. Give the `count` of a dry run that a person has confirmed. "
            "If more jobs match when the action begins, it is refused (409 `more_than_at_most`). If more "
            "jobs match later, the action stops."
        ),
        json_schema_extra=SINCE,
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.filter is None) == (self.ids is None):
            raise ValueError("give either filter or ids")
        if (self.priority is None) == (self.action is ActionKind.SET_PRIORITY):
            raise ValueError("set_priority requires priority, and no other action takes it")
        if self.stop_at_failure_share is not None and self.action is not ActionKind.RETRY:
            raise ValueError("stop_at_failure_share can be used only with retry")
        return self

    def to_requested_action(self) -> RequestedAction:
        return RequestedAction(
            self.action,
            None if self.filter is None else self.filter.to_filter(),
            self.ids,
            self.priority,
            self.rate_per_s,
            self.stop_at_failure_share,
            self.at_most,
        )


class JobFilterView(Answer):
    """The filter of an action. Null: the field was not given."""

    state: JobState | None
    name: str | None
    tag: str | None
    batch: str | None
    worker: str | None
    q: str | None
    cause: str | None
    created_after: Timestamp | None
    created_before: Timestamp | None
    finished_after: Timestamp | None
    finished_before: Timestamp | None
    text: str | None
    failure_group: str | None
    matcher: MatcherDocument | None
    min_attempt: int | None
    min_duration: float | None
    max_duration: float | None


class JobActionPreview(Answer):
    """The jobs that an action would change now."""

    count: int
    is_exact: bool = Field(
        description="False: `count` is a lower bound, because counting all jobs would take too long."
    )
    examples: list[JobSummary] = Field(description="Up to 5 of these jobs.")


class JobActionView(Answer):
    """An action on many jobs. It changes only jobs that were created before the action and have a state that
    allows it."""

    id: str
    action: ActionKind
    filter: JobFilterView | None
    ids_count: int | None = Field(description="Number of given IDs. Null: the jobs were selected by filter.")
    priority: int | None
    rate_per_s: float | None
    stop_at_failure_share: float | None
    at_most: int | None = Field(
        description="Maximum number of jobs that the action may change. Null: any number.",
        json_schema_extra=SINCE,
    )
    state: ActionState = Field(
        description=(
            "stopped: too many of the retried jobs failed again, or more jobs match than at_most "
            "allows. `message` gives the reason. failed: the action could not continue."
        )
    )
    matched: int | None = Field(
        description=(
            "Number of selected jobs at the beginning of the action. Null if counting took too "
            "long. After the end of the action: number of jobs that it examined."
        )
    )
    looked_at: int
    done: int
    refused: int = Field(
        description=(
            "Number of jobs that no longer existed, or that were no longer in a state that allows the action."
        )
    )
    failed_again: int | None = Field(
        description="For a retry with stop_at_failure_share: number of jobs known to have failed again."
    )
    by: str = Field(description="Caller that started the action, as the audit log names it.")
    created_at: Timestamp
    finished_at: Timestamp | None
    message: str | None


class JobActionList(Answer):
    """Up to 200 actions that are running or ended in the last 7 days."""

    actions: list[JobActionView] = Field(description="Newest first.")
