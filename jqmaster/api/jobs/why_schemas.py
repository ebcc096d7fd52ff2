"""Why a job is not running, as it travels over HTTP."""

from typing import Annotated, Literal

from pydantic import Field

from jqmaster.api.schemas import Answer, JobId, Timestamp
from jqmaster.domain.job import JobState

Kind = Literal["paused", "hold", "concurrency", "rate"]
Text = Annotated[str, Field(description="A sentence for the person on call.")]


class WhyHolder(Answer):
    """A running job that has a slot."""

    job_id: JobId
    worker_id: JobId
    since: Timestamp


class WhyRate(Answer):
    """At most `limit` starts in any `period_s`."""

    limit: int
    period_s: float


class WhyConstraint(Answer):
    """A constraint that applies to the job, with what is in use at its key value."""

    name: str
    key: str | None = Field(description="What splits the constraint; null: one limit for all.")
    key_value: str | None = Field(description="This job's value of the key, as text.")
    mode: Literal["enforce", "shadow"]
    passes: bool = Field(
        description="False: it lets nothing start now; a shadow one would not, were it enforced."
    )
    kinds: list[Kind] = Field(description="What closes it, the most lasting first.")
    concurrency: int | None
    running: int | None = Field(description="Slots that are taken; null where nothing limits them.")
    rate: WhyRate | None
    starts: int | None = Field(description="Starts in the last `period_s`.")
    paused: bool
    held_until: Timestamp | None = Field(description="A worker asked that nothing passes before.")
    fair: bool
    waiting: int = Field(description="Unfinished jobs that do not run and have to pass here.")
    is_value_override: bool = Field(description="The limits are those of this key value alone.")
    opens_at: Timestamp | None = Field(description="Not before; null where no clock decides, or it is open.")


class DueVerdict(Answer):
    """It waits for its time, or for its retry."""

    code: Literal["scheduled", "retrying"]
    text: Text
    due_at: Timestamp
    in_s: float = Field(description="Negative where the instant is past and the leader is about to act.")
    failures: int


class ExpiredVerdict(Answer):
    """Its `expires_at` is past; it is about to be skipped."""

    code: Literal["expired"]
    text: Text
    expires_at: Timestamp


class NoLeaderVerdict(Answer):
    """Nobody dispatches."""

    code: Literal["no_leader"]
    text: Text


class RulesChangingVerdict(Answer):
    """The constraints were changed a moment ago; this job is not yet under the new ones."""

    code: Literal["rules_changing"]
    text: Text
    edition: int
    settled_edition: int = Field(description="In force.")
    lane_edition: int = Field(description="Under which the job was matched; -1: unknown.")


class ConstraintVerdict(Answer):
    """A constraint that lets nothing start now at the job's key value."""

    code: Literal["constraint"]
    text: Text
    name: str
    kind: Kind = Field(description="The most lasting of `kinds`.")
    kinds: list[Kind]
    key: str | None
    key_value: str | None
    limit: int | None = Field(description="Of this kind; null for a pause and a hold.")
    usage: int | None = Field(description="What is taken of `limit`.")
    period_s: float | None = Field(description="Of a rate.")
    waiting: int
    holders: list[WhyHolder] = Field(description="Up to ten, those first that run longest.")
    opens_at: Timestamp | None = Field(description="Not before; null where no clock decides.")
    is_value_override: bool


class NoWorkerVerdict(Answer):
    """No live worker is registered for the name."""

    code: Literal["no_worker"]
    text: Text
    name: str
    stale: int = Field(description="Silent ones that know the name.")
    detached: int
    last_seen_at: Timestamp | None


class WorkersUnavailableVerdict(Answer):
    """Of the live workers for the name none takes a job now; each counts once."""

    code: Literal["workers_unavailable"]
    text: Text
    name: str
    workers: int
    full: int
    draining: int
    pulling: int = Field(description="Pull, and do not ask for jobs at this moment.")
    broken: int | None = Field(
        description="Circuit breaker open. Null, as the next two, where this master does not lead."
    )
    paused: int | None = Field(description="Asked for no offers for a while.")
    refusing: int | None = Field(description="Registered for the name and refused it as unknown.")
    busy: int = Field(description="Slots taken, of all these workers.")
    max_jobs: int


class AheadVerdict(Answer):
    """Jobs come before it: those that may start and, behind a closed gate, those that wait for the same."""

    code: Literal["ahead"]
    text: Text
    count: int
    bound: Literal["exact", "at_least", "about"]
    others: dict[str, int] = Field(description="Those of other names that the same workers take, by name.")


class IndexMissingVerdict(Answer):
    """It is ready, and the store's index does not lead to it; the leader repairs that."""

    code: Literal["index_missing"]
    text: Text
    fault: str = Field(description="What is wrong with the lane that it lies in.")


class NextVerdict(Answer):
    """The first free slot of its workers takes it."""

    code: Literal["next"]
    text: Text


class RunningVerdict(Answer):
    """It runs, or was at least offered."""

    code: Literal["running"]
    text: Text
    worker_id: JobId
    attempt: int
    since: Timestamp
    deadline: Timestamp = Field(description="The master ends the attempt by then.")
    lease_until: Timestamp | None = Field(description="Unless the worker renews it.")
    confirmed: bool = Field(description="A heartbeat of the worker named it.")
    worker_last_seen_at: Timestamp | None = Field(description="Null: the worker is not registered any more.")


class FinishedVerdict(Answer):
    """It is over."""

    code: Literal["finished"]
    text: Text
    state: JobState
    cause: str | None
    finished_at: Timestamp


Verdict = Annotated[
    NoLeaderVerdict | ExpiredVerdict | DueVerdict | RulesChangingVerdict | ConstraintVerdict | NoWorkerVerdict
    | WorkersUnavailableVerdict | AheadVerdict | IndexMissingVerdict | NextVerdict | RunningVerdict | FinishedVerdict,
    Field(discriminator="code"),
]  # fmt: skip


class WhyAnswer(Answer):
    """What has to change before the job can run, in order; later versions may add codes."""

    state: JobState
    as_of: Timestamp
    verdicts: list[Verdict] = Field(min_length=1)
    constraints: list[WhyConstraint] = Field(
        description="All that apply to the unfinished job; empty while it is matched again."
    )
