"""Run records: the outcome of each due instant of a definition."""

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b

from jqmaster.domain.histogram import Histogram
from jqmaster.domain.ids import uuid8


class RunOutcome(StrEnum):
    # The job was enqueued.
    FIRED = "fired"
    # The definition's overlap or a constraint prevented the job.
    SKIPPED = "skipped"
    # The instant was noticed too late to start the job.
    MISSED = "missed"


class RunReason(StrEnum):
    """Why an instant has its outcome. An instant that fired in time has no reason."""

    NONE = ""
    # The instant was late, but `catch_up` let it fire.
    CAUGHT_UP = "caught_up"
    # An operator started the job.
    MANUAL = "manual"
    BACKFILL = "backfill"
    # The job of an earlier instant has not finished.
    OVERLAP = "overlap"
    PAUSED = "paused"
    # A constraint lets no more of these jobs wait.
    BACKLOG_FULL = "backlog_full"
    # While the instant was queued, a later one replaced it.
    SUPERSEDED = "superseded"
    LATE = "late"
    # The argument made from the event exceeds the size limit of arguments.
    ARGUMENT_TOO_LARGE = "argument_too_large"
    # The job got all events of a group.
    COLLECTED = "collected"
    DEBOUNCED = "debounced"
    # A calendar left the instant out.
    CALENDAR = "calendar"


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The record of one due instant, or of one event. `job_id`: empty if no job was enqueued.

    * `left_out`: why the calendar left the instant out; only with the reason CALENDAR.
    * `moved_from_ms`: the instant that a calendar moved to `due_at_ms`.
    """

    definition: str
    due_at_ms: int
    outcome: RunOutcome
    reason: RunReason
    job_id: str
    recorded_at_ms: int
    event_id: str = ""
    left_out: str = ""
    moved_from_ms: int | None = None

    @property
    def origin_ms(self) -> int:
        """Return the instant of the schedule, before a calendar moved it."""
        return self.due_at_ms if self.moved_from_ms is None else self.moved_from_ms

    @property
    def reason_text(self) -> str:
        return f"{self.reason}: {self.left_out}" if self.left_out else str(self.reason)


def job_id_of(did: str, due_at_ms: int) -> str:
    """Return the ID of the job that an incarnation starts for an instant of its schedule. The ID is a UUIDv8 that sorts
    by the instant."""
    digest = blake2b(f"{did} {due_at_ms}".encode(), digest_size=10).digest()
    return uuid8(max(due_at_ms, 0) << 80 | int.from_bytes(digest, "big"))


def job_id_of_event(did: str, event_id: str) -> str:
    """Return the ID of the job that an incarnation starts for an event. The ID is a UUIDv8. For events of one master,
    the IDs of the jobs sort like those of the events, which are UUIDv7."""
    digits = event_id.replace("-", "")
    # The ID consists of:
    # - the millisecond,
    # - the lowest 24 of the 42 bits with which the event's ID counts within the millisecond,
    # - 50 bits of the digest.
    counter = int(digits[18:24], 16)
    digest = int.from_bytes(blake2b(f"{did} {event_id}".encode(), digest_size=8).digest(), "big") >> 14
    return uuid8(int(digits[:12], 16) << 80 | counter >> 12 << 64 | (counter & 0xFFF) << 50 | digest)


class FiringFigures:
    """Counts of this process.

    * `outcomes`: the run records that it wrote, by outcome.
    * `lateness`: how late instants fired, in ms, for those that fired in time.
    """

    __slots__ = ("lateness", "outcomes")

    def __init__(self) -> None:
        self.outcomes: Counter[RunOutcome] = Counter()
        self.lateness = Histogram()
