"""Logs that move to the archive, and reads from it."""

import gzip
from pathlib import Path
from typing import Any

import pytest

from jqmaster.clock import SystemClock
from jqmaster.domain.content.content import full_access
from jqmaster.domain.ids import new_id
from jqmaster.domain.jobs.job import JobState
from jqmaster.domain.logs.lines import LogFigures
from jqmaster.domain.logs.page import LATE_MS, LinesPage, LogFilter
from jqmaster.domain.logs.piece import PieceName
from jqmaster.errors import ArchiveDamagedError, ArchiveUnavailableError, ConflictError, NotFoundError
from jqmaster.live_value import LiveValue
from jqmaster.service.logs.archived import UNKNOWN_S, ArchivedLogs
from jqmaster.service.logs.archiving import ArchivingRound
from jqmaster.service.logs.gone import GoneLogs
from jqmaster.service.logs.logs import LogService, SentLine
from jqmaster.store.jobs.claims import ClaimedJob
from jqmaster.store.jobs.retention import Retention
from jqmaster.store.logs import archiving as store_module
from jqmaster.store.logs.archiving import LogArchivingStore
from tests.support.clock import ManualClock
from tests.support.jobs import Served
from tests.support.log_archive import FaultyArchive, archiving_of
from tests.support.store import LOG_LIMITS

pytestmark = pytest.mark.req("D17")

ALL = LogFilter()


class Archived:
    """Logs of one master with an archive. `redact`: the paths that are redacted."""

    def __init__(self, served: Served, archive: FaultyArchive, *redact: str) -> None:
        self.served, self.world, self.archive = served, served.world, archive
        self.clock = ManualClock()
        self.archiving = archiving_of(self.world, archive, *redact)
        archived = ArchivedLogs(archive, self.clock)
        gone = GoneLogs(LogArchivingStore(self.world.shard), archived, LiveValue(full_access(redact)))
        self.logs = LogService(
            self.world.logs, served.waiters, SystemClock(), limits=LOG_LIMITS, figures=LogFigures(),
            archived=archived, gone=gone,
        )  # fmt: skip

    async def job(self, *texts: str, argument: Any = None) -> tuple[str, ClaimedJob]:
        worker, job = await self.world.running(argument=argument)
        await self.write(worker, job, 1, *texts)
        return worker, job

    async def write(self, worker: str, job: ClaimedJob, first: int, *texts: str) -> None:
        for n, text in enumerate(texts, first):
            line = SentLine(n, 5, 3 if "error" in text else 1, text)
            await self.logs.save(worker, [(job.job_id, job.token, [line])])

    async def over(self, worker: str, job: ClaimedJob) -> None:
        assert await self.world.settlements.settle_success(worker, [(job.job_id, job.token, b"")]) == [True]
        self.world.pass_ms(LATE_MS)

    async def sweep(self) -> None:
        limits: dict[JobState | None, Retention] = {JobState.SUCCEEDED: Retention(0, 9)}
        await self.world.retention.sweep_all(self.world.epoch, limits, archives_logs=True)

    async def move(self, job: ClaimedJob) -> ArchivingRound:
        return await self.archiving.move(self.world.epoch, job.job_id)

    async def page(self, job_id: str, after: int = 0, limit: int = 100, **options: Any) -> LinesPage:
        return await self.logs.page(job_id, after, limit=limit, wanted=ALL, wait_s=0, **options)

    async def gone(self, job_id: str, after: int = 0, limit: int = 100, **options: Any) -> LinesPage:
        options = {"wanted": ALL, **options}
        return await self.logs.gone_page(job_id, after, limit=limit, **options)


@pytest.fixture
def archived(served: Served, tmp_path: Path) -> Archived:
    return Archived(served, FaultyArchive(tmp_path))


def texts(page: LinesPage) -> list[str]:
    return [entry.text for entry in page.entries]


async def test_a_log_is_read_where_it_is_as_if_nothing_had_happened(archived: Archived) -> None:
    worker, job = await archived.job("a", "b", "c")
    assert await archived.move(job) is ArchivingRound.WHOLE
    assert await archived.world.logs.total_bytes() == 0
    await archived.write(worker, job, 4, "d")
    page = await archived.page(job.job_id)
    assert (texts(page), page.next, page.is_archived, page.is_last) == (["a", "b", "c"], 3, True, False)
    assert page.facts.ref == f"main/{job.job_id}/"
    page = await archived.page(job.job_id, page.next)
    assert (texts(page), page.is_archived) == (["d"], False)
    assert texts(await archived.page(job.job_id, 0, 2)) == ["a", "b"]
    assert texts(await archived.page(job.job_id, tail=2)) == ["c"]
    assert await archived.move(job) is ArchivingRound.WHOLE
    await archived.over(worker, job)
    page = await archived.page(job.job_id, 3)
    assert (texts(page), page.is_last) == (["d"], True)
    assert (await archived.page(job.job_id, 4)).is_last
    assert archived.archiving.figures.lines == 4


