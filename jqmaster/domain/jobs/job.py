"""A job, its states, and the transitions between them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Final, NamedTuple

from jqmaster.domain.jobs.job_terms import (
    KEY_TTL_S,
    MAX_RETRY,
    PRIORITY,
    RETRY_BASE_S,
    RETRY_FACTOR,
    RETRY_JITTER,
    RETRY_MAX_S,
    TIMEOUT_S,
)
from jqmaster.domain.jobs.predecessors import After
from jqmaster.domain.jobs.unique import Unique
from jqmaster.domain.matching.requirement import queue_of


class JobState(StrEnum):
    SCHEDULED = "scheduled"
    READY = "ready"
    RETRYING = "retrying"
    AWAITING_JOBS = "awaiting_jobs"
    RUNNING = "running"
    AWAITING_CALLBACK = "awaiting_callback"
    SUCCEEDED = "succeeded"
    DISCARDED = "discarded"
    FAILED = "failed"
    CANCELED = "canceled"
    SKIPPED = "skipped"


# An action of people on a job, or on many jobs at once.
class ActionKind(StrEnum):
    CANCEL = "cancel"
    RETRY = "retry"
    DELETE = "delete"
    RUN = "run"
    SET_PRIORITY = "set_priority"


class Phase(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class StateIcon:
    """The icon of a state in the web UI. `shape`: one of the shapes that `jqmaster/spec/ui_tables.py` can draw."""

    shape: str
    light: str
    dark: str


@dataclass(frozen=True, slots=True)
class StateFacts:
    """All facts about a state except its transitions.

    * `code`: its number in a record. Never change a code or give it to another state.
    * `index`: the sorted set with the jobs in this state. None: the jobs are in the lanes of ready jobs.
    * `position`: its place among the states in a list of jobs.
    * `actions`: what people may do to a job in this state.
    * `label`: its English name in the web UI.
    * `is_timed`: its jobs wait for an instant, by which their index is ordered.
    """

    code: int
    phase: Phase
    index: str | None
    position: int
    actions: tuple[ActionKind, ...]
    label: str
    look: StateIcon
    is_timed: bool = False


_CHANGE: Final = (ActionKind.CANCEL, ActionKind.SET_PRIORITY, ActionKind.DELETE)
_START_OR_CHANGE: Final = (ActionKind.CANCEL, ActionKind.RUN, ActionKind.SET_PRIORITY, ActionKind.DELETE)
_AGAIN: Final = (ActionKind.RETRY, ActionKind.DELETE)

# The facts about each state, in the order in which the web UI shows the states. `make docs` writes them to
# `store/lua/lib/layout.lua` for scripts, and to `web/core/states.js` and `web/ui/states.css` for the web UI.
STATES: Final[Mapping[JobState, StateFacts]] = {
    JobState.READY: StateFacts(
        2, Phase.WAITING, None, 3, _CHANGE, "Ready", StateIcon("disc", "#1b5bc4", "#86b4ff")
    ),
    JobState.RUNNING: StateFacts(
        4,
        Phase.RUNNING,
        "running",
        1,
        (ActionKind.CANCEL,),
        "Running",
        StateIcon("disc", "#00778f", "#4cc3d9"),
    ),
    JobState.AWAITING_CALLBACK: StateFacts(
        5,
        Phase.RUNNING,
        "awaiting_callback",
        2,
        (ActionKind.CANCEL,),
        "Awaiting callback",
        StateIcon("ring", "#00778f", "#4cc3d9"),
    ),
    JobState.RETRYING: StateFacts(
        3,
        Phase.WAITING,
        "retrying",
        4,
        _START_OR_CHANGE,
        "Retrying",
        StateIcon("triangle", "#b06c00", "#eab04f"),
        is_timed=True,
    ),
    JobState.SCHEDULED: StateFacts(
        1,
        Phase.WAITING,
        "scheduled",
        5,
        _START_OR_CHANGE,
        "Scheduled",
        StateIcon("ring", "#5d6b98", "#98a6d4"),
        is_timed=True,
    ),
    JobState.AWAITING_JOBS: StateFacts(
        11,
        Phase.WAITING,
        "awaiting_jobs",
        6,
        _CHANGE,
        "Awaiting jobs",
        StateIcon("ring", "#7a4fb5", "#b794f0"),
    ),
    JobState.FAILED: StateFacts(
        7, Phase.FINISHED, "failed", 7, _AGAIN, "Failed", StateIcon("square", "#c8372d", "#f2685d")
    ),
    JobState.SUCCEEDED: StateFacts(
        6, Phase.FINISHED, "succeeded", 8, _AGAIN, "Succeeded", StateIcon("disc", "#2b8a54", "#56b981")
    ),
    JobState.DISCARDED: StateFacts(
        10, Phase.FINISHED, "discarded", 9, _AGAIN, "Discarded", StateIcon("ring", "#6b9a3e", "#9cc46b")
    ),
    JobState.CANCELED: StateFacts(
        8, Phase.FINISHED, "canceled", 10, _AGAIN, "Canceled", StateIcon("dash", "#7a8594", "#97a3b4")
    ),
    JobState.SKIPPED: StateFacts(
        9, Phase.FINISHED, "skipped", 11, _AGAIN, "Skipped", StateIcon("dash", "#9a8f7c", "#b8ac97")
    ),
}

WAITING: Final = frozenset(state for state, facts in STATES.items() if facts.phase is Phase.WAITING)
FINISHED: Final = frozenset(state for state, facts in STATES.items() if facts.phase is Phase.FINISHED)
# Jobs in these states count at constraints that limit how many run.
HOLDS_SLOTS: Final = frozenset(state for state, facts in STATES.items() if facts.phase is Phase.RUNNING)
# The order of the states in a list of jobs.
LISTED: Final = tuple(sorted(JobState, key=lambda state: STATES[state].position))
# The states in which a job can end, in the order of charts and metrics.
OUTCOMES: Final = tuple(state for state in JobState if state in FINISHED)
# The states that have their own index, and the indexed states whose jobs wait for an instant.
INDEXED: Final = tuple(state for state in JobState if STATES[state].index is not None)
TIMED: Final = tuple(state for state in INDEXED if STATES[state].is_timed)


class StateGroup(StrEnum):
    """A group of states, named in everyday words."""

    WAITING = "waiting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


STATE_GROUPS: Final[Mapping[StateGroup, frozenset[JobState]]] = {
    StateGroup.WAITING: WAITING,
    StateGroup.RUNNING: HOLDS_SLOTS,
    StateGroup.SUCCEEDED: frozenset({JobState.SUCCEEDED, JobState.DISCARDED}),
    StateGroup.FAILED: frozenset({JobState.FAILED, JobState.CANCELED, JobState.SKIPPED}),
}


def states_for(action: ActionKind) -> tuple[JobState, ...]:
    """Return the states in which an action may touch a job. Unfinished states come in the order of a job's life."""
    admitted = [state for state in LISTED if action in STATES[state].actions]
    unfinished = [state for state in reversed(admitted) if state not in FINISHED]
    return (*unfinished, *(state for state in admitted if state in FINISHED))


