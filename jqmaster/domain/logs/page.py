"""Pages of a job's log."""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from jqmaster.domain.jobs.job import FINISHED, JobState

# How long after the end of an attempt its last lines may arrive. Workers send lines separately from the result.
LATE_MS: Final = 1_500


class NumberedLine(NamedTuple):
    """A line of the log of a job. `seq` is counted from 1 over all attempts, with gaps where lines are missing."""

    seq: int
    attempt: int
    at_ms: int
    rank: int
    text: str


@dataclass(frozen=True, slots=True)
class LogFilter:
    """A filter of log lines. `least_rank`: the rank of the lowest level; `attempt`: None for any."""

    least_rank: int = 0
    attempt: int | None = None

    def selects(self, entry: NumberedLine) -> bool:
        """Return whether the filter selects this entry."""
        return entry.rank >= self.least_rank and self.attempt in (None, entry.attempt)


@dataclass(frozen=True, slots=True)
class LogFacts:
    """Facts about the log of a job, in this order:

    * the number of its last line, counted from 1,
    * how many lines were dropped because of limits,
    * the stored bytes,
    * the number of the last archived line,
    * the place in the archive.
    """

    last: int = 0
    dropped: int = 0
    size: int = 0
    archived: int = 0
    ref: str | None = None


NO_LOG: Final = LogFacts()


@dataclass(frozen=True, slots=True)
class LogSlice:
    """The store's entries after a position, and the state of the job.

    * `end`: the last line read.
    * `is_full`: more lines may follow it.
    * `over_ms`: how long the job has been over. 0: it is not over.
    """

    state: JobState
    over_ms: int
    attempt: int
    facts: LogFacts
    entries: list[NumberedLine]
    end: int
    is_full: bool

    @property
    def is_over(self) -> bool:
        """Return whether no entry will follow after this slice."""
        return self.state in FINISHED and not self.is_full and self.over_ms >= LATE_MS


@dataclass(frozen=True, slots=True)
class LinesPage:
    """The requested entries after a position, and the position after this page.

    * `state`: None for a deleted job that only the archive has.
    * `is_last`: no entry will follow.
    * `is_archived`: entries come from the archive.
    * `name`: the name of a deleted job. Its values were redacted when it was deleted.
    """

    state: JobState | None
    entries: list[NumberedLine]
    next: int
    is_last: bool
    facts: LogFacts = field(default=NO_LOG)
    is_archived: bool = False
    name: str | None = None
