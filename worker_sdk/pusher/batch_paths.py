"""Addresses of batches at a master."""

from typing import Final

BATCHES_PATH: Final = "/api/batches"


def path_of_batch(batch_id: str, action: str = "") -> str:
    """Return the path of a batch, or of an action on it."""
    return f"{BATCHES_PATH}/{batch_id}{action}"
