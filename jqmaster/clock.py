"""Time inside one process. Stored times come from the store's clock (`store/lua/lib/clock.lua`)."""

import asyncio
import math
import time
from typing import Final, Protocol

TICK_S: Final = 0.5
# Timers fire a little early or late. A tick that is nearer than this is skipped.
_TICK_SLACK_S: Final = 0.02


class Clock(Protocol):
    """A monotonic clock and a way to wait on it. Durations only; never stored, never compared across processes."""

    def monotonic_s(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The clock of production."""

    # Without a function of our own in between, because a lone job reads the clock a dozen times.
    monotonic_s = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def until_tick_s(now_s: float, seconds: float) -> float:
    """Return how long to sleep between polls `seconds` apart, rounded down to a tick: at most `TICK_S` less. `now_s`
    is from a monotonic clock.

    So all loops wake on the same ticks, which costs an idle process, its store and the disk one wake-up instead of
    many. Callers that compare the times of such rounds must allow for the rounding.
    """
    if seconds < TICK_S:
        return seconds
    tick_s = math.floor((now_s + seconds + _TICK_SLACK_S) / TICK_S) * TICK_S
    return tick_s - now_s


async def sleep_to_tick(clock: Clock, seconds: float) -> None:
    """See `until_tick_s`."""
    await clock.sleep(until_tick_s(clock.monotonic_s(), seconds))


async def wait_for_event(event: asyncio.Event, most_s: float) -> bool:
    """Wait for an event, at most `most_s`. Return whether it was set."""
    try:
        async with asyncio.timeout(most_s):
            await event.wait()
    except TimeoutError:
        return False
    return True
