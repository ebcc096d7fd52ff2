"""Counters of this process, by job name. They cost a few additions for each job, and their number is bounded.

The store keeps the history (`store/operations/history.py`). This module holds the counts that have not been flushed
yet, and the counts since the start.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from jqmaster.domain.histogram import Histogram
from jqmaster.domain.jobs.job import Cause, JobState
from jqmaster.domain.jobs.outcome import Decision

# Maximum number of names that are counted separately. All others are counted as OTHER.
MAX_NAMES: Final = 500
OTHER: Final = "(other)"
# The key for the counts of all names together. No job has this name or the name OTHER.
TOTAL: Final = ""
# Maximum number of messages of failures that are counted separately between two flushes.
MAX_MESSAGES: Final = 500
# Maximum number of workers that are counted separately. All others are counted as one.
MAX_WORKERS: Final = 5_000
# Maximum number of workers that are counted separately for each message.
MAX_FAILURE_WORKERS: Final = 20
OTHER_MESSAGES: Final = "(other messages)"

Counted = Literal["pushed", "succeeded", "discarded", "failed", "canceled", "skipped", "retried"]
COUNTED: Final[tuple[Counted, ...]] = get_args(Counted)


# Not frozen, because the hot path changes it. It has slots for speed.
@dataclass(slots=True)
class NameCounts:
    """Counts of one name.

    * `retried`: attempts that failed or were lost, if the job continues.
    * `deferred`, `handed_back` and `lost` (attempts lost with their workers): only for metrics, and not in the history.
    * `wait`: the times of attempts between ready and claimed.
    * `run`: the run times of attempts that ended by themselves.
    * `backlog`: the largest sample of ready jobs. -1: no sample.
    * `oldest_wait_ms`: the largest sample. -1: no sample.
    """

    pushed: int = 0
    succeeded: int = 0
    discarded: int = 0
    failed: int = 0
    canceled: int = 0
    skipped: int = 0
    retried: int = 0
    deferred: int = 0
    handed_back: int = 0
    lost: int = 0
    backlog: int = -1
    oldest_wait_ms: int = -1
    wait: Histogram = field(default_factory=Histogram)
    run: Histogram = field(default_factory=Histogram)

    def merge(self, other: "NameCounts") -> None:
        self.pushed += other.pushed
        self.succeeded += other.succeeded
        self.discarded += other.discarded
        self.failed += other.failed
        self.canceled += other.canceled
        self.skipped += other.skipped
        self.retried += other.retried
        self.deferred += other.deferred
        self.handed_back += other.handed_back
        self.lost += other.lost
        self.backlog = max(self.backlog, other.backlog)
        self.oldest_wait_ms = max(self.oldest_wait_ms, other.oldest_wait_ms)
        self.wait.merge(other.wait)
        self.run.merge(other.run)


@dataclass(slots=True)
class WorkerCounts:
    """Counts of attempts that ended on one worker.

    * `failed`: failed and lost attempts, even if the job continues. Canceled, deferred and handed-back attempts are not
      counted.
    * `run`: see `NameCounts`.
    """

    succeeded: int = 0
    failed: int = 0
    run: Histogram = field(default_factory=Histogram)

    def succeed(self, run_ms: int, jobs: int) -> None:
        self.succeeded += jobs
        self.run.add(run_ms, jobs)

    def end(self, decision: Decision, run_ms: int | None = None) -> None:
        """Count an attempt that did not succeed. `run_ms`: its run time, if it ended by itself."""
        is_discarded = decision.state is JobState.DISCARDED
        self.succeeded += is_discarded
        self.failed += decision.is_loss or decision.state in (JobState.FAILED, JobState.RETRYING)
        if run_ms is not None and (decision.is_counted or is_discarded):
            self.run.add(run_ms)

    def merge(self, other: "WorkerCounts") -> None:
        self.succeeded += other.succeeded
        self.failed += other.failed
        self.run.merge(other.run)


# A key for equal failures: the job's name, the cause, the worker's message, and the stack frame's `kind`. The kind is
# empty if it is unknown.
Failure = tuple[str, Cause, str, str]


@dataclass(slots=True)
class FailureCount:
    """Failures with one message. `worker_ids`: for each of the first few workers, its number of these failures."""

    count: int
    example_job_id: str
    worker_ids: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TakenCounts:
    """The counts between two flushes."""

    names: Mapping[str, NameCounts]
    failures: Mapping[Failure, FailureCount]


class Tally:
    """Counters of one process. No method waits for anything."""

    def __init__(self, max_names: int = MAX_NAMES, max_workers: int = MAX_WORKERS) -> None:
        self._max_names = max_names
        self._max_workers = max_workers
        self._pending: dict[str, NameCounts] = {}
        self._flushed: dict[str, NameCounts] = {}
        self._failures: dict[Failure, FailureCount] = {}
        self._workers: dict[str, WorkerCounts] = {}
        # Counts offers that were undone because workers refused them or could not be reached.
        self.returned_offers = 0

    def of(self, name: str) -> NameCounts:
        """Return the counts of a name, to add to. Names beyond the bound share one entry."""
        counts = self._pending.get(name)
        if counts is None:
            counts = _place(self._pending, name, self._max_names)
        return counts

    def claimed(self, name: str, waits_ms: Sequence[int]) -> None:
        """Count claimed jobs with their waits."""
        self.of(name).wait.add_all(waits_ms)

    def on(self, worker_id: str) -> WorkerCounts:
        """Return the counts of a worker, to add to. Workers beyond the bound share one entry."""
        counts = self._workers.get(worker_id)
        if counts is None:
            place = worker_id if len(self._workers) < self._max_workers else OTHER
            counts = self._workers.setdefault(place, WorkerCounts())
        return counts

    def succeeded(self, name: str, run_ms: int, jobs: int = 1) -> None:
        """Count succeeded attempts of the same run time."""
        counts = self.of(name)
        counts.succeeded += jobs
        counts.run.add(run_ms, jobs)

    def ended(
        self,
        name: str,
        decision: Decision,
        *,
        job_id: str,
        message: str,
        run_ms: int | None = None,
        worker_id: str = "",
        frame: str = "",
    ) -> None:
        """Count an attempt that did not succeed. `run_ms`: its run time, if it ended by itself. `frame`: the `kind` of
        the stack frame at which it failed.
        """
        counts = self.of(name)
        counts.lost += decision.is_loss
        if run_ms is not None and (decision.is_counted or decision.state is JobState.DISCARDED):
            counts.run.add(run_ms)
        match decision.state:
            case JobState.FAILED:
                counts.failed += 1
                self._failed((name, decision.cause, message, frame), job_id, worker_id)
            case JobState.DISCARDED:
                counts.discarded += 1
            case JobState.CANCELED:
                counts.canceled += 1
            case JobState.SCHEDULED:
                counts.deferred += 1
            case JobState.RETRYING:
                counts.retried += 1
            case JobState.READY if decision.is_loss:
                counts.retried += 1
            case JobState.READY:  # pragma: no branch - no other state follows an attempt that did not succeed
                counts.handed_back += 1

    def skipped(self, names: Iterable[str]) -> None:
        """Count one job of each of these names."""
        for name in names:
            self.of(name).skipped += 1

    def sampled(self, name: str, backlog: int, oldest_wait_ms: int) -> None:
        """Record the leader's sample."""
        counts = self.of(name)
        counts.backlog = max(counts.backlog, backlog)
        counts.oldest_wait_ms = max(counts.oldest_wait_ms, oldest_wait_ms)

    def _failed(self, key: Failure, job_id: str, worker_id: str) -> None:
        if key not in self._failures and len(self._failures) >= MAX_MESSAGES:
            key = (key[0], key[1], OTHER_MESSAGES, key[3])
            if key not in self._failures and len(self._failures) >= 2 * MAX_MESSAGES:
                return
        known = self._failures.get(key)
        if known is None:
            known = self._failures[key] = FailureCount(0, job_id)
        known.count += 1
        known.example_job_id = job_id
        if worker_id and (worker_id in known.worker_ids or len(known.worker_ids) < MAX_FAILURE_WORKERS):
            known.worker_ids[worker_id] = known.worker_ids.get(worker_id, 0) + 1

    def has_any(self) -> bool:
        """Return whether `take` or `take_workers` has anything to return."""
        return bool(self._pending or self._failures or self._workers)

    def take(self) -> TakenCounts:
        """Return the counts since the last call, and start new counts."""
        batch = TakenCounts(self._pending, self._failures)
        self._pending, self._failures = {}, {}
        for name, counts in batch.names.items():
            if name != TOTAL:
                _into(self._flushed, name, self._max_names).merge(counts)
        return batch

    def take_workers(self) -> dict[str, WorkerCounts]:
        """Return the counts of workers since the last call, by worker ID, and start new ones."""
        taken, self._workers = self._workers, {}
        return taken

    def since_start(self) -> dict[str, NameCounts]:
        """Return the counts by name since this process started, as a copy that belongs to the caller."""
        copy: dict[str, NameCounts] = {}
        for source in (self._flushed, self._pending):
            for name, counts in source.items():
                if name != TOTAL:
                    _into(copy, name, self._max_names).merge(counts)
        return copy


def _into(names: dict[str, NameCounts], name: str, max_names: int) -> NameCounts:
    return names.get(name) or _place(names, name, max_names)


def _place(names: dict[str, NameCounts], name: str, max_names: int) -> NameCounts:
    """Return a new entry, or the shared one if the maximum number of names is reached."""
    if len(names) >= max_names and name != TOTAL:
        name = OTHER
    return names.setdefault(name, NameCounts())
