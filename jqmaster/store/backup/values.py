"""The values of keys in a backup. They are stored as elements, so that stores of all versions can restore them."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from jqmaster.store.keys import row_of
from jqmaster.store.link.scripts import Arg

# The types of values. Backups store the position of a type, so never reorder or remove one.
TYPES: Final = ("string", "list", "hash", "set", "sorted set", "stream")
STRING, LIST, HASH, SET, SORTED_SET, STREAM = range(len(TYPES))
SIZES: Final = ("STRLEN", "LLEN", "HLEN", "SCARD", "ZCARD", "XLEN")

# Maximum number of elements in one part of a collection.
ELEMENTS_PER_PART: Final = 1_000
# Maximum number of stream entries in one part. It is small, because entries may be large.
ENTRIES_PER_PART: Final = 100


class Record(NamedTuple):
    """A key without its tag, and a part of its value. Part 0 replaces the whole value of the key. If part 0 has no
    values, it removes the key.

    * `expires_at_ms`: 0 if the key does not expire.
    * `values`: a flat list. It alternates fields and values of a hash, members and scores of a sorted set, or IDs and
      lists of fields of a stream.
    """

    key: bytes
    kind: int
    expires_at_ms: int
    part: int
    values: Sequence[Any]


def kind_of(key: bytes) -> int | None:
    row = row_of(key)
    return None if row is None else TYPES.index(row.type)


def whole(kind: int, key: bytes) -> tuple[Arg, ...]:
    """Return the command that reads a short value at once."""
    match kind:
        case 0:
            return ("GET", key)
        case 1:
            return ("LRANGE", key, 0, -1)
        case 2:
            return ("HGETALL", key)
        case 3:
            return ("SMEMBERS", key)
        case 4:
            return ("ZRANGE", key, 0, -1, "WITHSCORES")
        case _:
            return ("XRANGE", key, "-", "+")


def flat(kind: int, reply: Any) -> list[Any]:
    """Return the values of a record from a reply to `whole`, or to a command that reads a part."""
    if kind == STRING:
        return [] if reply is None else [reply]
    if kind == HASH and isinstance(reply, dict):
        return _chained(reply.items())
    if kind in (SORTED_SET, STREAM) and reply and isinstance(reply[0], list | tuple):
        return _chained(reply)
    return list(reply)


def writes(record: Record, key: bytes) -> list[tuple[Arg, ...]]:
    """Return the commands that write a record to `key`, without its expiry."""
    commands: list[tuple[Arg, ...]] = [("UNLINK", key)] if record.part == 0 else []
    values = record.values
    if not values:
        return commands
    match record.kind:
        case 0:
            commands.append(("SET", key, values[0]))
        case 1:
            commands.append(("RPUSH", key, *values))
        case 2:
            commands.append(("HSET", key, *values))
        case 3:
            commands.append(("SADD", key, *values))
        case 4:
            scored = zip(values[1::2], values[::2], strict=True)
            commands.append(
                ("ZADD", key, *_chained((repr(float(score)), member) for score, member in scored))
            )
        case _:
            entries = zip(values[::2], values[1::2], strict=True)
            commands += [("XADD", key, position, *fields) for position, fields in entries]
    return commands


def _chained(pairs: Iterable[Iterable[Any]]) -> list[Any]:
    return [one for pair in pairs for one in pair]
