"""Logs that wait to be archived, and logs that wait to be removed from the archive."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from jqmaster.domain.jobs.job import Job
from jqmaster.domain.logs.page import LogFacts, NumberedLine
from jqmaster.errors import DamagedError
from jqmaster.store import codec
from jqmaster.store.link.shard import Shard
from jqmaster.store.logs.logs import CHUNKS_PER_READ, entries_of, facts_of, read_entries

LOGS_PER_LOOK: Final = 200
# How long after the deletion of a job the archive is checked a second time for its log.
LATE_MS: Final = 3_600_000


class LogsToArchive(NamedTuple):
    """Jobs whose logs wait to be archived: deleted jobs, and other jobs."""

    gone: list[str]
    others: list[str]


@dataclass(frozen=True, slots=True)
class StoredPiece:
    """The oldest chunks of a job's log.

    * `archived`: the last line that was archived before.
    * `dropped`: the number of missing lines so far. `drop` compares `last`, `chunks` and `size`.
    """

    job: Job
    archived: int
    dropped: int
    entries: list[NumberedLine]
    last: int
    chunks: int
    size: int


@dataclass(frozen=True, slots=True)
class GoneLog:
    """A deleted job whose log waits to be archived, and the entries of the log after a position."""

    job: Job
    facts: LogFacts
    entries: list[NumberedLine]
    end: int
    is_full: bool


class LogErasures(NamedTuple):
    """Deleted jobs, with the times of their deletion.

    * `first`: jobs whose logs wait to be removed from the archive.
    * `again`: jobs for which the archive has to be checked again.
    """

    first: list[tuple[str, int]]
    again: list[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class LogNotHere:
    """The log of a deleted job does not wait to be archived. `deleted_ms` has one of three values:

    * a time: a job with this ID was deleted then, and its log was removed recently;
    * 0: there was no such job;
    * None: the log waits to be removed, and nobody may see it.
    """

    deleted_ms: int | None


class LogArchivingStore:
    """Archiving of the logs of one shard. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._client = shard.client
        self._keys = shard.keys

    async def due(self, retention_ms: int, passed_over: tuple[int, int]) -> LogsToArchive:
        """Return the oldest logs that wait to be archived, for deleted jobs and for other jobs. `passed_over`: how many
        of each to skip."""
        k = self._keys
        _, (gone, others) = await self._client.run(
            "due_logs",
            (k.log_times, k.log_waits),
            (self._shard.now_arg, retention_ms, *passed_over, LOGS_PER_LOOK),
        )
        return LogsToArchive([raw.decode() for raw in gone], [raw.decode() for raw in others])

    async def next_piece(self, epoch: str, job_id: str, ref: str) -> StoredPiece | None:
        """Return the oldest lines of a log, or None if it has none. Raise DamagedError if the log cannot be read."""
        k = self._keys
        word, data = await self._client.run(
            "take_log_piece",
            (k.epoch, k.job(job_id), k.log(job_id), k.logs(job_id), k.log_times, k.log_waits),
            (k.tag, epoch, job_id, CHUNKS_PER_READ, ref),
        )
        if word == "none":
            return None
        if word == "damaged":
            raise DamagedError(f"the log of job {job_id} cannot be read")
        record, archived, dropped, chunks = data
        try:
            return StoredPiece(
                codec.decode_job(job_id, record),
                int(archived),
                int(dropped),
                [
                    entry
                    for _, attempt, base, _, _, chunk in chunks
                    for entry in read_entries(attempt, base, chunk)
                ],
                int(chunks[-1][0]),
                len(chunks),
                sum(int(size) for *_, size, _ in chunks),
            )
        except (ValueError, DamagedError) as exc:
            raise DamagedError(f"the log of job {job_id} cannot be read") from exc

    async def drop(self, epoch: str, piece: StoredPiece) -> bool | None:
        """Remove an archived piece from the store. Return whether more of the log is left. Return None if the piece has
        changed meanwhile and nothing was removed.
        """
        k, job_id = self._keys, piece.job.id
        word, data = await self._client.run(
            "drop_archived",
            (k.epoch, k.log(job_id), k.logs(job_id), k.log_waits),
            (k.tag, epoch, job_id, piece.archived, piece.last, piece.chunks, piece.size),
        )
        return None if word == "changed" else data[0] == 1

    async def read_gone(self, job_id: str, after: int) -> GoneLog | LogNotHere:
        """Return entries of a log that waits to be archived, or LogNotHere if the log does not wait."""
        k = self._keys
        word, data = await self._client.run(
            "read_gone_log",
            (k.log(job_id), k.logs(job_id), k.log_erasures, k.log_erased),
            (job_id, after, CHUNKS_PER_READ),
        )
        if word != "ok":
            return LogNotHere(None) if word == "erased" else LogNotHere(data[0])
        record, facts, chunks = data
        return GoneLog(
            codec.decode_job(job_id, record),
            facts_of(facts),
            [entry for _, *chunk in chunks for entry in entries_of(*chunk) if entry.seq > after],
            int(chunks[-1][0]) if chunks else after,
            len(chunks) == CHUNKS_PER_READ,
        )

    async def erasures(self) -> LogErasures:
        """Return the deleted jobs whose logs wait to be removed from the archive, the oldest first."""
        k = self._keys
        _, (first, again) = await self._client.run(
            "due_log_erasures", (k.log_erasures, k.log_erased), (self._shard.now_arg, LATE_MS, LOGS_PER_LOOK)
        )
        return LogErasures(_deletions(first), _deletions(again))

    async def end_erasures(self, epoch: str, job_ids: Sequence[str]) -> None:
        """Record that the logs of these jobs were removed."""
        k = self._keys
        await self._client.run("end_log_erasures", (k.epoch, k.log_erasures, k.log_erased), (epoch, *job_ids))

    async def forget_erasures(self, epoch: str, job_ids: Sequence[str]) -> None:
        """Record that the archive was checked again for the logs of these jobs."""
        k = self._keys
        await self._client.run("forget_log_erasures", (k.epoch, k.log_erased), (epoch, *job_ids))

    async def note_late(self, job: Job) -> bool:
        """Record that a piece of a log may have reached the archive late. Return whether it has to be removed, because
        the job was deleted meanwhile."""
        k = self._keys
        _, (is_erased,) = await self._client.run(
            "note_late_log", (k.log_erasures, k.log_erased), (job.id, job.created_at_ms)
        )
        return bool(is_erased)

    async def erase_gone(self, job_id: str) -> bool:
        """Schedule the removal of a deleted job's log from the archive, and remove the part that waits to be archived.
        Return False if the job exists."""
        k = self._keys
        word, _ = await self._client.run(
            "erase_gone_log",
            (k.job(job_id), k.log_erasures),
            (self._shard.now_arg, k.tag, job_id),
        )
        return word == "ok"


def _deletions(raw: Sequence[bytes]) -> list[tuple[str, int]]:
    return [(job_id.decode(), int(float(at))) for job_id, at in zip(raw[::2], raw[1::2], strict=True)]