# (from, event) -> the states that the event may lead to. `None` is a job that does not exist yet. docs/job_lifecycle.md
# shows this table as a picture; a test compares the two.
TRANSITIONS: Final[Mapping[tuple[JobState | None, str], frozenset[JobState]]] = {
    (None, "enqueue"): frozenset({JobState.SCHEDULED, JobState.READY, JobState.AWAITING_JOBS}),
    (JobState.AWAITING_JOBS, "release_dependents"): frozenset(
        {JobState.READY, JobState.SCHEDULED, JobState.SKIPPED}
    ),
    (JobState.AWAITING_JOBS, "expire"): frozenset({JobState.SKIPPED}),
    (JobState.AWAITING_JOBS, "cancel"): frozenset({JobState.CANCELED}),
    (JobState.AWAITING_JOBS, "patch"): frozenset({JobState.AWAITING_JOBS}),
    (JobState.SKIPPED, "revive"): frozenset({JobState.AWAITING_JOBS, JobState.READY, JobState.SCHEDULED}),
    (JobState.SCHEDULED, "promote"): frozenset({JobState.READY}),
    (JobState.RETRYING, "promote"): frozenset({JobState.READY}),
    (JobState.READY, "claim"): frozenset({JobState.RUNNING}),
    (JobState.RETRYING, "claim_alone"): frozenset({JobState.RUNNING}),
    (JobState.RUNNING, "return_offers"): frozenset(
        {JobState.READY, JobState.AWAITING_CALLBACK, JobState.SKIPPED}
    ),
    (JobState.RUNNING, "await_callback"): frozenset({JobState.AWAITING_CALLBACK}),
    (JobState.AWAITING_CALLBACK, "claim"): frozenset({JobState.RUNNING}),
    (JobState.AWAITING_CALLBACK, "expire_challenge"): frozenset({JobState.RETRYING, JobState.FAILED}),
    (JobState.AWAITING_CALLBACK, "cancel"): frozenset({JobState.CANCELED}),
    (JobState.RUNNING, "settle"): frozenset(
        {
            JobState.SUCCEEDED,
            JobState.DISCARDED,
            JobState.RETRYING,
            JobState.FAILED,
            JobState.READY,
            JobState.SCHEDULED,
            JobState.CANCELED,
            JobState.AWAITING_CALLBACK,
        }
    ),
    (JobState.RUNNING, "reclaim"): frozenset(
        {JobState.READY, JobState.RETRYING, JobState.FAILED, JobState.AWAITING_CALLBACK}
    ),
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
    # A later push with the same uniqueness key replaces a waiting job.
    (JobState.SCHEDULED, "replace"): frozenset({JobState.SCHEDULED, JobState.READY}),
    (JobState.READY, "replace"): frozenset({JobState.READY, JobState.SCHEDULED}),
    (JobState.SUCCEEDED, "retry"): frozenset({JobState.READY}),
    (JobState.DISCARDED, "retry"): frozenset({JobState.READY}),
    (JobState.FAILED, "retry"): frozenset({JobState.READY}),
    (JobState.CANCELED, "retry"): frozenset({JobState.READY}),
    (JobState.SKIPPED, "retry"): frozenset({JobState.READY}),
}


