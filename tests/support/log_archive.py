"""A log archive with faults chosen by a test."""

from collections.abc import Callable
from pathlib import Path

from jqmaster.domain.content.content import full_access
from jqmaster.domain.logs.lines import ArchiveFigures
from jqmaster.domain.logs.piece import PieceName
from jqmaster.errors import ArchiveUnavailableError
from jqmaster.live_value import LiveValue
from jqmaster.service.logs.archiving import LogArchiving
from jqmaster.store.logs.archive import ArchiveAddress, LogArchive
from jqmaster.store.logs.archiving import LogArchivingStore
from tests.support.store import StoreWorld

WEEK_MS = 7 * 86_400_000


class FaultyArchive(LogArchive):
    """An archive in a directory.

    * `is_away`: it does not answer.
    * `refuses`: jobs whose logs it refuses.
    * `spoils`: reads lack the last byte.
    """

    def __init__(self, directory: Path) -> None:
        super().__init__(ArchiveAddress(f"file://{directory}"), "main")
        self.directory = directory
        self.is_away = False
        self.spoils = False
        self.refuses: Callable[[str], bool] = lambda _: False
        self.lists = 0
        self.puts = 0

    async def put(self, job_id: str, name: PieceName, data: bytes) -> None:
        self._answer()
        self.puts += 1
        if self.refuses(job_id):
            raise ArchiveUnavailableError("access denied")
        await super().put(job_id, name, data)

    async def get(self, job_id: str, name: PieceName) -> bytes | None:
        self._answer()
        data = await super().get(job_id, name)
        return data[:-1] if data and self.spoils else data

    async def names(self, job_id: str) -> list[PieceName]:
        self._answer()
        self.lists += 1
        return await super().names(job_id)

    async def erase(self, job_id: str, deleted_ms: int) -> int:
        self._answer()
        return await super().erase(job_id, deleted_ms)

    def objects(self) -> list[Path]:
        """Return all files of the archive, in order."""
        return sorted(path for path in self.directory.rglob("*") if path.is_file())

    def _answer(self) -> None:
        if self.is_away:
            raise ArchiveUnavailableError("the archive is away", retry_after_s=10)


def archiving_of(world: StoreWorld, archive: LogArchive, *redact_paths: str) -> LogArchiving:
    """Return the service that moves week-old logs."""
    return LogArchiving(
        LogArchivingStore(world.shard),
        archive,
        retention_ms=LiveValue(WEEK_MS),
        audience=LiveValue(full_access(redact_paths)),
        figures=ArchiveFigures(),
    )
