"""The timeline of a queue: what happened to its masters, its workers and its store, and when.

The leader compares the queue with the known state, and writes an entry for each difference.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from jqmaster.domain.workers.worker import Worker

# A backlog enters the timeline once a job that may start has waited for OLD_WAIT_MS. It is over once no such job has
# waited for YOUNG_WAIT_MS.
OLD_WAIT_MS: Final = 60_000
YOUNG_WAIT_MS: Final = 30_000
# Maximum number of lost workers, and of versions, that are tracked.
MAX_LOST: Final = 500
MAX_VERSIONS: Final = 500
_NAMES_SHOWN: Final = 3


class TimelineKind(StrEnum):
    """The kind of an entry. The subject is a master, a worker, the store, a job name, a version, or an incident."""

    LEADER_CHANGED = "leader_changed"
    STORE_AWAY = "store_away"
    WORKER_LOST = "worker_lost"
    WORKER_BACK = "worker_back"
    # The jobs of a lost worker were taken back and will run again.
    JOBS_RETURNED = "jobs_returned"
    BACKLOG_OLD = "backlog_old"
    BACKLOG_OVER = "backlog_over"
    # A worker registered with a version that no other registered worker had.
    VERSION_NEW = "version_new"
    ACKNOWLEDGED = "acknowledged"


class LeaderCause(StrEnum):
    """Why the former leader no longer leads. `ENDED`: its lead ended or expired, and nobody demoted it."""

    DEMOTED = "demoted"
    SILENT = "silent"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """One entry.

    * `id`: its position, which grows; empty before it is stored.
    * `since_ms`: when it began, if that was before `at_ms`.
    * `label`: the readable name of the subject, or text of a person.
    * `before`: the readable name of the former leader.
    * `by`: the person who acted.
    * `count`: a number of jobs.
    * `cause`: why the leader changed.
    """

    kind: TimelineKind
    at_ms: int
    subject: str
    id: str = ""
    since_ms: int = 0
    label: str = ""
    before: str = ""
    by: str = ""
    count: int = 0
    cause: str = ""

    @property
    def began_ms(self) -> int:
        return self.since_ms or self.at_ms


@dataclass(frozen=True, slots=True)
class StoreOutage:
    """A time in which the store gave no answer."""

    since_ms: int
    until_ms: int


@dataclass(frozen=True, slots=True)
class OldBacklog:
    """The jobs that may start. The oldest of them, with this name and ID, has waited since `since_ms`. `ready`: their
    number."""

    name: str
    job_id: str
    ready: int
    since_ms: int


@dataclass(frozen=True, slots=True)
class LostWorker:
    """A worker that was detached for its silence. `jobs`: the number of jobs that it held; 0 once they were taken
    back."""

    label: str
    jobs: int


@dataclass(frozen=True, slots=True)
class QueueSeen:
    """The queue as the leader sees it at `now_ms`.

    * `leader`: its ID and its readable name.
    * `cause` and `by`: why the former leader no longer leads, and who demoted it.
    * `backlog`: None if no job that may start waits.
    """

    now_ms: int
    leader: tuple[str, str]
    workers: Sequence[Worker] = ()
    outages: Sequence[StoreOutage] = ()
    backlog: OldBacklog | None = None
    cause: LeaderCause = LeaderCause.ENDED
    by: str = ""


@dataclass(frozen=True, slots=True)
class KnownState:
    """The state of the queue according to the newest entries.

    * `leader`: ID and readable name.
    * `away_until_ms`: the end of the last outage.
    * `old_since_ms`: when the present old backlog began. 0: there is none.
    """

    leader: tuple[str, str] = ("", "")
    versions: frozenset[str] = frozenset()
    lost: Mapping[str, LostWorker] = field(default_factory=dict)
    away_until_ms: int = 0
    old_since_ms: int = 0
    old_name: str = ""

    @classmethod
    def first(cls, seen: QueueSeen) -> "KnownState":
        """Return the known state of a timeline that begins now. Present versions and lost workers get no entries."""
        return cls(
            leader=seen.leader,
            versions=_versions(seen.workers),
            lost={w.id: LostWorker(place_of(w), w.busy) for w in _lost(seen.workers)},
            away_until_ms=seen.now_ms,
        )

    def compare(self, seen: QueueSeen) -> tuple["KnownState", list[TimelineEntry]]:
        """Return the known state after this reading of the queue, and the new entries, the oldest first."""
        known, entries = self, list[TimelineEntry]()
        for part in (_outages, _leader, _workers, _new_versions, _backlog):
            known, found = part(known, seen)
            entries += found
        return known, sorted(entries, key=lambda entry: entry.began_ms)


_Step = tuple[KnownState, list[TimelineEntry]]


def place_of(worker: Worker) -> str:
    """Return the readable name of a worker's process: its node and process ID."""
    return f"{worker.spec.node_id or worker.id}:{worker.spec.pid}"


