"""HTTP models of statistics."""

from typing import Annotated, Any, Final, Literal, get_args

from pydantic import Field, WithJsonSchema

from jqmaster.api.schemas import (
    SINCE,
    Answer,
    Count,
    Distribution,
    JobId,
    Milliseconds,
    Request,
    Seconds,
    Timestamp,
)
from jqmaster.config import Durability
from jqmaster.domain.jobs.failures import MAX_VERSIONS, MIN_MORE, MORE_FACTOR, TREND_HOURS
from jqmaster.domain.jobs.job import JobState
from jqmaster.domain.jobs.triage import MAX_ASSIGNEE
from jqmaster.service.jobs.failure_actions import MAX_IGNORE_S, MAX_REASON
from jqmaster.service.operations.stats import Span

Rate = Annotated[
    float, Field(ge=0, description="Rate per second over the last minute, summed over all masters.")
]
# The spans are a separate component. Otherwise, client generators would give the enums of the query and of the
# answer the same name.
SPAN_SCHEMA: Final[dict[str, Any]] = {"type": "string", "enum": list(get_args(Span))}
SPAN_REF: Final = "#/components/schemas/HistorySpan"
SpanField = Annotated[Span, WithJsonSchema({"x-schema": "HistorySpan"})]
_SHARE: Final = (
    "Number of jobs that succeeded or were discarded, divided by the number of jobs that succeeded, were "
    "discarded or failed for good. Null if there were no such jobs."
)


class DemandView(Answer):
    """Jobs and slots for some names and labels."""

    ready: Count = Field(description="Due jobs that could start now if slots of workers were free.")
    blocked: Count = Field(description="Due jobs that constraints hold back.")
    running: Count = Field(description="Jobs that are running.")
    slots: Count = Field(
        description="Slots, busy and free, of the live workers that may run such jobs. Draining workers do not count."
    )
    oldest_wait_s: Seconds | None = Field(
        description=(
            "Wait of the first job in `ready`. Null if there is no such job, or if its wait is unknown."
        )
    )
    demand: Count = Field(description="`ready` + `running`: the number of slots that these jobs would take.")
    is_exact: bool = Field(
        description=(
            "False: the numbers of jobs are lower bounds, because there are too many to count in one "
            "call, or constraints have just changed."
        )
    )


class StatsRates(Answer):
    """Rates per second over the last minute."""

    pushed: Rate
    succeeded: Rate
    discarded: Rate = Field(json_schema_extra=SINCE)
    failed: Rate = Field(description="Jobs that failed for good.")
    canceled: Rate
    skipped: Rate
    retried: Rate = Field(description="Attempts that failed or were lost, if the job will run again.")


class StatsWorkers(Answer):
    """Number of workers by state. Each worker counts once."""

    fresh: Count
    stale: Count = Field(description="Workers without a recent heartbeat.")
    draining: Count
    detached: Count
    max_jobs: Count = Field(description="Sum of max_jobs over the live workers (state `fresh`).")
    busy: Count = Field(description="Number of jobs that workers hold.")


class StatsMasters(Answer):
    """Number of masters by state."""

    fresh: Count
    stale: Count
    leader_id: str | None = Field(description="ID of the leader. Null if no master leads.")
    epoch: int = Field(description="Number of the newest epoch. 0 before the first election.")


class StatsStore(Answer):
    """State of the store."""

    server: str = Field(description="Kind and version of the server.")
    durability: Durability = Field(
        description=(
            "Durability in force: the configured level, or a lower level while the store cannot provide it."
        )
    )
    durability_available: Durability
    used_memory_bytes: Count
    max_memory_bytes: Count | None = Field(description="Memory limit of the store. Null if none is set.")
    latency_ms: Annotated[float, Field(ge=0)] | None = Field(
        description="Round-trip time of one call from this master."
    )
    faults: list[str] = Field(description="Reasons why new jobs are refused now. Empty: they are accepted.")


class OldestStartable(Answer):
    """The ready job that waits longest although no constraint holds it back."""

    job_id: str
    name: str
    wait_ms: Milliseconds


class Stats(Answer):
    """The current state, at most one second old."""

    at: Timestamp
    counts: dict[JobState, int] = Field(description="Number of jobs by state.")
    oldest_wait_ms: Milliseconds | None = Field(
        description="Age of the ready job that has waited longest, found by a bounded search. Null if none waits."
    )
    oldest_startable: OldestStartable | None = Field(
        description=(
            "The ready job with the longest wait that no constraint holds back. Null: no such job waits, or "
            "no such job is known. Older masters omit this field."
        )
    )
    rates: StatsRates
    workers: StatsWorkers
    masters: StatsMasters
    store: StatsStore
    duty_faults: list[str] = Field(
        description="Side duties of the answering master or of the leader that keep failing, such as notices or the "
        "log archive. Jobs are not affected."
    )


