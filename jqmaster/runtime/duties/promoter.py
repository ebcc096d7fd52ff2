"""Make jobs ready when their time comes, and skip those whose `expires_at` has passed."""

import math
from collections.abc import Callable
from typing import Final

from jqmaster.clock import Clock, until_tick_s
from jqmaster.runtime.periodic_loop import WokenLoop
from jqmaster.store.jobs.timers import TimerStore
from jqmaster.store.leadership.leadership import Leadership

POLL_MS: Final = 1_000
RETRY_S: Final = 0.2


class Promoter(WokenLoop):
    """A duty of one leadership: makes due jobs ready.

    * `on_ready`: called when jobs became ready.
    * `on_stale`: called when the store has a newer epoch.
    """

    is_vital = True
    poll_s = POLL_MS / 1000

    def __init__(
        self,
        leadership: Leadership,
        due: TimerStore,
        clock: Clock,
        *,
        on_ready: Callable[[], None],
        on_stale: Callable[[], None],
    ) -> None:
        super().__init__("promoter", clock, complaint="cannot promote", on_stale=on_stale, retry_s=RETRY_S)
        self._epoch = leadership.epoch
        self._due = due
        self._on_ready = on_ready
        self._asked_at_s = 0.0
        # The earliest known time at which a job is due.
        self._due_at_s: float | None = None

    async def _round(self) -> float:
        wait_ms = await self._promote()
        if self._follows_looks and wait_ms == POLL_MS:
            # Do not subtract the time of this call. After a pause shorter than `poll_s`, the next round would begin by
            # itself, instead of with the next look at the shard.
            return self.poll_s
        # The store's answer may have waited for its disk, so the next jobs may already be due: subtract that time.
        passed_s = self._clock.monotonic_s() - self._asked_at_s
        # Round up to whole milliseconds: a loop that wakes too early must check again.
        return max(0.0, math.ceil(wait_ms - passed_s * 1000) / 1000)

    async def _promote(self) -> int:
        """Promote due jobs. Return the milliseconds, counted from the call, until the next jobs are due."""
        while True:
            self._asked_at_s = self._clock.monotonic_s()
            poll_ms = POLL_MS
            if not self._follows_looks:
                poll_ms = int(until_tick_s(self._asked_at_s, POLL_MS / 1000) * 1000)
            expects_some = self._due_at_s is not None and self._asked_at_s >= self._due_at_s
            due = await self._due.come_due(self._epoch, expects_some=expects_some)
            self._due_at_s = None if due.next_ms < 0 else self._asked_at_s + due.next_ms / 1000
            if due.moved and not due.is_told:
                self._on_ready()
            if not due.is_partial:
                return poll_ms if due.next_ms < 0 else min(poll_ms, due.next_ms)
