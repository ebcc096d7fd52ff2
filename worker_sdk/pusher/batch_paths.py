"""Batches in calls of pushers: their paths at a master, and the option `batch` of a job."""

from typing import Final, Protocol

BATCHES_PATH: Final = "/api/batches"


class BatchLike(Protocol):
    """A batch, as a value of the option `batch`."""

    def to_wire(self) -> str:
        """Return its ID."""
        ...


def path_of_batch(batch_id: str, action: str = "") -> str:
    """Return the path of a batch, or of an action on it."""
    return f"{BATCHES_PATH}/{batch_id}{action}"
