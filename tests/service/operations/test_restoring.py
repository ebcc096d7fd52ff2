"""A restore that is refused before it writes leaves the shard as it was."""

from pathlib import Path

import pytest

from jqmaster.app.policies import job_times
from jqmaster.config import Settings
from jqmaster.errors import ConflictError
from jqmaster.service.operations.restoring import Restoring
from jqmaster.store.backup import loading
from jqmaster.store.backup.files import BackupReader, BackupWriter
from jqmaster.store.backup.hold import held
from jqmaster.store.backup.values import HASH, Record
from jqmaster.store.leadership.leadership import LeadershipStore
from jqmaster.store.link.shard import Shard
from tests.store.backup.test_copy_and_load import other
from tests.store.backup.test_files import manifest

__all__ = ["other"]
pytestmark = pytest.mark.req("D31")


@pytest.mark.parametrize("was_interrupted", [False, True])
async def test_a_master_that_starts_in_between_ends_a_restore_before_it_writes(
    other: Shard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, was_interrupted: bool
) -> None:
    with BackupWriter(tmp_path / "backup", None) as writer:
        writer.finish(manifest(writer))
    if was_interrupted:
        await loading.begin(other, "jq of yesterday")
    await other.client.command("SET", other.keys.result("a"), "x")
    begin = loading.begin

    async def begin_late(shard: Shard, backup: str) -> None:
        assert await LeadershipStore(shard).elect("m1", "nonce", ttl_ms=10_000)
        await begin(shard, backup)

    monkeypatch.setattr(loading, "begin", begin_late)
    backup = BackupReader(tmp_path / "backup", None)
    async with held(other) as hold:
        restoring = Restoring(hold, job_times(Settings()))
        with pytest.raises(ConflictError, match="masters run on the shard"):
            await restoring.run(backup, keeps_mark=False, on_risk=lambda _: None)
    assert await other.client.command("GET", other.keys.result("a")) == b"x"
    # Only the mark of a restore that had begun before still keeps masters from starting.
    assert await loading.is_under_way(other) is was_interrupted


async def test_the_registry_of_namespaces_stays_with_its_installation(other: Shard, tmp_path: Path) -> None:
    registry = Record(b"namespaces", HASH, 0, 0, [b"shop", b"0000000000000001 shop x"])
    shard = other.keys.shard
    for origin, is_kept in (("jq", False), (shard, True)):
        with BackupWriter(tmp_path / origin, None) as writer:
            writer.add(registry)
            writer.finish(manifest(writer, shard=origin))
        async with held(other) as hold:
            restoring = Restoring(hold, job_times(Settings()))
            await restoring.run(
                BackupReader(tmp_path / origin, None), keeps_mark=False, on_risk=lambda _: None
            )
        assert bool(await other.client.command("EXISTS", other.keys.namespaces)) is is_kept
