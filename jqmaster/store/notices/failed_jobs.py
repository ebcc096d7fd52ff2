"""Lists failed jobs in the order of their failures, each exactly once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from jqmaster.domain.jobs.job import Attempt, Job, JobState
from jqmaster.store.jobs.records import RecordStore
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.pages import MAX_PER_CALL, pages
from jqmaster.store.link.shard import Shard

# Maximum number of jobs in one read. Jobs that failed in the same millisecond are read together, even if they exceed
# this number.
PER_READ: Final = 2_000
CLOCK_STEP_MS: Final = 1_000


@dataclass(frozen=True, slots=True)
class FailedJob:
    """A job that failed for good. `end`: None if its last attempt is not known."""

    job: Job
    end: Attempt | None


class FailedJobStore:
    """Failed jobs of one shard. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard, records: RecordStore) -> None:
        self._client = shard.client
        self._keys = shard.keys
        self._records = records

    async def after(self, at_ms: int, now_ms: int) -> tuple[Sequence[str], int]:
        """Return the IDs of jobs that failed after `at_ms` and before `now_ms`; see `ids_after`."""
        return await ids_after(self._client, self._keys.index(JobState.FAILED), at_ms, now_ms)

    async def read(self, job_ids: Sequence[str]) -> list[FailedJob]:
        """Return the jobs among these that exist, without arguments."""
        found = []
        for some in pages(job_ids, MAX_PER_CALL):
            jobs = await self._records.get_without_argument(some)
            known = [job for job_id in some if (job := jobs.get(job_id))]
            ends = await self._records.last_ends([job.id for job in known]) if known else []
            found += [FailedJob(job, end) for job, end in zip(known, ends, strict=True)]
        return found


async def ids_after(client: StoreClient, key: str, at_ms: int, now_ms: int) -> tuple[Sequence[str], int]:
    """Return the IDs of an index with a time after `at_ms` and before `now_ms` (store times), and the time up to which
    the list is complete. Leave out the present millisecond, because more IDs may still come.
    """
    last_ms = now_ms - 1
    if last_ms < at_ms - CLOCK_STEP_MS:
        # The store's clock was set back. Continue from its new time, because new entries have earlier times than
        # `at_ms`.
        return [], last_ms
    flat = await client.command(
        "ZRANGE", key, f"({at_ms}", last_ms, "BYSCORE", "LIMIT", 0, PER_READ, "WITHSCORES"
    )
    found = [(flat[n].decode(), int(float(flat[n + 1]))) for n in range(0, len(flat), 2)]
    if len(found) < PER_READ:
        return [job_id for job_id, _ in found], max(at_ms, last_ms)
    newest_ms = found[-1][1]
    if found[0][1] < newest_ms:
        # Leave out the last millisecond, because the next page may have more jobs with this time.
        return [job_id for job_id, ms in found if ms < newest_ms], newest_ms - 1
    whole = await client.command("ZRANGE", key, newest_ms, newest_ms, "BYSCORE")
    return [job_id.decode() for job_id in whole], newest_ms
