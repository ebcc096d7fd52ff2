"""The master's own Valkey when its files or its disk have changed."""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from jqmaster.embedded import EmbeddedValkey, examine
from jqmaster.embedded.diagnosis import EndDiagnosis, diagnose, last_ending
from jqmaster.embedded.directory import DataDirectory
from jqmaster.embedded.files import AppendOnlyFiles
from jqmaster.errors import DamagedError, StoreUnavailableError
from tests.support import real_time
from tests.support.embedded import connected, data_dir, running, servers_on
from tests.support.strace import faulty_fsync
from tests.support.waiting import wait_until

__all__ = ["data_dir"]

pytestmark = [pytest.mark.system, real_time.PROCESSES]

MARK_KEY = "{jq}:generation"
FSYNC_FAILED = (
    "1:M 21 Nov 2026 04:46:12.457 # Can't persist AOF for fsync error when the AOF fsync policy is 'always': "
    "Input/output error. Exiting...\n"
)


async def filled(path: Path, **options: Any) -> None:
    async with running(path, **options) as embedded, connected(embedded) as client:
        for number in range(200):
            await client.set(f"job:{number}", "x" * 50)


async def check_whole(path: Path, **options: Any) -> None:
    async with running(path, **options) as embedded, connected(embedded) as client:
        assert await client.exists(*(f"job:{number}" for number in range(200))) == 200


def content(path: Path) -> dict[str, bytes]:
    """Return the contents of all files of the data, by name."""
    files = [*(path / "appendonlydir").glob("*"), *path.glob("*.rdb"), path / "generation"]
    return {file.name: file.read_bytes() for file in files if file.exists()}


def incr(path: Path) -> Path:
    (file,) = (path / "appendonlydir").glob("*.incr.aof")
    return file


