"""A job, its states, and the transitions between them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Final

from jqmaster.domain.job_terms import (
    MAX_RETRY,
    PRIORITY,
    RETRY_BASE_S,
    RETRY_FACTOR,
    RETRY_JITTER,
    RETRY_MAX_S,
    TIMEOUT_S,
)


class JobState(StrEnum):
    SCHEDULED = "scheduled"
    READY = "ready"
    RETRYING = "retrying"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"
    SKIPPED = "skipped"


WAITING: Final = frozenset({JobState.SCHEDULED, JobState.READY, JobState.RETRYING})
FINISHED: Final = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELED, JobState.SKIPPED})

# (from, event) -> the states that the event may lead to. `None` is a job that does not exist yet.
# docs/job_lifecycle.md shows this table as a picture; a test holds both together.
TRANSITIONS: Final[Mapping[tuple[JobState | None, str], frozenset[JobState]]] = {
    (None, "enqueue"): frozenset({JobState.SCHEDULED, JobState.READY}),
    (JobState.SCHEDULED, "promote"): frozenset({JobState.READY}),
    (JobState.RETRYING, "promote"): frozenset({JobState.READY}),
    (JobState.READY, "claim"): frozenset({JobState.RUNNING}),
    (JobState.RETRYING, "claim_alone"): frozenset({JobState.RUNNING}),
    (JobState.RUNNING, "return_offers"): frozenset({JobState.READY}),
    (JobState.RUNNING, "settle"): frozenset(
        {
            JobState.SUCCEEDED,
            JobState.RETRYING,
            JobState.FAILED,
            JobState.READY,
            JobState.SCHEDULED,
            JobState.CANCELED,
        }
    ),
    (JobState.RUNNING, "reclaim"): frozenset({JobState.READY, JobState.RETRYING, JobState.FAILED}),
    (JobState.SCHEDULED, "expire"): frozenset({JobState.SKIPPED}),
    (JobState.READY, "expire"): frozenset({JobState.SKIPPED}),
    (JobState.RETRYING, "expire"): frozenset({JobState.SKIPPED}),
    (JobState.SCHEDULED, "cancel"): frozenset({JobState.CANCELED}),
    (JobState.READY, "cancel"): frozenset({JobState.CANCELED}),
    (JobState.RETRYING, "cancel"): frozenset({JobState.CANCELED}),
    (JobState.RUNNING, "cancel"): frozenset({JobState.CANCELED}),
    (JobState.SCHEDULED, "run_now"): frozenset({JobState.READY}),
    (JobState.RETRYING, "run_now"): frozenset({JobState.READY}),
    (JobState.SCHEDULED, "patch"): frozenset({JobState.SCHEDULED, JobState.READY}),
    (JobState.READY, "patch"): frozenset({JobState.READY, JobState.SCHEDULED}),
    (JobState.RETRYING, "patch"): frozenset({JobState.RETRYING, JobState.READY}),
    (JobState.SUCCEEDED, "retry"): frozenset({JobState.READY}),
    (JobState.FAILED, "retry"): frozenset({JobState.READY}),
    (JobState.CANCELED, "retry"): frozenset({JobState.READY}),
    (JobState.SKIPPED, "retry"): frozenset({JobState.READY}),
}


# The one entry of a history that ends no attempt: its worker was thought lost, came back, and went on.
CONTINUED: Final = "continued"


class Cause(IntEnum):
    """Why a job ended as it did. Stored as one byte, shown by its lower-case name."""

    NONE = 0
    ERROR = 1
    TIMEOUT = 2
    LOST = 3
    EXPIRED = 4
    CANCELED = 5
    UNDECODABLE = 6


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Backoff of the n-th retry: `min(max_s, base_s · factor^(n−1))`, with full jitter unless told otherwise."""

    base_s: float = RETRY_BASE_S.default
    factor: float = RETRY_FACTOR.default
    max_s: float = RETRY_MAX_S.default
    jitter: bool = RETRY_JITTER


DEFAULT_RETRY: Final = RetryPolicy()


# Not frozen: a frozen dataclass takes three times as long to make, and each push makes one.
@dataclass(slots=True)
class JobSpec:
    """A job as its pusher requests it. `argument` is one encoded MessagePack value, never decoded by the master.

    At most one of `run_at_ms` and `delay_ms` is given.
    """

    id: str
    name: str
    argument: bytes
    priority: int = PRIORITY.default
    max_retry: int = MAX_RETRY.default
    keep_result: bool = False
    timeout_ms: int = round(TIMEOUT_S.default * 1000)
    run_at_ms: int | None = None
    delay_ms: int | None = None
    expires_at_ms: int | None = None
    retry: RetryPolicy = DEFAULT_RETRY
    rerun_lost: bool = False
    tags: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Job:
    """A job as the store has it. Times are store milliseconds, 0 where there is none."""

    id: str
    name: str
    state: JobState
    cause: Cause
    priority: int
    max_retry: int
    timeout_ms: int
    keep_result: bool
    rerun_lost: bool
    is_confirmed: bool
    attempt: int
    failures: int
    losses: int
    returned_offers: int
    created_at_ms: int
    due_at_ms: int
    expires_at_ms: int
    started_at_ms: int
    finished_at_ms: int
    not_after_ms: int
    fence: int
    token: str
    worker_id: str
    retry: RetryPolicy
    tags: tuple[str, ...]
    headers: Mapping[str, str]
    argument: bytes
    lane_id: bytes


@dataclass(frozen=True, slots=True)
class Attempt:
    """One start of a job and how it ended; `outcome` is None while it runs."""

    attempt: int
    worker_id: str
    started_at_ms: int
    finished_at_ms: int
    outcome: str | None
    message: str | None
    error: bytes | None
