"""Fire the definitions that are due."""

import math
from collections.abc import Callable
from typing import Final

from jqmaster.clock import Clock
from jqmaster.runtime.periodic_loop import LeaderLoop
from jqmaster.service.definitions.firing import DefinitionFiring
from jqmaster.store.leadership.leadership import Leadership

# A change of a definition wakes the loop. It also checks this often by itself, so that a step of the store's clock, or
# a lost message, delays an instant by no more than this.
POLL_S: Final = 1.0
RETRY_S: Final = 0.2


class DefinitionLoop(LeaderLoop):
    """Component of one leadership."""

    is_vital = False

    def __init__(
        self,
        leadership: Leadership,
        firing: DefinitionFiring,
        clock: Clock,
        *,
        on_stale: Callable[[], None],
    ) -> None:
        super().__init__(
            "definitions", clock, complaint="cannot fire definitions", on_stale=on_stale, retry_s=RETRY_S
        )
        self._epoch = leadership.epoch
        self._firing = firing

    async def _round(self) -> float:
        self._wake.clear()
        began_s = self._clock.monotonic_s()
        next_ms = await self._firing.fire_due(self._epoch)
        if next_ms is None:
            return POLL_S
        passed_s = self._clock.monotonic_s() - began_s
        # Round up to whole milliseconds, because a loop that asks too early has to ask again.
        return min(POLL_S, max(0.0, math.ceil(next_ms - passed_s * 1000) / 1000))

    async def _pause(self, seconds: float) -> None:
        await self._until_woken(seconds)