class _Counts(Answer):
    pushed: Count
    succeeded: Count
    discarded: Count = Field(json_schema_extra=SINCE)
    failed: Count = Field(description="Jobs that failed for good.")
    canceled: Count
    skipped: Count
    retried: Count = Field(description="Attempts that failed or were lost, if the job will run again.")
    wait: Distribution | None = Field(
        description="Time between ready and claimed, over all attempts. Null if there were none."
    )
    run: Distribution | None = Field(
        description="Run time, over all attempts that ended by themselves. Null if there were none."
    )


class StatsPoint(_Counts):
    """Counts of one minute or hour."""

    at: Timestamp = Field(description="Start of the minute or hour.")
    backlog: Count | None = Field(
        description="Largest sampled number of ready jobs. Null if the leader took no sample."
    )
    oldest_wait_ms: Milliseconds | None = Field(
        description="Longest wait of a ready job that the leader sampled."
    )


class StatsHistory(Answer):
    """Counts by minute or hour, oldest first. The last one is not complete yet."""

    name: str | None = Field(description="Job name. Null: counts of all jobs.")
    span: SpanField
    step_s: int = Field(description="Length of a step: 60 for spans up to 24h, otherwise 3600.")
    points: list[StatsPoint]


class NameStats(_Counts):
    """Counts of one job name over a span."""

    name: str = Field(
        description=(
            "Job name. Only a limited number of names are counted separately. `(other)` stands for "
            "all further names."
        )
    )
    ready: Count = Field(description="Number of ready jobs now.")
    success_share: Annotated[float, Field(ge=0, le=1)] | None = Field(description=_SHARE)
    is_failing: bool = Field(
        description=(
            "True: the name counts as failing, because many of its jobs failed in the span. `GET "
            "/api/health` applies the same rule to the last hour. Older masters omit this field."
        )
    )
    last_seen_at: Timestamp | None = Field(description="Time of the last count, accurate to some seconds.")


class NameList(Answer):
    """A page of job names."""

    names: list[NameStats]
    next_cursor: str | None = Field(
        description="Cursor of the next page of the same query. Null on the last page."
    )
    span: SpanField


class Bucket(Answer):
    """Number of durations above the previous bucket's bound and up to `le_ms`."""

    le_ms: int | None = Field(description="Upper bound. Null: unbounded.")
    count: Count


class NameContract(Answer):
    """A contract of the job name, as workers declared it when they registered."""

    version: str
    argument_schema: dict[str, Any] | None = Field(
        description="JSON Schema of the argument. Null: any argument."
    )
    options: dict[str, Any] = Field(description="Default options of such jobs.")
    live_workers: Count = Field(description="Number of live workers that declared this contract.")
    worker_versions: list[str] = Field(description="Versions of these workers.")
    told_at: Timestamp = Field(description="Time at which a worker last declared this contract.")


class NameWarning(Answer):
    """A fault in the contracts of the job name."""

    code: str = Field(
        description="schemas_differ, contract_untold, no_live_worker or unserved_name. Future releases may add values."
    )
    text: str


class NameDetail(NameStats):
    """Counts of one job name over a span, with histograms. Empty buckets are omitted."""

    wait_histogram: list[Bucket]
    run_histogram: list[Bucket]
    span: SpanField
    contracts: list[NameContract] = Field(
        description=(
            "Contracts that workers reported in the last 30 days. Contracts of live workers come "
            "first, then the latest."
        ),
        json_schema_extra=SINCE,
    )
    warnings: list[NameWarning] = Field(json_schema_extra=SINCE)


class IgnoreRequest(Request):
    """Ignores a group of failures."""

    duration_s: Annotated[Seconds, Field(gt=0, le=MAX_IGNORE_S)] | None = Field(
        None,
        description=(
            "Seconds for which to ignore the group. Null: until the group changes. These are changes: a "
            "failure on a worker version without earlier failures of the group, a failure after a day "
            f"without failures, and an hour with many failures. Such an hour has more than {MORE_FACTOR} "
            f"times the failures of the busiest earlier hour, and at least {MIN_MORE} more."
        ),
    )
    reason: str = Field("", max_length=MAX_REASON, description="Why, for people.")


class AssignRequest(Request):
    """Assigns a group of failures to a person."""

    assignee: str = Field(
        min_length=1,
        max_length=MAX_ASSIGNEE,
        description="The person who looks after the group. It need not be a user.",
    )


class MergeRequest(Request):
    """Merges a group of failures into another."""

    into: str = Field(
        pattern="^[0-9a-f]{16}$",
        description=(
            "ID of the group into which this group is merged. Both groups must have the same job name."
        ),
    )


class MergedFailures(Answer):
    """A group that people merged into another."""

    id: str
    message: str = Field(description="Its message. Empty if the caller may not see it.")
    count: Count = Field(description="Number of its failures, which also count in the other group.")


class ResolveRequest(Request):
    """Marks a group of failures as resolved."""

    version: str = Field(
        "",
        max_length=64,
        description=(
            "Version of the workers in which the fault is resolved. Empty: the next version, which is any "
            "version without failures so far."
        ),
    )


