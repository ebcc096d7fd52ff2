"""Limits the share of time that pushes take while many jobs wait."""

import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from jqmaster.clock import NEVER_S, NOW_S, Clock, DueTime, SharedRests, WakeFlag, sleep_to_tick
from jqmaster.errors import JqmasterError
from jqmaster.lifecycle import BackgroundLoops

logger = logging.getLogger(__name__)

LOOK_S: Final = 1.0
# If more jobs than this are ready, all workers have enough to do for a while. So pushes are slowed down, and claims and
# results get more of the store's time.
ENOUGH_WAITING: Final = 20_000
# After a flush, pushes pause for this many times the duration of the flush. So pushes get a third of the time, and all
# other work gets two thirds.
REST_SHARE: Final = 2.0
# Maximum pause. It limits the delay of later pushes after a flush that took long because the store hung.
LONGEST_REST_S: Final = 0.5


class PushPace:
    """Component: decides how long pushes pause. `counts` returns how many jobs are ready and how many run. It is called
    once a second, and only while there are pushes. While no job runs, pushes do not pause, because they delay
    nothing."""

    def __init__(
        self,
        counts: Callable[[], Awaitable[tuple[int, int]]],
        clock: Clock,
        *,
        rests: SharedRests | None = None,
    ) -> None:
        self._counts = counts
        self._clock = clock
        self._rests = rests or SharedRests(clock)
        self._begin = WakeFlag()
        # When to call `counts` next. Every push sets this to `NOW_S`.
        self.due = DueTime(NEVER_S)
        self._loops = BackgroundLoops("push_pace", is_vital=False)
        self.is_slowed = False

    async def start(self) -> None:
        self._loops.spawn("looks", self._run)

    async def stop(self) -> None:
        await self._loops.stop()
        self.is_slowed = False

    def rest_s(self, took_s: float) -> float:
        """Return how long pushes pause after a flush that took `took_s`."""
        self.due.at_s = NOW_S
        return min(LONGEST_REST_S, took_s * REST_SHARE) if self.is_slowed else 0.0

    def _has_work(self) -> bool:
        return self.due.at_s == NOW_S or self.is_slowed

    async def _run(self) -> None:
        while True:
            if not self._has_work():
                await self._rests.wait(self._begin, self._has_work, due=self.due)
            self.due.at_s = NEVER_S
            # Ignore a fault of the store here, because the pushes will report it.
            with contextlib.suppress(JqmasterError):
                ready, running = await self._counts()
                self.is_slowed = ready > ENOUGH_WAITING and running > 0
            await sleep_to_tick(self._clock, LOOK_S)
