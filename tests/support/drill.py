"""A backup of a shard by the commands, and its restore into another shard of the same store."""

import asyncio
import uuid
from pathlib import Path

from jqmaster.store.keys import Keys
from jqmaster.store.link.shard import Shard
from tests.support.admin import forget_keys
from tests.support.cli import jqmaster
from tests.support.store import StoreWorld


async def backed_up_and_restored(world: StoreWorld, directory: Path, **environment: str) -> None:
    """Check that all ready jobs of `world` arrive in a new shard. `environment` names the store."""
    shard, other = world.shard.keys.tag[1:-2], f"t{uuid.uuid4().hex[:10]}"

    async def run(*arguments: object, of: str) -> None:
        done = await asyncio.to_thread(jqmaster, *arguments, cwd=directory, JQMASTER_SHARD=of, **environment)
        assert done.code == 0, done.err

    await run("backup", directory / "backup", of=shard)
    await run("restore", directory / "backup", of=other)
    restored = StoreWorld(Shard(world.shard.client, Keys(other)))
    assert await restored.inspector.counts() == await world.inspector.counts()
    assert await restored.findings() == []
    await forget_keys(restored.shard)
