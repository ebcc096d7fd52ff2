"""Statistics as they travel over HTTP."""

from typing import Annotated, Any, Final, get_args

from pydantic import Field, WithJsonSchema

from jqmaster.api.schemas import Answer, JobId, Timestamp
from jqmaster.config import Durability
from jqmaster.domain.job import JobState
from jqmaster.service.operations.stats import Span

Count = Annotated[int, Field(ge=0)]
Rate = Annotated[float, Field(ge=0, description="Per second, over the last minute, of all masters.")]
Milliseconds = Annotated[int, Field(ge=0)]
# A component of its own: generators would name the enum of the query and that of the answer alike.
SPAN_SCHEMA: Final[dict[str, Any]] = {"type": "string", "enum": list(get_args(Span))}
SPAN_REF: Final = "#/components/schemas/HistorySpan"
SpanField = Annotated[Span, WithJsonSchema({"x-schema": "HistorySpan"})]
_SHARE: Final = "Of the jobs that succeeded or failed for good; null where none did."


class StatsRates(Answer):
    """What happened within the last minute, per second."""

    pushed: Rate
    succeeded: Rate
    failed: Rate = Field(description="For good.")
    canceled: Rate
    skipped: Rate
    retried: Rate = Field(description="Attempts that failed or were lost, and whose job goes on.")


class StatsWorkers(Answer):
    """Workers by state; each counts once."""

    fresh: Count
    stale: Count = Field(description="Silent for a while.")
    draining: Count
    detached: Count
    max_jobs: Count = Field(description="Slots of the fresh ones.")
    busy: Count = Field(description="Jobs that workers hold.")


class StatsMasters(Answer):
    """Masters by state."""

    fresh: Count
    stale: Count
    leader_id: str | None = Field(description="Null: none leads.")
    epoch: int = Field(description="Growing part of the newest epoch; 0 before the first election.")


class StatsStore(Answer):
    """The store."""

    server: str = Field(description="Kind and version.")
    durability: Durability = Field(description="What is kept of the configured level.")
    durability_available: Durability
    used_memory_bytes: Count
    max_memory_bytes: Count | None = Field(description="Null: no limit is set.")
    latency_ms: Annotated[float, Field(ge=0)] | None = Field(
        description="Of one call, from this master and back."
    )
    faults: list[str] = Field(description="Why new jobs are refused at present; empty: they are not.")


class Stats(Answer):
    """The present state, a second old at most."""

    at: Timestamp
    counts: dict[JobState, int] = Field(description="All jobs by state.")
    oldest_wait_ms: Milliseconds | None = Field(
        description="Age of the ready job that waits for longest, as far as a bounded look tells; null: none waits."
    )
    rates: StatsRates
    workers: StatsWorkers
    masters: StatsMasters
    store: StatsStore


class Distribution(Answer):
    """Durations, estimated from buckets that double in two steps."""

    count: Count
    p50_ms: Milliseconds
    p95_ms: Milliseconds
    p99_ms: Milliseconds
    max_ms: Milliseconds = Field(description="Exact.")


class _Counts(Answer):
    pushed: Count
    succeeded: Count
    failed: Count = Field(description="For good.")
    canceled: Count
    skipped: Count
    retried: Count = Field(description="Attempts that failed or were lost, and whose job goes on.")
    wait: Distribution | None = Field(
        description="From when a job became ready to when it was claimed, of each attempt; null: there was none."
    )
    run: Distribution | None = Field(
        description="Of each attempt that ended by itself; null: there was none."
    )


class StatsPoint(_Counts):
    """One minute or hour."""

    at: Timestamp = Field(description="When it began.")
    backlog: Count | None = Field(description="The most ready jobs that the leader saw; null: nobody looked.")
    oldest_wait_ms: Milliseconds | None = Field(description="The longest that it saw one wait.")


class StatsHistory(Answer):
    """What was counted, step by step, the oldest first. The last step is not over yet."""

    name: str | None = Field(description="Null: of all jobs.")
    span: SpanField
    step_s: int = Field(description="60 up to 24h, 3600 beyond.")
    points: list[StatsPoint]


class NameStats(_Counts):
    """One name over a span."""

    name: str = Field(
        description="`(other)` stands for all names beyond the bound of those that are told apart."
    )
    ready: Count = Field(description="Now.")
    success_share: Annotated[float, Field(ge=0, le=1)] | None = Field(description=_SHARE)
    last_seen_at: Timestamp | None = Field(description="Something was counted, within some seconds.")


class NameList(Answer):
    """A page of names."""

    names: list[NameStats]
    next_cursor: str | None = Field(
        description="For the next page of the same query; null: this is the last."
    )
    span: SpanField


class Bucket(Answer):
    """Durations above the bound of the bucket before and up to `le_ms`."""

    le_ms: int | None = Field(description="Null: without a bound.")
    count: Count


class NameDetail(NameStats):
    """One name over a span, with its histograms; empty buckets are left out."""

    wait_histogram: list[Bucket]
    run_histogram: list[Bucket]
    span: SpanField


class FailureGroup(Answer):
    """Jobs that failed for good, of one name and cause, whose messages differ in numbers, IDs and the like only."""

    id: str = Field(
        pattern="^[0-9a-f]{16}$",
        description="For the filter `failure_group` of jobs, which a caller without the right to content cannot use: to them a "
        "group is all failures of one name, cause and type.",
    )
    name: str
    cause: str = Field(description="error, timeout, undecodable or lost.")
    message: str = Field(
        description="With placeholders for what varies; `[hidden]` where the caller may not see it, `[redacted]` where nobody may."
    )
    message_hidden: bool = Field(description="True: one of these stands in place of the message.")
    error_type: str | None = Field(
        description="The type of the exception, of the latest of its jobs; shown to everybody. Null: not known."
    )
    count: Count = Field(
        description="Jobs that failed for good since the group is kept; attempts that were retried do not count."
    )
    first_seen_at: Timestamp
    last_seen_at: Timestamp
    example_job_id: JobId | None = Field(description="One of the latest; it may be deleted by now.")


class FailureList(Answer):
    """A page of groups, the latest first."""

    groups: list[FailureGroup]
    next_cursor: str | None = Field(
        description="For the next page of the same query; null: this is the last."
    )
