"""Run records: what became of each due instant of a definition."""

from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from uuid import UUID


class RunOutcome(StrEnum):
    # Its job was enqueued.
    FIRED = "fired"
    # A rule of the definition, or of the queue, kept it from being enqueued.
    SKIPPED = "skipped"
    # It was noticed too late.
    MISSED = "missed"


class RunReason(StrEnum):
    """Why an instant has its outcome. An instant that fired in time has none."""

    NONE = ""
    # It fired, though later than the definition allows, because of its `catch_up`.
    CAUGHT_UP = "caught_up"
    # People asked for it.
    MANUAL = "manual"
    BACKFILL = "backfill"
    # The job of an earlier instant is not finished.
    OVERLAP = "overlap"
    PAUSED = "paused"
    # A constraint lets no more of these jobs wait.
    BACKLOG_FULL = "backlog_full"
    # Another instant took its place in the queue of one.
    SUPERSEDED = "superseded"
    LATE = "late"


@dataclass(frozen=True, slots=True)
class Run:
    """The record of one due instant. `job_id` is empty unless a job was enqueued."""

    definition: str
    due_at_ms: int
    outcome: RunOutcome
    reason: RunReason
    job_id: str
    recorded_at_ms: int


def job_id_of(did: str, due_at_ms: int) -> str:
    """Return the ID of the job that an incarnation starts at an instant: a UUIDv8 that sorts by the instant."""
    digest = blake2b(f"{did} {due_at_ms}".encode(), digest_size=10).digest()
    number = max(due_at_ms, 0) << 80 | int.from_bytes(digest, "big")
    # The version and the variant, as RFC 9562 places them.
    number = number & ~(0xF << 76) | 8 << 76
    number = number & ~(0x3 << 62) | 2 << 62
    return str(UUID(int=number))
