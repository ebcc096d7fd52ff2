"""A batch: jobs that belong together. When they are over, further jobs start: the callbacks of the batch."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import blake2b
from typing import Final

from jqmaster.domain.ids import uuid8
from jqmaster.domain.jobs.job import OUTCOMES, CallbackOf, JobSpec, JobState

MAX_DESCRIPTION: Final = 1000
# How deep batches may be nested. Each level costs one more step in the script that ends the last job.
MAX_DEPTH: Final = 10


class BatchState(StrEnum):
    """The state of a batch. `open`: its pusher may add jobs. `sealed`: only its own jobs may add more. `complete`: all
    of its jobs are over."""

    OPEN = "open"
    SEALED = "sealed"
    COMPLETE = "complete"


class BatchCallback(StrEnum):
    """When a batch starts a job. Each callback starts at most one."""

    # All members succeeded or were discarded.
    SUCCESS = "on_success"
    # All members have ended.
    COMPLETE = "on_complete"
    # The first member has failed for good.
    FAILURE = "on_failure"


class CallbackState(StrEnum):
    """The state of a batch's callback. `due`: its job is about to be enqueued."""

    WAITING = "waiting"
    DUE = "due"
    ENQUEUED = "enqueued"


@dataclass(frozen=True, slots=True)
class BatchSpec:
    """A batch as it is requested. The jobs in its callbacks have no IDs yet.

    * `parent`: the batch that contains it.
    * `owner`: the caller who created it.
    * `life_ms`: its lifetime, counted from its creation. A batch has at most one of `life_ms` and `expires_at_ms`.
    """

    id: str
    description: str = ""
    tags: tuple[str, ...] = ()
    callbacks: Mapping[BatchCallback, JobSpec] = field(default_factory=dict)
    parent: str | None = None
    expires_at_ms: int | None = None
    owner: str = ""
    life_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """A stored batch. Times are in store milliseconds; 0: not set.

    * `ended`: the number of its jobs by their final state.
    * `deleted`: the number of its jobs that were deleted before they succeeded.
    * `gone`: the number of its jobs that were removed after their retention.
    * `expires_at_ms`: an incomplete batch is canceled at this time.
    """

    spec: BatchSpec
    state: BatchState
    total: int
    ended: Mapping[JobState, int]
    deleted: int
    gone: int
    children: int
    children_succeeded: int
    children_failed: int
    callbacks: Mapping[BatchCallback, CallbackState]
    created_at_ms: int
    completed_at_ms: int
    canceled_at_ms: int
    expires_at_ms: int
    changes: int

    @property
    def id(self) -> str:
        return self.spec.id

    @property
    def unfinished(self) -> int:
        """Return the number of its jobs that are not over."""
        return self.total - sum(self.ended.values()) - self.deleted

    @property
    def children_unfinished(self) -> int:
        return self.children - self.children_succeeded - self.children_failed

    def ended_as(self, state: JobState) -> int:
        return self.ended.get(state, 0)


def callback_job_id(batch_id: str, callback: BatchCallback) -> str:
    """Return the ID of a callback's job, a UUIDv8. It sorts like the batch's ID if that ID is a UUIDv7."""
    digits = batch_id.replace("-", "")
    digest = blake2b(f"{batch_id} {callback}".encode(), digest_size=10).digest()
    return uuid8(int(digits[:12], 16) << 80 | int.from_bytes(digest, "big"))


def callback_job(spec: BatchSpec, callback: BatchCallback) -> JobSpec:
    """Return the job of a callback, with its ID filled in."""
    job = spec.callbacks[callback]
    job_id = callback_job_id(spec.id, callback)
    return replace(job, id=job_id, callback_of=CallbackOf(spec.id, str(callback)))


# The final states by which a batch counts its jobs.
ENDED: Final = OUTCOMES


@dataclass(slots=True)
class BatchFigures:
    """Counts of one master.

    * `made`: batches created by requests to this master.
    * `callbacks`: jobs that it enqueued for batches while it led, by callback.
    * `expired`: batches that it canceled because they had expired.
    """

    made: int = 0
    expired: int = 0
    callbacks: Counter[str] = field(default_factory=Counter)
