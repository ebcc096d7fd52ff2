"""Progress of a running job, and its checkpoint: the data with which the next attempt continues where the present one
stopped."""

from dataclasses import dataclass
from typing import Final, NamedTuple

MAX_MESSAGE_CHARS: Final = 200
# Maximum size of a checkpoint. Heartbeats carry the checkpoint, and the store keeps it in memory. So it must be a
# position and not a result.
MAX_CHECKPOINT_BYTES: Final = 16 * 1024


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress as a worker last reported it, at `at_ms` of store time. `fraction`: 0 to 1, None if unknown."""

    fraction: float | None
    message: str
    at_ms: int


class RefusedReports(NamedTuple):
    """Claims, as (job ID, token), whose reports were not saved.

    * `stale`: the claim is over.
    * `outdated`: a later report of the claim was saved already, because a master delayed this one.
    """

    stale: frozenset[tuple[str, str]]
    outdated: frozenset[tuple[str, str]]


class ProgressReport(NamedTuple):
    """New progress and checkpoint of a claim. None: nothing new. `checkpoint` is opaque to the master. `seq` is the
    number of the report, which grows within the claim. If it is `None`, the report counts as the last one.
    """

    job_id: str
    token: str
    progress: tuple[float | None, str] | None = None
    checkpoint: bytes | None = None
    seq: int | None = None
