"""Stores with calls that a master otherwise only makes together, exposed one by one."""

from collections.abc import Sequence

from jqmaster.domain.jobs.job import JobState
from jqmaster.store.jobs.claims import Claim, ClaimStore, NotClaimed, WantedClaim
from jqmaster.store.jobs.timers import TimerStore


class SingleClaimStore(ClaimStore):
    async def claim(
        self,
        epoch: str,
        worker_id: str,
        names: Sequence[str],
        limit: int,
        edition: int = 0,
        *,
        polls_here: bool = False,
    ) -> Claim | NotClaimed:
        """Claim up to `limit` jobs for one worker."""
        order = WantedClaim(worker_id, names, limit, polls_here)
        (claim,) = await self.claim_each(epoch, [order], edition)
        if isinstance(claim, Exception):
            raise claim
        return claim


class SingleTimerStore(TimerStore):
    async def promote(self, epoch: str, state: JobState) -> tuple[int, int]:
        """Return the number of jobs made ready and the ms until the next is due (-1: no such job)."""
        _, data = (await self._client.run_all([self._promotion(epoch, state)]))[0]
        return data[0], data[1]

    async def expire(self, epoch: str) -> tuple[int, int]:
        """Return the number of expired jobs skipped and the ms until the next expires (-1: no such job)."""
        _, data = (await self._client.run_all([self._expiry(epoch)]))[0]
        self._tally.skipped(name.decode() for name in data[2])
        return data[0], data[1]
