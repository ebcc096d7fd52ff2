"""The leader's duty that moves logs to the archive, and the one that removes what it does not take."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from jqmaster.domain.jobs.job import JobState
from jqmaster.domain.logs.lines import LogLine, chunks
from jqmaster.domain.logs.piece import PieceName
from jqmaster.errors import ArchiveUnavailableError, StaleEpochError, StoreUnavailableError
from jqmaster.live_value import LiveValue
from jqmaster.runtime.duties import log_archiver as module
from jqmaster.runtime.duties.log_archiver import LogArchiver
from jqmaster.runtime.duties.log_keeper import LogKeeper
from jqmaster.store.leadership.leadership import Leadership
from jqmaster.store.logs import archiving as store_module
from jqmaster.store.logs.logs import ClaimLines
from tests.support import long, real_time
from tests.support.clock import ManualClock
from tests.support.log_archive import WEEK_MS, FaultyArchive, archiving_of
from tests.support.store import StoreWorld
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("D17"), real_time.LOOPS]

DAY_MS = 86_400_000


class Duty:
    """The archiver of one leadership; a test calls its rounds."""

    def __init__(self, world: StoreWorld, directory: Path, epoch: str | None = None) -> None:
        self.world = world
        self.archive = FaultyArchive(directory)
        self.clock = ManualClock()
        self.stale = 0
        self.archiver = LogArchiver(
            Leadership(epoch or world.epoch, "m"), archiving_of(world, self.archive), self.clock,
            on_stale=self._on_stale,
        )  # fmt: skip
        self.figures = self.archiver.figures

    def _on_stale(self) -> None:
        self.stale += 1

    async def logs(self, count: int) -> list[str]:
        """Create jobs whose logs are due, the oldest first."""
        ids = []
        for n in range(count):
            worker, job = await self.world.running()
            of_claim = list(chunks([LogLine(1, 5, 1, f"line {n}")]))
            await self.world.logs.save(worker, [ClaimLines(job.job_id, job.token, of_claim)])
            ids.append(job.job_id)
            self.world.pass_ms(1)
        self.world.pass_ms(WEEK_MS)
        return ids

    async def waiting(self) -> list[str]:
        k = self.world.shard.keys
        return [raw.decode() for raw in await self.world.redis.zrange(k.log_times, 0, -1)]

    async def round(self) -> float:
        return await self.archiver._round()

    async def until_idle(self) -> None:
        while await self.round() != module.POLL_S:
            pass


@pytest.fixture
def duty(world: StoreWorld, tmp_path: Path) -> Duty:
    return Duty(world, tmp_path)


async def test_it_moves_what_is_due_in_bounded_steps(duty: Duty, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "LOGS_PER_LOOK", 3)
    await duty.logs(7)
    assert await duty.round() == module.AGAIN_S
    assert len(await duty.waiting()) == 4
    await duty.until_idle()
    assert await duty.waiting() == []
    assert len(duty.archive.objects()) == 7
    assert (duty.figures.logs, duty.figures.lines) == (7, 7)


@pytest.mark.sized
async def test_an_archive_that_is_away_for_a_day_is_told_once_and_catches_up(
    duty: Duty, caplog: pytest.LogCaptureFixture
) -> None:
    await duty.logs(20)
    duty.archive.is_away = True
    await duty.archiver.start()
    try:
        # After the first minutes, all hours of the day are alike.
        for _ in range(20):
            await duty.clock.pass_s(long.size(2, 24) * 3600 / 20)
        assert len(await duty.waiting()) == 20
        told = [r for r in caplog.records if "logs of jobs wait for the archive" in r.message]
        assert len(told) == 1
        # The wait grows, up to a minute.
        assert duty.archiver._retry_s == module.LONGEST_RETRY_S
        assert duty.figures.failures > 0
        duty.archive.is_away = False

        async def has_caught_up() -> bool:
            await duty.clock.pass_s(module.POLL_S)
            return duty.archiver._retry_s == module.FIRST_RETRY_S

        await wait_until(has_caught_up, timeout_s=30)
        assert await duty.waiting() == []
        assert len(duty.archive.objects()) == 20
    finally:
        await duty.archiver.stop()


async def test_one_log_that_the_archive_refuses_holds_up_no_other(duty: Duty) -> None:
    ids = await duty.logs(12)
    duty.archive.refuses = lambda job_id: job_id in ids[:2]
    while True:
        try:
            await duty.round()
        except ArchiveUnavailableError:
            break
    assert await duty.waiting() == ids[:2]
    duty.archive.refuses = lambda _: False
    await duty.until_idle()
    assert await duty.waiting() == []


async def test_an_archive_that_refuses_everything_is_not_asked_for_every_log(duty: Duty) -> None:
    await duty.logs(30)
    duty.archive.refuses = lambda _: True
    with pytest.raises(ArchiveUnavailableError):
        await duty.round()
    assert duty.archive.puts < 20


async def test_damaged_logs_are_told_once_and_stay(duty: Duty, caplog: pytest.LogCaptureFixture) -> None:
    ids = await duty.logs(6)
    k, redis = duty.world.shard.keys, duty.world.redis
    harms: list[Callable[[str], Awaitable[object]]] = [
        lambda key: redis.set(key, "text"),
        lambda key: redis.xadd(key, {"a": "b"}, id="1-0"),
        lambda key: redis.xadd(
            key, {"attempt": "1", "lines": "x", "size": "17", "base": "0", "chunk": "bytes"}, id="1-0"
        ),
    ]
    for job_id, harm in zip(ids, harms, strict=False):
        await redis.delete(k.logs(job_id))
        await harm(k.logs(job_id))
    for _ in range(3):
        await duty.until_idle()
    assert await duty.waiting() == ids[:3]
    assert len(duty.archive.objects()) == 3
    told = [r.message for r in caplog.records if r.levelno == logging.ERROR]
    # Several pieces travel together, so their order is undefined.
    assert sorted(told) == [
        f"the log of job {i} cannot be read, and does not go to the archive" for i in sorted(ids[:3])
    ]
    assert duty.figures.damaged == 3
    # These logs are removed as they would be without an archive.
    await keeper(duty, wait_ms=0)._round()
    assert await duty.waiting() == []


def keeper(duty: Duty, wait_ms: int) -> LogKeeper:
    return LogKeeper(
        Leadership(duty.world.epoch, "m"),
        duty.world.logs,
        duty.clock,
        retention_ms=LiveValue(WEEK_MS),
        wait_ms=LiveValue(wait_ms),
        figures=duty.figures,
        on_stale=lambda: None,
    )


async def test_logs_that_the_archive_does_not_take_in_time_are_removed_and_told(
    duty: Duty, caplog: pytest.LogCaptureFixture
) -> None:
    ids = await duty.logs(2)
    await keeper(duty, wait_ms=DAY_MS)._round()
    assert await duty.waiting() == ids
    duty.world.pass_ms(DAY_MS)
    await keeper(duty, wait_ms=DAY_MS)._round()
    assert await duty.waiting() == []
    assert duty.figures.given_up == 2
    assert "removed 2 log lines of jobs that the archive did not take" in caplog.text


async def test_logs_of_deleted_jobs_are_removed_from_the_archive(duty: Duty) -> None:
    world = duty.world
    (job_id,) = await duty.logs(1)
    await duty.until_idle()
    job = await world.get(job_id)
    assert job.worker_id
    await world.settlements.settle_success(job.worker_id, [(job_id, job.token, b"")])
    assert await world.state(job_id) is JobState.SUCCEEDED
    await world.operator_actions.delete(job_id)
    await duty.archiver.start()
    try:
        await wait_until(lambda: duty.figures.erased == 1, timeout_s=30)
    finally:
        await duty.archiver.stop()
    assert duty.archive.objects() == []


async def test_a_log_that_is_being_written_when_its_job_is_deleted_is_removed_behind_that(
    duty: Duty, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, put = duty.world, duty.archive.put
    (job_id,) = await duty.logs(1)
    job = await world.get(job_id)
    assert job.worker_id
    await world.settlements.settle_success(job.worker_id, [(job_id, job.token, b"")])

    async def slow_put(job_id: str, name: PieceName, data: bytes) -> None:
        await world.operator_actions.delete(job_id)
        # The object cannot be there yet.
        assert await duty.archiver._erase() == module.POLL_S
        await put(job_id, name, data)

    monkeypatch.setattr(duty.archive, "put", slow_put)
    await duty.round()
    assert len(duty.archive.objects()) == 1
    assert await duty.archiver._erase() == module.AGAIN_S
    assert duty.archive.objects() == []
    assert await duty.archiver._erase() == module.POLL_S


async def frozen_while_its_job_is_deleted(
    world: StoreWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: Callable[[], None]
) -> Duty:
    """Freeze a leader that is about to write to the archive; meanwhile another one leads and removes what it finds of
    the deleted job. `end` runs when the write is done. Return the duty of the present leader."""
    old = Duty(world, tmp_path)
    put = old.archive.put
    (job_id,) = await old.logs(1)
    job = await world.get(job_id)
    assert job.worker_id
    await world.settlements.settle_success(job.worker_id, [(job_id, job.token, b"")])
    present: list[Duty] = []

    async def frozen_put(job_id: str, name: PieceName, data: bytes) -> None:
        await world.reelect()
        present.append(Duty(world, tmp_path, world.epoch))
        await world.operator_actions.delete(job_id)
        assert await present[0].archiver._erase() == module.AGAIN_S
        assert await present[0].archiver._erase() == module.POLL_S
        await put(job_id, name, data)
        end()

    monkeypatch.setattr(old.archive, "put", frozen_put)
    with pytest.raises((StaleEpochError, ArchiveUnavailableError, asyncio.CancelledError)):
        await old.archiver._archiving.move(old.archiver._epoch, job_id)
    assert len(old.archive.objects()) == 1
    return present[0]


def _cancel() -> None:
    raise asyncio.CancelledError


def _answer_too_late() -> None:
    raise ArchiveUnavailableError("timed out")


@pytest.mark.parametrize(
    "end", [lambda: None, _cancel, _answer_too_late], ids=["woken", "canceled", "timed out"]
)
async def test_lines_that_a_frozen_leader_writes_of_a_deleted_job_are_removed_when_it_wakes(
    world: StoreWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: Callable[[], None]
) -> None:
    present = await frozen_while_its_job_is_deleted(world, tmp_path, monkeypatch, end)
    assert await present.archiver._erase() == module.AGAIN_S
    assert present.archive.objects() == []
    assert await world.findings() == []


async def test_lines_of_a_deleted_job_that_a_leader_left_are_removed_an_hour_later_if_it_never_wakes(
    world: StoreWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die() -> None:
        async def no_more(*_: object) -> bool:
            raise StoreUnavailableError("it is dead")

        monkeypatch.setattr(store_module.LogArchivingStore, "note_late", no_more)

    present = await frozen_while_its_job_is_deleted(world, tmp_path, monkeypatch, die)
    assert await present.archiver._erase() == module.POLL_S
    world.pass_ms(store_module.LATE_MS)
    assert await present.archiver._erase() == module.AGAIN_S
    assert present.archive.objects() == []
    assert await present.archiver._erase() == module.POLL_S


async def test_a_leader_that_was_replaced_drops_nothing(world: StoreWorld, tmp_path: Path) -> None:
    old = await world.reelect()
    duty = Duty(world, tmp_path, old)
    ids = await duty.logs(2)
    async with world.unchanged():
        with pytest.raises(StaleEpochError):
            await duty.round()
    await duty.archiver.start()
    await wait_until(lambda: duty.stale, timeout_s=30)
    await duty.archiver.stop()
    assert await duty.waiting() == ids
