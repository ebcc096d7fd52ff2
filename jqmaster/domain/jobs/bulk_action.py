"""One action on many jobs: which jobs it may touch, and when it stops by itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from jqmaster.domain.jobs.job import FINISHED, ActionKind, Job, JobState, states_for
from jqmaster.domain.jobs.job_filter import JobFilter


class ActionState(StrEnum):
    """The state of an action. `stopped`: too many of the retried jobs failed again, or more jobs match than the action
    may change. `failed`: the action could not continue. The message of the action says which, and why."""

    RUNNING = "running"
    DONE = "done"
    CANCELED = "canceled"
    STOPPED = "stopped"
    FAILED = "failed"


# The states in which each action may touch a job, in the order in which jobs pass through them. In this order, an
# action also finds a job that moves to a later state meanwhile.
ADMITTED: Final[Mapping[ActionKind, tuple[JobState, ...]]] = {kind: states_for(kind) for kind in ActionKind}

# Maximum number of passes of an idempotent action. Jobs move during a pass, so the action repeats the pass until it
# finds nothing more to do.
MAX_PASSES: Final = 3
_REPEATED: Final = frozenset({ActionKind.CANCEL, ActionKind.DELETE, ActionKind.SET_PRIORITY})

# A retry can stop because of failures only after this many of its jobs have ended.
STOP_LEAST: Final = 20
# Maximum number of unfinished jobs of a retry that can stop by itself. It bounds the cost of a bad retry.
MAX_WATCHED: Final = 200


@dataclass(frozen=True, slots=True)
class BulkAction:
    """A requested action on jobs that were created at `created_at_ms` or earlier.

    * `filter`, `ids`: select the jobs. One of the two is `None`.
    * `at_most`: the maximum number of jobs that the action changes. None: any number.
    """

    id: str
    kind: ActionKind
    filter: JobFilter | None
    ids: tuple[str, ...] | None
    by: str
    created_at_ms: int
    priority: int | None = None
    rate_per_s: float | None = None
    stop_at_failure_share: float | None = None
    at_most: int | None = None

    @property
    def states(self) -> tuple[JobState, ...]:
        """Return the states in which the action may touch a job."""
        admitted = ADMITTED[self.kind]
        return tuple(s for s in admitted if self.filter is None or self.filter.may_select_state(s))

    @property
    def passes(self) -> int:
        return MAX_PASSES if self.filter is not None and self.kind in _REPEATED else 1

    def touches(self, job: Job) -> bool:
        """Return whether the action may touch a job that it selects. It retries or runs no job twice: after the first
        time, the job ends or starts later than `created_at_ms`.
        """
        if job.created_at_ms > self.created_at_ms or job.state not in ADMITTED[self.kind]:
            return False
        match self.kind:
            case ActionKind.RETRY:
                return job.finished_at_ms <= self.created_at_ms
            case ActionKind.RUN:
                return job.started_at_ms <= self.created_at_ms
            case ActionKind.SET_PRIORITY:
                return job.priority != self.priority
            case _:
                return True


@dataclass(slots=True)
class ActionProgress:
    """Progress of an action.

    * `cursor`: the position in the present pass. None: its start.
    * `matched`: unknown (None) before the end.
    * `watched`: the retried jobs that have not ended yet.
    * `ended`: the number of retried jobs that have ended.
    * `failed_again`: the number of ended jobs that failed.
    """

    state: ActionState = ActionState.RUNNING
    matched: int | None = None
    looked_at: int = 0
    done: int = 0
    refused: int = 0
    ended: int = 0
    failed_again: int = 0
    cursor: str | None = None
    pass_number: int = 1
    done_in_pass: int = 0
    watched: list[str] = field(default_factory=list)
    finished_at_ms: int = 0
    message: str | None = None

    @property
    def is_over(self) -> bool:
        return self.state is not ActionState.RUNNING

    def end(self, state: ActionState, now_ms: int, message: str | None = None) -> None:
        self.state, self.finished_at_ms, self.message = state, now_ms, message
        self.matched = self.done + self.refused if state is ActionState.DONE else self.matched
        self.cursor = None
        self.watched = []

    def note_ended(self, job_id: str, job: Job | None) -> bool:
        """Count a watched job if it has ended, and return whether it has. `job` None: the job was deleted, so it had
        ended.
        """
        is_failed = job is not None and (job.state is JobState.FAILED or job.failures > 0)
        if job is not None and job.state not in FINISHED and not is_failed:
            return False
        self.watched.remove(job_id)
        self.ended += 1
        self.failed_again += is_failed
        return True

    def fails_too_often(self, share: float | None) -> bool:
        """Return whether enough retried jobs have ended, and more than `share` of them failed again."""
        return share is not None and self.ended >= STOP_LEAST and self.failed_again > share * self.ended
