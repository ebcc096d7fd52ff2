"""The names that have ready jobs, and their lanes."""

from jqmaster.store.link.pages import MAX_PER_CALL, pages
from jqmaster.store.link.shard import Shard


async def ready_names(shard: Shard) -> list[str]:
    """Return the names that have ready jobs, sorted.

    A name without ready jobs may also have lanes, if its jobs wait for a time or for other jobs. These lanes are not
    read, because otherwise a single application could make all lists slow.
    """
    flat = await shard.client.command("HGETALL", shard.keys.ready_counts)
    return sorted(raw.decode() for raw, count in zip(flat[::2], flat[1::2], strict=True) if count != b"0")


async def ready_lanes(shard: Shard, name: str | None) -> list[str]:
    """Return the lanes of a name, or of all names that have ready jobs. Existing lanes always come in the same
    order."""
    names = [name] if name is not None else await ready_names(shard)
    found: list[str] = []
    for some in pages(names, MAX_PER_CALL):
        replies = await shard.client.pipeline([("ZRANGE", shard.keys.lanes(one), 0, -1) for one in some])
        found += [raw.decode() for reply in replies for raw in reply]
    return sorted(found)
