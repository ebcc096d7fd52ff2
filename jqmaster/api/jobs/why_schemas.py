"""HTTP models that explain why a job is not running."""

from typing import Annotated, Literal

from pydantic import Field, WithJsonSchema

from jqmaster.api.schemas import SINCE, Answer, JobId, Timestamp
from jqmaster.domain.constraints.limit_kinds import CLOSERS
from jqmaster.domain.jobs.job import JobState

Kind = Annotated[str, WithJsonSchema({"type": "string", "enum": [closer.name for closer in CLOSERS]})]
Text = Annotated[str, Field(description="Explanation for people, in a sentence or two.")]


class WhyHolder(Answer):
    """A running job that holds a slot."""

    job_id: JobId
    worker_id: JobId
    since: Timestamp


class WhyRate(Answer):
    """At most `limit` starts in any window of `period_s` seconds."""

    limit: int
    period_s: float


class WhyWeight(Answer):
    """The units of a constraint that has a weight, at the job's key value."""

    unit: str
    job: float = Field(description="Weight of the job.")
    is_default: bool = Field(
        description=(
            "True: the job has the default weight. It has no number of at least 0 at the path, or the "
            "constraint names no path."
        )
    )
    running: float | None = Field(description="Units of running jobs. Null if `concurrency` is null.")
    in_window: float | None = Field(description="Units of the starts in the period. Null if `rate` is null.")
    is_too_heavy: bool = Field(
        description=(
            "True: the weight of the job exceeds a limit. The job starts only while that limit counts no "
            "other job."
        )
    )


class WhyObserved(Answer):
    """The remaining capacity of another system, as a worker reported it."""

    remaining: float
    until: Timestamp


class WhyConstraint(Answer):
    """A constraint that applies to the job, with its usage at the job's key value."""

    name: str
    key: str | None = Field(
        description=(
            "Path in the job. Each value at this path has separate limits. Null: one limit for all jobs."
        )
    )
    key_value: str | None = Field(description="The job's value of the key, as text.")
    mode: Literal["enforce", "shadow"]
    passes: bool = Field(
        description=(
            "False: the constraint lets no job start now. For a shadow constraint: it would let no "
            "job start if its mode were enforce."
        )
    )
    kinds: list[Kind] = Field(
        description=("Limits that close the gate. The limit that lasts longest comes first.")
    )
    concurrency: int | None
    running: int | None = Field(description="Number of occupied slots. Null if concurrency is not limited.")
    rate: WhyRate | None
    starts: int | None = Field(description="Number of starts in the last `period_s`.")
    paused: bool
    held_until: Timestamp | None = Field(description="End of the hold that a worker requested.")
    fair: bool
    weight: WhyWeight | None = Field(
        None, description="Null: the limits count jobs.", json_schema_extra=SINCE
    )
    observed: WhyObserved | None = Field(None, json_schema_extra=SINCE)
    waiting: int = Field(
        description="Number of unfinished jobs that must pass this gate and are not running."
    )
    is_value_override: bool = Field(description="True: an override for this key value sets the limits.")
    opens_at: Timestamp | None = Field(
        description="Earliest time at which the gate opens. Null if it is open, or has no known opening time."
    )


class DueVerdict(Answer):
    """The job waits for its scheduled time or its retry."""

    code: Literal["scheduled", "retrying"]
    text: Text
    due_at: Timestamp
    in_s: float = Field(description="Negative if the instant has passed and the leader is about to act.")
    failures: int
    put_off: str | None = Field(
        description=(
            "Reason why the last attempt was deferred. Null: the attempt was not deferred, or the caller "
            "may not see the reason."
        ),
        json_schema_extra=SINCE,
    )


class ExpiredVerdict(Answer):
    """The job has reached its `expires_at` and will be skipped soon."""

    code: Literal["expired"]
    text: Text
    expires_at: Timestamp


class NoLeaderVerdict(Answer):
    """No master leads, so no job is dispatched."""

    code: Literal["no_leader"]
    text: Text


