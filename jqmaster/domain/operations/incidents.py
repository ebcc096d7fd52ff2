"""Groups entries of the timeline into incidents."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from jqmaster.domain.instant import span
from jqmaster.domain.operations.timeline import LeaderCause, TimelineEntry, TimelineKind

# An entry belongs to an incident if it follows the last entry of the incident within this time.
GAP_MS: Final = 120_000

_STARTS: Final = frozenset({TimelineKind.STORE_AWAY, TimelineKind.WORKER_LOST, TimelineKind.BACKLOG_OLD})
# These entries report the end of something. Such an entry belongs to the incident that reported the beginning, however
# long ago that was.
_ENDS: Final = frozenset({TimelineKind.WORKER_BACK, TimelineKind.JOBS_RETURNED, TimelineKind.BACKLOG_OVER})
_STORY: Final = _STARTS | _ENDS | {TimelineKind.LEADER_CHANGED}


@dataclass(frozen=True, slots=True)
class TimelineIncident:
    """One incident.

    * `entries`: at least one, in the order in which they began.
    * `ended_ms`: None while a lost worker's jobs are not taken back, or the backlog is still old.
    * `acknowledged`: the entries of people, the oldest first.
    """

    id: str
    began_ms: int
    ended_ms: int | None
    entries: tuple[TimelineEntry, ...]
    acknowledged: tuple[TimelineEntry, ...] = ()

    def has(self, entry_id: str) -> bool:
        """Return whether this is the incident of that ID. The ID of any of its entries will do, because an incident may
        have been joined with another one."""
        return entry_id == self.id or any(entry.id == entry_id for entry in self.entries)


def incidents_of(entries: Sequence[TimelineEntry]) -> list[TimelineIncident]:
    """Return the incidents in these entries, the newest first. The ID of an incident is the ID of the entry that was
    stored first."""
    stories: list[_Telling] = []
    # Only these can accept further entries: the newest incident of each subject, and incidents that are not over.
    told: dict[str, _Telling] = {}
    unfinished: list[_Telling] = []
    for entry in sorted(
        (one for one in entries if one.kind in _STORY), key=lambda one: (one.began_ms, position_of(one.id))
    ):
        if entry.kind in _ENDS:
            story = told.get(_subject(entry))
        else:
            story = next((one for one in (*stories[-1:], *reversed(unfinished)) if one.takes(entry)), None)
        if story is None and is_start(entry):
            story = _Telling()
            stories.append(story)
        if story is not None:
            story.add(entry)
            told[_subject(entry)] = story
            if story.is_open and story not in unfinished:
                unfinished.append(story)
            unfinished = [one for one in unfinished if one.is_open]
    by_id: dict[str, list[TimelineEntry]] = {}
    for entry in entries:
        if entry.kind is TimelineKind.ACKNOWLEDGED:
            by_id.setdefault(entry.subject, []).append(entry)
    found = [story.incident(by_id) for story in stories]
    return sorted(found, key=lambda one: -one.began_ms)


def is_start(entry: TimelineEntry) -> bool:
    """Return whether the entry starts an incident. The regular end of a lead does not start one."""
    return entry.kind in _STARTS or entry.cause == LeaderCause.SILENT


def position_of(entry_id: str) -> tuple[int, int]:
    """Return the position of an entry as numbers that can be compared."""
    ms, _, number = entry_id.partition("-")
    return (int(ms), int(number)) if ms.isdigit() and number.isdigit() else (0, 0)


class _Telling:
    def __init__(self) -> None:
        self._entries: list[TimelineEntry] = []
        # The subjects that are not over: lost workers with jobs, and an old backlog.
        self._open: set[str] = set()
        self._last_ms = 0

    @property
    def is_open(self) -> bool:
        return bool(self._open)

    def takes(self, entry: TimelineEntry) -> bool:
        """Return whether an entry that reports no end belongs to this incident."""
        return self.is_open or entry.began_ms <= self._last_ms + GAP_MS

    def add(self, entry: TimelineEntry) -> None:
        self._entries.append(entry)
        # A subject that is over does not prolong the incident. For example, a lost worker may come back days after its
        # jobs were taken back.
        if entry.kind not in _ENDS or _subject(entry) in self._open:
            self._last_ms = max(self._last_ms, entry.at_ms)
        if entry.kind is TimelineKind.BACKLOG_OLD or (entry.kind is TimelineKind.WORKER_LOST and entry.count):
            self._open.add(_subject(entry))
        elif entry.kind in _ENDS:
            self._open.discard(_subject(entry))

    def incident(self, acknowledged: dict[str, list[TimelineEntry]]) -> TimelineIncident:
        ids = sorted((entry.id for entry in self._entries), key=position_of)
        people = [entry for one in ids for entry in acknowledged.get(one, ())]
        return TimelineIncident(
            ids[0],
            min(entry.began_ms for entry in self._entries),
            None if self._open else self._last_ms,
            tuple(self._entries),
            tuple(sorted(people, key=lambda entry: entry.at_ms)),
        )


def _subject(entry: TimelineEntry) -> str:
    is_backlog = entry.kind in (TimelineKind.BACKLOG_OLD, TimelineKind.BACKLOG_OVER)
    return "backlog" if is_backlog else entry.subject


def entry_text(entry: TimelineEntry) -> str:
    """Return the entry as an English sentence."""
    match entry.kind:
        case TimelineKind.STORE_AWAY:
            return f"The store did not answer for {span(entry.at_ms - entry.began_ms)}."
        case TimelineKind.LEADER_CHANGED:
            return _leader_text(entry)
        case TimelineKind.WORKER_LOST:
            held = f"; it held {_jobs(entry.count)}" if entry.count else ""
            return f"Worker {entry.label} fell silent and was detached{held}."
        case TimelineKind.WORKER_BACK:
            return f"Worker {entry.label} came back."
        case TimelineKind.JOBS_RETURNED:
            were = "was" if entry.count == 1 else "were"
            return f"{_jobs(entry.count)} of worker {entry.label} {were} taken back from it."
        case TimelineKind.BACKLOG_OLD:
            wait = span(entry.at_ms - entry.began_ms)
            were = "was" if entry.count == 1 else "were"
            return f"The backlog grew: {_jobs(entry.count)} {were} waiting, the oldest ({entry.subject}) for {wait}."
        case TimelineKind.BACKLOG_OVER:
            return f"The backlog has cleared; the last job was {entry.subject}."
        case TimelineKind.VERSION_NEW:
            return f"The first worker of version {entry.subject} registered ({entry.label})."
    return f"{entry.by} acknowledged it{f': {entry.label}' if entry.label else ''}."


def title_of(entries: Iterable[TimelineEntry]) -> str:
    """Return a title of an incident with these entries, in English."""
    kinds = list(dict.fromkeys(entry.kind for entry in entries))
    return ", ".join(_TITLES[kind] for kind in kinds if kind in _TITLES).capitalize()


_TITLES: Final = {
    TimelineKind.STORE_AWAY: "store unreachable",
    TimelineKind.LEADER_CHANGED: "leader changed",
    TimelineKind.WORKER_LOST: "worker detached",
    TimelineKind.JOBS_RETURNED: "jobs taken back",
    TimelineKind.BACKLOG_OLD: "old backlog",
}


def _leader_text(entry: TimelineEntry) -> str:
    after = f" after {entry.before}" if entry.before else ""
    led = f"Master {entry.label} became the leader{after}"
    match entry.cause:
        case LeaderCause.DEMOTED:
            return f"{led}, which {entry.by or 'somebody'} demoted."
        case LeaderCause.SILENT:
            return f"{led}, which had fallen silent."
    return f"{led}."


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count:,} jobs"
