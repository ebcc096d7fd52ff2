"""An archive of job logs that cannot be used is named from the start, with the whole reason."""

from pathlib import Path

import pytest

from jqmaster.config import Settings
from jqmaster.errors import ArchiveUnavailableError
from jqmaster.store.logs.archive import ArchiveAddress, LogArchive
from tests.support.cli import jqmaster
from tests.support.master import master_on
from tests.support.server import StoreServer
from tests.support.waiting import wait_until


async def test_a_master_names_an_archive_that_it_cannot_use_and_is_ready(
    store_server: StoreServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    url = f"file://{tmp_path}/file/logs"
    async with master_on(store_server.url, log_archive_url=url) as (master, api):
        check = master.shard.archive_check
        assert check is not None
        await wait_until(lambda: check.fault, what="the fault is known")
        status, ready = await api.call("GET", "/readyz")
        assert status == 200
        assert any("archive of logs" in fault for fault in ready["duty_faults"])
    assert "the archive of job logs cannot be used" in caplog.text
    done = jqmaster("doctor", JQMASTER_REDIS_URL=store_server.url, JQMASTER_LOG_ARCHIVE_URL=url)
    assert "cannot write to the archive of logs" in done.out


async def test_an_archive_that_works_keeps_nothing_of_the_probe(tmp_path: Path) -> None:
    archive = LogArchive(ArchiveAddress(f"file://{tmp_path}"), "jq")
    await archive.probe()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


async def test_the_reason_names_what_refused_behind_a_long_address() -> None:
    settings = Settings(
        log_archive_url="s3://bucket/" + "prefix/" * 60,
        log_archive_endpoint="http://127.0.0.1:1",
        log_archive_region="eu",
        log_archive_key_id="id",
        log_archive_secret="secret",
    )
    address = ArchiveAddress.of(settings)
    assert address is not None
    with pytest.raises(ArchiveUnavailableError) as told:
        await LogArchive(address, "jq").probe()
    assert "Connection refused" in told.value.detail
    assert len(told.value.detail) < 700