class RulesChangingVerdict(Answer):
    """The constraints changed recently. This job has not been matched against the new constraints yet."""

    code: Literal["rules_changing"]
    text: Text
    edition: int
    settled_edition: int = Field(description="Edition in force.")
    lane_edition: int = Field(description="Edition against which the job was matched. -1: unknown.")


class ConstraintVerdict(Answer):
    """A constraint lets no job start now at this job's key value."""

    code: Literal["constraint"]
    text: Text
    name: str
    kind: Kind = Field(description="The limit in `kinds` that lasts longest.")
    kinds: list[Kind]
    key: str | None
    key_value: str | None
    limit: int | None = Field(description="Limit of this kind. Null for a pause and a hold.")
    usage: int | None = Field(description="Amount of `limit` in use.")
    period_s: float | None = Field(description="Period of a rate limit.")
    waiting: int
    holders: list[WhyHolder] = Field(
        description=("Up to ten holders. The job that has run longest comes first.")
    )
    opens_at: Timestamp | None = Field(
        description="Earliest time at which the gate opens. Null if that time is unknown."
    )
    is_value_override: bool
    paused_by: str | None = Field(
        None,
        description="Caller who paused the jobs. Null: the limit is not a pause, or the caller is unknown.",
        json_schema_extra=SINCE,
    )
    reason: str | None = Field(
        None, description="Reason for the pause or the constraint.", json_schema_extra=SINCE
    )


class NoWorkerVerdict(Answer):
    """No live worker is registered for the job's name."""

    code: Literal["no_worker"]
    text: Text
    name: str
    stale: int = Field(description="Number of silent workers that know the name.")
    detached: int
    last_seen_at: Timestamp | None
    similar: str | None = Field(
        description=(
            "A similar name that live workers run, if no worker knows the job's name. Null: there is no "
            "such name."
        ),
        json_schema_extra=SINCE,
    )


class MissingLabel(Answer):
    """A label that the job requires, with the different value that the worker has."""

    wanted: str
    has: str | None = Field(description="Null: the worker has no such label.")


class NearMatch(Answer):
    """A live worker that lacks some of the labels."""

    worker_id: JobId
    node_id: str
    missing: dict[str, MissingLabel]


class NoMatchingWorkerVerdict(Answer):
    """Workers for the name are live, but none of them has the labels that the job requires."""

    code: Literal["no_matching_worker"]
    text: Text
    name: str
    requires: dict[str, str]
    workers: int = Field(description="Number of live workers for the name.")
    nearest: list[NearMatch] = Field(
        description="Up to three of these workers. Workers that lack the fewest labels come first."
    )


class WorkersUnavailableVerdict(Answer):
    """No live worker for the name takes a job now. Each worker counts in only one of the numbers."""

    code: Literal["workers_unavailable"]
    text: Text
    name: str
    workers: int
    full: int
    draining: int
    pulling: int = Field(description="Workers that pull and are not polling for jobs at this moment.")
    broken: int | None = Field(
        description=(
            "Workers with an open circuit breaker. This field and the next two fields are null if "
            "this master does not lead."
        )
    )
    paused: int | None = Field(description="Workers that requested a pause in offers.")
    refusing: int | None = Field(
        description="Workers that registered for the name but refused a job because the name was unknown."
    )
    busy: int = Field(description="Jobs that these workers hold.")
    max_jobs: int


class AheadVerdict(Answer):
    """Other jobs come first. They may start now or, if the job waits at a closed gate, they wait for the same
    gate."""

    code: Literal["ahead"]
    text: Text
    count: int
    bound: Literal["exact", "at_least", "about"]
    others: dict[str, int] = Field(
        description="Number of these jobs by name, for other names that the same workers run."
    )


class IndexMissingVerdict(Answer):
    """The job is ready, but missing from the store's index. The leader repairs this."""

    code: Literal["index_missing"]
    text: Text
    fault: str = Field(description="Fault of the lane that holds the job.")


class NextVerdict(Answer):
    """The job is next: it starts in the first free slot of its workers."""

    code: Literal["next"]
    text: Text


