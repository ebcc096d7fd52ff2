"""A monotonic clock under the control of a test."""

import asyncio
import heapq
from collections.abc import Callable


class ManualClock:
    """A clock for components whose loops sleep on it. Each step is passed to `tied`, to move a store clock along.

    `pass_s` goes from sleep to sleep and lets each sleeper do its work, on the real store, before time moves on.
    """

    def __init__(self, tied: Callable[[float], None] | None = None) -> None:
        self.now_s = 1000.0
        self._tied = tied
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._slept = 0
        self._somebody_sleeps = asyncio.Event()

    def monotonic_s(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._slept += 1
        heapq.heappush(self._sleepers, (self.now_s + seconds, self._slept, future))
        self._somebody_sleeps.set()
        await future

    def jump(self, seconds: float) -> None:
        """Advance time at once, so that sleepers may oversleep."""
        self.now_s += seconds
        if self._tied:
            self._tied(seconds)

    async def asleep(self, within_s: float = 15) -> None:
        """Return when someone sleeps: the previous round is over."""
        try:
            async with asyncio.timeout(within_s):
                while not self._next():
                    self._somebody_sleeps.clear()
                    await self._somebody_sleeps.wait()
        except TimeoutError:
            raise AssertionError(f"nobody sleeps on the manual clock within {within_s} s") from None

    async def pass_s(self, seconds: float, *, within_s: float = 15) -> None:
        """Pass time for one loop. It makes each round that falls into these seconds, then sleeps again. Raise
        AssertionError if it does not sleep again within `within_s` of real time."""
        end_s = self.now_s + seconds
        await self.asleep(within_s)
        while (sleeper := self._next()) and sleeper[0] <= end_s:
            self.jump(max(0.0, sleeper[0] - self.now_s))
            heapq.heappop(self._sleepers)[2].set_result(None)
            await self.asleep(within_s)
        self.jump(end_s - self.now_s)

    async def step(self, seconds: float) -> None:
        """Advance time at once. The sleeper makes one round if its sleep is over by then."""
        await self.asleep()
        self.jump(seconds)
        await self.pass_s(0)

    def _next(self) -> tuple[float, int, asyncio.Future[None]] | None:
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        return self._sleepers[0] if self._sleepers else None
