"""Moves logs to the archive, and removes the logs of deleted jobs from it."""

import contextlib
from enum import StrEnum

from jqmaster.domain.content.content import ContentAccess
from jqmaster.domain.content.job_content import JobContent
from jqmaster.domain.logs.lines import RANK, ArchiveFigures, LogLevel
from jqmaster.domain.logs.page import NumberedLine
from jqmaster.domain.logs.piece import Piece, PieceName
from jqmaster.errors import ArchiveUnavailableError, JqmasterError
from jqmaster.live_value import LiveValue
from jqmaster.store.logs.archive import LogArchive
from jqmaster.store.logs.archiving import LogArchivingStore, LogsToArchive, StoredPiece


class ArchivingRound(StrEnum):
    """The outcome of a move. CHANGED: during the move, lines were dropped by a limit or with their job. The next
    round handles the rest."""

    WHOLE = "whole"
    CHANGED = "changed"


class LogArchiving:
    """Moves logs to the archive. `audience`: the content access of people with all rights. Values that are redacted
    even for them never reach the archive. Methods raise what the store raises, and ArchiveUnavailableError."""

    def __init__(
        self,
        store: LogArchivingStore,
        archive: LogArchive,
        *,
        retention_ms: LiveValue[int],
        audience: LiveValue[ContentAccess],
        figures: ArchiveFigures,
    ) -> None:
        self._store = store
        self._archive = archive
        self._retention_ms = retention_ms
        self._audience = audience
        self.figures = figures
        # Jobs whose logs are being moved.
        self._under_way: set[str] = set()

    async def due(self, passed_over: tuple[int, int]) -> LogsToArchive:
        """Return logs that have to be moved: see `LogArchivingStore.due`."""
        return await self._store.due(self._retention_ms.current, passed_over)

    async def move(self, epoch: str, job_id: str) -> ArchivingRound:
        """Move a log, piece by piece. Lines are dropped from the store only after they have been read back
        from the archive. Raise DamagedError if the log cannot be read."""
        self._under_way.add(job_id)
        try:
            return await self._move(epoch, job_id)
        finally:
            self._under_way.discard(job_id)

    async def _move(self, epoch: str, job_id: str) -> ArchivingRound:
        while True:
            piece = await self._store.next_piece(epoch, job_id, self._archive.ref(job_id))
            if piece is None:
                break
            try:
                if piece.entries:
                    await self._write(piece)
                is_left = await self._store.drop(epoch, piece)
            except BaseException:
                # This master may have been delayed, and have written after another one removed the log of a deleted
                # job. Record the job, so that its log is removed again. Best effort: the removal is repeated an hour
                # after the deletion anyway.
                with contextlib.suppress(JqmasterError):
                    await self._store.note_late(piece.job)
                raise
            if is_left is None:
                await self._store.note_late(piece.job)
                return ArchivingRound.CHANGED
            self.figures.lines += len(piece.entries)
            if not is_left:
                break
        self.figures.logs += 1
        return ArchivingRound.WHOLE

    async def erase(self, epoch: str) -> int:
        """Remove logs of deleted jobs from the archive, the oldest first; return how many. Each log is checked again
        an hour later, because a delayed leader may have written after the removal. A removal that could not be
        recorded is repeated. A log that is being moved is not removed yet, because its next piece would arrive after
        the removal, and stay."""
        erasures = await self._store.erasures()
        first = [one for one in erasures.first if one[0] not in self._under_way]
        for job_id, deleted_ms in first:
            await self._archive.erase(job_id, deleted_ms)
            await self._store.end_erasures(epoch, [job_id])
        again = [one for one in erasures.again if one[0] not in self._under_way]
        for job_id, deleted_ms in again:
            await self._archive.erase(job_id, deleted_ms)
            await self._store.forget_erasures(epoch, [job_id])
        self.figures.erased += len(first)
        return len(first) + len(again)

    async def _write(self, piece: StoredPiece) -> None:
        job = piece.job
        content = JobContent(self._audience.current, job)
        entries = [redacted(entry, content) for entry in piece.entries]
        data = Piece(job.id, job.name, piece.dropped, entries).encode()
        name = PieceName.of(job.created_at_ms, entries, data)
        await self._archive.put(job.id, name, data)
        if await self._archive.get(job.id, name) != data:
            raise ArchiveUnavailableError(
                f"the archive of logs does not return the lines that were written for job {job.id}"
            )


def redacted(entry: NumberedLine, content: JobContent) -> NumberedLine:
    """Return an entry in which everything that must not reach the archive is redacted."""
    text = content.log_line(entry.text, is_error=entry.rank >= RANK[LogLevel.ERROR])
    return entry._replace(text=text or "")
