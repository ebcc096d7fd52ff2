"""Progress and checkpoints of jobs. Only the claim that holds a job writes them."""

from collections.abc import Collection, Iterable, Sequence

from jqmaster.domain.jobs.job import Job
from jqmaster.domain.jobs.progress import Progress, ProgressReport, RefusedReports
from jqmaster.store import codec
from jqmaster.store.jobs.claims import ClaimedJob
from jqmaster.store.link.pages import RECORDS_PER_READ, pages
from jqmaster.store.link.scripts import Arg
from jqmaster.store.link.shard import Shard


class ProgressStore:
    """Progress and checkpoints of one shard. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._client = shard.client
        self._keys = shard.keys

    async def save(self, worker_id: str, reports: Sequence[ProgressReport]) -> RefusedReports:
        """Store reports. Return the claims whose reports are refused."""
        stale: set[tuple[str, str]] = set()
        outdated: set[tuple[str, str]] = set()
        for page in pages(reports, RECORDS_PER_READ):
            args: list[Arg] = [self._shard.now_arg, self._keys.tag, codec.id_bytes(worker_id)]
            for report in page:
                fraction, message = report.progress or (None, "")
                args += (
                    report.job_id,
                    bytes.fromhex(report.token),
                    int(report.progress is not None),
                    "" if fraction is None else repr(fraction),
                    message,
                    report.checkpoint or b"",
                    "" if report.seq is None else report.seq,
                )
            _, indexes = await self._client.run("save_progress", (), args)
            for refused, of_page in zip((stale, outdated), indexes, strict=True):
                refused.update((page[index].job_id, page[index].token) for index in of_page)
        return RefusedReports(frozenset(stale), frozenset(outdated))

    async def of(self, jobs: Iterable[Job]) -> dict[str, Progress]:
        """Return the progress of these jobs by ID. Leave out jobs that have reported no progress."""
        told = [job.id for job in jobs if job.has_progress]
        replies = await self._client.pipeline(
            [("HMGET", self._keys.progress(job_id), "fraction", "message", "at_ms") for job_id in told],
            skip_damaged=True,
        )
        return {
            job_id: Progress(
                codec.fraction_of(reply[0]), (reply[1] or b"").decode(errors="replace"), int(reply[2])
            )
            for job_id, reply in zip(told, replies, strict=True)
            if reply and reply[2]
        }

    async def checkpoint(self, job: Job) -> bytes | None:
        """Return the encoded checkpoint that the next attempt of a job would get, if there is one."""
        if not job.has_progress:
            return None
        told = [("HGET", self._keys.progress(job.id), "checkpoint")]
        (checkpoint,) = await self._client.pipeline(told, skip_damaged=True)
        return checkpoint if isinstance(checkpoint, bytes) else None

    async def give_checkpoints(self, jobs: Collection[ClaimedJob]) -> None:
        """Give claimed jobs the checkpoints of their former attempts. No other claim can change them any more."""
        told = [job for job in jobs if job.record.has_progress]
        if not told:
            return
        replies = await self._client.pipeline(
            [("HGET", self._keys.progress(job.job_id), "checkpoint") for job in told], skip_damaged=True
        )
        for job, checkpoint in zip(told, replies, strict=True):
            job.checkpoint = checkpoint
