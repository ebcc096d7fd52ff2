"""Progress of a running job, and its checkpoint: what the next attempt needs to go on where this one stopped."""

from dataclasses import dataclass
from typing import Final, NamedTuple

MAX_MESSAGE_CHARS: Final = 200
# A checkpoint travels with heartbeats, and the store keeps it in memory: it is a position, not a result.
MAX_CHECKPOINT_BYTES: Final = 16 * 1024


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress as a worker told it last, at `at_ms` of store time. `fraction`: 0 to 1, None if unknown."""

    fraction: float | None
    message: str
    at_ms: int


class ProgressReport(NamedTuple):
    """News of a claim. None: nothing new. `checkpoint` is opaque to the master."""

    job_id: str
    token: str
    progress: tuple[float | None, str] | None = None
    checkpoint: bytes | None = None
