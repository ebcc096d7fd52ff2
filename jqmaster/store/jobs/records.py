"""Reads the record of each job, and the history of its attempts."""

from collections.abc import Sequence
from typing import Final

from jqmaster.domain.jobs.job import CONTINUED, Attempt, Job
from jqmaster.errors import DamagedError
from jqmaster.store import codec
from jqmaster.store.link.pages import RECORDS_PER_READ, pages
from jqmaster.store.link.scripts import Arg
from jqmaster.store.link.shard import Shard

# How many bytes of a record are read first. Almost every record fits into them up to its argument. Longer headers cost
# one more read.
HEAD_READ: Final = 1024

# The end of the last attempt is one of the last three entries of a history. Later entries describe events within
# attempts.
_LAST_ENTRIES: Final = 3


class RecordStore:
    """Records of one shard. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard) -> None:
        self._client = shard.client
        self._keys = shard.keys

    async def get(self, job_id: str) -> Job | None:
        record = await self._client.command("GET", self._keys.job(job_id))
        return codec.decode_job(job_id, record) if record else None

    async def get_without_argument(self, job_ids: Sequence[str]) -> dict[str, Job]:
        """Return the jobs that exist and can be read. Their arguments are missing or incomplete."""
        commands: list[tuple[Arg, ...]] = [("GETRANGE", self._keys.job(i), 0, HEAD_READ - 1) for i in job_ids]
        records = await self._client.pipeline(commands, skip_damaged=True)
        found = {}
        for job_id, record in zip(job_ids, records, strict=True):
            if record and (job := await self.job_or_none(job_id, record)):
                found[job_id] = job
        return found

    async def job_or_none(self, job_id: str, record: bytes) -> Job | None:
        """Like `decode_head`, but return None if the record cannot be read. Lists leave out such a job, and fsck
        reports it."""
        try:
            return await self.decode_head(job_id, record)
        except DamagedError:
            return None

    async def decode_head(self, job_id: str, record: bytes) -> Job:
        """Return the job from the first HEAD_READ bytes of its record. If the extras do not end there, read more of the
        record.
        """
        if codec.head_length(job_id, record) > len(record):
            record = await self._client.command(
                "GETRANGE", self._keys.job(job_id), 0, codec.head_length(job_id, record) - 1
            )
        return codec.decode_job(job_id, record)

    async def history(self, job_id: str) -> list[Attempt]:
        entries = await self._client.command("LRANGE", self._keys.history(job_id), 0, -1)
        return [codec.decode_attempt(entry) for entry in entries]

    async def get_all(self, job_ids: Sequence[str]) -> dict[str, Job]:
        """Return the jobs that exist and can be read, whole."""
        found = {}
        for chunk in pages(job_ids, RECORDS_PER_READ):
            records = await self._client.pipeline(
                [("GET", self._keys.job(job_id)) for job_id in chunk], skip_damaged=True
            )
            for job_id, record in zip(chunk, records, strict=True):
                if record and (job := await self.job_or_none(job_id, record)):
                    found[job_id] = job
        return found

    async def get_short(self, job_ids: Sequence[str], most_bytes: int) -> dict[str, Job]:
        """Return the whole jobs that exist and can be read, except jobs with records longer than `most_bytes`."""
        records = await self._client.pipeline(
            [("GETRANGE", self._keys.job(job_id), 0, most_bytes) for job_id in job_ids], skip_damaged=True
        )
        found = {}
        for job_id, record in zip(job_ids, records, strict=True):
            if record and len(record) <= most_bytes and (job := await self.job_or_none(job_id, record)):
                found[job_id] = job
        return found

    async def last_ends(self, job_ids: Sequence[str]) -> list[Attempt | None]:
        """Return the end of the last attempt in the history of each job. None: there is no such entry, or it cannot be
        read.
        """
        histories = await self._client.pipeline(
            [("LRANGE", self._keys.history(job_id), -_LAST_ENTRIES, -1) for job_id in job_ids],
            skip_damaged=True,
        )
        return [_last_end(history or ()) for history in histories]


def _last_end(history: Sequence[bytes]) -> Attempt | None:
    for entry in reversed(history):
        try:
            attempt = codec.decode_attempt(entry)
        except DamagedError:
            continue
        if attempt.outcome != CONTINUED:
            return attempt
    return None
