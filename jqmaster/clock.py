"""Time inside one process. Stored times are the store's business (`store/lua/lib/clock.lua`)."""

import asyncio
import math
import time
from typing import Final, Protocol

TICK_S: Final = 0.5
# Timers are a little early or late; nobody shall wake for a tick that it has just seen.
_TICK_SLACK_S: Final = 0.02


class Clock(Protocol):
    """A monotonic clock and a way to wait on it. Durations only; never stored, never compared across processes."""

    def monotonic_s(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The clock of production."""

    def monotonic_s(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def until_tick_s(now_s: float, seconds: float) -> float:
    """How long to sleep for a poll every so many seconds: to the tick before, at most `TICK_S` less. `now_s` by a
    monotonic clock.

    Whoever compares times of such rounds has to allow for that. What many loops do at the same instants costs a process
    that has nothing else to do, its store and the disk one wake-up instead of many."""
    if seconds < TICK_S:
        return seconds
    tick_s = math.floor((now_s + seconds + _TICK_SLACK_S) / TICK_S) * TICK_S
    return tick_s - now_s


async def sleep_to_tick(clock: Clock, seconds: float) -> None:
    """See `until_tick_s`."""
    await clock.sleep(until_tick_s(clock.monotonic_s(), seconds))
