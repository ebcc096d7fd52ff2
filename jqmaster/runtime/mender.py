"""After each change of leadership: puts right what a failover or a crash may have torn apart, as far as that is certain."""

import logging
from collections.abc import Callable
from typing import Final

from jqmaster.clock import Clock
from jqmaster.errors import JqmasterError
from jqmaster.lifecycle import BackgroundLoops
from jqmaster.store.repair import Repair, StaleEpoch

logger = logging.getLogger(__name__)

# The jobs come first: a takeover must not wait for a look at all of them.
BEGINS_AFTER_S: Final = 1.0
AGAIN_AFTER_S: Final = 5.0
# It rests for so many times as long as a step took: at most a tenth of the store's time is its.
REST: Final = 9
LEAST_REST_S: Final = 0.001
# Named one by one in the log; there may be a million.
MOST_NAMED: Final = 20


class Mender:
    """Component of one leadership. Goes through the store once; `repaired` counts what was put right."""

    def __init__(self, repair: Repair, clock: Clock, *, on_stale: Callable[[], None]) -> None:
        self._repair = repair
        self._clock = clock
        self._on_stale = on_stale
        self._loops = BackgroundLoops("mender")
        self.repaired = 0
        self.is_done = False

    async def start(self) -> None:
        self._loops.spawn("round", self._run)

    async def stop(self) -> None:
        await self._loops.stop()

    async def _run(self) -> None:
        await self._clock.sleep(BEGINS_AFTER_S)
        while not self.is_done:
            try:
                await self._go_through()
                self.is_done = True
            except StaleEpoch:
                self._on_stale()
                return
            except JqmasterError as exc:
                # From the beginning: what was right stays so, and is only looked at again.
                logger.warning("cannot look through the store: %s", exc.detail)
                await self._clock.sleep(AGAIN_AFTER_S)
        if self.repaired:
            logger.warning(
                "%d disagreements in the store were put right; the audit log has them", self.repaired
            )

    async def _go_through(self) -> None:
        began_s = self._clock.monotonic_s()
        async for step in self._repair.steps():
            for finding in step.repaired:
                self.repaired += 1
                if self.repaired <= MOST_NAMED:
                    logger.warning("put right: %s %s (%s)", finding.rule, finding.key, finding.detail)
            await self._clock.sleep(max(LEAST_REST_S, REST * (self._clock.monotonic_s() - began_s)))
            began_s = self._clock.monotonic_s()
