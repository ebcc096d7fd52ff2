"""Logs of jobs: workers send lines, and callers read or follow them."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from jqmaster.clock import Clock, wait_for_event
from jqmaster.domain.ids import is_id
from jqmaster.domain.jobs.job import FINISHED
from jqmaster.domain.logs.lines import LogChunk, LogFigures, LogLimits, LogLine, chunks, clean
from jqmaster.domain.logs.page import LATE_MS, LinesPage, LogFilter, LogSlice, NumberedLine
from jqmaster.errors import ConflictError
from jqmaster.live_value import LiveValue
from jqmaster.service.jobs.reader import LOOK_AGAIN_S, unknown_job
from jqmaster.service.jobs.waiters import FinishWaiters
from jqmaster.service.logs.archived import ArchivedLogs, filtered
from jqmaster.service.logs.gone import GoneLogs
from jqmaster.store.logs.logs import ClaimLines, LogStore, SavedLines

# Pause between the wake-up of a follower and the read of the store. Lines that arrive in this time reach the follower
# together.
MIN_PAUSE_S: Final = 0.1
# Maximum number of reads for one page. If the filter selects few lines, the page may end early, and the next call
# continues.
MAX_READS: Final = 8


class SentLine(NamedTuple):
    """A line as a worker sent it."""

    seq: int
    at_ms: int
    rank: int
    text: str | bytes


@dataclass(frozen=True, slots=True)
class LogReceipt:
    """The answer to a worker.

    * `accepted`: the number of the sent lines that this call or an earlier one has taken.
    * `dropped`: the number of lines that were dropped by the worker or because of the limits. A limit may also drop
      earlier lines of other jobs.
    * `stale`: the IDs of jobs that the worker does not hold under the given tokens.
    """

    accepted: int
    dropped: int
    stale: list[str]


class LogService:
    """Stores, reads and erases logs of jobs. Methods raise what the store raises."""

    def __init__(
        self,
        store: LogStore,
        waiters: FinishWaiters,
        clock: Clock,
        *,
        limits: LiveValue[LogLimits],
        figures: LogFigures,
        archived: ArchivedLogs | None = None,
        gone: GoneLogs | None = None,
    ) -> None:
        self._store = store
        self._waiters = waiters
        self._clock = clock
        self._limits = limits
        self._figures = figures
        self._archived = archived
        self._gone = gone

    async def save(self, worker_id: str, claims: Sequence[tuple[str, str, Sequence[SentLine]]]) -> LogReceipt:
        """Store lines of a worker's claims. `claims`: the job ID, the token and the lines of each claim. The numbers of
        the lines grow. A repeated line is stored once."""
        if not is_id(worker_id):
            return LogReceipt(0, 0, [job_id for job_id, _, _ in claims])
        most = self._limits.current.max_line_bytes
        given = [
            ClaimLines(
                job_id,
                token,
                list(
                    chunks(LogLine(seq, at_ms, rank, clean(text, most)) for seq, at_ms, rank, text in lines)
                ),
            )
            for job_id, token, lines in claims
        ]
        done = await self._store.save(worker_id, given)
        for n, saved in enumerate(done):
            if saved.behind is not None:
                # The call repeats lines of an earlier call and also has new lines. Save only the new lines.
                rest = _lines_after(given[n], saved.behind)
                (done[n],) = await self._store.save(worker_id, [rest])
        return self._taken(given, done)

    def _taken(self, given: Sequence[ClaimLines], done: Sequence[SavedLines]) -> LogReceipt:
        accepted = dropped = 0
        stale = []
        for claim, saved in zip(given, done, strict=True):
            count = sum(len(chunk.lines) for chunk in claim.chunks)
            if saved.is_stale:
                stale.append(claim.job_id)
                self._figures.stale += count
            else:
                accepted += count
                dropped += saved.left_out + saved.made_room
                self._figures.kept += saved.kept
        self._figures.dropped += dropped
        return LogReceipt(accepted, dropped, stale)

    async def page(
        self,
        job_id: str,
        after: int,
        *,
        limit: int,
        wanted: LogFilter,
        wait_s: float,
        tail: int | None = None,
    ) -> LinesPage:
        """Return entries after the line `after` as soon as there are any. Return a page without entries when the job is
        over or `wait_s` has passed. Raise NotFoundError, ArchiveUnavailableError and ArchiveDamagedError.

        `tail`: begin with the last lines, at most this many.
        """
        if not is_id(job_id):
            raise unknown_job(job_id)
        ends_at_s = self._clock.monotonic_s() + wait_s
        with self._waiters.listening(job_id) as news:
            while True:
                left_s = ends_at_s - self._clock.monotonic_s()
                news.clear()
                page, found = await self._read(job_id, after, limit, wanted, tail, watch=left_s > 0)
                if page.entries or page.is_last or page.is_archived or left_s <= 0 or found.is_full:
                    return page
                after, tail = page.next, None
                pause_s = min(left_s, LOOK_AGAIN_S)
                if found.state in FINISHED:
                    # The last lines of a job may arrive for a short time after its end. Wait no longer than this time.
                    pause_s = min(pause_s, max(0.0, LATE_MS - found.over_ms) / 1000 + 0.01)
                await wait_for_event(news, pause_s)
                await asyncio.sleep(MIN_PAUSE_S)

    async def _read(
        self, job_id: str, after: int, limit: int, wanted: LogFilter, tail: int | None, *, watch: bool
    ) -> tuple[LinesPage, LogSlice]:
        entries = list[NumberedLine]()
        found = await self._slice(job_id, after, watch=watch)
        if tail is not None and found.facts.last - tail > after:
            after = found.facts.last - tail
            if found.is_full:
                found = await self._slice(job_id, after)
        if after < found.facts.archived and self._archived:
            # This page has only lines from the archive. The next page has the lines that are still in the store.
            has_more = found.facts.last > found.facts.archived or found.state not in FINISHED
            with self._archived.reading(found.facts.archived if has_more else None):
                pieces = self._archived.pieces(job_id, await self._archived.names(job_id), after)
                entries, end = await filtered(pieces, after, limit, wanted)
            after = found.facts.archived if end is None else end
            is_last = end is None and found.is_over and found.facts.last <= after
            return LinesPage(found.state, entries, after, is_last, found.facts, is_archived=True), found
        for reads in range(MAX_READS):
            if reads:
                found = await self._slice(job_id, after)
            for entry in found.entries:
                if entry.seq > after and wanted.selects(entry):
                    entries.append(entry)
                    if len(entries) == limit:
                        return LinesPage(found.state, entries, entry.seq, False, found.facts), found
            after = max(after, found.end)
            if not found.is_full:
                break
        return LinesPage(found.state, entries, after, found.is_over, found.facts), found

    async def gone_page(
        self, job_id: str, after: int, *, limit: int, wanted: LogFilter, tail: int | None = None
    ) -> LinesPage:
        """Return entries of the log of a deleted job, as `page` does, but without waiting. Raise NotFoundError,
        ArchiveUnavailableError and ArchiveDamagedError."""
        found = None
        if self._gone and is_id(job_id):
            found = await self._gone.page(job_id, after, limit=limit, wanted=wanted, tail=tail)
        if found is None:
            raise unknown_job(job_id)
        return found

    async def erase_gone(self, job_id: str) -> None:
        """Erase the log of a deleted job: the part in the archive, and the part in the store that waits to be archived.
        Raise NotFoundError, ConflictError if the job still exists, and ArchiveUnavailableError."""
        if is_id(job_id):
            found = await self._store.read(job_id, 0, watch=False)
            if found is not None:
                raise ConflictError(f"job {job_id} still exists; delete the job, which also deletes its log")
            if self._gone and await self._gone.erase(job_id):
                return
        raise unknown_job(job_id)

    async def _slice(self, job_id: str, after: int, *, watch: bool = False) -> LogSlice:
        found = await self._store.read(job_id, after, watch=watch)
        if found is None:
            raise unknown_job(job_id)
        return found


def _lines_after(claim: ClaimLines, sent: int) -> ClaimLines:
    lines = [line for chunk in claim.chunks for line in chunk.lines if line.seq > sent]
    rest: list[LogChunk] = list(chunks(lines))
    return ClaimLines(claim.job_id, claim.token, rest)
