"""Writes entries of the audit log about single jobs. Concurrent entries share a round trip and a wait for the disk."""

from collections.abc import Sequence
from typing import Final

from jqmaster.service.jobs.coalescing import Coalescer
from jqmaster.store.identity.audit import AuditStore

MAX_BATCH: Final = 200
MAX_WAITING: Final = 5_000


class AuditWriter:
    """Writes entries in the order of their arrival."""

    def __init__(self, store: AuditStore) -> None:
        self._store = store
        self._coalescer: Coalescer[bytes, None] = Coalescer(
            self._flush, max_batch=MAX_BATCH, max_waiting=MAX_WAITING
        )

    async def write(self, entry: bytes) -> None:
        """Write an entry, and return once it is in the log. Raise what the store raises."""
        await self._coalescer.submit(entry)

    async def _flush(self, entries: Sequence[bytes]) -> list[None]:
        await self._store.write_all(entries)
        return [None] * len(entries)
