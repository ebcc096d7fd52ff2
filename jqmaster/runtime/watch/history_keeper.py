"""Write this master's counts to the store, once a second."""

import asyncio
import contextlib
import logging
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from jqmaster.clock import Clock, SharedRests
from jqmaster.domain.jobs.failure_group import failure_group_id, normalise
from jqmaster.domain.operations.tally import TOTAL, NameCounts, TakenCounts, Tally
from jqmaster.errors import DamagedError, JqmasterError
from jqmaster.runtime.periodic_loop import PeriodicLoop
from jqmaster.store.link.pages import pages
from jqmaster.store.operations.history import MAX_PER_CALL, CountedFailures, HistoryStore

logger = logging.getLogger(__name__)

FLUSH_S: Final = 1.0
# Interval at which figures of workers are written. The interval is longer than that of other figures, because figures
# of workers are kept by the minute.
WORKERS_FLUSH_S: Final = 5.0
# How long `stop` may take to write the last counts. Counts that are not written by then are lost.
LEAVE_WITHIN_S: Final = 1.0

_Part = Callable[[int], Awaitable[bool]]


class HistoryKeeper(PeriodicLoop):
    """Component: adds this master's counts to the store every second.

    A call is repeated under its number until the store has answered, so it counts once, even if answers were lost. If
    the master dies, the counts of its last second are lost.
    """

    is_vital = False

    def __init__(
        self, tally: Tally, history: HistoryStore, clock: Clock, *, rests: SharedRests | None = None
    ) -> None:
        super().__init__("history_keeper", clock, complaint="cannot write counts", first_after_s=FLUSH_S)
        self._rests = rests or SharedRests(clock)
        self._tally = tally
        self._history = history
        self._parts: deque[tuple[int, _Part]] = deque()
        self._number = 0
        self._is_failing = False
        self._workers_told_s = -WORKERS_FLUSH_S

    async def stop(self) -> None:
        await super().stop()
        # best effort: these are only counts.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_WITHIN_S):
                await self.flush(is_last=True)

    async def _round(self) -> float:
        await self.flush()
        return FLUSH_S

    async def _pause(self, seconds: float) -> None:
        if self._parts or self._tally.has_any():
            await super()._pause(seconds)
        else:
            await self._rests.wait(self._wake, self._tally.has_any)

    async def flush(self, *, is_last: bool = False) -> None:
        """Write the counts to the store. If this fails, keep them for the next call."""
        if not self._parts:
            self._take(self._tally.take())
            self._take_workers(is_last=is_last)
        while self._parts:
            number, part = self._parts[0]
            try:
                await part(number)
            except DamagedError as exc:
                # Drop this page: the store would never accept it, and the pages after it would wait forever.
                logger.error("counts are lost: %s", exc.detail)
            except JqmasterError as exc:
                if not self._is_failing:
                    logger.warning("cannot write the counts: %s", exc.detail)
                self._is_failing = True
                return
            self._is_failing = False
            self._parts.popleft()

    def _take(self, batch: TakenCounts) -> None:
        names = [(name, counts) for name, counts in batch.names.items() if name != TOTAL]
        if names or TOTAL in batch.names:
            total = NameCounts()
            for _, counts in names:
                total.merge(counts)
            # Do not add up backlog and oldest wait of the names: the leader counts both for all names together.
            seen = batch.names.get(TOTAL, NameCounts())
            total.backlog, total.oldest_wait_ms = seen.backlog, seen.oldest_wait_ms
            names.insert(0, (TOTAL, total))
        for page in pages(names, MAX_PER_CALL):
            self._append(partial(self._history.add_counts, names=page))
        for groups in pages(_groups(batch), MAX_PER_CALL):
            self._append(partial(self._history.add_failures, groups=groups))

    def _take_workers(self, *, is_last: bool) -> None:
        now_s = self._clock.monotonic_s()
        if not is_last and now_s - self._workers_told_s < WORKERS_FLUSH_S:
            return
        self._workers_told_s = now_s
        for page in pages(list(self._tally.take_workers().items()), MAX_PER_CALL):
            self._append(partial(self._history.add_worker_counts, workers=page))

    def _append(self, part: _Part) -> None:
        self._number += 1
        self._parts.append((self._number, part))


def _groups(batch: TakenCounts) -> list[CountedFailures]:
    groups: dict[str, CountedFailures] = {}
    for (name, cause, message, frame), failure in batch.failures.items():
        cause_word = cause.name.lower()
        group_id = failure_group_id(name, cause_word, message, frame)
        count, workers = failure.count, Counter(failure.worker_ids)
        if before := groups.get(group_id):
            count += before.count
            workers.update(before.worker_ids)
        groups[group_id] = CountedFailures(
            group_id, name, cause_word, normalise(message), count, failure.example_job_id, workers
        )
    return list(groups.values())
