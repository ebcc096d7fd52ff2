"""Carry out the follow-ups of changes of jobs, and end batches whose time has come."""

from collections.abc import Callable
from typing import Final

from jqmaster.clock import Clock
from jqmaster.runtime.periodic_loop import LeaderLoop
from jqmaster.service.batches.expiry import BatchExpiry
from jqmaster.service.jobs.follow_ups import FollowUps
from jqmaster.store.leadership.leadership import Leadership

# The script that writes a follow-up wakes the loop. It also checks this often by itself, in case the message is lost.
POLL_S: Final = 1.0
RETRY_S: Final = 0.5


class FollowUpLoop(LeaderLoop):
    """Component of one leadership."""

    is_vital = False

    def __init__(
        self,
        leadership: Leadership,
        follow_ups: FollowUps,
        expiry: BatchExpiry,
        clock: Clock,
        *,
        on_stale: Callable[[], None],
    ) -> None:
        super().__init__(
            "follow-ups", clock, complaint="cannot carry out follow-ups", on_stale=on_stale, retry_s=RETRY_S
        )
        self._epoch = leadership.epoch
        self._follow_ups = follow_ups
        self._expiry = expiry

    async def _round(self) -> float:
        self._wake.clear()
        if await self._follow_ups.carry_out(self._epoch):
            return 0.0
        return await self._expiry.end_due(self._epoch, POLL_S)

    async def _pause(self, seconds: float) -> None:
        await self._until_woken(seconds)