class RunningVerdict(Answer):
    """The job is running, or was offered to a worker."""

    code: Literal["running"]
    text: Text
    worker_id: JobId
    attempt: int
    since: Timestamp
    deadline: Timestamp = Field(description="Latest time at which the master ends the attempt.")
    lease_until: Timestamp | None = Field(
        description=("Time at which the lease ends if the worker does not renew it.")
    )
    confirmed: bool = Field(description="True: a heartbeat of the worker has named the job.")
    worker_last_seen_at: Timestamp | None = Field(description="Null: the worker is no longer registered.")
    earlier_end: str | None = Field(
        None,
        description=(
            "Outcome of an earlier attempt, such as `timeout`, if its handler may still run on the same "
            "worker. In this case, the new attempt starts when that handler has ended, or the worker hands "
            "the job back. Null: no earlier handler delays the attempt."
        ),
        json_schema_extra=SINCE,
    )


class AwaitingCallbackVerdict(Answer):
    """Another system does the work of the job."""

    code: Literal["awaiting_callback"]
    text: Text
    attempt: int
    due_at: Timestamp | None = Field(
        description="Time at which the wait for the callback ends. Null: the callback has already come."
    )
    answered: bool = Field(
        description=("True: the callbacks have come, and the job waits for a worker to handle them.")
    )


class AwaitedJob(Answer):
    """A job for which another job waits."""

    id: JobId
    state: str | None = Field(description="Null: the job is gone.")


class AwaitingJobsVerdict(Answer):
    """The job waits for other jobs."""

    code: Literal["awaiting_jobs"]
    text: Text
    jobs: list[AwaitedJob] = Field(description="The first 20 jobs for which it waits.")
    count: int = Field(description="Number of all jobs for which it waits.")


class FinishedVerdict(Answer):
    """The job is over."""

    code: Literal["finished"]
    text: Text
    state: JobState
    cause: str | None
    finished_at: Timestamp


Verdict = Annotated[
    NoLeaderVerdict | ExpiredVerdict | DueVerdict | RulesChangingVerdict | ConstraintVerdict | NoWorkerVerdict
    | NoMatchingWorkerVerdict | WorkersUnavailableVerdict | AheadVerdict | IndexMissingVerdict | NextVerdict
    | RunningVerdict | AwaitingCallbackVerdict | AwaitingJobsVerdict | FinishedVerdict,
    Field(discriminator="code"),
]  # fmt: skip


class WaitCauseView(Answer):
    """A cause for which ready jobs wait."""

    code: str = Field(
        description="Code of the verdict that explains one of these jobs, such as `constraint`."
    )
    count: int
    text: Text
    job_id: JobId = Field(description="One of these jobs. `/api/jobs/{job_id}/why` explains it in detail.")
    names: list[str] = Field(description="Names of some of these jobs.")
    constraint: str | None = Field(
        description="Name of the constraint that holds these jobs back. Null: no constraint holds them back."
    )
    key_value: str | None = Field(
        description=("The jobs' value of the constraint's key, as text. Null: the constraint has no key.")
    )
    kind: Kind | None = Field(description="The limit that closes the gate.")
    limit: int | None
    usage: int | None = Field(description="Amount of `limit` in use.")
    period_s: float | None = Field(description="Period of a rate limit.")
    eta_s: float | None = Field(description="Time that the rate limit needs to let all of these jobs start.")
    paused_by: str | None = Field(
        description=("Caller who paused these jobs. Null: nobody paused them, or the caller is unknown.")
    )
    reason: str | None = Field(description="Reason for the pause or the constraint.")


class BacklogWhyAnswer(Answer):
    """The causes for which ready jobs wait, the one with the most jobs first."""

    text: Text
    ready: int = Field(description="Number of ready jobs that the filters select.")
    is_exact: bool = Field(description="False: `ready` is a lower bound.")
    examined: int = Field(description="Number of these jobs that `causes` cover.")
    causes: list[WaitCauseView]


class WhyAnswer(Answer):
    """Reasons why the job does not run. The reason that has to change first comes first. Future releases may add
    codes."""

    state: JobState
    as_of: Timestamp
    verdicts: list[Verdict] = Field(min_length=1)
    constraints: list[WhyConstraint] = Field(
        description=(
            "All constraints that apply to the unfinished job. Empty while the job is being matched again."
        )
    )
