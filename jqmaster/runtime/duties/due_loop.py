"""The loop of duties that act at due times: fire definitions, end groups of events, carry out follow-ups."""

import math
from collections.abc import Awaitable, Callable
from typing import Final

from jqmaster.clock import Clock
from jqmaster.runtime.periodic_loop import WokenLoop
from jqmaster.store.leadership.leadership import Leadership

# The longest time between two rounds of a duty that does not follow the looks at the shard. A script that adds an entry
# wakes the loop. If its message is lost, or the store's clock steps, the entry is late by this much at most.
POLL_S: Final = 1.0
RETRY_S: Final = 0.2


class DueLoop(WokenLoop):
    """A duty of one leadership: acts on entries when they are due. `do_due` handles some of the due entries, as the
    leader of an epoch. It returns the milliseconds until the next entry is due, or None if no entry is known.
    """

    is_vital = False
    poll_s = POLL_S

    def __init__(
        self,
        name: str,
        leadership: Leadership,
        do_due: Callable[[str], Awaitable[int | None]],
        clock: Clock,
        *,
        complaint: str,
        on_stale: Callable[[], None],
    ) -> None:
        super().__init__(name, clock, complaint=complaint, on_stale=on_stale, retry_s=RETRY_S)
        self._epoch = leadership.epoch
        self._do_due = do_due

    async def _round(self) -> float:
        began_s = self._clock.monotonic_s()
        next_ms = await self._do_due(self._epoch)
        if next_ms is None:
            return POLL_S
        passed_s = self._clock.monotonic_s() - began_s
        # Round up to whole milliseconds: a loop that wakes too early must check again.
        return min(POLL_S, max(0.0, math.ceil(next_ms - passed_s * 1000) / 1000))
