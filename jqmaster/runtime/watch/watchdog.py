"""Check whether this master still makes progress, whether its loops run, and whether the data are its own."""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from jqmaster.clock import Clock, DueTime, SharedRests
from jqmaster.errors import JqmasterError
from jqmaster.lifecycle import LoopFailures
from jqmaster.runtime.periodic_loop import PeriodicLoop
from jqmaster.runtime.watch.progress import Stall
from jqmaster.store.health import generation
from jqmaster.store.link.shard import Shard

logger = logging.getLogger(__name__)

POLL_S: Final = 1.0
# The number of ticks of `SharedRests` between two checks whether there is a reason to watch. It is small enough to
# rebuild connections in time.
ASKED_EVERY: Final = 4
# After this long without progress, replace all connections. A client that is silently dead after a reconnect is the
# classic cause of a stalled queue without an error.
REBUILD_AFTER_S: Final = 10.0
GIVE_UP_AFTER_S: Final = 30.0
# A younger process does not end itself because of a failing loop. If the data are the cause, the next process would
# fail as well, and each new leader begins with a grace period.
GIVE_UP_AGE_S: Final = 300.0


class Watchdog(PeriodicLoop):
    """Component: watches the progress, the loops and the data of this master.

    * `stall`: returns how long the leader has made no progress (0: this master does not lead).
    * `rebuild`: drops the connections to the store.
    * `fail`: ends the process with a reason, so that its supervisor restarts it and another master leads.
    * `mark`: the mark of the data that this master serves.
    * `is_calm`: returns whether a stall is ruled out. While it is ruled out, and the last heartbeat found this `mark`
      in the data, the watchdog pauses its checks.
    * `fresh`: until when the result of the last heartbeat is current.
    """

    is_vital = True

    def __init__(
        self,
        shard: Shard,
        clock: Clock,
        *,
        mark: str,
        stall: Callable[[], Awaitable[Stall]],
        failures: LoopFailures,
        rebuild: Callable[[], Awaitable[None]],
        fail: Callable[[str], None],
        is_calm: Callable[[], bool] = lambda: False,
        rests: SharedRests | None = None,
        fresh: DueTime | None = None,
    ) -> None:
        super().__init__("watchdog", clock, complaint="cannot watch", first_after_s=POLL_S)
        self._shard = shard
        self._mark = mark
        self._stall = stall
        self._failures = failures
        self._rebuild = rebuild
        self._fail = fail
        self._is_calm = is_calm
        self._rests = rests or SharedRests(clock)
        self._rebuilt = False
        self._rebuilt_for_loops_s = -REBUILD_AFTER_S
        self._born_s = clock.monotonic_s()
        self._serving_since_s: float | None = None
        self._fresh = fresh or DueTime()

    def take_mark(self, mark: str | None) -> bool:
        """Take the mark that the data have now. None: they have no mark. Return whether it is this master's mark."""
        return self._is_own(mark)

    async def _round(self) -> float:
        # Check the loops first, and without the store. The cause of a failing loop may make the next steps fail, too.
        await self._look_at_loops()
        if await self._is_store_serving():
            if self._serving_since_s is None:
                self._serving_since_s = self._clock.monotonic_s()
            await self._look_at_progress(self._clock.monotonic_s() - self._serving_since_s)
        else:
            self._serving_since_s = None
        return POLL_S

    async def _pause(self, seconds: float) -> None:
        if self._has_reason():
            await super()._pause(seconds)
        else:
            await self._rests.wait(self._wake, self._has_reason, every=ASKED_EVERY)

    def _has_reason(self) -> bool:
        """Return whether a round might find something."""
        return (
            self._serving_since_s is None
            or not self._failures.is_empty
            or self._clock.monotonic_s() > self._fresh.at_s
            or not self._is_calm()
        )

    async def _is_store_serving(self) -> bool:
        """Return whether the store serves its own data. An outage of the store is not a stall of this master."""
        if self._clock.monotonic_s() <= self._fresh.at_s:
            return True
        try:
            mark = await generation.read(self._shard)
        except JqmasterError:
            return False
        return self._is_own(mark)

    def _is_own(self, mark: str | None) -> bool:
        if mark == self._mark:
            return True
        self._fail(generation.CHANGED)
        return False

    async def _look_at_progress(self, serving_s: float) -> None:
        # Do not count the time in which the store was away, because no round could succeed then.
        try:
            seconds, what = await self._stall()
        except JqmasterError:
            return  # the next check shows whether the store is away
        stalled_s = min(seconds, serving_s)
        if stalled_s < REBUILD_AFTER_S:
            self._rebuilt = False
        elif stalled_s >= GIVE_UP_AFTER_S:
            self._fail(f"{what} for {stalled_s:.0f} s")
        elif not self._rebuilt:
            logger.error("%s for %.0f s; the connections to the store are rebuilt", what, stalled_s)
            self._rebuilt = True
            await self._rebuild()

    async def _look_at_loops(self) -> None:
        failing, now_s = self._failures.longest(), self._clock.monotonic_s()
        if failing is None or failing.seconds < REBUILD_AFTER_S:
            return
        if failing.seconds >= GIVE_UP_AFTER_S and now_s - self._born_s >= GIVE_UP_AGE_S:
            self._fail(f"{failing.name} has failed for {failing.seconds:.0f} s ({failing.error})")
        elif failing.is_of_link and now_s - self._rebuilt_for_loops_s >= REBUILD_AFTER_S:
            # Replace the connections only if the failing loop uses them. New connections help against no other fault,
            # and break calls under way.
            logger.error(
                "%s has failed for %.0f s (%s); the connections to the store are rebuilt",
                failing.name,
                failing.seconds,
                failing.error,
            )
            self._rebuilt_for_loops_s = now_s
            await self._rebuild()
