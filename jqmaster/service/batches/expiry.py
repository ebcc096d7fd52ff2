"""The expiry and removal of batches."""

from jqmaster.domain.batches.figures import BatchFigures
from jqmaster.live_value import LiveValue
from jqmaster.store.batches.batches import BatchStore


class BatchExpiry:
    """Cancels batches that expire, and removes complete ones after `retention_ms`. Methods raise what the store
    raises."""

    def __init__(self, store: BatchStore, *, retention_ms: LiveValue[int], figures: BatchFigures) -> None:
        self._store = store
        self._retention_ms = retention_ms
        self._figures = figures

    async def end_due(self, epoch: str, most_s: float) -> float:
        """End a page of the batches that are due, as the leader of `epoch`. Return the seconds until more are due,
        `most_s` at most."""
        ended = await self._store.end_due(epoch, retention_ms=self._retention_ms.current)
        self._figures.expired += ended.canceled
        return most_s if ended.next_ms is None else min(most_s, ended.next_ms / 1000)
