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
    """The outcome of a move. CHANGED: lines were dropped during the move, by a limit or with their job. The next round
    handles the rest."""

    WHOLE = "whole"
    CHANGED = "changed"


class LogArchiving:
    """Moves logs to the archive. `audience`: the content access of people with all rights. A value that is redacted
    even for these people never reaches the archive. Methods raise what the store raises, and
    ArchiveUnavailableError."""

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
        # IDs of the jobs with a log that is being moved.
        self._under_way: set[str] = set()

    async def due(self, passed_over: tuple[int, int]) -> LogsToArchive:
        """Return the logs to move; see `LogArchivingStore.due`."""
        return await self._store.due(self._retention_ms.current, passed_over)

    async def move(self, epoch: str, job_id: str) -> ArchivingRound:
        """Move a log, piece by piece. Drop lines from the store only after they have been read back from the archive.
        Raise DamagedError if the log cannot be read."""
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
                # If this master was delayed, it may have written after another master removed the log of a deleted job.
                # Record the job, so that its log is removed once more. Best effort: an hour after the deletion, the
                # removal is repeated in any case.
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
        """Remove logs of deleted jobs from the archive, the oldest first. Return the number of removals.

        Each removal is repeated an hour later, because a delayed leader may have written after the first one. A removal
        that could not be recorded is also repeated. Skip a log that is being moved: its next piece would arrive after
        the removal, and would stay.
        """
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
    """Return the entry with everything redacted that must not reach the archive."""
    text = content.log_line(entry.text, is_error=entry.rank >= RANK[LogLevel.ERROR])
    return entry._replace(text=text or "")
