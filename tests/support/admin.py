"""Access of tests to a store beyond the rights of its user."""

import contextlib
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.shard import Shard


def admin_of(client: StoreClient) -> Any:
    """An all-powerful client of the same server, which is closed with the other one."""
    known = vars(client).get("admin")
    address = client._pool._pool.connection_kwargs.get("path")
    if known or address is None:
        return known or client.redis
    # Without `driver_info`, it neither reads the metadata of its package nor sends CLIENT SETINFO.
    admin: Any = Redis(unix_socket_path=address, protocol=2, retry=Retry(NoBackoff(), 0), driver_info=None)
    close = client.redis.aclose

    async def close_both(*args: Any, **options: Any) -> None:
        await admin.aclose()
        await close(*args, **options)

    vars(client)["admin"] = admin
    client.redis.aclose = close_both  # type: ignore[method-assign]
    return admin


async def admin_at(client: StoreClient, key: str) -> Any:
    """As `admin_of`, at the node of a Cluster that holds this key of a string: the first call of `client` finds it."""
    await client.command("GET", key)
    return admin_of(client)


async def forget_keys(shard: Shard) -> None:
    """Removes all keys of a shard, if its store still serves."""
    with contextlib.suppress(RedisError):
        admin = admin_of(shard.client)
        found = [key async for key in admin.scan_iter(match=f"{shard.keys.tag}*", count=10_000)]
        for start in range(0, len(found), 1_000):
            await admin.unlink(*found[start : start + 1_000])
