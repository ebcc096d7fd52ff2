"""Copies a shard at one instant while masters serve.

The copier reads all keys page by page while masters write. It reads changed keys again until few changed keys remain.
The store then pauses all writes for a moment, and the copier reads these last keys.

The copy is consistent, because the store names each changed key (`tracked`). If a key changes between the start of the
pause and the last read, the copy is not used.
"""

import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jqmaster.domain.jobs.job import INDEXED, JobState
from jqmaster.errors import ConflictError
from jqmaster.store.backup import loading
from jqmaster.store.backup.tracked import TrackedConnection
from jqmaster.store.backup.values import (
    ELEMENTS_PER_PART,
    ENTRIES_PER_PART,
    HASH,
    LIST,
    SET,
    SIZES,
    SORTED_SET,
    STREAM,
    STRING,
    Record,
    flat,
    kind_of,
    whole,
)
from jqmaster.store.keys import Keys
from jqmaster.store.link.pages import pages
from jqmaster.store.link.scripts import Arg

KEYS_PER_PAGE: Final = 200
_BYTES_PER_READ: Final = 1 << 20
_BYTES_PER_ELEMENT: Final = 256
# Pause writes once at most this many changed keys remain to be copied.
_FEW_CHANGED: Final = 500
_MAX_ROUNDS: Final = 12
_MAX_PAUSES: Final = 4
# Before the pause, start another round if the last round reduced the number of changed keys to this share or less.
_SAVES_ENOUGH: Final = 0.8
# The share of a pause that may be spent on copying keys. The rest is for the final check.
_USABLE_PART: Final = 0.9
_GONE: Final = -2


@dataclass(frozen=True, slots=True)
class Cut:
    """Facts about a copy: its instant, the length of the pause, and the state of the shard at that instant. The state
    consists of the mark of the data, the newest epoch, the number of jobs in each state, and the number of other
    objects of each kind.

    * `store`: the server and its version.
    * `unknown`: the number of keys under the shard's tag that this version does not know and has left out.
    """

    at_ms: int
    paused_ms: int
    store: str
    mark: str
    epoch: int
    jobs: dict[str, int]
    objects: dict[str, int]
    unknown: int


