"""The archive of logs, in a directory and in S3 storage."""

import os
import ssl
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import trustme

from jqmaster.config import Settings
from jqmaster.domain.ids import new_id
from jqmaster.domain.logs.page import NumberedLine
from jqmaster.domain.logs.piece import PieceName
from jqmaster.errors import ArchiveUnavailableError, JqmasterError
from jqmaster.store.logs.archive import ArchiveAddress, LogArchive
from tests.support.s3_server import BUCKET, Fault, S3Server

pytestmark = pytest.mark.req("D17")

NAME = PieceName.of(5, [NumberedLine(1, 1, 1, 1, "a"), NumberedLine(4, 1, 1, 1, "b")], b"data")


@pytest.fixture(params=["file", "s3"])
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> LogArchive:
    if request.param == "file":
        return LogArchive(ArchiveAddress(f"file://{tmp_path}/not yet/there"), "main")
    return LogArchive(request.getfixturevalue("s3").address, "main")


async def test_objects_are_written_listed_read_and_removed(archive: LogArchive) -> None:
    job_id, other = new_id(), new_id()
    assert await archive.names(job_id) == []
    assert await archive.get(job_id, NAME) is None
    for _ in range(2):
        await archive.put(job_id, NAME, b"data")
    await archive.put(other, NAME, b"other")
    assert await archive.get(job_id, NAME) == b"data"
    assert await archive.names(job_id) == [NAME]
    # A later job with the same ID keeps its log.
    later = replace(NAME, created_ms=NAME.created_ms + 1)
    await archive.put(job_id, later, b"later")
    assert await archive.erase(job_id, NAME.created_ms) == 1
    assert await archive.erase(job_id, NAME.created_ms) == 0
    assert await archive.names(job_id) == [later]
    assert await archive.erase(job_id, later.created_ms) == 1
    assert await archive.names(job_id) == []
    assert await archive.get(other, NAME) == b"other"


async def test_other_objects_in_the_archive_are_no_pieces(tmp_path: Path) -> None:
    archive, job_id = LogArchive(ArchiveAddress(f"file://{tmp_path}"), "main"), new_id()
    await archive.put(job_id, NAME, b"data")
    (tmp_path / archive.ref(job_id) / "notes.txt").write_text("mine")
    assert await archive.names(job_id) == [NAME]


async def test_a_file_is_on_the_disk_before_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []
    real = os.fsync

    def fsync(number: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{number}"))
        real(number)

    monkeypatch.setattr("os.fsync", fsync)
    archive, job_id = LogArchive(ArchiveAddress(f"file://{tmp_path}"), "main"), new_id()
    await archive.put(job_id, NAME, b"data")
    path = tmp_path / "main" / job_id / str(NAME)
    assert synced == [str(path), str(path.parent), str(tmp_path / "main"), str(tmp_path)]


@pytest.mark.parametrize("fault", ["denied", "slow", "truncated", "away"])
async def test_faults_of_the_storage_are_told_apart_from_logs_that_are_not_there(
    s3: S3Server, fault: Fault
) -> None:
    job_id = new_id()
    archive = LogArchive(s3.address, "main")
    await archive.put(job_id, NAME, b"some data of a log")
    s3.fault = fault
    failing = LogArchive(s3.address, "main", timeout_s=1.0 if fault == "slow" else 20.0)
    with pytest.raises(ArchiveUnavailableError, match="cannot read the archive of logs") as found:
        await failing.get(job_id, NAME)
    assert "\n" not in found.value.detail
    assert found.value.retry_after_s
    if fault != "truncated":
        other = new_id()
        for call in (failing.put(other, NAME, b"x"), failing.names(other), failing.erase(other, 1)):
            with pytest.raises(ArchiveUnavailableError):
                await call
    s3.fault = ""
    s3.let_go.set()
    assert await archive.get(job_id, NAME) == b"some data of a log"


async def test_a_directory_that_cannot_be_made_is_an_archive_that_is_away(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    archive = LogArchive(ArchiveAddress(f"file://{tmp_path}/file/below"), "main")
    with pytest.raises(ArchiveUnavailableError):
        await archive.put(new_id(), NAME, b"data")


async def test_credentials_come_from_the_environment_unless_settings_have_them(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    settings = Settings(
        log_archive_url=f"s3://{BUCKET}", log_archive_endpoint=s3.endpoint, log_archive_region="eu-west-1"
    )
    address = ArchiveAddress.of(settings)
    assert address
    archive, job_id = LogArchive(address, "main"), new_id()
    await archive.put(job_id, NAME, b"data")
    assert await archive.names(job_id) == [NAME]
    assert ArchiveAddress.of(Settings()) is None


def test_without_the_extra_the_master_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(JqmasterError) as found:
        LogArchive(ArchiveAddress("file:///srv/logs"), "main")
    assert found.value.detail == "log_archive_url is set: install jqmaster[archive]"


async def test_storage_with_a_certificate_of_a_private_authority_needs_its_file(tmp_path: Path) -> None:
    authority = trustme.CA()
    cafile = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(cafile))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    server = S3Server()
    server._door.socket = context.wrap_socket(server._door.socket, server_side=True)
    with server.serving():
        address = replace(server.address, endpoint=server.endpoint.replace("http:", "https:"))
        with pytest.raises(ArchiveUnavailableError, match="UnknownIssuer"):
            await LogArchive(address, "jq").probe()
        await LogArchive(replace(address, cafile=cafile), "jq").probe()
