"""The loop that every duty of a leader runs."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from jqmaster.clock import Clock, sleep_to_tick
from jqmaster.errors import JqmasterError, StaleEpochError
from jqmaster.lifecycle import BackgroundLoops

RETRY_S: Final = 1.0

# Works once, and returns after how many seconds to work again.
Round = Callable[[], Awaitable[float]]


class LeaderLoop:
    """Base of the duties of one leadership: a component that works in rounds until the leadership is over.

    A round raises StaleEpochError once the store knows a newer leadership; then `on_stale` is called, and the loop
    ends. Any other error of ours is logged as `complaint`, and the round is repeated `retry_s` later.
    """

    def __init__(
        self,
        name: str,
        clock: Clock,
        *,
        complaint: str,
        on_stale: Callable[[], None],
        retry_s: float = RETRY_S,
    ) -> None:
        self._clock = clock
        self._complaint = complaint
        self._retry_s = retry_s
        self._on_stale = on_stale
        self._expected: tuple[type[Exception], ...] = (JqmasterError,)
        self._loops = BackgroundLoops(name)
        self._logger = logging.getLogger(type(self).__module__)
        self._wake = asyncio.Event()

    async def start(self) -> None:
        self._spawn("rounds", self._round, self._complaint)

    async def stop(self) -> None:
        await self._loops.stop()

    def wake(self) -> None:
        """Begin the next round now, where `_pause` waits for it."""
        self._wake.set()

    async def _round(self) -> float:
        raise NotImplementedError

    async def _pause(self, seconds: float) -> None:
        await sleep_to_tick(self._clock, seconds)

    async def _until_woken(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            pass

    def _failed(self, error: Exception, complaint: str) -> None:
        """Say that a round failed."""
        detail = error.detail if isinstance(error, JqmasterError) else str(error)
        self._logger.warning("%s: %s", complaint, detail)

    def _spawn(
        self, role: str, work: Round, complaint: str, *, after_s: float = 0.0, retry_s: float | None = None
    ) -> None:
        """Run rounds of `work`, the first one `after_s` from now."""

        async def run() -> None:
            if after_s:
                await self._pause(after_s)
            while True:
                try:
                    wait_s = await work()
                except StaleEpochError:
                    self._on_stale()
                    return
                except self._expected as exc:
                    self._failed(exc, complaint)
                    wait_s = self._retry_s if retry_s is None else retry_s
                await self._pause(wait_s)

        self._loops.spawn(role, run)