class Copier:
    """One copy of a shard. Calls `write` with each record. A later record of a key replaces earlier records of it."""

    def __init__(
        self, store: TrackedConnection, keys: Keys, write: Callable[[Record], None], *, longest_pause_ms: int
    ) -> None:
        self._store, self._keys, self._write = store, keys, write
        self._tag = keys.tag.encode()
        self._longest_pause_ms = longest_pause_ms
        self._unknown: set[bytes] = set()
        self._server = ""

    async def copy(self) -> Cut:
        """Copy everything. Raises what `TrackedConnection.ask` raises.

        Raises ConflictError if the store changes faster than it can be copied within the pause, or if a restore into it
        has not ended.
        """
        self._server = await self._server_name()
        if b"role:slave" in (await self._store.ask(("INFO", "replication")))[0]:
            raise ConflictError(
                "the address is that of a replica, which cannot pause writes: name its primary"
            )
        await self._refuse_half_restored()
        await self._copy_all()
        for _ in range(_MAX_PAUSES):
            await self._copy_changed()
            if cut := await self._copy_rest():
                return cut
        raise ConflictError(
            f"the store changes faster than it can be copied while writes are paused for {self._longest_pause_ms} ms: "
            "take the backup at a quieter time, or give a longer --longest-pause-ms"
        )

    async def _refuse_half_restored(self) -> None:
        if (await self._store.ask(("GET", self._keys.restoring)))[0] is not None:
            raise loading.unfinished("take a backup")

    async def _copy_all(self) -> None:
        cursor: Any = b"0"
        while True:
            ((cursor, found),) = await self._store.ask(
                ("SCAN", cursor, "MATCH", _escaped(self._keys.tag) + "*", "COUNT", 2 * KEYS_PER_PAGE)
            )
            page = [key[len(self._tag) :] for key in found]
            # Skip keys that have changed: `_copy_changed` reads them later.
            async for record in self._read([key for key in page if key not in self._store.changed]):
                self._write(record)
            if cursor == b"0":
                return

    async def _copy_changed(self) -> None:
        """Read changed keys again, until few are left or keys change as fast as they are read."""
        await self._store.ask(("PING",))
        before = len(self._store.changed)
        for _ in range(_MAX_ROUNDS):
            if before <= _FEW_CHANGED:
                return
            async for record in self._read(self._store.take_changed()):
                self._write(record)
            await self._store.ask(("PING",))
            left = len(self._store.changed)
            if left > _SAVES_ENOUGH * before:
                return
            before = left

    async def _copy_rest(self) -> Cut | None:
        """Read the remaining changed keys while writes are paused. Return None if the pause was too short."""
        began_s = time.monotonic()
        usable_s = self._longest_pause_ms / 1000 * _USABLE_PART
        held: list[Record] = []
        unread: list[bytes] = []
        cut = None
        await self._store.ask(("CLIENT", "PAUSE", self._longest_pause_ms, "WRITE"))
        try:
            # The store answers after it has sent the notices of all changes before the pause, so no notice is missing.
            await self._store.ask(("PING",))
            unread = self._store.take_changed()
            while unread and time.monotonic() - began_s < usable_s:
                page, unread = unread[:KEYS_PER_PAGE], unread[KEYS_PER_PAGE:]
                read = [record async for record in self._read(page)]
                held += read
            await self._refuse_half_restored()
            counts, (seconds, microseconds) = await self._counts(), (await self._store.ask(("TIME",)))[0]
            await self._store.ask(("PING",))
            paused_s = time.monotonic() - began_s
            if not unread and not self._store.changed and paused_s < self._longest_pause_ms / 1000:
                cut = Cut(
                    int(seconds) * 1000 + int(microseconds) // 1000,
                    round(paused_s * 1000),
                    self._server,
                    *counts,
                    len(self._unknown),
                )
        finally:
            await self._store.ask(("CLIENT", "UNPAUSE"))
        # Write these records even if the pause was too short: the store reports each later change, and the copier then
        # reads that key again.
        for record in held:
            self._write(record)
        self._store.changed.update(unread)
        return cut

    async def _server_name(self) -> str:
        (info,) = await self._store.ask(("INFO", "server"))
        facts = dict(line.split(b":", 1) for line in info.splitlines() if b":" in line)
        name, version = (
            ("Valkey", facts[b"valkey_version"])
            if b"valkey_version" in facts
            else ("Redis", facts[b"redis_version"])
        )
        return f"{name} {version.decode()}"

    async def _counts(self) -> tuple[str, int, dict[str, int], dict[str, int]]:
        """Return the mark, the epoch, the number of jobs by state, and the number of other objects by kind."""
        k = self._keys
        objects = {"constraints": k.constraints, "definitions": k.definitions, "notices": k.notices, "users": k.users,
                   "tokens": k.tokens}  # fmt: skip
        replies = await self._store.ask(
            ("GET", k.generation),
            ("GET", k.epoch),
            ("HVALS", k.ready_counts),
            *(("ZCARD", k.index(state)) for state in INDEXED),
            *(("HLEN", key) for key in objects.values()),
        )
        mark, epoch, ready, *rest = replies
        of_states, of_objects = rest[: len(INDEXED)], rest[len(INDEXED) :]
        jobs = {JobState.READY.value: sum(map(_number, ready))}
        jobs.update((state.value, count) for state, count in zip(INDEXED, of_states, strict=True))
        return (
            (mark or b"").decode("utf-8", "replace"),
            _number((epoch or b"").partition(b":")[0]),
            jobs,
            dict(zip(objects, of_objects, strict=True)),
        )

    async def _read(self, keys: Sequence[bytes]) -> AsyncIterator[Record]:
        """Yield the records of these keys. For a key that is gone, yield a record without values."""
        for page in pages(keys, KEYS_PER_PAGE):
            known = [(key, kind) for key in page if (kind := kind_of(key)) is not None]
            self._unknown.update(key for key in page if kind_of(key) is None)
            short: list[tuple[bytes, int, int]] = []
            bytes_of_short = 0
            for (key, kind), (size, expires_at_ms) in zip(known, await self._facts(known), strict=True):
                if size is None:
                    yield Record(key, kind, 0, 0, ())
                elif kind != STRING and size > (ENTRIES_PER_PART if kind == STREAM else ELEMENTS_PER_PART):
                    async for record in self._read_long(key, kind, expires_at_ms):
                        yield record
                else:
                    short.append((key, kind, expires_at_ms))
                    bytes_of_short += size if kind == STRING else size * _BYTES_PER_ELEMENT
                    if bytes_of_short > _BYTES_PER_READ:
                        for record in await self._read_short(short):
                            yield record
                        short, bytes_of_short = [], 0
            for record in await self._read_short(short):
                yield record

    async def _facts(self, known: Sequence[tuple[bytes, int]]) -> list[tuple[int | None, int]]:
        """Return the size and the expiry time of each key. A size of None: the key is gone."""
        asked: list[tuple[Arg, ...]] = [("TIME",)]
        for key, kind in known:
            asked += ((SIZES[kind], self._tag + key), ("PTTL", self._tag + key))
        (seconds, microseconds), *facts = await self._store.ask(*asked)
        now_ms = int(seconds) * 1000 + int(microseconds) // 1000
        return [
            (None if life_ms == _GONE else size, now_ms + life_ms if life_ms >= 0 else 0)
            for size, life_ms in zip(facts[::2], facts[1::2], strict=True)
        ]

    async def _read_short(self, keys: Sequence[tuple[bytes, int, int]]) -> list[Record]:
        if not keys:
            return []
        replies = await self._store.ask(*(whole(kind, self._tag + key) for key, kind, _ in keys))
        return [
            Record(key, kind, expires_at_ms, 0, flat(kind, reply))
            for (key, kind, expires_at_ms), reply in zip(keys, replies, strict=True)
        ]

    async def _read_long(self, key: bytes, kind: int, expires_at_ms: int) -> AsyncIterator[Record]:
        """Read a long collection in parts. If the collection changes meanwhile, `changed` lists its key, and the copier
        reads that key again.
        """
        part, name = 0, self._tag + key
        cursor: Any = b"0" if kind in (HASH, SET) else b"-" if kind == STREAM else 0
        while True:
            match kind:
                case 1 | 4:
                    last = cursor + ELEMENTS_PER_PART - 1
                    more: tuple[Arg, ...] = ("WITHSCORES",) if kind == SORTED_SET else ()
                    command = "LRANGE" if kind == LIST else "ZRANGE"
                    (found,) = await self._store.ask((command, name, cursor, last, *more))
                    values, cursor = flat(kind, found), last + 1
                    is_over = len(found) < ELEMENTS_PER_PART
                case 2 | 3:
                    command = "HSCAN" if kind == HASH else "SSCAN"
                    ((cursor, found),) = await self._store.ask(
                        (command, name, cursor, "COUNT", ELEMENTS_PER_PART)
                    )
                    values, is_over = flat(kind, found), cursor == b"0"
                case _:
                    (found,) = await self._store.ask(("XRANGE", name, cursor, "+", "COUNT", ENTRIES_PER_PART))
                    values, is_over = flat(kind, found), len(found) < ENTRIES_PER_PART
                    cursor = b"(" + found[-1][0] if found else cursor
            if values or part == 0:
                yield Record(key, kind, expires_at_ms, part, values)
                part += 1
            if is_over:
                return


def _number(text: bytes) -> int:
    """Return the number, or 0 for damaged data. A backup keeps damaged data as they are."""
    return int(text) if text.isdigit() else 0


def _escaped(text: str) -> str:
    """Return a pattern that matches this text alone."""
    return "".join(f"\\{sign}" if sign in "*?[]\\^" else sign for sign in text)
