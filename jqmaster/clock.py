"""Time inside one process. Stored times come from the store's clock (`store/lua/lib/clock.lua`)."""

import asyncio
import itertools
import math
import time
from collections.abc import Callable
from typing import Final, Protocol

TICK_S: Final = 0.5
# Timers fire a little early or late. A tick that is nearer than this counts as the present one.
_TICK_SLACK_S: Final = 0.02
# How often loops without work are asked whether they have work.
ASK_S: Final = 2 * TICK_S
# Special times of a `DueTime`: due at once, and never due.
NOW_S: Final = float("-inf")
NEVER_S: Final = float("inf")


class Clock(Protocol):
    """A monotonic clock and a way to wait on it. Durations only; never stored, never compared across processes."""

    def monotonic_s(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The clock of production."""

    # Assign the function instead of wrapping it, because a lone job reads the clock a dozen times.
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
    """Wait for an event for at most `most_s` seconds. Return whether it was set."""
    try:
        async with asyncio.timeout(most_s):
            await event.wait()
    except TimeoutError:
        return False
    return True


class DueTime:
    """The earliest time at which a loop that rests may have something to do, by the clock of its `SharedRests`."""

    __slots__ = ("at_s",)

    def __init__(self, at_s: float = NOW_S) -> None:
        self.at_s = at_s


class SharedRests:
    """Rests of loops that have nothing to do. One timer asks all resting loops every `ASK_S` whether they have work. So
    an idle loop costs its process a function call instead of a wake-up. A loop with a `DueTime` is not asked before
    that time. `now_s`: returns the time by `clock`.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self.now_s = (clock or SystemClock()).monotonic_s
        self._resting: dict[int, tuple[asyncio.Event, Callable[[], bool], int, DueTime]] = {}
        self._numbers = itertools.count()
        self._ticks = 0
        self._timer: asyncio.TimerHandle | None = None

    async def wait(
        self,
        event: asyncio.Event,
        has_work: Callable[[], bool],
        *,
        every: int = 1,
        due: DueTime | None = None,
    ) -> None:
        """Wait for an event, which is set at the latest `every` times `ASK_S` after `has_work` returns true, and clear
        it. `due`: `has_work` is not called earlier; it may change at any time."""
        number = next(self._numbers)
        self._resting[number] = event, has_work, every, due or DueTime()
        if self._timer is None:
            self._begin_tick()
        try:
            await event.wait()
        finally:
            del self._resting[number]
            if not self._resting and self._timer:
                self._timer.cancel()
                self._timer = None
        event.clear()

    def _begin_tick(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(until_tick_s(loop.time(), ASK_S), self._tick)

    def _tick(self) -> None:
        self._begin_tick()
        self._ticks = tick = self._ticks + 1
        now_s = self.now_s()
        for number, (event, has_work, every, due) in self._resting.items():
            if due.at_s > now_s:
                continue
            # Spread loops with the same interval over the ticks.
            if every > 1 and (tick + number) % every:
                continue
            try:
                if has_work():
                    event.set()
            except Exception:  # wake the loop, which will meet the error itself and report it
                event.set()
