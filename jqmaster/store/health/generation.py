"""The generation: a mark in the data. If the mark is missing or different, the store was emptied or replaced, and
masters must stop serving it.
"""

from typing import Final

from jqmaster.errors import StoreUnfitError
from jqmaster.store import codec
from jqmaster.store.link.shard import Shard

# Shown to people if the generation mark of the served data has changed or is gone.
CHANGED: Final = (
    "the store's data are gone or were replaced (the generation mark has changed). Masters serve nothing from "
    "this store: restore the data, or begin with an empty store as docs/store.md says"
)
# Shown to people if the data are frozen, so that no master serves them.
MOVED: Final = (
    "the data of the namespace are frozen here, because it was moved to another store, or is just being moved; the "
    "registry of namespaces says where they are. If it names this store and no move is under way, `jqmaster namespaces "
    "abort-move NAME --force` finds them"
)


async def mark(shard: Shard, fresh: str) -> str:
    """Return the mark of the data, and set it to `fresh` if there is none. Raises what `StoreClient.run` raises. Raises
    StoreUnfitError if the data were moved away from here, or if a move is under way.
    """
    k = shard.keys
    word, data = await shard.client.run(
        "mark_generation", (k.generation, k.rules, k.frozen, k.leader), (fresh,)
    )
    if word == "frozen":
        raise StoreUnfitError(MOVED)
    return str(data[0].decode())


async def is_frozen(shard: Shard) -> bool:
    """Return whether a move has frozen the data in this store. The move may be over, and this store may be its source
    or its target. Raises what `StoreClient.run` raises.
    """
    k = shard.keys
    is_frozen, leader = await shard.client.pipeline([("EXISTS", k.frozen), ("GET", k.leader)])
    return bool(is_frozen or codec.leading_move(leader))


async def read(shard: Shard) -> str | None:
    """Return the mark, or None if it is gone. Raises what `StoreClient.run` raises."""
    kept = await shard.client.command("GET", shard.keys.generation)
    return None if kept is None else kept.decode()
