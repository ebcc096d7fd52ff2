"""Check whether the archive of job logs takes, gives and removes objects, long before the first log goes there."""

from typing import Final, Protocol

from jqmaster.clock import Clock
from jqmaster.errors import ArchiveUnavailableError
from jqmaster.runtime.periodic_loop import PeriodicLoop

EVERY_S: Final = 3600.0
RETRY_S: Final = 60.0


class ProbedArchive(Protocol):
    async def probe(self) -> None:
        """Raise ArchiveUnavailableError."""
        ...


class ArchiveCheck(PeriodicLoop):
    """Component. `fault`: why the last check failed; empty if it did not. The same fault is logged once."""

    is_vital = False

    def __init__(self, archive: ProbedArchive, clock: Clock) -> None:
        super().__init__("archive_check", clock, complaint="the archive of job logs cannot be used")
        self._archive = archive
        self.fault = ""

    async def _round(self) -> float:
        try:
            await self._archive.probe()
        except ArchiveUnavailableError as exc:
            if exc.detail != self.fault:
                self._logger.warning(
                    "%s: %s; logs of jobs stay in the store until it is mended", self._complaint, exc.detail
                )
            self.fault = exc.detail
            return RETRY_S
        if self.fault:
            self._logger.info("the archive of job logs can be used again")
        self.fault = ""
        return EVERY_S
