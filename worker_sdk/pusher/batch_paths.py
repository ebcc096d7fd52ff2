"""Batches in the calls of pushers: their paths, and the option `batch` of a job."""

from typing import Final, Protocol

BATCHES_PATH: Final = "/api/batches"


class BatchLike(Protocol):
    """A value of the option `batch`."""

    def to_wire(self) -> str:
        """Return the ID of the batch."""
        ...


def path_of_batch(batch_id: str, action: str = "") -> str:
    """Return the path of a batch, or of an action on it."""
    return f"{BATCHES_PATH}/{batch_id}{action}"