async def test_the_log_of_a_job_that_is_gone_is_read_before_and_after_it_moves(archived: Archived) -> None:
    worker, job = await archived.job("a", "b", "an error")
    await archived.over(worker, job)
    await archived.sweep()
    with pytest.raises(NotFoundError):
        await archived.page(job.job_id)
    before = await archived.gone(job.job_id)
    assert (texts(before), before.state, before.name, before.is_archived) == (
        ["a", "b", "an error"], None, "work", False,
    )  # fmt: skip
    assert before.is_last
    assert await archived.move(job) is ArchivingRound.WHOLE
    after = await archived.gone(job.job_id)
    assert (texts(after), after.is_archived, after.is_last, after.next) == (texts(before), True, True, 3)
    assert (after.name, after.facts.last) == ("work", 3)
    for tail, limit, expected in ((1, 100, ["an error"]), (None, 2, ["a", "b"])):
        found = await archived.gone(job.job_id, limit=limit, tail=tail)
        assert texts(found) == expected
    assert texts(await archived.gone(job.job_id, wanted=LogFilter(least_rank=3))) == ["an error"]
    end = await archived.gone(job.job_id, 3)
    assert (texts(end), end.is_last, end.next) == ([], True, 3)


async def test_a_long_log_of_a_gone_job_that_is_half_in_the_archive_is_read_whole(
    archived: Archived, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "CHUNKS_PER_READ", 2)
    worker, job = await archived.job("a", "b", "c", "d", "e")
    await archived.over(worker, job)
    await archived.sweep()
    store = LogArchivingStore(archived.world.shard)
    piece = await store.next_piece(archived.world.epoch, job.job_id, archived.archive.ref(job.job_id))
    assert piece
    await archived.archiving._write(piece)
    assert await store.drop(archived.world.epoch, piece)
    found, after, is_last = list[str](), 0, False
    while not is_last:
        page = await archived.gone(job.job_id, after)
        found, after, is_last = [*found, *texts(page)], page.next, page.is_last
    assert found == ["a", "b", "c", "d", "e"]
    assert texts(await archived.gone(job.job_id, tail=4)) == ["b"]
    assert texts(await archived.gone(job.job_id, 2, tail=2)) == ["d"]
    assert texts(await archived.gone(job.job_id, 3)) == ["d", "e"]
    assert await archived.move(job) is ArchivingRound.WHOLE
    assert len(archived.archive.objects()) == 3
    assert texts(await archived.gone(job.job_id)) == ["a", "b", "c", "d", "e"]


async def test_an_interrupted_move_leaves_no_line_twice(archived: Archived) -> None:
    """The leader dies after the object was written."""
    worker, job = await archived.job("a", "b")
    store = LogArchivingStore(archived.world.shard)
    piece = await store.next_piece(archived.world.epoch, job.job_id, archived.archive.ref(job.job_id))
    assert piece
    await archived.archiving._write(piece)
    assert texts(await archived.page(job.job_id)) == ["a", "b"]
    await archived.write(worker, job, 3, "c")
    assert await archived.move(job) is ArchivingRound.WHOLE
    assert len(archived.archive.objects()) == 2
    assert texts(await archived.page(job.job_id)) == ["a", "b", "c"]
    await archived.over(worker, job)
    await archived.sweep()
    assert texts(await archived.gone(job.job_id)) == ["a", "b", "c"]


async def test_redacted_text_does_not_leave(served: Served, tmp_path: Path) -> None:
    archived = Archived(served, FaultyArchive(tmp_path), "argument.password", "error.message")
    _, job = await archived.job("login with hunter22", "error: no", argument={"password": "hunter22"})
    await archived.move(job)
    (path,) = archived.archive.objects()
    text = gzip.decompress(path.read_bytes()).decode()
    assert "hunter22" not in text
    assert "error: no" not in text
    assert texts(await archived.page(job.job_id)) == ["login with [redacted]", "[redacted]"]


async def test_a_waiting_log_shows_no_redacted_text(served: Served, tmp_path: Path) -> None:
    archived = Archived(served, FaultyArchive(tmp_path), "argument.password")
    worker, job = await archived.job("login with hunter22", argument={"password": "hunter22"})
    await archived.over(worker, job)
    await archived.sweep()
    assert texts(await archived.gone(job.job_id)) == ["login with [redacted]"]


async def test_nothing_is_dropped_that_the_archive_does_not_give_back(archived: Archived) -> None:
    _, job = await archived.job("a")
    archived.archive.spoils = True
    with pytest.raises(ArchiveUnavailableError, match="does not return the lines"):
        await archived.move(job)
    archived.archive.spoils, archived.archive.is_away = False, True
    with pytest.raises(ArchiveUnavailableError):
        await archived.move(job)
    assert texts(await archived.page(job.job_id)) == ["a"]
    archived.archive.is_away = False
    assert await archived.move(job) is ArchivingRound.WHOLE


