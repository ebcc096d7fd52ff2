"""Reads the data of a namespace while nobody changes them, and compares them with their copy in another store."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, Final

from jqmaster.domain.namespaces.move import MoveSize
from jqmaster.store.backup.loading import key_pages
from jqmaster.store.backup.values import HASH, SET, SORTED_SET, STREAM, STRING, Record, flat, kind_of
from jqmaster.store.link.pages import pages
from jqmaster.store.link.scripts import Arg
from jqmaster.store.link.shard import Shard

# Limits of one round trip: the number of keys, and of each key the elements, the entries of a stream, and the bytes of
# a string.
_KEYS_PER_READ: Final = 100
_ELEMENTS_PER_PART: Final = 500
_ENTRIES_PER_PART: Final = 50
_BYTES_PER_PART: Final = 1 << 16
# Keys that a move does not copy, because they belong to a store or to processes and not to the data.
OF_THE_PLACE: Final = frozenset({b"frozen", b"generation", b"leader", b"demoted", b"masters", b"master_info"})
# How many keys of a page are measured to estimate the memory of the page, and how many bytes a key and an element need
# besides their content.
_SAMPLE: Final = 10
_BYTES_PER_KEY: Final = 150
_BYTES_PER_ELEMENT: Final = 40
# How much the expiry times of a key and its copy may differ. The copy gets the remaining time, which starts again by
# the clock of the other store.
_SAME_EXPIRY_MS: Final = 1_500
_GONE: Final = -2


async def moved_keys(shard: Shard) -> AsyncIterator[list[bytes]]:
    """Yield the keys that are moved, in pages and without their tag. A key may come more than once."""
    tag = len(shard.keys.tag)
    async for page in key_pages(shard):
        if found := [key[tag:] for key in page if key[tag:] not in OF_THE_PLACE]:
            yield found


async def measured(shard: Shard) -> MoveSize:
    """Return how much there is to move: the number of keys, and their estimated memory. The estimate measures a sample
    of each page. Scans all keys of the server in small steps.
    """
    keys = unknown = sampled = sampled_bytes = 0
    async for page in moved_keys(shard):
        known = [key for key in page if kind_of(key) is not None]
        keys, unknown = keys + len(known), unknown + len(page) - len(known)
        sample = known[:: max(1, len(known) // _SAMPLE)]
        sampled += len(sample)
        async for record in records(shard, sample):
            sampled_bytes += (len(record.key) + _BYTES_PER_KEY if record.part == 0 else 0) + _bytes_of(record)
    return MoveSize(keys, sampled_bytes * keys // max(sampled, 1), unknown)


async def records(shard: Shard, keys: Sequence[bytes]) -> AsyncIterator[Record]:
    """Yield the records of these keys. All keys must have known kinds. The parts of one key follow one another. A key
    that is gone yields no record.
    """
    for page in pages(keys, _KEYS_PER_READ):
        kinds = [_kind(key) for key in page]
        commands: list[tuple[Arg, ...]] = [("TIME",)]
        commands += [_read(shard, key, kind, _begin(kind)) for key, kind in zip(page, kinds, strict=True)]
        commands += [("PTTL", _name(shard, key)) for key in page]
        (seconds, microseconds), *replies = await shard.client.pipeline(commands)
        now_ms = int(seconds) * 1000 + int(microseconds) // 1000
        lives = replies[len(page) :]
        for key, kind, reply, life_ms in zip(page, kinds, replies, lives, strict=False):
            values, cursor = _part(kind, reply, _begin(kind))
            if life_ms == _GONE or (kind != STRING and not values and cursor is None):
                continue
            expires_at_ms = now_ms + life_ms if life_ms >= 0 else 0
            yield Record(key, kind, expires_at_ms, 0, values)
            part = 1
            while cursor is not None:
                reply = await shard.client.command(*_read(shard, key, kind, cursor))
                values, cursor = _part(kind, reply, cursor)
                if values:
                    yield Record(key, kind, expires_at_ms, part, values)
                    part += 1


async def differences(
    source: Shard, target: Shard, *, on_page: Callable[[int], None] = lambda _: None
) -> AsyncIterator[str]:
    """Yield the differences between the data and their copy, each as a text that names the key. After each page,
    `on_page` gets the number of keys on this page.
    """
    async for page in moved_keys(source):
        for keys in pages(page, _KEYS_PER_READ):
            here, there = await asyncio.gather(_prints(source, keys), _prints(target, keys))
            for key in keys:
                if difference := _difference(here.get(key), there.get(key)):
                    yield f"{_text(key)} {difference}"
            on_page(len(keys))
    async for page in moved_keys(target):
        held = await source.client.pipeline([("EXISTS", _name(source, key)) for key in page])
        for key, is_held in zip(page, held, strict=True):
            if not is_held and await target.client.command("EXISTS", _name(target, key)):
                yield f"{_text(key)} is in the copy only"


class _Print:
    """The digest of a key's value. It does not depend on the order of set members and hash fields, nor on how often a
    scan repeats one of them.
    """

    def __init__(self, record: Record) -> None:
        self.expires_at_ms = record.expires_at_ms
        self._kind = record.kind
        self._ordered = hashlib.sha1(usedforsecurity=False)
        self._members: set[bytes] = set()
        self.add(record)

    def add(self, record: Record) -> None:
        values = record.values
        if self._kind == STRING:
            self._ordered.update(values[0])
        elif self._kind == HASH:
            fields = zip(values[::2], values[1::2], strict=True)
            self._members.update(_digest(_chained(field)) for field in fields)
        elif self._kind == SET:
            self._members.update(map(_digest, values))
        elif self._kind == STREAM:
            for position, entry in zip(values[::2], values[1::2], strict=True):
                self._ordered.update(_chained((position, *entry)))
        else:
            self._ordered.update(_chained(values))

    def digest(self) -> tuple[bytes, int, int]:
        members = 0
        for member in self._members:
            members ^= int.from_bytes(member, "big")
        return self._ordered.digest(), len(self._members), members


def _bytes_of(record: Record) -> int:
    if record.kind == STREAM:
        return sum(len(part) + _BYTES_PER_ELEMENT for entry in record.values[1::2] for part in entry)
    return sum(len(value) + (record.kind != STRING) * _BYTES_PER_ELEMENT for value in record.values)


async def _prints(shard: Shard, keys: Sequence[bytes]) -> dict[bytes, _Print]:
    found: dict[bytes, _Print] = {}
    async for record in records(shard, keys):
        if record.part == 0:
            found[record.key] = _Print(record)
        else:
            found[record.key].add(record)
    return found


def _difference(here: _Print | None, there: _Print | None) -> str:
    if here is None or there is None:
        # A missing key is not a difference if it expires: its copy expires too, but not in the same millisecond.
        one = here or there
        return (
            "" if one is None or one.expires_at_ms else f"is missing in {'the data' if there else 'the copy'}"
        )
    if here.digest() != there.digest():
        return "has other content in the copy"
    expiries = here.expires_at_ms, there.expires_at_ms
    if (0 in expiries) != (expiries == (0, 0)) or abs(expiries[0] - expiries[1]) > _SAME_EXPIRY_MS:
        return "expires at another time in the copy"
    return ""


def _digest(content: bytes) -> bytes:
    return hashlib.sha1(content, usedforsecurity=False).digest()


def _chained(values: Iterable[bytes]) -> bytes:
    return b"".join(b"%d:%b" % (len(value), value) for value in values)


def _kind(key: bytes) -> int:
    kind = kind_of(key)
    assert kind is not None, "keys of unknown kinds are refused before"
    return kind


def _name(shard: Shard, key: bytes) -> bytes:
    return shard.keys.tag.encode() + key


def _text(key: bytes) -> str:
    return key.decode("utf-8", "backslashreplace")


def _begin(kind: int) -> Any:
    """Return the cursor of the first part of a value."""
    return b"0" if kind in (HASH, SET) else b"-" if kind == STREAM else 0


def _read(shard: Shard, key: bytes, kind: int, cursor: Any) -> tuple[Arg, ...]:
    """Return the command that reads the part of a value that begins at `cursor`."""
    name, last = _name(shard, key), _ELEMENTS_PER_PART - 1
    match kind:
        case 0:
            return ("GETRANGE", name, cursor, cursor + _BYTES_PER_PART - 1)
        case 1:
            return ("LRANGE", name, cursor, cursor + last)
        case 2 | 3:
            return ("HSCAN" if kind == HASH else "SSCAN", name, cursor, "COUNT", _ELEMENTS_PER_PART)
        case 4:
            return ("ZRANGE", name, cursor, cursor + last, "WITHSCORES")
        case _:
            return ("XRANGE", name, cursor, "+", "COUNT", _ENTRIES_PER_PART)


def _part(kind: int, reply: Any, cursor: Any) -> tuple[list[Any], Any]:
    """Return the values of a part, and the cursor of the next part (None: this was the last)."""
    if kind in (HASH, SET):
        following, found = reply
        return flat(kind, found), None if following == b"0" else following
    values = flat(kind, reply)
    if kind == STRING:
        return values, cursor + len(reply) if len(reply) == _BYTES_PER_PART else None
    if kind == STREAM:
        return values, b"(" + values[-2] if len(values) == 2 * _ENTRIES_PER_PART else None
    if kind == SORTED_SET:
        # Write all scores in the same form, because servers differ in how they write numbers.
        values[1::2] = [repr(float(score)).encode() for score in values[1::2]]
        return values, cursor + _ELEMENTS_PER_PART if len(values) == 2 * _ELEMENTS_PER_PART else None
    return values, cursor + _ELEMENTS_PER_PART if len(values) == _ELEMENTS_PER_PART else None
