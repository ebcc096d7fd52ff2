"""Makes jobs ready when their time has come, and skips those whose time has passed."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from jqmaster.clock import Clock
from jqmaster.domain.job import JobState
from jqmaster.errors import JqmasterError
from jqmaster.lifecycle import BackgroundLoops
from jqmaster.store.jobs import MAX_PER_CALL, JobStore
from jqmaster.store.leadership import Leadership

logger = logging.getLogger(__name__)

POLL_MS: Final = 1_000


class Promoter:
    """Component of one leadership. `on_ready` is called when jobs became ready, `on_stale` under a newer epoch."""

    def __init__(
        self,
        leadership: Leadership,
        jobs: JobStore,
        clock: Clock,
        *,
        on_ready: Callable[[], None],
        on_stale: Callable[[], None],
    ) -> None:
        self._epoch = leadership.epoch
        self._jobs = jobs
        self._clock = clock
        self._on_ready = on_ready
        self._on_stale = on_stale
        self._wake = asyncio.Event()
        self._loops = BackgroundLoops("promoter")

    async def start(self) -> None:
        self._loops.spawn("rounds", self._run)

    async def stop(self) -> None:
        await self._loops.stop()

    def wake(self, message: str) -> None:
        """A job waits for a time that may be nearer than the one slept for."""
        if message == "due":
            self._wake.set()

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            try:
                wait_ms = await self._round()
            except JqmasterError as exc:
                logger.warning("cannot promote: %s", exc.detail)
                wait_ms = 200
            if wait_ms is None:
                self._on_stale()
                return
            try:
                async with asyncio.timeout(wait_ms / 1000):
                    await self._wake.wait()
            except TimeoutError:
                pass

    async def _round(self) -> int | None:
        """Milliseconds until there is something to do; None under a stale epoch."""
        waits = [POLL_MS]
        acts: list[Callable[[], Awaitable[tuple[int, int] | None]]] = [
            partial(self._jobs.expire, self._epoch),
            partial(self._jobs.promote, self._epoch, JobState.SCHEDULED),
            partial(self._jobs.promote, self._epoch, JobState.RETRYING),
        ]
        for act in acts:
            done = MAX_PER_CALL
            while done == MAX_PER_CALL:
                answer = await act()
                if answer is None:
                    return None
                done, next_ms = answer
                if done:
                    self._on_ready()
            if next_ms >= 0:
                waits.append(next_ms)
        return min(waits)
