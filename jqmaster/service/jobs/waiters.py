"""Callers that wait for jobs to end."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Iterator


class FinishWaiters:
    """Wakes the calls that wait for a job's end when the store announces the end. The announcement may be lost, so each
    call also reads the store again after a while."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Event]] = defaultdict(set)

    def finished(self, job_id: str) -> None:
        for event in self._waiting.get(job_id, ()):
            event.set()

    def wake_all(self) -> None:
        for job_id in list(self._waiting):
            self.finished(job_id)

    @contextlib.contextmanager
    def listening(self, job_id: str) -> Iterator[asyncio.Event]:
        """Yield an event that is set when the store announces the job's end. Enter this context before reading the
        store, because the announcement may arrive before the answer to the read."""
        event = asyncio.Event()
        self._waiting[job_id].add(event)
        try:
            yield event
        finally:
            self._waiting[job_id].discard(event)
            if not self._waiting[job_id]:
                del self._waiting[job_id]
