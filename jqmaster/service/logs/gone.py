"""Reads and erases logs of deleted jobs. Such a log is in the archive, or waits in the store to be archived."""

from collections.abc import AsyncIterator

from jqmaster.domain.content.content import ContentAccess
from jqmaster.domain.content.job_content import JobContent
from jqmaster.domain.logs.page import LinesPage, LogFacts, LogFilter
from jqmaster.domain.logs.piece import Piece, PieceName
from jqmaster.errors import ConflictError
from jqmaster.live_value import LiveValue
from jqmaster.service.logs.archived import ArchivedLogs, filtered
from jqmaster.service.logs.archiving import redacted
from jqmaster.store.logs.archiving import GoneLog, LogArchivingStore, LogNotHere


class GoneLogs:
    """Reads and erases logs of deleted jobs. `audience`: see `LogArchiving`. Methods raise what the store raises,
    ArchiveUnavailableError and ArchiveDamagedError."""

    def __init__(
        self, store: LogArchivingStore, archived: ArchivedLogs, audience: LiveValue[ContentAccess]
    ) -> None:
        self._store = store
        self._archived = archived
        self._audience = audience

    async def page(
        self, job_id: str, after: int, *, limit: int, wanted: LogFilter, tail: int | None = None
    ) -> LinesPage | None:
        """Return entries after the line `after`, with the content that people with all rights may see. None: there is
        no such log."""
        waiting = await self._store.read_gone(job_id, after)
        if isinstance(waiting, GoneLog):
            if tail is not None:
                after = max(after, waiting.facts.last - tail)
            return await self._waiting_page(waiting, after, limit, wanted)
        with self._archived.reading():
            return await self._archived_page(job_id, waiting, after, limit=limit, wanted=wanted, tail=tail)

    async def _archived_page(
        self,
        job_id: str,
        known: LogNotHere,
        after: int,
        *,
        limit: int,
        wanted: LogFilter,
        tail: int | None,
    ) -> LinesPage | None:
        names = await self._names(job_id, known)
        if not names:
            return None
        last = names[-1].last
        if tail is not None:
            after = max(after, last - tail)
        # Read the last piece even if the caller has all its lines, because a piece has the name of the job.
        first = next((n for n, name in enumerate(names) if name.last > after), len(names) - 1)
        piece = await anext(self._archived.pieces(job_id, names[first:], 0), None)
        if piece is None:
            return None
        rest = self._archived.pieces(job_id, names[first + 1 :], after)
        entries, end = await filtered(_chained(piece, rest), after, limit, wanted)
        facts = LogFacts(last, piece.dropped, 0, last, self._archived.ref(job_id))
        return LinesPage(None, entries, last if end is None else end, end is None, facts, True, piece.name)

    async def erase(self, job_id: str) -> bool:
        """Request the removal of the log, even if it still waits to be archived. From now on, nobody can read the log.
        Return False if there is no such log. Raise ConflictError if the job still exists."""
        waiting = await self._store.read_gone(job_id, 0)
        if not isinstance(waiting, GoneLog) and not await self._names(job_id, waiting):
            return False
        if not await self._store.erase_gone(job_id):
            raise ConflictError(f"job {job_id} still exists; delete the job, which also deletes its log")
        return True

    async def _names(self, job_id: str, known: LogNotHere) -> list[PieceName]:
        deleted_ms = known.deleted_ms
        if deleted_ms is None:
            return []
        return [name for name in await self._archived.names_of_gone(job_id) if name.created_ms > deleted_ms]

    async def _waiting_page(self, waiting: GoneLog, after: int, limit: int, wanted: LogFilter) -> LinesPage:
        facts, name, job_id = waiting.facts, waiting.job.name, waiting.job.id
        if after < facts.archived:
            with self._archived.reading(facts.archived if facts.last > facts.archived else None):
                names: list[PieceName] = await self._archived.names(job_id)
                pieces = self._archived.pieces(job_id, names, after)
                entries, end = await filtered(pieces, after, limit, wanted)
            return LinesPage(None, entries, facts.archived if end is None else end, False, facts, True, name)
        content = JobContent(self._audience.current, waiting.job)
        here = Piece(job_id, name, facts.dropped, waiting.entries)
        entries, end = await filtered(_chained(here, None), after, limit, wanted)
        place = max(after, waiting.end) if end is None else end
        return LinesPage(
            None,
            [redacted(entry, content) for entry in entries],
            place,
            end is None and not waiting.is_full,
            facts,
            False,
            name,
        )


async def _chained(first: Piece, rest: AsyncIterator[Piece] | None) -> AsyncIterator[Piece]:
    yield first
    if rest:
        async for piece in rest:
            yield piece
