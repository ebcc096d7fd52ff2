"""Remove log lines after their retention, in bounded steps."""

import logging
from collections.abc import Callable
from typing import Final

from jqmaster.clock import Clock
from jqmaster.domain.logs.lines import ArchiveFigures
from jqmaster.live_value import LiveValue
from jqmaster.runtime.periodic_loop import LeaderLoop
from jqmaster.store.leadership.leadership import Leadership
from jqmaster.store.logs.logs import LogStore

logger = logging.getLogger(__name__)

POLL_S: Final = 10.0
# How long to pause after a round, if there is more to do.
AGAIN_S: Final = 1.0


class LogKeeper(LeaderLoop):
    """A duty of one leadership: removes old log lines. `wait_ms`: how much longer to keep lines that could not be
    archived. None: there is no archive."""

    is_vital = False
    poll_s = POLL_S

    def __init__(
        self,
        leadership: Leadership,
        store: LogStore,
        clock: Clock,
        *,
        retention_ms: LiveValue[int],
        wait_ms: LiveValue[int] | None = None,
        figures: ArchiveFigures | None = None,
        on_stale: Callable[[], None],
    ) -> None:
        super().__init__("log_keeper", clock, complaint="cannot remove old log lines", on_stale=on_stale)
        self._epoch = leadership.epoch
        self._store = store
        self._retention_ms = retention_ms
        self._wait_ms = wait_ms
        self._figures = figures or ArchiveFigures()

    async def _round(self) -> float:
        wait_ms = self._wait_ms.current if self._wait_ms else 0
        dropped, has_more = await self._store.sweep(
            self._epoch, self._retention_ms.current + wait_ms, wait_ms
        )
        if dropped and self._wait_ms:
            self._figures.given_up += dropped
            logger.error(
                "removed %d log lines of jobs that the archive did not take within log_archive_wait_s",
                dropped,
            )
        return AGAIN_S if has_more else POLL_S
