"""Filters that select jobs for lists and for bulk actions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from jqmaster.domain.jobs.job import FINISHED, STATE_GROUPS, Attempt, Cause, Job, JobState, StateGroup
from jqmaster.domain.jobs.stack_frame import kind_of
from jqmaster.domain.matching.matcher import Matcher, parse_matcher

# Returns the IDs of the groups to which a failure may belong. Arguments: the name of the job, the cause, the message of
# the last error, and the `kind` of its stack frame.
GroupsOf = Callable[[str, str, str, str], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class JobFilter:
    """A filter; all given conditions must hold.

    * `batch`: the ID of a batch, which selects its members.
    * `q`: a text in the ID or the name.
    * `text`: a text in the message of the last error.
    * `merged_groups`: groups that count in `failure_group`.

    Ranges of store milliseconds include both ends. A duration is the run time of the last attempt of a finished job."""

    state: JobState | None = None
    group: StateGroup | None = None
    name: str | None = None
    tag: str | None = None
    batch: str | None = None
    worker: str | None = None
    q: str | None = None
    cause: Cause | None = None
    created_after_ms: int | None = None
    created_before_ms: int | None = None
    finished_after_ms: int | None = None
    finished_before_ms: int | None = None
    text: str | None = None
    failure_group: str | None = None
    merged_groups: tuple[str, ...] | None = None
    matcher: Matcher | None = None
    min_attempt: int | None = None
    min_duration_ms: int | None = None
    max_duration_ms: int | None = None

    @property
    def asks_argument(self) -> bool:
        """Return whether the filter reads the argument, which may be long."""
        return self.matcher is not None and "argument" in self.matcher.reads

    @property
    def asks_duration(self) -> bool:
        return self.min_duration_ms is not None or self.max_duration_ms is not None

    @property
    def asks_errors(self) -> bool:
        """Return whether the decision needs more than a job's record: see `selects_error`."""
        return self.text is not None or self.failure_group is not None

    @property
    def asks_end(self) -> bool:
        return self.finished_after_ms is not None or self.finished_before_ms is not None

    def may_select_state(self, state: JobState) -> bool:
        """Return whether a job in this state can be selected at all."""
        if self.state is not None and state is not self.state:
            return False
        if self.group is not None and state not in STATE_GROUPS[self.group]:
            return False
        if self.failure_group is not None and state is not JobState.FAILED:
            return False
        return state in FINISHED or not (self.asks_end or self.asks_duration)

    def ended_between_ms(self) -> tuple[int | None, int | None]:
        """Return the earliest and the latest instant at which a selected job can have ended. A job ends after
        it was created."""
        least = [ms for ms in (self.finished_after_ms, self.created_after_ms) if ms is not None]
        return max(least, default=None), self.finished_before_ms

    def selects(self, job: Job) -> bool:
        """Return whether the record of the job passes the filter. The matcher, which may read all of the argument, and
        `selects_error` must pass as well."""
        return (
            (self.state is None or job.state is self.state)
            and (self.group is None or job.state in STATE_GROUPS[self.group])
            and (self.name is None or job.name == self.name)
            and (self.tag is None or self.tag in job.tags)
            and (self.batch is None or job.batch == self.batch)
            and (self.worker is None or job.worker_id == self.worker)
            and (self.q is None or self.q in job.id or self.q in job.name)
            and (self.cause is None or (job.cause is self.cause and job.state in FINISHED))
            and _is_between(job.created_at_ms, self.created_after_ms, self.created_before_ms)
            and (
                not self.asks_end
                or (
                    job.state in FINISHED
                    and _is_between(job.finished_at_ms, self.finished_after_ms, self.finished_before_ms)
                )
            )
            and (self.min_attempt is None or job.attempt >= self.min_attempt)
            and (
                not self.asks_duration
                or (
                    job.state in FINISHED
                    and job.started_at_ms > 0
                    and _is_between(
                        job.finished_at_ms - job.started_at_ms, self.min_duration_ms, self.max_duration_ms
                    )
                )
            )
            and not (self.asks_errors and not _may_have_failed(job))
            and (self.failure_group is None or job.state is JobState.FAILED)
        )

    def selects_error(self, job: Job, last: Attempt | None, groups_of: GroupsOf) -> bool:
        """Return whether a job that passed `selects` is selected, given the end of its last unsuccessful attempt."""
        message = (last.message if last else None) or ""
        if self.text is not None and self.text not in message:
            return False
        if self.failure_group is None:
            return True
        frame = kind_of(last.error) if last else ""
        wanted = {self.failure_group, *(self.merged_groups or ())}
        return not wanted.isdisjoint(groups_of(job.name, job.cause.name.lower(), message, frame))

    def document(self) -> dict[str, Any]:
        """Return the filter as a document that `of_document` can read. It has only the given fields, as texts and
        numbers."""
        values = {field: getattr(self, field) for field in _FIELDS}
        values["cause"] = self.cause.name.lower() if self.cause is not None else None
        values["state"] = str(self.state) if self.state is not None else None
        values["matcher"] = self.matcher.document if self.matcher is not None else None
        return {field: value for field, value in values.items() if value is not None}

    @classmethod
    def of_document(cls, document: dict[str, Any]) -> "JobFilter":
        """Return the filter of a document. Raise TypeError for fields of a later version, because the filter would
        select wrong jobs without them."""
        values = dict(document)
        if "state" in values:
            values["state"] = JobState(values["state"])
        if "cause" in values:
            values["cause"] = Cause[values["cause"].upper()]
        if "matcher" in values:
            values["matcher"] = parse_matcher(values["matcher"])
        if "merged_groups" in values:
            values["merged_groups"] = tuple(values["merged_groups"])
        return cls(**values)


_FIELDS: Final = tuple(JobFilter.__dataclass_fields__)


def _may_have_failed(job: Job) -> bool:
    return job.state is JobState.FAILED or job.failures > 0 or job.losses > 0


def _is_between(ms: int, after_ms: int | None, before_ms: int | None) -> bool:
    return (after_ms is None or ms >= after_ms) and (before_ms is None or ms <= before_ms)