class Trace:
    """Records whether the data was in doubt or reachable when the new files were synchronised to disk."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[tuple[bool, bool]] = []
        directory, sync = DataDirectory(path), AppendOnlyFiles.sync

        def traced(files: AppendOnlyFiles) -> None:
            self.seen.append((directory.is_in_doubt(), directory.socket().exists()))
            sync(files)

        monkeypatch.setattr(AppendOnlyFiles, "sync", traced)


@pytest.mark.req("M1")
async def test_after_a_failed_fsync_the_data_are_written_anew_before_anybody_is_served(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = Trace(data_dir, monkeypatch)
    await filled(data_dir)
    assert trace.seen == []
    async with running(data_dir) as embedded, connected(embedded) as client:
        before, first = AppendOnlyFiles(data_dir).names(), embedded.status().pid
        assert first
        with faulty_fsync(first, "error=EIO"):
            with pytest.raises(Exception, match=r"(?i)closed|reset|error"):
                await client.set("more", "x")
            await wait_until(lambda: first not in servers_on(data_dir), what="the server ended")
        await wait_until(
            lambda: embedded.status().state == "running" and embedded.status().pid != first, timeout_s=30
        )
        assert not before & AppendOnlyFiles(data_dir).names()
        # Until then, the data was in doubt and out of reach.
        assert trace.seen == [(True, False)]
        assert not DataDirectory(data_dir).is_in_doubt()
        assert await client.exists("job:0", "job:199") == 2
    await check_whole(data_dir)
    assert len(trace.seen) == 1


@pytest.mark.req("M1")
@pytest.mark.parametrize("is_remembered", [True, False], ids=["by the directory", "by the log of the server"])
async def test_a_master_that_was_killed_after_a_failed_fsync_leaves_the_doubt_to_the_next(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch, is_remembered: bool
) -> None:
    trace = Trace(data_dir, monkeypatch)
    await filled(data_dir)
    before = AppendOnlyFiles(data_dir).names()
    if is_remembered:
        DataDirectory(data_dir).doubt()
    else:
        log = data_dir / "valkey.log"
        log.write_text(log.read_text().replace("bye bye", "") + FSYNC_FAILED)
    await check_whole(data_dir)
    assert trace.seen == [(True, False)]
    assert not before & AppendOnlyFiles(data_dir).names()


@pytest.mark.req("M1")
async def test_data_in_doubt_that_cannot_be_written_anew_are_not_served(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(data_dir)
    DataDirectory(data_dir).doubt()

    async def refuse(*_: object) -> object:
        raise OSError("no")

    with monkeypatch.context() as patch:
        patch.setattr(Redis, "bgrewriteaof", refuse)
        with pytest.raises(StoreUnavailableError, match="has faults"):
            await EmbeddedValkey(data_dir).start()
    assert servers_on(data_dir) == []
    assert DataDirectory(data_dir).is_in_doubt()
    await check_whole(data_dir)


@pytest.mark.parametrize(
    ("lines", "status", "cause", "leaves_doubt"),
    [
        ([FSYNC_FAILED], 1, "disk_error", True),
        ([FSYNC_FAILED.replace("Input/output error", "No space left on device")], 1, "disk_full", True),
        (
            [
                "1:M # Error writing to the AOF file: No space left on device\n",
                "1:M # Can't recover from AOF write error when the AOF fsync policy is 'always'. Exiting...\n",
            ],
            1,
            "disk_full",
            False,
        ),
        (["1:M * Ready to accept connections unix\n"], 1, "crashed", True),
        (["1:M * Ready to accept connections unix\n"], -9, "crashed", False),
        (["1:M * Ready to accept connections unix\n"], 0, "crashed", False),
    ],
)
def test_a_server_that_ended_by_itself_leaves_doubt_unless_nothing_was_written(
    tmp_path: Path, lines: list[str], status: int, cause: str, leaves_doubt: bool
) -> None:
    log = tmp_path / "valkey.log"
    log.write_text("".join(lines))
    ending = diagnose(log, 0, was_serving=True, status=status)
    assert (ending.cause, ending.leaves_doubt) == (cause, leaves_doubt)


def test_an_ending_of_before_the_last_start_says_nothing(tmp_path: Path) -> None:
    log = tmp_path / "valkey.log"
    begin = "1:C * oO0OoO0OoO0Oo Valkey is starting oO0OoO0OoO0Oo\n"
    assert last_ending(log) is None
    log.write_text(begin + "1:M * Ready to accept connections unix\n" + FSYNC_FAILED)
    assert last_ending(log) == EndDiagnosis(
        "disk_error", FSYNC_FAILED.split(" # ")[1].strip(), leaves_doubt=True
    )
    log.write_text(log.read_text() + begin + "1:M * Ready to accept connections unix\n1:M # bye bye...\n")
    assert last_ending(log) is None


async def test_the_signal_that_killed_a_server_is_told(
    data_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(data_dir) as embedded:
        first = embedded.status().pid
        assert first
        os.kill(first, signal.SIGKILL)
        await wait_until(lambda: embedded.status().state == "running" and embedded.status().pid != first)
    assert "killed by signal 9 (SIGKILL): memory?" in caplog.text
    assert not DataDirectory(data_dir).is_in_doubt()


def lose_manifest(path: Path) -> None:
    (path / "appendonlydir" / "appendonly.aof.manifest").unlink()


def empty_manifest(path: Path) -> None:
    (path / "appendonlydir" / "appendonly.aof.manifest").write_text("")


def lose_all(path: Path) -> None:
    shutil.rmtree(path / "appendonlydir")


def lose_increment(path: Path) -> None:
    incr(path).unlink()


def lose_base(path: Path) -> None:
    (base,) = (path / "appendonlydir").glob("*.base.rdb")
    base.unlink()


def put_dump(path: Path) -> None:
    lose_all(path)
    (path / "generation").unlink(missing_ok=True)
    (path / "dump.rdb").write_bytes(b"VALKEY080 of another server")


@pytest.mark.req("M1")
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lose_manifest, "appendonly.aof.manifest is gone, and without it"),
        (empty_manifest, "appendonly.aof.manifest names no file"),
        (lose_all, "appendonlydir is gone, with all data"),
        (lose_increment, "incr.aof, which is gone"),
        (lose_base, "base.rdb, which is gone"),
        (put_dump, "there is an *.rdb, which no server with an append-only file reads"),
    ],
)
async def test_files_that_are_missing_are_damage_and_not_an_empty_queue(
    data_dir: Path, damage: Callable[[Path], None], said: str
) -> None:
    await filled(data_dir, mark_key=MARK_KEY)
    damage(data_dir)
    before = content(data_dir)
    with pytest.raises(DamagedError) as told:
        await EmbeddedValkey(data_dir, mark_key=MARK_KEY).start()
    assert said in told.value.detail
    # Only a backup helps, because there is nothing to cut off.
    assert "--fix" not in told.value.detail
    with pytest.raises(DamagedError) as examined:
        examine(data_dir)
    assert examined.value.detail == told.value.detail
    assert (content(data_dir), servers_on(data_dir)) == (before, [])


@pytest.mark.req("M1")
async def test_a_store_that_was_emptied_is_damage_at_the_next_start(data_dir: Path) -> None:
    await filled(data_dir, mark_key=MARK_KEY)
    await check_whole(data_dir, mark_key=MARK_KEY)
    async with running(data_dir, mark_key=MARK_KEY) as embedded, connected(embedded) as client:
        await client.flushall()
    with pytest.raises(DamagedError, match="lacks the mark"):
        await EmbeddedValkey(data_dir, mark_key=MARK_KEY).start()
    assert servers_on(data_dir) == []
    # Another shard in the same directory has its own mark.
    async with running(data_dir, mark_key="{other}:generation"):
        pass


async def test_a_directory_without_a_mark_learns_that_of_its_data(data_dir: Path) -> None:
    async with running(data_dir) as embedded, connected(embedded) as client:
        await client.set(MARK_KEY, "of a release before")
    async with running(data_dir, mark_key=MARK_KEY):
        pass
    assert DataDirectory(data_dir).marks() == {MARK_KEY: "of a release before"}


async def test_a_mark_that_cannot_be_kept_for_want_of_room_is_kept_by_the_next_start(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(DataDirectory, "keep_mark", full)
        async with running(data_dir, mark_key=MARK_KEY):
            assert DataDirectory(data_dir).marks() == {}
    async with running(data_dir, mark_key=MARK_KEY):
        assert [*DataDirectory(data_dir).marks()] == [MARK_KEY]


async def test_a_very_first_start_that_was_cut_off_is_no_damage(data_dir: Path) -> None:
    async with running(data_dir):
        pass
    lose_manifest(data_dir)
    async with running(data_dir, mark_key=MARK_KEY) as embedded:
        assert embedded.status().state == "running"


@pytest.mark.req("M1")
@pytest.mark.parametrize("count", [1, 4096, 3_000_000])
async def test_zeros_at_the_end_are_cut_off_and_kept(
    data_dir: Path, caplog: pytest.LogCaptureFixture, count: int
) -> None:
    await filled(data_dir)
    file = incr(data_dir)
    size = file.stat().st_size
    with file.open("ab") as stream:
        stream.write(bytes(count))
    await check_whole(data_dir)
    assert (file.parent / f"{file.name}.zeros-from-{size}").read_bytes() == bytes(count)
    assert f"{count} zeros at the end of {file}" in caplog.text


async def test_more_zeros_than_a_power_cut_leaves_are_left_to_people(data_dir: Path) -> None:
    await filled(data_dir)
    file = incr(data_dir)
    with file.open("ab") as stream:
        stream.truncate(file.stat().st_size + 17 * 1024 * 1024)
    size = file.stat().st_size
    with pytest.raises(DamagedError):
        await EmbeddedValkey(data_dir).start()
    assert file.stat().st_size == size
    with pytest.raises(DamagedError, match=r"cp -p .*--fix"):
        examine(data_dir)