def _outages(known: KnownState, seen: QueueSeen) -> _Step:
    # Add only new outages. Several masters see the same outage, and any of them may lead after it.
    new = [one for one in seen.outages if one.since_ms > known.away_until_ms]
    entries = [
        TimelineEntry(TimelineKind.STORE_AWAY, one.until_ms, "store", since_ms=one.since_ms) for one in new
    ]
    until_ms = max([known.away_until_ms, *(one.until_ms for one in new)])
    return replace(known, away_until_ms=until_ms), entries


def _leader(known: KnownState, seen: QueueSeen) -> _Step:
    if seen.leader[0] == known.leader[0]:
        return known, []
    leader_id, label = seen.leader
    entry = TimelineEntry(
        TimelineKind.LEADER_CHANGED, seen.now_ms, leader_id, label=label, before=known.leader[1], by=seen.by,
        cause=seen.cause,
    )  # fmt: skip
    return replace(known, leader=seen.leader), [entry]


def _workers(known: KnownState, seen: QueueSeen) -> _Step:
    lost, entries = dict(known.lost), list[TimelineEntry]()
    present = {worker.id: worker for worker in seen.workers}
    silent = {worker.id for worker in _lost(seen.workers)}
    for worker_id, before in known.lost.items():
        worker = present.get(worker_id)
        is_empty = worker is None or worker.busy == 0
        if before.jobs and is_empty:
            entries.append(_of_worker(TimelineKind.JOBS_RETURNED, worker_id, before, seen.now_ms))
            lost[worker_id] = replace(before, jobs=0)
        if worker is None:
            del lost[worker_id]
        elif worker_id not in silent:
            if worker.detached_by is None:
                entries.append(
                    _of_worker(TimelineKind.WORKER_BACK, worker_id, replace(before, jobs=0), seen.now_ms)
                )
            del lost[worker_id]
    for worker_id in sorted(silent - known.lost.keys()):
        if len(lost) >= MAX_LOST:
            break
        worker = present[worker_id]
        lost[worker_id] = one = LostWorker(place_of(worker), worker.busy)
        entries.append(
            _of_worker(TimelineKind.WORKER_LOST, worker_id, one, seen.now_ms, since_ms=worker.silent_since_ms)
        )
    return replace(known, lost=lost), entries


def _new_versions(known: KnownState, seen: QueueSeen) -> _Step:
    versions = _versions(seen.workers)
    entries = []
    for version in sorted(versions - known.versions):
        first = min(
            (w for w in seen.workers if w.spec.version == version and not w.spec.is_built_in),
            key=lambda w: w.registered_at_ms,
        )
        names = first.spec.names
        more = f", +{len(names) - _NAMES_SHOWN}" if len(names) > _NAMES_SHOWN else ""
        label = ", ".join(names[:_NAMES_SHOWN]) + more
        entries.append(TimelineEntry(TimelineKind.VERSION_NEW, first.registered_at_ms, version, label=label))
    return replace(known, versions=versions), entries


def _backlog(known: KnownState, seen: QueueSeen) -> _Step:
    found = seen.backlog
    wait_ms = seen.now_ms - found.since_ms if found else 0
    if not known.old_since_ms and found and wait_ms >= OLD_WAIT_MS:
        entry = TimelineEntry(
            TimelineKind.BACKLOG_OLD, seen.now_ms, found.name, label=found.job_id, count=found.ready,
            since_ms=found.since_ms,
        )  # fmt: skip
        return replace(known, old_since_ms=found.since_ms, old_name=found.name), [entry]
    if known.old_since_ms and wait_ms < YOUNG_WAIT_MS:
        entry = TimelineEntry(TimelineKind.BACKLOG_OVER, seen.now_ms, known.old_name)
        return replace(known, old_since_ms=0, old_name=""), [entry]
    return known, []


def _versions(workers: Sequence[Worker]) -> frozenset[str]:
    found = {w.spec.version for w in workers if w.spec.version and not w.spec.is_built_in}
    return frozenset(sorted(found)[:MAX_VERSIONS])


def _lost(workers: Sequence[Worker]) -> list[Worker]:
    """Return the lost workers. A master's own worker is left out, because it comes and goes with the master's lead."""
    return [w for w in workers if w.detached_by == "silence" and not w.spec.is_built_in]


def _of_worker(
    kind: TimelineKind, worker_id: str, lost: LostWorker, now_ms: int, *, since_ms: int = 0
) -> TimelineEntry:
    return TimelineEntry(kind, now_ms, worker_id, since_ms=since_ms, label=lost.label, count=lost.jobs)
