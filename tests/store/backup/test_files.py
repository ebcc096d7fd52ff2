"""The files of a backup: whole or not at all, and never changed unnoticed."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from jqmaster.errors import ConflictError, DamagedError, InvalidError, JqmasterError, NotFoundError
from jqmaster.store.backup import files
from jqmaster.store.backup.files import FORMAT, MANIFEST, BackupReader, BackupWriter, Manifest
from jqmaster.store.backup.values import Record

pytestmark = pytest.mark.req("D31")

RECORDS = [
    Record(b"job:1", 0, 0, 0, [b"\x00\xff" * 50]),
    Record(b"running", 4, 0, 0, [b"1", 17.5]),
    Record(b"audit", 5, 0, 0, [b"7-1", [b"f", b"v"]]),
    Record(b"job:2", 0, 1_900_000_000_000, 0, []),
]
PASSPHRASE = "correct horse"


def manifest(writer: BackupWriter, **fields: Any) -> Manifest:
    facts: dict[str, Any] = {
        "format": FORMAT, "version": "0.4", "shard": "jq", "cut_at_ms": 1, "paused_ms": 2, "store": "Valkey 9",
        "mark": "m", "epoch": 3, "jobs": {"ready": 2}, "objects": {}, "encryption": writer.encryption,
    }  # fmt: skip
    return Manifest(**facts | fields)


def written(directory: Path, passphrase: str | None = None, **fields: Any) -> Path:
    with BackupWriter(directory, passphrase) as writer:
        for record in RECORDS:
            writer.add(record)
        writer.finish(manifest(writer, **fields))
    return directory


@pytest.mark.parametrize("passphrase", [None, PASSPHRASE])
def test_records_come_back_as_they_were(tmp_path: Path, passphrase: str | None) -> None:
    reader = BackupReader(written(tmp_path / "b", passphrase), passphrase)
    assert list(reader.records()) == RECORDS
    assert (reader.check(), sum(reader.manifest.jobs.values())) == (len(RECORDS), 2)
    assert {one.stat().st_mode & 0o777 for one in (tmp_path / "b").iterdir()} == {0o600}
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o700


def test_a_large_backup_has_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_FRAME_BYTES", 100)
    monkeypatch.setattr(files, "_FILE_BYTES", 300)
    records = [Record(b"job:%d" % n, 0, 0, 0, [b"%d" % n * 30]) for n in range(100)]
    with BackupWriter(tmp_path / "b", PASSPHRASE) as writer:
        for record in records:
            writer.add(record)
        writer.finish(manifest(writer))
    reader = BackupReader(tmp_path / "b", PASSPHRASE)
    assert len(reader.manifest.files) > 3
    assert list(reader.records()) == records


@pytest.mark.parametrize("passphrase", [None, PASSPHRASE])
def test_no_flipped_bit_goes_unnoticed(tmp_path: Path, passphrase: str | None) -> None:
    directory = written(tmp_path / "b", passphrase)
    for path in sorted(directory.iterdir()):
        whole = path.read_bytes()
        # Every byte of the small files, each time another bit of it.
        for at in range(len(whole)):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
            with pytest.raises(DamagedError):
                BackupReader(directory).check()
        path.write_bytes(whole)
    assert BackupReader(directory).check() == len(RECORDS)


def test_a_file_that_is_cut_short_or_gone_is_noticed(tmp_path: Path) -> None:
    directory = written(tmp_path / "b")
    (data,) = directory.glob("data-*")
    whole = data.read_bytes()
    data.write_bytes(whole[:-1])
    with pytest.raises(DamagedError, match="bytes"):
        BackupReader(directory).check()
    data.unlink()
    with pytest.raises(DamagedError, match="No such file"):
        BackupReader(directory).check()


def test_nobody_without_the_passphrase_can_change_an_encrypted_backup(tmp_path: Path) -> None:
    directory = written(tmp_path / "b", PASSPHRASE)
    path = directory / MANIFEST
    line, *rest = path.read_bytes().splitlines(keepends=True)
    forged = line.replace(b'"jq"', b'"qj"')
    seal = b"sha256 " + hashlib.sha256(forged + rest[0]).hexdigest().encode() + b"\n"
    path.write_bytes(forged + rest[0] + seal)
    assert BackupReader(directory).manifest.shard == "qj"
    with pytest.raises(InvalidError, match="passphrase"):
        BackupReader(directory, PASSPHRASE)
    # The content cannot be read either.
    assert b"running" not in b"".join(one.read_bytes() for one in directory.glob("data-*"))


def test_a_wrong_passphrase_is_told(tmp_path: Path) -> None:
    directory = written(tmp_path / "b", PASSPHRASE)
    with pytest.raises(InvalidError, match="the passphrase is wrong"):
        BackupReader(directory, "something else")
    assert not BackupReader(directory).is_readable
    assert BackupReader(directory).check() == len(RECORDS)


def test_a_newer_format_is_refused_by_its_number(tmp_path: Path) -> None:
    directory = written(tmp_path / "b", format=FORMAT + 1, version="9.9")
    with pytest.raises(InvalidError, match=rf"format {FORMAT + 1}, written by jqmaster 9\.9"):
        BackupReader(directory)


def test_fields_that_a_later_version_adds_do_no_harm(tmp_path: Path) -> None:
    directory = written(tmp_path / "b")
    document = json.loads((directory / MANIFEST).read_bytes().splitlines()[0]) | {"of_next_year": 1}
    line = json.dumps(document).encode() + b"\n"
    (directory / MANIFEST).write_bytes(line + b"sha256 " + hashlib.sha256(line).hexdigest().encode() + b"\n")
    assert BackupReader(directory).check() == len(RECORDS)


def test_an_unfinished_backup_leaves_nothing_and_is_none(tmp_path: Path) -> None:
    with BackupWriter(tmp_path / "b", None) as writer:
        for _ in range(200):
            writer.add(Record(b"job:1", 0, 0, 0, [bytes(10_000)]))
        assert {one.name for one in (tmp_path / "b").iterdir()} == {
            "data-00001.jqb.unfinished",
            "manifest.json.unfinished",
        }
    assert not (tmp_path / "b").exists()
    with pytest.raises(NotFoundError, match="not a backup"):
        BackupReader(tmp_path / "b")


def test_a_killed_backup_is_none(tmp_path: Path) -> None:
    directory = written(tmp_path / "b")
    (directory / MANIFEST).rename(directory / f"{MANIFEST}.unfinished")
    with pytest.raises(NotFoundError, match="not finished"):
        BackupReader(directory)


def test_a_directory_with_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "photo").write_text("mine")
    with pytest.raises(ConflictError, match=r"DIR: .* is not empty \(it has photo\)"):
        written(tmp_path)
    assert [one.name for one in tmp_path.iterdir()] == ["photo"]


def test_one_of_two_backups_into_one_directory_is_refused_and_the_other_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with BackupWriter(tmp_path, None) as first:
        # Both have found it empty.
        monkeypatch.setattr(Path, "iterdir", lambda _: iter(()))
        with pytest.raises(ConflictError, match=r"is not empty \(it has manifest.json.unfinished\)"):
            BackupWriter(tmp_path, None).__enter__()
        monkeypatch.undo()
        for record in RECORDS:
            first.add(record)
        first.finish(manifest(first))
    assert list(BackupReader(tmp_path).records()) == RECORDS


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("jqmaster.store.backup.files.os.fsync", full)
    with pytest.raises(JqmasterError, match="is full: nothing was kept"):
        written(tmp_path / "b")
    assert not (tmp_path / "b").exists()
