"""Finds challenges that people have not answered by the time of their reminder."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from jqmaster.domain.challenges.challenge import Challenge
from jqmaster.domain.jobs.job import Job
from jqmaster.store.jobs.challenges import ChallengeStore
from jqmaster.store.jobs.records import RecordStore
from jqmaster.store.link.shard import Shard
from jqmaster.store.notices.failed_jobs import ids_after


@dataclass(frozen=True, slots=True)
class WaitingChallenge:
    """A challenge that waits for people, and its job without the argument."""

    job: Job
    challenge: Challenge


class WaitingChallengeStore:
    """Challenges of one shard. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard, records: RecordStore, challenges: ChallengeStore) -> None:
        self._client = shard.client
        self._keys = shard.keys
        self._records = records
        self._challenges = challenges

    async def after(self, at_ms: int, now_ms: int) -> tuple[Sequence[str], int]:
        """Return the IDs of jobs whose reminders are due after `at_ms` and before `now_ms`; see `ids_after`."""
        return await ids_after(self._client, self._keys.reminders, at_ms, now_ms)

    async def read(self, job_ids: Collection[str]) -> list[WaitingChallenge]:
        """Return the challenges of these jobs that still wait for people."""
        found = []
        open_ones = await self.open_of(job_ids)
        jobs = await self._records.get_without_argument(list(open_ones)) if open_ones else {}
        for job_id, challenge in open_ones.items():
            if (job := jobs.get(job_id)) is not None:
                found.append(WaitingChallenge(job, challenge))
        return found

    async def open_of(self, job_ids: Collection[str]) -> dict[str, Challenge]:
        """Return the challenge of each of these jobs that waits for people."""
        found = await self._challenges.of(list(job_ids))
        newest = {job_id: some[-1] for job_id, some in found.items() if some}
        return {job_id: one for job_id, one in newest.items() if one.is_open and one.form is not None}
