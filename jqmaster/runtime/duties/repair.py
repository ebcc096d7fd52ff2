"""Repair inconsistencies of the store if the right state is certain. A failover, a crash or a manual change may have
caused them.

A new leader checks the whole store, and again once a day. Every hour it slowly checks everything that the indexes name.
Ready jobs that no claim finds cannot wait for that. If jobs have been ready for a while although workers for them are
free, the indexes through which claims find jobs are checked at once.
"""

import contextlib
import functools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from typing import Final

from jqmaster.clock import Clock, SharedRests
from jqmaster.runtime.periodic_loop import LeaderLoop
from jqmaster.store.health.repair import Repair, RepairPage

logger = logging.getLogger(__name__)

# Delay of the first round after an election. Dispatching comes first: a takeover must not wait for a check of all jobs.
BEGINS_AFTER_S: Final = 1.0
AGAIN_AFTER_S: Final = 5.0
# Time from the beginning of one round to the beginning of the next, unless a round takes longer.
ROUND_S: Final = 3600.0
# How often a round also looks for keys that no record names (see `Checker`).
STRAYS_EVERY_S: Final = 86_400.0
# After a step, rest `REST` times as long as it took, and `LATER_REST` times in later rounds. So the first round uses at
# most a tenth of the store's time, and later rounds half a percent.
REST: Final = 9
LATER_REST: Final = 199
MIN_REST_S: Final = 0.001
# How often to look for ready jobs that nobody claims, and how long they must have been ready.
LOOK_S: Final = 10.0
LEFT_FOR_S: Final = 30.0
# The number of ticks of `SharedRests` between two checks whether jobs may be ready.
ASKED_EVERY: Final = 10
# How long to pause after a look for unclaimed jobs that found nothing to repair. Most likely a constraint holds the
# jobs back.
QUIET_S: Final = 600.0
# Maximum number of findings that the log names one by one; there may be a million.
MAX_NAMED: Final = 20

LeftLying = Callable[[], Awaitable[Collection[str]]]


class RepairLoop(LeaderLoop):
    """A duty of one leadership: checks and repairs the store.

    * `unclaimed_jobs`: returns the names whose jobs are ready although workers for them are free. None: do not check
      for such jobs.
    * `is_calm`: returns whether there are certainly no such jobs.
    * `repaired`: the number of repairs.
    * `is_done`: the first round is over.
    """

    is_vital = False

    def __init__(
        self,
        repair: Repair,
        clock: Clock,
        *,
        on_stale: Callable[[], None],
        unclaimed_jobs: LeftLying | None = None,
        is_calm: Callable[[], bool] = lambda: False,
        rests: SharedRests | None = None,
    ) -> None:
        super().__init__(
            "repair",
            clock,
            complaint="cannot check the store for inconsistencies",
            on_stale=on_stale,
            retry_s=AGAIN_AFTER_S,
        )
        self._repair = repair
        self._left_lying = unclaimed_jobs
        self._is_calm = is_calm
        self._rests = rests or SharedRests(clock)
        # By job name: since when its jobs have been ready but unclaimed.
        self._left_since_s: dict[str, float] = {}
        self._quiet_until_s = 0.0
        self._strays_due_s = float("-inf")
        self.repaired = 0
        self.is_done = False

    async def start(self) -> None:
        self._spawn("rounds", self._round, self._complaint, after_s=BEGINS_AFTER_S)
        if self._left_lying is not None:
            look = functools.partial(self._look, self._left_lying)
            self._spawn(
                "look", look, "cannot look for jobs that nobody claims", after_s=LOOK_S, retry_s=LOOK_S
            )

    async def _pause(self, seconds: float) -> None:
        await self._clock.sleep(seconds)

    async def _round(self) -> float:
        began_s = self._clock.monotonic_s()
        # After a failure, the round starts from the beginning and only checks again what it has repaired. Strays are
        # looked for less often. Only a failover, a crash or a manual change leaves them, and a search for them scans
        # all keys.
        finds_strays = began_s >= self._strays_due_s
        async with self._repair.turn() if finds_strays else contextlib.nullcontext():
            steps = self._repair.steps(finds_strays=finds_strays)
            await self._repair_in_steps(steps, LATER_REST if self.is_done else REST)
        if finds_strays:
            self._strays_due_s = began_s + STRAYS_EVERY_S - ROUND_S / 2
        self.is_done = True
        return max(MIN_REST_S, began_s + ROUND_S - self._clock.monotonic_s())

    async def _look(self, unclaimed_jobs: LeftLying) -> float:
        if self._is_calm():
            self._left_since_s = {}
            await self._rests.wait(self._wake, lambda: not self._is_calm(), every=ASKED_EVERY)
        now_s = self._clock.monotonic_s()
        self._left_since_s = {name: self._left_since_s.get(name, now_s) for name in await unclaimed_jobs()}
        left = [name for name, since_s in self._left_since_s.items() if now_s - since_s >= LEFT_FOR_S]
        if left and now_s >= self._quiet_until_s:
            found = await self._repair_in_steps(self._repair.order_steps(), REST)
            self._quiet_until_s = self._clock.monotonic_s() + (0.0 if found else QUIET_S)
        return LOOK_S

    async def _repair_in_steps(self, steps: AsyncIterator[RepairPage], rest: int) -> int:
        """Repair in steps, and return the number of findings."""
        count, began_s = 0, self._clock.monotonic_s()
        async for step in steps:
            for finding in step.repaired:
                count += 1
                if count <= MAX_NAMED:
                    logger.warning("repaired: %s %s (%s)", finding.rule, finding.key, finding.detail)
            self.repaired += len(step.repaired)
            if step.repaired:
                # Wake the dispatcher now: the repaired jobs must not wait for the end of the round.
                self._repair.wake()
            await self._clock.sleep(max(MIN_REST_S, rest * (self._clock.monotonic_s() - began_s)))
            began_s = self._clock.monotonic_s()
        if count:
            logger.warning("%d inconsistencies in the store were repaired; the audit log lists them", count)
        return count