# The one history entry that does not end an attempt: a worker that seemed lost has come back and continued.
CONTINUED: Final = "continued"


class Cause(IntEnum):
    """The cause of a job's end. The store holds a cause as one byte, and clients see the name in lower case."""

    NONE = 0
    ERROR = 1
    TIMEOUT = 2
    LOST = 3
    EXPIRED = 4
    CANCELED = 5
    UNDECODABLE = 6
    INVALID_ARGUMENT = 7
    CALLBACK_TIMEOUT = 12
    NOT_READY = 13
    DEPENDENCY = 14
    SUPERSEDED = 15


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Backoff of the n-th retry: `min(max_s, base_s · factor^(n−1))`, with full jitter by default."""

    base_s: float = RETRY_BASE_S.default
    factor: float = RETRY_FACTOR.default
    max_s: float = RETRY_MAX_S.default
    jitter: bool = RETRY_JITTER


DEFAULT_RETRY: Final = RetryPolicy()


@dataclass(frozen=True, slots=True)
class Origin:
    """The definition that started a job, and the instant for which the job was started."""

    definition: str
    due_at_ms: int


class CallbackOf(NamedTuple):
    """The batch that a job is a callback of, and the kind of this callback."""

    batch: str
    callback: str


class Notify(NamedTuple):
    """The webhook of a job's end: its URL, the final states that it reports, and whether it includes the result."""

    url: str
    on: tuple[JobState, ...]
    with_result: bool = False


# The stored terms of a job that a definition or a batch will enqueue later, in the stored order.
STORED_TERMS: Final = (
    "name", "argument", "priority", "max_retry", "keep_result", "timeout_ms", "delay_ms", "retry", "rerun_lost", "tags",
    "headers", "requires", "expires_ms",
)  # fmt: skip


# Not frozen: creating a frozen dataclass takes three times as long, and each push creates one.
@dataclass(slots=True)
class JobSpec:
    """A job as its pusher requests it. `argument` is one encoded MessagePack value, never decoded by the master.

    At most one of `run_at_ms` and `delay_ms` is given. The same holds for `expires_at_ms` and `expires_ms`.
    `expires_ms` counts from the enqueue.

    * `key`: the idempotency key. It identifies this push for `key_life_ms`, and is not stored with the job. Empty:
      there is no key.
    * `requires`: labels that its worker must have. None: no labels.
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
    expires_ms: int | None = None
    retry: RetryPolicy = DEFAULT_RETRY
    rerun_lost: bool = False
    tags: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    key: str = ""
    key_life_ms: int = round(KEY_TTL_S.default * 1000)
    unique: Unique | None = None
    origin: Origin | None = None
    batch: str | None = None
    callback_of: CallbackOf | None = None
    notify: Notify | None = None
    after: After | None = None
    requires: Mapping[str, str] | None = None

    @property
    def queue(self) -> str:
        """Return the queue: the name, with the labels that the job requires."""
        return self.name if self.requires is None else queue_of(self.name, self.requires)


@dataclass(frozen=True, slots=True)
class Job:
    """A stored job. Times are in store milliseconds; 0: not set."""

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
    unique: Unique | None = None
    has_progress: bool = False
    has_challenge: bool = False
    origin: Origin | None = None
    batch: str | None = None
    callback_of: CallbackOf | None = None
    notify: Notify | None = None
    after: After | None = None
    requires: Mapping[str, str] | None = None
    # By constraint ID: the job's own weight in thousandths.
    weights: Mapping[str, int] | None = None
    # The paths of values that people erased, such as `argument.email`.
    erased: tuple[str, ...] = ()

    @property
    def queue(self) -> str:
        """See `JobSpec.queue`."""
        return self.name if self.requires is None else queue_of(self.name, self.requires)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One start of a job and its end; `outcome` is `None` while it runs."""

    attempt: int
    worker_id: str
    started_at_ms: int
    finished_at_ms: int
    outcome: str | None
    message: str | None
    error: bytes | None
    code: str | None = None
