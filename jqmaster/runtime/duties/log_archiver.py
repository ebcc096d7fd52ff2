"""Move logs of jobs to the archive, at a pace that does not disturb other duties."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from jqmaster.clock import Clock
from jqmaster.domain.ids import is_id
from jqmaster.domain.logs.lines import ArchiveFigures
from jqmaster.errors import ArchiveUnavailableError, DamagedError
from jqmaster.lifecycle import EntriesApart
from jqmaster.runtime.periodic_loop import LeaderLoop
from jqmaster.service.logs.archiving import ArchivingRound, LogArchiving
from jqmaster.store.leadership.leadership import Leadership
from jqmaster.store.link.pages import pages

logger = logging.getLogger(__name__)

POLL_S: Final = 5.0
# How long to pause after a round of about 200 logs, if there are more.
AGAIN_S: Final = 0.5
FIRST_RETRY_S: Final = 2.0
LONGEST_RETRY_S: Final = 60.0
# Maximum number of logs that are moved at the same time.
AT_A_TIME: Final = 4
# After this many failures in a row, assume that the archive is at fault and not these logs.
AWAY_AFTER: Final = 8


class LogArchiver(LeaderLoop):
    """A duty of one leadership: moves logs to the archive, and removes logs of deleted jobs from it."""

    is_vital = False

    def __init__(
        self,
        leadership: Leadership,
        archiving: LogArchiving,
        clock: Clock,
        *,
        on_stale: Callable[[], None],
    ) -> None:
        super().__init__(
            "log_archiver", clock, complaint="logs of jobs wait for the archive", on_stale=on_stale
        )
        self._epoch = leadership.epoch
        self._archiving = archiving
        self._retry_s = FIRST_RETRY_S
        self._said: dict[str, str] = {}
        self._apart = EntriesApart("log_archiver")
        # Unreadable logs, so that each is reported only once.
        self._damaged: set[str] = set()
        # How many logs of this round could not be moved: first those of deleted jobs, then others.
        self._passed_over = [0, 0]
        self._tried: set[str] = set()
        self._failures_in_a_row = 0
        self._failure: ArchiveUnavailableError | None = None

    @property
    def figures(self) -> ArchiveFigures:
        return self._archiving.figures

    async def start(self) -> None:
        await super().start()
        # Erase in a separate loop: an archive that refuses removals may still accept logs.
        self._spawn(
            "erasures",
            self._erase,
            "logs of deleted jobs cannot be removed from the archive",
            retry_s=LONGEST_RETRY_S,
        )

    async def _erase(self) -> float:
        return AGAIN_S if await self._archiving.erase(self._epoch) else POLL_S

    async def _round(self) -> float:
        due = await self._archiving.due((self._passed_over[0], self._passed_over[1]))
        for kind, job_ids in enumerate(due):
            for group in pages(job_ids, AT_A_TIME):
                await self._move_group(kind, group)
        if due.gone or due.others:
            return AGAIN_S
        failure = self._failure
        self._reset()
        if failure:
            # Too few moves failed in a row to blame the archive. The next round tries these logs again.
            raise failure
        self._retry_s = FIRST_RETRY_S
        self._said.pop(self._complaint, None)
        return POLL_S

    async def _move_group(self, kind: int, job_ids: Sequence[str]) -> None:
        ends = await asyncio.gather(*map(self._move, job_ids), return_exceptions=True)
        for job_id, end in zip(job_ids, ends, strict=True):
            if isinstance(end, ArchiveUnavailableError):
                self.figures.failures += 1
                self._failure = end
                self._failures_in_a_row += 1
            elif isinstance(end, BaseException):
                raise end
            elif end is ArchivingRound.WHOLE:
                self._failures_in_a_row = 0
                continue
            self._tried.add(job_id)
            self._passed_over[kind] += 1
        if self._failures_in_a_row >= AWAY_AFTER and self._failure:
            raise self._failure

    async def _move(self, job_id: str) -> ArchivingRound | None:
        """Move a log. Return None if it stays in the store."""
        if job_id in self._damaged or job_id in self._tried or not is_id(job_id):
            return None
        with self._apart.alone(f"log of job {job_id}"):
            try:
                return await self._archiving.move(self._epoch, job_id)
            except DamagedError:
                logger.error("the log of job %s cannot be read, and does not go to the archive", job_id)
                self._damaged.add(job_id)
                self.figures.damaged += 1
        return None

    def _reset(self) -> None:
        self._passed_over, self._failures_in_a_row, self._failure = [0, 0], 0, None
        self._tried.clear()

    def _retry_after_s(self) -> float:
        self._reset()
        wait_s, self._retry_s = self._retry_s, min(LONGEST_RETRY_S, self._retry_s * 2)
        return wait_s

    def _failed(self, error: Exception, complaint: str) -> None:
        """Log each failure once, and not at each retry."""
        text = error.detail if isinstance(error, ArchiveUnavailableError) else ""
        if not text or text != self._said.get(complaint):
            super()._failed(error, complaint)
        self._said[complaint] = text

    async def _pause(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
