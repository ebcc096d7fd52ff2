"""Reads logs from the archive."""

import contextlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Final

from jqmaster.clock import Clock
from jqmaster.domain.logs.page import LogFilter, NumberedLine
from jqmaster.domain.logs.piece import Piece, PieceName, newest
from jqmaster.errors import ArchiveUnavailableError
from jqmaster.store.logs.archive import LogArchive

# Time for which the master remembers that the archive has no log of a job.
UNKNOWN_S: Final = 30.0
MAX_UNKNOWN: Final = 10_000
# Maximum number of pieces that a page reads.
MAX_READS: Final = 4
# Maximum length of the archive's own message in an answer, in characters.
_MAX_REASON: Final = 180


class ArchivedLogs:
    """Reads logs in the archive. Methods raise ArchiveUnavailableError and ArchiveDamagedError."""

    def __init__(self, archive: LogArchive, clock: Clock) -> None:
        self._archive = archive
        self._clock = clock
        # Maps a job ID to the time until which the archive counts as having no log of the job. The oldest entry comes
        # first.
        self._unknown: OrderedDict[str, float] = OrderedDict()

    @contextlib.contextmanager
    def reading(self, stored_after: int | None = None) -> Iterator[None]:
        """If the archive is unreachable within the context, add to the error what the caller can do. `stored_after`:
        the number of the line after which the store has the lines. None: the store has no later lines."""
        try:
            yield
        except ArchiveUnavailableError as exc:
            rest = f" The store still has the lines after {stored_after}." if stored_after is not None else ""
            raise ArchiveUnavailableError(
                f"{_shortened(exc.detail)}. Try again later; `jqmaster doctor` on a master's machine tests the "
                f"archive.{rest}",
                retry_after_s=exc.retry_after_s,
                stored_after=stored_after,
            ) from exc

    def ref(self, job_id: str) -> str:
        """Return the path of a job's log in the archive."""
        return self._archive.ref(job_id)

    async def names(self, job_id: str) -> list[PieceName]:
        """Return the names of the pieces of a log, in the order of their lines. If several jobs have had this ID,
        return those of the newest job."""
        return newest(await self._archive.names(job_id))

    async def names_of_gone(self, job_id: str) -> list[PieceName]:
        """Return the names of the pieces of the log of a deleted job. If the archive has none, remember this for
        UNKNOWN_S, and do not query it again."""
        now_s = self._clock.monotonic_s()
        if self._unknown.get(job_id, now_s) > now_s:
            return []
        names = await self.names(job_id)
        if names:
            self._unknown.pop(job_id, None)
        else:
            self._unknown[job_id] = now_s + UNKNOWN_S
            self._unknown.move_to_end(job_id)
            while len(self._unknown) > MAX_UNKNOWN:
                self._unknown.popitem(last=False)
        return names

    async def pieces(self, job_id: str, names: Sequence[PieceName], after: int) -> AsyncIterator[Piece]:
        """Yield the pieces with lines after the line `after`. Skip pieces that were removed meanwhile."""
        for name in names:
            if name.last <= after:
                continue
            data = await self._archive.get(job_id, name)
            if data is not None:
                yield Piece.decode(name, data)


def _shortened(text: str) -> str:
    """Return the archive's message without the details of the HTTP exchange."""
    place, said, _ = text.partition(": Generic ")
    text = place if said and ": " in place else text
    return text if len(text) <= _MAX_REASON else f"{text[:_MAX_REASON]}..."


async def filtered(
    pieces: AsyncIterator[Piece], after: int, limit: int, wanted: LogFilter
) -> tuple[list[NumberedLine], int | None]:
    """Return up to `limit` selected entries after the line `after`, and the line up to which the pieces were examined.
    None: all pieces were examined. Pieces may overlap. At most MAX_READS pieces are read, even if the filter selects
    few entries."""
    entries = list[NumberedLine]()
    reads = 0
    async for piece in pieces:
        if reads == MAX_READS:
            return entries, after
        reads += 1
        for entry in piece.entries:
            if entry.seq <= after:
                continue
            if len(entries) == limit:
                return entries, after
            after = entry.seq
            if wanted.selects(entry):
                entries.append(entry)
    return entries, None
