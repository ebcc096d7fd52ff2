"""Time inside one process. Stored times come from the store's clock (`store/lua/lib/clock.lua`)."""

import asyncio
import itertools
import math
import time
from collections.abc import Callable
from typing import Final, Protocol

TICK_S: Final = 0.5
# Timers fire a little early or late. A tick that is nearer than this time counts as the present tick.
_TICK_SLACK_S: Final = 0.02
# Interval at which idle loops are asked whether they have work.
ASK_S: Final = 2 * TICK_S
# Special times of a `DueTime`: due at once, and never due.
NOW_S: Final = float("-inf")
NEVER_S: Final = float("inf")


class Clock(Protocol):
    """A monotonic clock, with waits by this clock. Use its times only for durations. Never store them or compare
    them between processes."""

    def monotonic_s(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The clock of production."""

    # Assign the function instead of wrapping it, because even a single job reads the clock a dozen times.
    monotonic_s = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def until_tick_s(now_s: float, seconds: float) -> float:
    """Return the time to sleep between polls that are `seconds` apart. `now_s`: the time by a monotonic clock.

    The result is rounded down so that the sleep ends at a tick, which shortens it by at most `TICK_S`. So all
    loops wake at the same ticks. An idle process, its store and the disk then have one wake-up instead of many.
    Callers that compare the times of their rounds must allow for the rounding.
    """
    if seconds < TICK_S:
        return seconds
    tick_s = math.floor((now_s + seconds + _TICK_SLACK_S) / TICK_S) * TICK_S
    return tick_s - now_s


async def sleep_to_tick(clock: Clock, seconds: float) -> None:
    """See `until_tick_s`."""
    await clock.sleep(until_tick_s(clock.monotonic_s(), seconds))


class WakeFlag(asyncio.Event):
    """A flag that tasks wait for. It takes little memory, because each namespace of a process has forty of them."""

    def __init__(self) -> None:
        super().__init__()
        # Replace the deque, of which an empty one takes 760 bytes. The base class uses only methods that lists have.
        self._waiters = []  # type: ignore[assignment]


async def wait_for_event(event: asyncio.Event, most_s: float) -> bool:
    """Wait for an event for at most `most_s` seconds. Return whether it was set."""
    try:
        async with asyncio.timeout(most_s):
            await event.wait()
    except TimeoutError:
        return False
    return True


class DueTime:
    """The earliest time at which a resting loop may have something to do, by the clock of its `SharedRests`."""

    __slots__ = ("at_s",)

    def __init__(self, at_s: float = NOW_S) -> None:
        self.at_s = at_s


class SharedRests:
    """Rests of loops that have nothing to do.

    Every `ASK_S` seconds, one timer asks all resting loops whether they have work. So an idle loop costs its
    process a function call instead of a wake-up. A loop with a `DueTime` is not asked before that time. `now_s`:
    returns the time by `clock`.
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
        """Wait for an event, and clear it. The event is set at the latest `every` × `ASK_S` seconds after
        `has_work` returns true.

        `due`: the time before which `has_work` is not called. This time may change during the wait."""
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
            # Distribute loops with the same interval over the ticks.
            if every > 1 and (tick + number) % every:
                continue
            try:
                if has_work():
                    event.set()
            except Exception:  # wake the loop; it will get the same error and report it
                event.set()
