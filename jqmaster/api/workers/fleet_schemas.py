"""HTTP models of workers for people, and of the commands of operators."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from jqmaster.api.schemas import (
    SINCE,
    Answer,
    Count,
    Distribution,
    JobId,
    Request,
    ShortText,
    Timestamp,
)
from jqmaster.domain.workers.worker import WorkerState
from jqmaster.domain.workers.worker_figures import (
    FAILING_FACTOR,
    FAILING_SHARE,
    MIN_ATTEMPTS,
    SLOW_BY_MS,
    SLOW_FACTOR,
    GroupKind,
)
from jqmaster.service.workers.worker_sets import WorkerSelection


class WorkerFigures(Answer):
    """Attempts that ended on a worker, or on a group of workers, during the last minutes."""

    since: Timestamp = Field(
        description="Start of the period: five to six minutes ago, or the registration of the worker."
    )
    succeeded: Count = Field(description="Attempts that succeeded or were discarded.")
    failed: Count = Field(
        description=(
            "Attempts that failed, with or without a further attempt, and attempts that were lost with the "
            "worker."
        )
    )
    failed_share: float | None = Field(
        ge=0, le=1, description="Share of the attempts that failed. Null if no attempt ended."
    )
    attempts_per_s: float = Field(ge=0, description="Ended attempts per second.")
    run: Distribution | None = Field(
        description="Run times of the attempts that ended by themselves. Null if there were no such attempts."
    )
    marks: list[Literal["slow", "failing"]] = Field(
        description=(
            "Differences between the worker and its peers: workers that serve the same names. Only "
            f"workers that ended at least {MIN_ATTEMPTS} attempts are compared. `slow`: its median "
            f"run time is more than {SLOW_FACTOR} times the median of its peers, and at least "
            f"{SLOW_BY_MS} ms longer. `failing`: at least {FAILING_SHARE:.0%} of its attempts "
            f"failed, and this share is more than {FAILING_FACTOR} times the share of its peers."
        )
    )


class WorkerView(Answer):
    """A registered worker."""

    id: JobId
    url: str | None
    names: list[str]
    max_jobs: int = Field(description="Number of jobs that the worker may have.")
    own_max_jobs: int = Field(
        description=(
            "Number of jobs that the worker can take, according to its registration or its latest report. "
            "`max_jobs` differs if an operator has set a different number."
        ),
        json_schema_extra=SINCE,
    )
    busy: int = Field(description="Number of claims that the worker holds.")
    load: float = Field(description="`busy` divided by `max_jobs`.")
    role: Literal["push", "pull"] = Field(
        description="push: masters call the worker. pull: the worker polls for jobs."
    )
    node_id: str
    pid: int
    labels: dict[str, str]
    version: str
    registered_at: Timestamp
    last_seen_at: Timestamp
    state: WorkerState
    detached_by: Literal["silence", "operator", "successor"] | None = Field(
        description=(
            "Reason for the detachment: the worker was silent, an operator detached it, or a "
            "successor now serves its address."
        )
    )
    built_in: bool = Field(
        description=(
            "True: the worker is part of a master, and delivers mails and webhooks. Statistics and "
            "metrics do not count it as a worker."
        ),
        json_schema_extra=SINCE,
    )
    breaker: Literal["closed", "open", "half_open"] | None = Field(
        description="State of the worker's circuit breaker. Null if this master does not lead."
    )
    figures: WorkerFigures = Field(json_schema_extra=SINCE)


class HeldJob(Answer):
    """A job that a worker runs or was offered."""

    job_id: JobId
    name: str
    attempt: int
    started_at: Timestamp


class WorkerDetail(WorkerView):
    """A registered worker with its jobs."""

    jobs: list[HeldJob] = Field(description="Jobs of the worker, oldest first.")


class SlotsRequest(Request):
    """The number of jobs that a worker may have."""

    max_jobs: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        description="Null: the number with which the worker registered."
    )
    keep: bool = Field(
        False,
        description=(
            "True: the number also applies to workers that register later from the same `node_id` "
            "with the same labels, such as this worker after a restart. Requires `max_jobs`."
        ),
    )

    @model_validator(mode="after")
    def _keep_requires_max_jobs(self) -> "SlotsRequest":
        if self.keep and self.max_jobs is None:
            raise ValueError("keep requires max_jobs; to stop keeping the number, delete the slot rule")
        return self


class SlotRuleView(Answer):
    """A stored number of slots. It applies to every worker that registers from this node with these labels."""

    id: str
    node_id: str
    labels: dict[str, str]
    max_jobs: int
    set_by: str
    set_at: Timestamp


class SlotRuleList(Answer):
    """All stored numbers of slots, by node and labels."""

    slot_rules: list[SlotRuleView]


class WorkerList(Answer):
    """All registered workers."""

    workers: list[WorkerView]


class LabelValue(Request):
    """One label and its value."""

    name: ShortText
    value: Annotated[str, Field(max_length=200)]


class WorkerSelectionRequest(Request):
    """Selects the workers that match all given fields. Give at least one of `worker_ids`, `node_id`, `version`
    and `label`."""

    worker_ids: list[JobId] | None = Field(None, min_length=1, max_length=5000)
    node_id: Annotated[str, Field(max_length=200)] | None = None
    version: Annotated[str, Field(max_length=64)] | None = None
    label: LabelValue | None = None
    dry_run: bool = Field(False, description="True: only count the workers and their jobs.")

    @model_validator(mode="after")
    def _selects(self) -> "WorkerSelectionRequest":
        if all(one is None for one in (self.worker_ids, self.node_id, self.version, self.label)):
            raise ValueError("give at least one of worker_ids, node_id, version and label")
        return self

    def to_selection(self) -> WorkerSelection:
        return WorkerSelection(
            None if self.worker_ids is None else frozenset(self.worker_ids),
            self.node_id,
            self.version,
            None if self.label is None else (self.label.name, self.label.value),
        )


class WorkerSetAnswer(Answer):
    """The workers that got the command. For a dry run: the workers that would get it."""

    dry_run: bool
    count: Count
    jobs: Count = Field(description="Number of claims that these workers hold.")
    worker_ids: list[JobId] = Field(
        description=(
            "IDs of these workers. To undo the command for the same workers, send these IDs as `worker_ids`."
        )
    )


class WorkersByState(Answer):
    """Number of workers by state."""

    fresh: Count
    stale: Count
    draining: Count
    detached: Count


class WorkerGroup(Answer):
    """Registered workers with a common machine, version or label."""

    value: str = Field(description="The common `node_id`, `version` or value of the label.")
    label: str | None = Field(description="Name of the label. Null for other groups.")
    workers: WorkersByState
    max_jobs: Count
    busy: Count = Field(description="Number of claims that the workers hold.")
    figures: WorkerFigures


class WorkerGroupList(Answer):
    """All groups of one kind, in the order of their values."""

    by: GroupKind
    groups: list[WorkerGroup]
