"""A value that is computed once for many callers."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from jqmaster.clock import Clock

T = TypeVar("T")


class Remembered(Generic[T]):
    """A value that is computed at most once per lifetime, for all callers."""

    def __init__(self, clock: Clock, life_s: float, compute: Callable[[], Awaitable[T]]) -> None:
        self._clock = clock
        self._life_s = life_s
        self._compute = compute
        self._lock = asyncio.Lock()
        self._known: tuple[float, T] | None = None

    async def get(self) -> T:
        async with self._lock:
            if self._known is None or self._clock.monotonic_s() - self._known[0] >= self._life_s:
                value = await self._compute()
                # Take the time after the computation. Otherwise, if the computation took longer than `life_s`, each
                # waiting caller would start it again.
                self._known = (self._clock.monotonic_s(), value)
            return self._known[1]
