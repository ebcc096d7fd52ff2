"""The generation: a mark in the data. A store without the mark is another store, or was emptied, and must not be served
as if it were the same."""

from typing import Final

from jqmaster.store.link.shard import Shard

# The reason that people read when data that were served have another mark, or none.
CHANGED: Final = (
    "the store's data are gone or are others (the generation mark has changed). Nothing is served from it: restore the "
    "data, or begin with an empty store as docs/store.md says"
)


async def mark(shard: Shard, fresh: str) -> str:
    """Return the mark of the data, and set it to `fresh` if there is none. Raises what `StoreClient.run` raises."""
    k = shard.keys
    _, (kept,) = await shard.client.run("mark_generation", (k.generation, k.rules), (fresh,))
    return str(kept.decode())


async def read(shard: Shard) -> str | None:
    """Return the mark; None: it is gone. Raises what `StoreClient.run` raises."""
    kept = await shard.client.command("GET", shard.keys.generation)
    return None if kept is None else kept.decode()
