"""Makes jobs ready when their time has come, and skips those whose time has passed."""

import asyncio
import logging
import math
from collections.abc import Callable
from typing import Final

from jqmaster.clock import Clock, until_tick_s
from jqmaster.errors import JqmasterError
from jqmaster.lifecycle import BackgroundLoops
from jqmaster.store.jobs.timers import DueStore
from jqmaster.store.leadership.leadership import Leadership

logger = logging.getLogger(__name__)

POLL_MS: Final = 1_000


class Promoter:
    """Component of one leadership. `on_ready` is called when jobs became ready, `on_stale` under a newer epoch."""

    def __init__(
        self,
        leadership: Leadership,
        due: DueStore,
        clock: Clock,
        *,
        on_ready: Callable[[], None],
        on_stale: Callable[[], None],
    ) -> None:
        self._epoch = leadership.epoch
        self._due = due
        self._clock = clock
        self._on_ready = on_ready
        self._on_stale = on_stale
        self._wake = asyncio.Event()
        self._asked_at_s = 0.0
        # When a job is due, as far as is known here.
        self._due_at_s: float | None = None
        self._loops = BackgroundLoops("promoter")

    async def start(self) -> None:
        self._loops.spawn("rounds", self._run)

    async def stop(self) -> None:
        await self._loops.stop()

    def wake(self) -> None:
        """Look again: a job waits for a time that may be nearer than the one slept for."""
        self._wake.set()

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            self._asked_at_s = self._clock.monotonic_s()
            try:
                wait_ms = await self._round()
            except JqmasterError as exc:
                logger.warning("cannot promote: %s", exc.detail)
                wait_ms = 200
            if wait_ms is None:
                self._on_stale()
                return
            # The answer may have waited for the disk, and what is due by now waits for us.
            passed_s = self._clock.monotonic_s() - self._asked_at_s
            try:
                # In whole milliseconds, as timers go, and upwards: whoever asks too early has to ask again.
                async with asyncio.timeout(max(0.0, math.ceil(wait_ms - passed_s * 1000) / 1000)):
                    await self._wake.wait()
            except TimeoutError:
                pass

    async def _round(self) -> int | None:
        """Milliseconds, from the last question on, until there is something to do; None under a stale epoch."""
        while True:
            self._asked_at_s = self._clock.monotonic_s()
            poll_ms = int(until_tick_s(self._asked_at_s, POLL_MS / 1000) * 1000)
            expects_some = self._due_at_s is not None and self._asked_at_s >= self._due_at_s
            due = await self._due.come_due(self._epoch, expects_some=expects_some)
            if due is None:
                return None
            self._due_at_s = None if due.next_ms < 0 else self._asked_at_s + due.next_ms / 1000
            if due.moved and not due.is_told:
                self._on_ready()
            if not due.is_partial:
                return poll_ms if due.next_ms < 0 else min(poll_ms, due.next_ms)
