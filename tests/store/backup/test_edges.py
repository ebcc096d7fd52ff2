"""Refusals of backup and restore, and what they do at the edges."""

from pathlib import Path
from typing import Any

import pytest

from jqmaster.errors import (
    ConflictError,
    DamagedError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    StoreUnavailableError,
)
from jqmaster.store.backup import copying, loading
from jqmaster.store.backup.copying import Copier
from jqmaster.store.backup.encryption import BackupCipher, KeyDerivation
from jqmaster.store.backup.files import MANIFEST, BackupReader, BackupWriter
from jqmaster.store.backup.hold import held
from jqmaster.store.backup.tracked import TrackedConnection, _error, tracked
from jqmaster.store.backup.values import TYPES, Record, whole
from jqmaster.store.link.access import StoreAccess
from jqmaster.store.link.shard import Shard
from tests.store.backup.test_copy_and_load import copied, other, shard_of, source
from tests.store.backup.test_files import manifest
from tests.support.server import StoreServer
from tests.support.store import StoreWorld

__all__ = ["other", "source"]
pytestmark = pytest.mark.req("D31")


async def test_a_restore_is_marked_until_it_is_whole(other: Shard) -> None:
    assert await loading.is_empty(other)
    assert not await loading.is_under_way(other)
    await loading.begin(other, "/backups/1")
    assert await loading.is_under_way(other)
    assert await loading.is_empty(other), "its mark is no data"
    await loading.end(other)
    assert not await loading.is_under_way(other)


@pytest.mark.parametrize(("keeps_mark", "left"), [(True, {"generation"}), (False, set())])
async def test_a_shard_is_cleared_but_for_its_marks(
    other: Shard, *, keeps_mark: bool, left: set[str]
) -> None:
    k = other.keys
    await other.client.command("SET", k.generation, "g")
    await other.client.command("SET", k.result("a"), "x")
    await loading.begin(other, "/backups/1")
    assert not await loading.is_empty(other)
    async with held(other) as hold:
        assert await loading.clear(hold, keeps_mark=keeps_mark) == 2 - len(left)
        await hold.renew()
    pages = [page async for page in loading.key_pages(other)]
    assert {key.decode() for page in pages for key in page} == {k.restoring, *(k.generation for _ in left)}


async def test_expired_and_unknown_keys_are_not_loaded(other: Shard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "_COMMANDS_PER_CALL", 1)
    records = [
        Record(b"result:old", 0, 1_000, 0, [b"x"]),
        Record(b"of_next_year", 0, 0, 0, [b"x"]),
        Record(b"result:new", 0, 0, 0, [b"x"]),
    ]
    async with held(other) as hold:
        await loading.load(hold, records)
    pages = [page async for page in loading.key_pages(other)]
    assert [key.decode() for page in pages for key in page] == [other.keys.result("new")]


@pytest.mark.parametrize(
    ("said", "kind", "words"),
    [
        ("NOPERM no", ForbiddenError, "does not permit CLIENT PAUSE: "),
        ("ERR unknown command", ConflictError, "does not know CLIENT PAUSE"),
        ("LOADING", StoreUnavailableError, "refuses CLIENT PAUSE: LOADING"),
    ],
)
def test_the_error_tells_what_a_store_refuses(said: str, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        raise _error(("CLIENT", "PAUSE", 5, "WRITE"), said)


@pytest.mark.parametrize("key", [b"{jq}:job:1", "{jq}:job:1"])
def test_a_key_of_another_type_is_named(key: Any) -> None:
    with pytest.raises(DamagedError, match="job:1 has the wrong type"):
        raise _error(("GET", key), "WRONGTYPE Operation")


async def test_a_store_that_hangs_up_or_is_emptied_ends_the_backup(
    lone_server: StoreServer, source: StoreWorld
) -> None:
    tag = source.shard.keys.tag
    async with tracked(lone_server.backup_url, StoreAccess(), tag, timeout_s=10) as store:
        store._hear([b"message", None])
        with pytest.raises(ConflictError, match="was emptied"):
            store._hear([b"invalidate", None])

        async def nothing(_: int) -> bytes:
            return b""

        store._reader.read = nothing
        with pytest.raises(StoreUnavailableError, match="closed the connection"):
            await store.ask(("PING",))

        async def fails(_: int) -> bytes:
            raise OSError("gone")

        store._reader.read = fails
        with pytest.raises(StoreUnavailableError, match=r"did not answer.*gone"):
            await store.ask(("PING",))


async def test_a_replica_is_not_copied(
    lone_server: StoreServer, source: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = TrackedConnection.ask

    async def as_a_replica(self: TrackedConnection, *commands: Any) -> Any:
        return [b"role:slave"] if commands[0] == ("INFO", "replication") else await ask(self, *commands)

    monkeypatch.setattr(TrackedConnection, "ask", as_a_replica)
    with pytest.raises(ConflictError, match="name its primary"):
        await copied(lone_server.backup_url, shard_of(source))


async def test_a_copy_reads_changed_keys_again_until_few_are_left(
    lone_server: StoreServer, source: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "_FEW_CHANGED", 0)
    monkeypatch.setattr(copying, "_BYTES_PER_READ", 1)
    await source.enqueue_many(20)
    copy_all = Copier._copy_all
    made: list[str] = []

    async def meanwhile(self: Copier) -> None:
        await copy_all(self)
        made.append(await source.enqueue())

    monkeypatch.setattr(Copier, "_copy_all", meanwhile)
    cut, records = await copied(lone_server.backup_url, shard_of(source))
    assert cut.jobs["ready"] == 21
    assert any(record.key.endswith(made[0].encode()) for record in records)


def test_a_place_that_cannot_be_written_or_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with (
        pytest.raises(InvalidError, match=r"DIR: .*cannot be written"),
        BackupWriter(tmp_path / "file" / "b", None),
    ):
        pass
    (tmp_path / "odd" / MANIFEST).mkdir(parents=True)
    with pytest.raises(NotFoundError, match="cannot be read"):
        BackupReader(tmp_path / "odd", None)
    with BackupWriter(tmp_path / "none", None) as writer:
        writer.finish(manifest(writer))
    assert list(BackupReader(tmp_path / "none", None).records()) == []
    (tmp_path / "here").mkdir()
    with BackupWriter(tmp_path / "here", None):
        pass  # nothing is finished
    assert list((tmp_path / "here").iterdir()) == []


def test_an_encryption_of_a_later_version_and_a_changed_part_are_refused() -> None:
    known = KeyDerivation.fresh()
    for change in ({"kdf": "later"}, {"cipher": "later"}, {"n": 2**40}, {"salt": "no hex"}, {"more": 1}):
        with pytest.raises(DamagedError, match="does not know"):
            KeyDerivation.of(known.document() | change)
    cipher = BackupCipher("passphrase", known)
    encrypted = cipher.encrypt(1, 2, b"text")
    assert cipher.decrypt(1, 2, encrypted) == b"text"
    with pytest.raises(DamagedError, match="cannot be decrypted"):
        cipher.decrypt(1, 3, encrypted)


def test_each_type_is_read_by_its_own_command() -> None:
    commands = [whole(kind, b"k")[0] for kind in range(len(TYPES))]
    assert commands == ["GET", "LRANGE", "HGETALL", "SMEMBERS", "ZRANGE", "XRANGE"]
