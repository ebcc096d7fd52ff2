"""A loop for tests that must be plain functions, such as those driven by Hypothesis."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from jqmaster.store.keys import Keys
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.shard import Shard
from tests.support.store import StoreWorld


def on_a_world(store_server: Any, body: Callable[[StoreWorld], Awaitable[None]]) -> None:
    """Run `body` on its own shard, then check and empty the shard."""

    async def run() -> None:
        client = StoreClient(store_server.url, connections=4)
        try:
            async with StoreWorld.on(Shard.bound(client, Keys(f"t{uuid.uuid4().hex[:10]}"))) as world:
                await body(world)
            await world.redis.unlink(*await world.dump())
        finally:
            await client.close()

    asyncio.run(run())
