"""The speed and the failures of the registered workers in the last minutes."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from jqmaster.clock import Clock
from jqmaster.domain.operations.tally import WorkerCounts
from jqmaster.domain.workers.worker import Worker
from jqmaster.domain.workers.worker_figures import Figures, GroupedWorkers, GroupKind, figures_of, groups_of
from jqmaster.store.operations.history import STEP_MS, HistoryStore
from jqmaster.store.workers.workers import WorkerStore

# The figures cover this many past minutes and the current minute.
MINUTES: Final = 5
# Time for which figures are reused. Masters flush their counts only every few seconds.
LIVES_S: Final = 2.0


class FiguresCache:
    """Figures of workers for the current minute and the `MINUTES` before it. They are read at most once in `LIVES_S`
    for all callers. Methods raise what the store raises."""

    def __init__(self, history: HistoryStore, workers: WorkerStore, clock: Clock) -> None:
        self._history = history
        self._workers = workers
        self._clock = clock
        self._lock = asyncio.Lock()
        self._over: dict[int, Mapping[str, WorkerCounts]] = {}
        self._known: tuple[float, int, Mapping[str, WorkerCounts]] | None = None
        self._all_lock = asyncio.Lock()
        self._all: tuple[float, Mapping[str, Figures]] = (0.0, {})

    async def of(self, workers: Iterable[Worker]) -> dict[str, Figures]:
        """Return the figures by worker ID. They compare the `workers` with each other."""
        now_ms, counts = await self._counts()
        since_ms = (now_ms // STEP_MS["minute"] - MINUTES) * STEP_MS["minute"]
        return figures_of(list(workers), counts, since_ms=since_ms, now_ms=now_ms)

    async def of_one(self, worker: Worker) -> Figures:
        """Return the figures of one worker. They compare it with all registered workers."""
        async with self._all_lock:
            now_s = self._clock.monotonic_s()
            if worker.id not in self._all[1] or now_s - self._all[0] >= LIVES_S:
                others = [other for other in await self._workers.all() if other.id != worker.id]
                self._all = now_s, await self.of([worker, *others])
            return self._all[1][worker.id]

    async def groups(self, kind: GroupKind) -> list[GroupedWorkers]:
        """Return the registered workers, grouped by machine, version or label. Leave out workers that are part of a
        master."""
        everybody, now_ms = await self._workers.all_with_time()
        workers = [worker for worker in everybody if not worker.spec.is_built_in]
        return groups_of(kind, workers, await self.of(workers), now_ms=now_ms)

    async def _counts(self) -> tuple[int, Mapping[str, WorkerCounts]]:
        async with self._lock:
            now_s = self._clock.monotonic_s()
            if self._known is None or now_s - self._known[0] >= LIVES_S:
                now_ms = await self._history.now_ms()
                self._known = (now_s, now_ms, await self._read(now_ms // STEP_MS["minute"]))
            return self._known[1:]

    async def _read(self, current: int) -> Mapping[str, WorkerCounts]:
        over = range(current - MINUTES, current)
        # Read each past minute only once, because masters add counts only to the current minute.
        self._over = {minute: counts for minute, counts in self._over.items() if minute in over}
        for minute in over:
            if minute not in self._over:
                self._over[minute] = await self._history.worker_counts(minute)
        sums = await self._history.worker_counts(current)
        for counts in self._over.values():
            for worker_id, one in counts.items():
                sums.setdefault(worker_id, WorkerCounts()).merge(one)
            await asyncio.sleep(0)
        return sums
