"""Batches as pushers use them: their paths at a master, and the option of a job."""

from typing import Final, Protocol

BATCHES_PATH: Final = "/api/batches"


class BatchLike(Protocol):
    """A batch, as the option of a job takes it."""

    def to_wire(self) -> str:
        """Return its ID."""
        ...


def path_of_batch(batch_id: str, action: str = "") -> str:
    """Return the path of a batch, or of an action on it."""
    return f"{BATCHES_PATH}/{batch_id}{action}"
