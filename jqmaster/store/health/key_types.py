"""Checks whether each key under the tag of a shard belongs to a family of keys, and has the type of this family. A key
with a fault may be that of another program.
"""

from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from jqmaster.errors import DamagedError
from jqmaster.store.keys import Key, KeyInfo, Keys, row_of
from jqmaster.store.link.client import StoreClient

PAGE: Final = 500
# Maximum number of mistyped keys to name. A longer list would not help anybody.
MAX_NAMED: Final = 100
UNKNOWN: Final = (
    "belongs to no family of keys that this release knows: another program or a newer release wrote it; nothing reads "
    "it, and backups leave it out"
)
# By type: a cheap read that fails on keys of other types. Used instead of TYPE, which masters have no right to run.
_READS: Final[dict[str, tuple[str, ...]]] = {
    "string": ("STRLEN",),
    "hash": ("HLEN",),
    "list": ("LRANGE", "1", "0"),
    "set": ("SCARD",),
    "sorted set": ("ZCARD",),
    "stream": ("XRANGE", "1", "0"),
}


@dataclass(slots=True)
class KeysAtFault:
    """Keys with faults of one kind: their number, and the fault of each of the first `MAX_NAMED`."""

    count: int = 0
    details: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, detail: str) -> None:
        # Count each key once, because SCAN may return it twice.
        if name not in self.details:
            self.count += 1
            if len(self.details) < MAX_NAMED:
                self.details[name] = detail

    @property
    def unnamed(self) -> int:
        return self.count - len(self.details)


@dataclass(slots=True)
class KeyComparison:
    """The keys of a shard: how many were checked, those of no family, and those of a wrong type. `is_whole`: all keys
    of the server were checked."""

    looked_at: int = 0
    unknown: KeysAtFault = field(default_factory=KeysAtFault)
    mistyped: KeysAtFault = field(default_factory=KeysAtFault)
    is_whole: bool = False


async def wrong_types(client: StoreClient, keys: Keys) -> list[tuple[str, str]]:
    """Return the keys with fixed names that have a wrong type, each with its fault. Makes one round trip."""
    rows = [row for row in vars(Keys).values() if isinstance(row, Key)]
    return await _mistyped(client, [(str(getattr(keys, row.name)), row) for row in rows])


async def compare_keys(
    client: StoreClient,
    keys: Keys,
    *,
    most_pages: int | None = None,
    on_page: Callable[[int], None] = lambda _: None,
) -> KeyComparison:
    """Compare each key of the shard with the table of keys. Reads all keys of the server in pages, or only the first
    `most_pages`. After each page, `on_page` gets the number of keys so far."""
    compared, tag = KeyComparison(), keys.tag.encode()
    async for found in _pages(client, f"{keys.tag}*", most_pages, compared):
        known: list[tuple[bytes, KeyInfo[object]]] = []
        for key in found:
            row = row_of(key.removeprefix(tag))
            if row is None:
                compared.unknown.add(key.decode("utf-8", "replace"), UNKNOWN)
            else:
                known.append((key, row))
        for name, detail in await _mistyped(client, known):
            compared.mistyped.add(name, detail)
        compared.looked_at += len(found)
        on_page(compared.looked_at)
    return compared


async def _pages(
    client: StoreClient, match: str, most_pages: int | None, compared: KeyComparison
) -> AsyncIterator[list[bytes]]:
    cursor, count = b"0", 0
    while not compared.is_whole and (most_pages is None or count < most_pages):
        # The pattern begins with the shard's tag, so that a Cluster scans only the slot of the tag (since Valkey 8 and
        # Redis 7.4).
        cursor, found = await client.command("SCAN", cursor, "MATCH", match, "COUNT", PAGE)
        count += 1
        compared.is_whole = cursor == b"0"
        yield found


async def _mistyped(
    client: StoreClient, keys: Iterable[tuple[str | bytes, KeyInfo[Any]]]
) -> list[tuple[str, str]]:
    asked = list(keys)
    if not asked:
        return []
    reads = [(_READS[row.type], key) for key, row in asked]
    answers = await client.ask_each([(command, key, *more) for (command, *more), key in reads])
    return [
        (
            key.decode("utf-8", "replace") if isinstance(key, bytes) else key,
            f"is not a {row.type}: another program wrote it; remove or rename it",
        )
        for (key, row), answer in zip(asked, answers, strict=True)
        if isinstance(answer, DamagedError)
    ]
