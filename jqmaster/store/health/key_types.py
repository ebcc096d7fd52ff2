"""Check whether the keys with fixed names have their types. Another program may have written one of them."""

from typing import Final

from jqmaster.errors import DamagedError
from jqmaster.store.keys import Key, Keys
from jqmaster.store.link.client import StoreClient

# A cheap read command for each type, which fails on keys of other types. Masters have the rights for these, but not for
# TYPE.
_READS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "string": ("STRLEN", ()),
    "hash": ("HLEN", ()),
    "list": ("LLEN", ()),
    "set": ("SCARD", ()),
    "sorted set": ("ZCARD", ()),
    "stream": ("XRANGE", ("-", "+", "COUNT", "1")),
}


async def wrong_types(client: StoreClient, keys: Keys) -> list[tuple[str, str]]:
    """Return each key of a wrong type, with its fault in words. Takes one round trip."""
    rows = [row for row in vars(Keys).values() if isinstance(row, Key) and row.type in _READS]
    names = [str(getattr(keys, row.name)) for row in rows]
    reads = [_READS[row.type] for row in rows]
    answers = await client.ask_each(
        [(command, name, *more) for (command, more), name in zip(reads, names, strict=True)]
    )
    return [
        (name, f"is not a {row.type}: another program wrote it; remove or rename it")
        for row, name, answer in zip(rows, names, answers, strict=True)
        if isinstance(answer, DamagedError)
    ]
