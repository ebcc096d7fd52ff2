"""The generation: a mark in the data. A store without the mark is another store, or was emptied, and must not be served
as if it were the same."""

from jqmaster.store.link.shard import Shard


async def mark(shard: Shard, fresh: str) -> str:
    """Return the mark of the data, and set it to `fresh` if there is none. Raises what `StoreClient.run` raises."""
    k = shard.keys
    _, (kept,) = await shard.client.run("mark_generation", (k.generation, k.rules), (fresh,))
    return str(kept.decode())


async def read(shard: Shard) -> str | None:
    """Return the mark; None: it is gone. Raises what `StoreClient.run` raises."""
    kept = await shard.client.command("GET", shard.keys.generation)
    return None if kept is None else kept.decode()
