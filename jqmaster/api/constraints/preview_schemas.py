"""Previews of a constraint that is not stored yet. They show which jobs it selects, and which jobs it would have
held back in the last hour."""

from typing import Literal

from pydantic import (
    Field,
)

from jqmaster.api.constraints.schemas import (
    Concurrency,
    KeyPath,
    LimitsView,
    OverrideRequest,
    RateRequest,
    WeightRequest,
)
from jqmaster.api.jobs.schemas import JobSummary
from jqmaster.api.schemas import (
    SINCE,
    Answer,
    JobId,
    MatcherDocument,
    Request,
    Timestamp,
)
from jqmaster.domain.constraints.constraint import MAX_OVERRIDES


class PreviewRequest(Request):
    """A request to count the waiting jobs that a matcher selects."""

    matcher: MatcherDocument
    key: KeyPath | None = None
    overrides: list[OverrideRequest] = Field(
        default_factory=list,
        description=(
            "Overrides to preview. For each override, the answer counts the waiting jobs and the key values "
            "to which it would apply. Requires `key`."
        ),
        json_schema_extra={"maxItems": MAX_OVERRIDES},
    )
    limit: int = Field(20, ge=0, le=20, description="Maximum number of examples.")
    weight: WeightRequest | None = Field(None, description="Also return the weights of the jobs.")
    concurrency: Concurrency | None = Field(
        None, description="With `weight`: list jobs that are heavier than this limit."
    )
    rate: RateRequest | None = Field(
        None, description="With `weight`: list jobs that are heavier than this limit."
    )

    def least_limit(self) -> int | None:
        return min((one for one in (self.concurrency, self.rate and self.rate.limit) if one), default=None)


class KeyCount(Answer):
    """Number of waiting jobs with one value of the key."""

    value: str
    count: int


class OverrideCount(Answer):
    """The waiting jobs to which one of the requested overrides would apply."""

    jobs: int
    values: int = Field(description="Number of values of the key that these jobs have.")


class PreviewUnitsView(Answer):
    """The weights of the counted jobs."""

    unit: str
    total: int | float
    heaviest: int | float
    by_default: int = Field(
        description=(
            "Number of jobs with the default weight. They have no number at `weight.from`, or a negative "
            "number."
        )
    )
    too_heavy: int = Field(
        description=(
            "Number of jobs that are heavier than a limit. Such a job starts only while no "
            "other job is counted."
        )
    )
    too_heavy_jobs: list[JobId] = Field(description="IDs of up to 20 of these jobs.")


class PreviewAnswer(Answer):
    """The waiting jobs to which a constraint would apply."""

    count: int
    without_key: int = Field(
        description="Number of jobs that match but lack the key. The constraint would not apply to them."
    )
    looked_at: int = Field(description="Number of jobs that the preview read one by one.")
    is_exact: bool = Field(description="False: there were more jobs than the preview may read.")
    examples: list[JobSummary]
    keys: list[KeyCount] | None = Field(description="Up to 20 most frequent values of the key.")
    distinct_keys: int | None
    overrides: list[OverrideCount] = Field(
        default_factory=list,
        description="Counts of each requested override, in the order of the request.",
        json_schema_extra=SINCE,
    )
    units: PreviewUnitsView | None = Field(
        None, description="Null without `weight`.", json_schema_extra=SINCE
    )


class ReplayPointView(Answer):
    """One minute of a replay."""

    at: Timestamp
    started: int = Field(description="Number of jobs that actually started in this minute.")
    held: int = Field(
        description="Largest number of jobs that would have been held at the same time in this minute."
    )
    started_units: int | float | None = Field(
        None,
        description="Units of the jobs that actually started in this minute. Null without `weight`.",
        json_schema_extra=SINCE,
    )
    held_units: int | float | None = Field(
        None,
        description="Largest number of units that would have been held at the same time in this minute. Null without "
        "`weight`.",
        json_schema_extra=SINCE,
    )


class ReplayUnitsView(Answer):
    """The weights of the replayed jobs."""

    unit: str
    started: int | float = Field(description="Units of the `started` jobs.")
    held: int | float = Field(description="Units of the `held` jobs.")
    most_held: int | float = Field(
        description="Largest number of units that the constraint would have held at the same time."
    )


class KeyReplayView(Answer):
    """One value of the key."""

    value: str
    started: int
    held: int
    longest_ms: int


class ReplayAnswer(Answer):
    """The jobs that a constraint would have held back in the last hour. The replay does not know deleted jobs:
    see `gone` and `is_whole`."""

    from_: Timestamp = Field(
        alias="from",
        description="Start of the examined period. Jobs that started earlier "
        "occupy slots, but do not count as held.",
    )
    to: Timestamp
    started: int = Field(
        description="Number of starts between `from` and `to` to which the constraint applies."
    )
    held: int = Field(description="Number of these starts that the constraint would have delayed.")
    held_now: int = Field(description="Number of the `held` jobs that would still wait at `to`.")
    most_held: int = Field(
        description="Largest number of jobs that the constraint would have held at the same time."
    )
    p95_ms: int | None = Field(
        description="95th percentile of the held jobs' waits. Null: no job would have been held."
    )
    longest_ms: int | None = Field(
        description="Longest wait of a held job. Null: no job would have been held."
    )
    without_key: int = Field(description="Number of jobs that match but lack the key.")
    keys: list[KeyReplayView] | None = Field(
        description="Up to 20 values of the key, sorted by the number of held jobs, largest first."
    )
    distinct_keys: int | None
    points: list[ReplayPointView]
    units: ReplayUnitsView | None = Field(None, description="Null without `weight`.", json_schema_extra=SINCE)
    looked_at: int = Field(description="Number of jobs that were read.")
    is_whole: bool = Field(
        description=(
            "False: more jobs ended in the last hour than a replay may read. `from` is then less "
            "than an hour ago."
        )
    )
    gone: int = Field(
        description="Number of jobs of all names that ended since `from` and are already deleted, according to the "
        "history."
    )


class AppliedConstraintView(Answer):
    """A constraint that would apply to the job."""

    name: str
    mode: Literal["enforce", "shadow"]
    key: str | None = Field(
        description=(
            "Path in the job. Each value at this path has separate limits. Null: one limit for all jobs."
        )
    )
    key_value: str | None = Field(description="The job's value of the key, as text for people.")
    limits: LimitsView = Field(description="Limits for that value.")
    max_backlog: int | None = Field(
        description="Maximum number of waiting jobs. A push that would exceed this number "
        "is answered with 429."
    )


class MisfitView(Answer):
    """A part of the argument that does not fit the schema."""

    loc: list[str | int] = Field(description="Path of the field. It begins with `argument`.")
    msg: str


class JobPreview(Answer):
    """The preview of a valid job."""

    constraints: list[AppliedConstraintView]
    checks_argument: bool = Field(
        description=(
            "Whether arguments are checked against the schemas that workers declared. False while "
            "the setting `check_arguments` is off. `misfits` is then empty."
        )
    )
    misfits: list[MisfitView] = Field(
        description="Parts of the argument that do not fit the schema that workers declared for the job name. The "
        "setting `check_arguments` decides whether such a push is refused. On a worker, such a job would "
        "fail."
    )
