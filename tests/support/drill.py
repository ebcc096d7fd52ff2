"""A backup or an export of a shard by the commands, which arrives in another shard of the same store."""

import asyncio
import uuid
from collections.abc import Mapping
from pathlib import Path

from jqmaster.store.health import generation
from jqmaster.store.keys import Keys
from jqmaster.store.link.shard import Shard
from tests.support.admin import forget_keys
from tests.support.cli import jqmaster
from tests.support.store import StoreWorld


async def backed_up_and_restored(
    world: StoreWorld, directory: Path, *, into: Shard | None = None, **environment: str
) -> None:
    """Check that all ready jobs of `world` arrive in another shard, which is empty. `environment` names the store."""
    target = into or _other_shard(world)
    await _run(world.shard, directory, environment, "backup", directory / "backup")
    await _run(target, directory, environment, "restore", directory / "backup")
    await _check_and_forget(world, target)


async def exported_and_imported(
    world: StoreWorld, directory: Path, *, into: Shard | None = None, **environment: str
) -> None:
    """Check the same of an export between shards that a master has served."""
    target = into or _other_shard(world)
    for shard in (world.shard, target):
        await generation.mark(shard, uuid.uuid4().hex)
    await _run(world.shard, directory, environment, "export", directory / "all.jsonl")
    await _run(target, directory, environment, "import", directory / "all.jsonl")
    await _check_and_forget(world, target)


def _other_shard(world: StoreWorld) -> Shard:
    return Shard.bound(world.shard.client, Keys(f"t{uuid.uuid4().hex[:10]}"))


async def _run(shard: Shard, directory: Path, environment: Mapping[str, str], *arguments: object) -> None:
    name = shard.keys.tag[1:-2]
    done = await asyncio.to_thread(jqmaster, *arguments, cwd=directory, JQMASTER_SHARD=name, **environment)
    assert done.code == 0, done.err


async def _check_and_forget(world: StoreWorld, target: Shard) -> None:
    arrived = StoreWorld(target)
    assert await arrived.inspector.counts() == await world.inspector.counts()
    assert await arrived.findings() == []
    await forget_keys(target)