class FailureAssigned(Answer):
    """The assignment of the group to a person."""

    assignee: str
    by: str = Field(description="The person who assigned it.")
    at: Timestamp


class FailureResolved(Answer):
    """The record that somebody marked the group as resolved."""

    by: str
    at: Timestamp
    version: str | None = Field(
        description=(
            "Null: the next version, which is any version without failures when the group was marked."
        )
    )
    reopened_by: str | None = Field(
        description=(
            "Worker version on which a job failed in this way although the group was resolved for this "
            "version. The group is then open again. Empty: a worker without a version. Null: the group is "
            "resolved."
        )
    )


class RaisedAt(Answer):
    """The innermost frame of the application's own code in the stack trace of the latest job."""

    file: str
    function: str
    code: str = Field(description="The source line. Empty if the trace has none.")


class AffectedValue(Answer):
    """A value that jobs of a group have."""

    value: str = Field(
        description=(
            "The value as JSON. A value with more than 200 characters is shortened to its beginning and its "
            "end, with `…` between them."
        )
    )
    count: Count = Field(description="Number of examined jobs with this value.")


class AffectedValues(Answer):
    """The values of the latest jobs of a group of failures, the most frequent first."""

    values: list[AffectedValue]
    examined: Count = Field(description="Number of jobs that were examined.")
    without: Count = Field(description="Number of examined jobs that have no such value.")
    is_complete: bool = Field(description="False: there may be further jobs or values.")
    distinct: Count = Field(
        description="Number of different values in the examined jobs. Long values are compared in full."
    )
    paths: list[str] = Field(description="Paths at which the examined jobs have values, at most 30.")


class FailureIgnored(Answer):
    """The decision to ignore the group."""

    by: str
    at: Timestamp
    until: Timestamp | None = Field(description="Null: until the group changes.")
    reason: str
    ended_by: Literal["time", "version", "regressed", "more"] | None = Field(
        description=(
            "Reason why the group is no longer ignored: the time is over, jobs failed on a new worker "
            "version, a failure came after a day without failures, or an hour had far more failures. Null: "
            "the group is ignored."
        )
    )


class FailureVersion(Answer):
    """Failures of a group on workers of one version."""

    version: str
    count: Count
    first_seen_at: Timestamp
    last_seen_at: Timestamp


class FailureGroup(Answer):
    """Jobs of one name and cause that failed for good at one place in the code. If the stack trace does not show
    the place, the messages of these jobs differ only in variable parts, such as numbers and IDs."""

    id: str = Field(
        pattern="^[0-9a-f]{16}$",
        description=(
            "ID for the job filter `failure_group`. A caller that may not see job content cannot "
            "use that filter. Such a caller sees all failures of one name, cause and error type as "
            "one group."
        ),
    )
    name: str
    cause: str = Field(
        description="Cause of the failures: error, timeout, undecodable, invalid_argument or lost."
    )
    message: str = Field(
        description=(
            "Message with placeholders for variable parts. `[hidden]` if the caller may not see it, "
            "`[redacted]` if nobody may see it."
        )
    )
    message_hidden: bool = Field(description="True: the message is replaced by `[hidden]` or `[redacted]`.")
    error_type: str | None = Field(
        description="Type of the exception of the latest job. Every caller sees it. Null if unknown."
    )
    count: Count = Field(
        description="Number of jobs that failed for good since the group was created. Retried attempts do not count."
    )
    first_seen_at: Timestamp
    last_seen_at: Timestamp
    example_job_id: JobId | None = Field(
        description="One of the latest failed jobs. It may have been deleted since."
    )
    trend: list[Count] = Field(
        description=(
            f"Number of failures in each of the last {TREND_HOURS} clock hours. The current hour is "
            "the last one."
        ),
        json_schema_extra=SINCE,
    )
    marks: list[Literal["new", "regressed"]] = Field(
        description="`new`: first seen within the last hour. `regressed`: seen again within the last day, after a day "
        "without it.",
        json_schema_extra=SINCE,
    )
    versions: list[FailureVersion] = Field(
        description=(
            f"The last {MAX_VERSIONS} worker versions on which the group was seen, latest first. "
            "Workers without a version are not listed."
        ),
        json_schema_extra=SINCE,
    )
    ignored: FailureIgnored | None = Field(description="Null: nobody ignores it.", json_schema_extra=SINCE)
    raised_at: RaisedAt | None = Field(
        description="Null if the place is unknown, or the caller may not see it.", json_schema_extra=SINCE
    )
    assigned: FailureAssigned | None = Field(
        description="Null: nobody looks after it.", json_schema_extra=SINCE
    )
    resolved: FailureResolved | None = Field(description="Null: nobody resolved it.", json_schema_extra=SINCE)
    merged: list[MergedFailures] = Field(
        description="Groups that people merged into this one.", json_schema_extra=SINCE
    )


class FailureList(Answer):
    """A page of failure groups, latest first."""

    groups: list[FailureGroup]
    next_cursor: str | None = Field(
        description="Cursor of the next page of the same query. Null on the last page."
    )
