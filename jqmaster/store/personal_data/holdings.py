"""All jobs of a shard, each with all stored data about it."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jqmaster.domain.ids import is_id
from jqmaster.domain.jobs.job import Attempt, Job
from jqmaster.domain.logs.page import LogFacts, NumberedLine
from jqmaster.errors import DamagedError
from jqmaster.store import codec
from jqmaster.store.link.pages import pages
from jqmaster.store.link.scripts import Arg
from jqmaster.store.link.shard import Shard
from jqmaster.store.logs.logs import LogStore

# The approximate number of keys that one step of the search examines.
KEYS_PER_STEP: Final = 500
# Number of jobs per read. It is small, because arguments and results may be large.
JOBS_PER_READ: Final = 25
_MAX_PARTS: Final = 1_000


@dataclass(slots=True)
class JobHoldings:
    """A job with all stored data about it, as encoded values. `has_log`: there is a log; see `HoldingStore.log`."""

    job: Job
    attempts: Sequence[Attempt] = ()
    result: bytes | None = None
    progress: str = ""
    checkpoint: bytes | None = None
    parts: Sequence[bytes] = ()
    challenges: bytes | None = None
    has_log: bool = False


class HoldingStore:
    """Jobs of one shard. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard, logs: LogStore) -> None:
        self._client = shard.client
        self._keys = shard.keys
        self._logs = logs

    async def ids(self, cursor: str) -> tuple[list[str], str]:
        """Return IDs of jobs, and the cursor of the next step. The first cursor is `0`; after the last step it is
        empty. A job that exists during the whole walk is returned at least once, even if its state changes meanwhile.
        """
        prefix = self._keys.job("")
        following, found = await self._client.command(
            "SCAN", cursor, "MATCH", f"{prefix}*", "COUNT", KEYS_PER_STEP
        )
        ids = [key[len(prefix) :].decode(errors="replace") for key in found]
        after = following.decode()
        return [job_id for job_id in ids if is_id(job_id)], "" if after == "0" else after

    async def jobs(self, ids: Sequence[str]) -> AsyncIterator[tuple[list[JobHoldings], int]]:
        """Yield pages of the jobs among these that exist, each page with the number of jobs that cannot be read."""
        for page in pages(ids, JOBS_PER_READ):
            found, damaged = list[JobHoldings](), 0
            for job_id, replies in zip(page, await self._read(page), strict=True):
                if replies[0]:
                    try:
                        found.append(_holdings(job_id, replies))
                    except DamagedError:
                        damaged += 1
            yield found, damaged

    async def _read(self, ids: Sequence[str]) -> list[list[Any]]:
        """Return the replies about each job, in the order of `_holdings`."""
        k = self._keys
        commands: list[tuple[Arg, ...]] = []
        for job_id in ids:
            commands += [
                ("GET", k.job(job_id)),
                ("LRANGE", k.history(job_id), 0, -1),
                ("GET", k.result(job_id)),
                ("HMGET", k.progress(job_id), "message", "checkpoint"),
                ("XRANGE", k.parts(job_id), "-", "+", "COUNT", _MAX_PARTS),
                ("GET", k.challenges(job_id)),
                ("SISMEMBER", k.logged, job_id),
            ]
        replies = await self._client.pipeline(commands, skip_damaged=True)
        width = len(commands) // len(ids) if ids else 1
        return [replies[at : at + width] for at in range(0, len(replies), width)]

    async def log(self, job_id: str, after: int) -> tuple[list[NumberedLine], LogFacts, int | None] | None:
        """Return the next lines of a job's log after a line, the facts about the log, and the line after which the next
        call continues (`None`: this was the last page). Return None if the job is gone.
        """
        found = await self._logs.read(job_id, after, watch=False)
        if found is None:
            return None
        return found.entries, found.facts, found.end if found.is_full else None


def _holdings(job_id: str, replies: Sequence[Any]) -> JobHoldings:
    record, history, result, progress, parts, challenges, is_logged = replies
    message, checkpoint = progress or (None, None)
    return JobHoldings(
        codec.decode_job(job_id, record),
        [codec.decode_attempt(entry) for entry in history or ()],
        result,
        (message or b"").decode(errors="replace"),
        checkpoint,
        [fields[-1] for _, fields in parts or ()],
        challenges,
        bool(is_logged),
    )
