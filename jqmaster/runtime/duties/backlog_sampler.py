"""Looks at the ready jobs every few moments, so that all masters know how many wait, and for how long."""

import logging
from collections.abc import Callable
from typing import Final

from jqmaster.clock import Clock, sleep_to_tick
from jqmaster.domain.tally import TOTAL, Tally
from jqmaster.errors import JqmasterError
from jqmaster.lifecycle import BackgroundLoops
from jqmaster.store.leadership.leadership import Leadership
from jqmaster.store.operations.history import Backlog, HistoryStore

logger = logging.getLogger(__name__)

SAMPLE_S: Final = 2.0


class BacklogSampler:
    """Component of one leadership."""

    def __init__(
        self,
        leadership: Leadership,
        history: HistoryStore,
        tally: Tally,
        clock: Clock,
        *,
        on_stale: Callable[[], None],
    ) -> None:
        self._epoch = leadership.epoch
        self._history = history
        self._tally = tally
        self._clock = clock
        self._on_stale = on_stale
        self._loops = BackgroundLoops("backlog_sampler")

    async def start(self) -> None:
        self._loops.spawn("rounds", self._run)

    async def stop(self) -> None:
        await self._loops.stop()

    async def _run(self) -> None:
        while True:
            try:
                backlog = await self._history.sample_backlog()
                if not await self._history.put_backlog(self._epoch, backlog):
                    self._on_stale()
                    return
                self._count(backlog)
            except JqmasterError as exc:
                logger.warning("cannot look at the backlog: %s", exc.detail)
            await sleep_to_tick(self._clock, SAMPLE_S)

    def _count(self, backlog: Backlog) -> None:
        for name, waiting in ((TOTAL, backlog.whole), *backlog.names.items()):
            age_ms = max(0, backlog.at_ms - waiting.since_ms) if waiting.since_ms else -1
            # That nobody waits is known as well.
            self._tally.sampled(name, waiting.ready, age_ms if waiting.ready else 0)
