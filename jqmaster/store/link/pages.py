"""Splits long lists, so that no single call blocks the store for long."""

from collections.abc import AsyncIterator, Generator, Sequence
from typing import Any, Final, TypeVar

from jqmaster.store.link.client import StoreClient

# Maximum number of items in one script call. It is limited, because the store does nothing else while a script runs.
MAX_PER_CALL: Final = 500

# Maximum number of gates in one call. It is small, because opening a gate may move several lanes.
GATES_PER_CALL: Final = 100

# Maximum number of whole records in one read. It is small, because arguments may be large.
RECORDS_PER_READ: Final = 100
LANES_PER_READ: Final = 100

_T = TypeVar("_T")


def pages(items: Sequence[_T], size: int) -> Generator[list[_T], None, None]:
    """Yield parts of `items`, each of at most `size`."""
    for start in range(0, len(items), size):
        yield list(items[start : start + size])


async def scanned(
    client: StoreClient, *command: str, count: int, match: str = "*"
) -> AsyncIterator[list[Any]]:
    """Yield the replies of SCAN, SSCAN KEY, HSCAN KEY or ZSCAN KEY with about `count` members each. Empty replies are
    skipped.

    A member that exists during the whole scan is returned at least once. A small key needs one reply.
    """
    cursor = b"0"
    while True:
        cursor, found = await client.command(*command, cursor, "MATCH", match, "COUNT", count)
        if found:
            yield found
        if cursor == b"0":
            return


async def newest_first(
    client: StoreClient, key: str, before: tuple[int, str] | None, limit: int
) -> list[tuple[int, str]]:
    """Return the instants and members of a sorted set, newest first, after the last place of the page before.

    Members of the same millisecond are sorted by name, the greatest first.
    """
    highest = "+inf" if before is None else before[0]
    found: list[tuple[int, str]] = []
    passed = 0
    while len(found) < limit:
        flat = await client.command(
            "ZRANGE", key, highest, "-inf", "BYSCORE", "REV", "LIMIT", passed, limit, "WITHSCORES"
        )
        page = [(int(float(flat[n + 1])), flat[n].decode()) for n in range(0, len(flat), 2)]
        found += [place for place in page if before is None or place < before]
        if len(page) < limit:
            break
        passed += limit
    return found[:limit]