async def test_damage_and_absence_of_the_archive_are_told_apart(archived: Archived) -> None:
    worker, job = await archived.job("a")
    await archived.move(job)
    archived.archive.is_away = True
    with pytest.raises(ArchiveUnavailableError) as found:
        await archived.page(job.job_id)
    assert found.value.retry_after_s
    # The job is not over: further lines may come, and stay in the store.
    assert found.value.stored_after == 1
    archived.archive.is_away = False
    (path,) = archived.archive.objects()
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    with pytest.raises(ArchiveDamagedError, match="lines 1 to 1 fail their checksum"):
        await archived.page(job.job_id)
    # The lines behind it are readable.
    await archived.write(worker, job, 2, "b")
    assert texts(await archived.page(job.job_id, 1)) == ["b"]
    # Somebody removed the piece: its lines are missing, and this is not an error.
    path.unlink()
    page = await archived.page(job.job_id)
    assert (texts(page), page.next) == ([], 1)


async def test_the_archive_is_not_asked_again_and_again_for_what_never_was(archived: Archived) -> None:
    job_id = new_id()
    for _ in range(5):
        with pytest.raises(NotFoundError):
            await archived.gone(job_id)
    assert archived.archive.lists == 1
    archived.clock.jump(60)
    with pytest.raises(NotFoundError):
        await archived.gone(job_id)
    assert archived.archive.lists == 2
    with pytest.raises(NotFoundError):
        await archived.gone("no-id")
    without = LogService(
        archived.world.logs, archived.served.waiters, SystemClock(), limits=LOG_LIMITS, figures=LogFigures()
    )
    with pytest.raises(NotFoundError):
        await without.gone_page(job_id, 0, limit=1, wanted=ALL)


async def test_a_deleted_job_leaves_nothing_in_the_archive(archived: Archived) -> None:
    worker, job = await archived.job("a")
    await archived.move(job)
    await archived.over(worker, job)
    await archived.world.operator_actions.delete(job.job_id)
    # From this moment on, nobody can see it.
    with pytest.raises(NotFoundError):
        await archived.gone(job.job_id)
    archived.archive.is_away = True
    with pytest.raises(ArchiveUnavailableError):
        await archived.archiving.erase(archived.world.epoch)
    archived.archive.is_away = False
    assert await archived.archiving.erase(archived.world.epoch) == 1
    assert await archived.archiving.erase(archived.world.epoch) == 0
    assert archived.archive.objects() == []
    with pytest.raises(NotFoundError):
        await archived.gone(job.job_id)
    # A piece that arrives late is not shown, either.
    await archived.archive.put(job.job_id, PieceName(1, 1, 1, "0" * 64), b"late")
    archived.clock.jump(UNKNOWN_S)
    with pytest.raises(NotFoundError):
        await archived.gone(job.job_id)


async def test_the_log_of_a_job_that_is_gone_is_erased(archived: Archived) -> None:
    logs, world = archived.logs, archived.world
    (_, there), (other, waiting), (third, moved) = [await archived.job("a") for _ in range(3)]
    for known in (there.job_id, waiting.job_id):
        with pytest.raises(ConflictError, match="delete the job"):
            await logs.erase_gone(known)
    for by, job in ((other, waiting), (third, moved)):
        await archived.over(by, job)
    await archived.sweep()
    await archived.move(moved)
    for job in (waiting, moved):
        assert texts(await archived.gone(job.job_id)) == ["a"]
        await logs.erase_gone(job.job_id)
        for call in (archived.gone(job.job_id), logs.erase_gone(job.job_id)):
            with pytest.raises(NotFoundError):
                await call
    assert await archived.archiving.erase(world.epoch) == 2
    assert archived.archive.objects() == []
    for unknown in (moved.job_id, new_id(), "no ID"):
        with pytest.raises(NotFoundError):
            await logs.erase_gone(unknown)
    archived.archive.is_away = True
    with pytest.raises(ArchiveUnavailableError):
        await logs.erase_gone(new_id())


async def test_a_reader_of_an_archive_that_is_away_learns_what_the_store_still_has(
    archived: Archived,
) -> None:
    worker, job = await archived.job("a", "b")
    await archived.move(job)
    await archived.write(worker, job, 3, "c")
    archived.archive.is_away = True
    with pytest.raises(ArchiveUnavailableError, match=r"jqmaster doctor.*lines after 2") as found:
        await archived.page(job.job_id)
    assert found.value.stored_after == 2
    assert texts(await archived.page(job.job_id, 2)) == ["c"]
    await archived.over(worker, job)
    archived.archive.is_away = False
    await archived.move(job)
    archived.archive.is_away = True
    with pytest.raises(ArchiveUnavailableError, match="jqmaster doctor") as found:
        await archived.page(job.job_id)
    assert found.value.stored_after is None


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "403 Forbidden, AccessDenied: Generic S3 error: Error performing GET http",
            "403 Forbidden, AccessDenied.",
        ),
        ("timed out", "timed out."),
        ("x" * 500, "xxx...."),
    ],
)
async def test_a_reader_is_told_what_the_archive_said(archived: Archived, said: str, told: str) -> None:
    known = ArchivedLogs(archived.archive, archived.clock)
    with pytest.raises(ArchiveUnavailableError) as found, known.reading():
        raise ArchiveUnavailableError(f"cannot list the archive of logs s3://bucket: {said}")
    assert f"{told} Try again later" in found.value.detail
    assert "Generic" not in found.value.detail
    assert len(found.value.detail) < 300
