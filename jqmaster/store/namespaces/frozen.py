"""Freezes the data of a namespace during a move, in both stores. Each call names the move and the number of its mover,
so that a replaced mover changes nothing."""

import re
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgpack

from jqmaster.errors import ConflictError, DamagedError
from jqmaster.store import codec
from jqmaster.store.backup.loading import key_pages
from jqmaster.store.backup.values import Record
from jqmaster.store.link.scripts import Arg
from jqmaster.store.link.shard import Shard
from jqmaster.store.namespaces.moves import LostMoveError

# Maximum number of elements that a call writes. The store can do nothing else during the call.
_ELEMENTS_PER_CALL: Final = 2_000
_BYTES_PER_CALL: Final = 1 << 19
_BYTES_PER_ELEMENT: Final = 64
_FREEZE: Final = re.compile(rb"(\S+) (\d+) (\S*)\Z")


@dataclass(frozen=True, slots=True)
class Freeze:
    """The move (`id`) and the mover (`number`) that froze data. `mark`: the mark that the data had. Empty: the data are
    a copy.
    """

    id: str
    number: int
    mark: str


@dataclass(frozen=True, slots=True)
class HeldData:
    """The state of the data of a namespace in one store.

    * `mark`: the mark of data that masters may serve. Empty: masters may not serve the data.
    * `moved_by`: the last move that let masters serve the data here. Empty: there was no move.
    * `lost_by`: the move that froze the data, if the key that says who froze them is lost or cannot be read. Empty: the
      key is intact.
    """

    mark: str
    moved_by: str
    freeze: Freeze | None
    lost_by: str = ""

    @property
    def has_data(self) -> bool:
        """Return whether the data are whole (served or frozen), and not an unfinished copy."""
        return bool(self.mark or self.frozen_by)

    @property
    def frozen_by(self) -> str:
        """Return the move that froze whole data here. Empty: no move did."""
        return self.freeze.id if self.freeze and self.freeze.mark else self.lost_by


async def held_data(shard: Shard) -> HeldData:
    """Return the state of the data in a store. Raise DamagedError, and what `StoreClient.run` raises."""
    k = shard.keys
    mark, moved_by, frozen, leader = await shard.client.pipeline(
        [("GET", k.generation), ("HGET", k.rules, "moved_by"), ("GET", k.frozen), ("GET", k.leader)]
    )
    parts = _FREEZE.match(frozen or b"")
    freeze = Freeze(parts[1].decode(), int(parts[2]), parts[3].decode()) if parts else None
    lost_by = "" if freeze else codec.leading_move(leader)
    if frozen is not None and not freeze and not lost_by:
        raise DamagedError(f"the key {k.frozen}, which says who froze the data, cannot be read")
    # If a move holds the lead, no master can lead, and the data are not served, whatever their mark is.
    served = "" if lost_by else (mark or b"").decode()
    return HeldData(served, (moved_by or b"").decode(), freeze, lost_by)


class FrozenData:
    """The data of a namespace in one store, as a mover handles them. Raises LostMoveError if another mover took the
    move over, and what `StoreClient.run` raises."""

    def __init__(self, shard: Shard, move_id: str, number: int) -> None:
        self.shard = shard
        self.number = number
        self._owner = (move_id, number)

    async def freeze(self) -> str | None:
        """Keep all masters from serving the data in this store. Return the mark of the data. If the store has lost the
        mark, return a new one. Return None if there are no data.
        """
        k = self.shard.keys
        word, data = await self._run("freeze_data", (k.frozen, k.generation, k.rules, k.epoch, k.leader),
                                     (self.shard.now_arg, *self._owner, uuid.uuid4().hex))  # fmt: skip
        return None if word == "no_data" else str(data[0].decode())

    async def give_back(self) -> None:
        """Let masters serve the data again in this store, where they were before the move. Keep this move from freezing
        them again, because a suspended mover may not know that the move has ended.
        """
        held = await held_data(self.shard)
        if held.frozen_by == self._owner[0]:
            if mark := await self.freeze():
                await self.unfreeze(mark)
        elif held.mark:
            await self.shard.client.command("HSET", self.shard.keys.rules, "moved_by", self._owner[0])

    async def reserve(self) -> None:
        """Reserve the place for the data, and remove what earlier moves left there. Raise ConflictError if masters
        serve other data there."""
        k = self.shard.keys
        word, _ = await self._run("receive_data", (k.frozen, k.generation, k.rules), self._owner)
        if word == "has_data":
            raise ConflictError(f"the store has data with the tag {self.shard.keys.shard}")
        await self.clear()

    async def unfreeze(self, mark: str) -> None:
        """Let masters serve the data here."""
        k = self.shard.keys
        await self._run("unfreeze_data", (k.frozen, k.generation, k.rules, k.leader), (*self._owner, mark))

    async def clear(self) -> None:
        """Remove all keys except the key that marks the data as frozen."""
        frozen = self.shard.keys.frozen.encode()
        async for page in key_pages(self.shard):
            keys = [key.decode("utf-8", "surrogateescape") for key in page if key != frozen]
            await self._run("drop_keys", (self.shard.keys.frozen, *keys), self._owner)

    async def remove_left(self) -> None:
        """Remove a copy that the move left here. The copy may still have its mark, or may have lost the key that marks
        it as frozen. Raise LostMoveError if the data here do not belong to the move.
        """
        held = await held_data(self.shard)
        is_ours = (held.lost_by or held.moved_by) == self._owner[0]
        if not held.freeze and (is_ours or not held.has_data):
            await self.reserve()
        await self.remove()

    async def remove(self) -> None:
        """Remove all keys. The key that marks the data as frozen is removed last."""
        await self.clear()
        await self._run("drop_keys", (self.shard.keys.frozen, self.shard.keys.frozen), self._owner)

    async def fill(self, records: AsyncIterator[Record]) -> AsyncIterator[int]:
        """Write records. After each call, yield the number of keys whose first part it wrote."""
        keys: list[str] = []
        args: list[Arg] = []
        size = begun = 0
        async for record in records:
            keys.append(self.shard.keys.tag + record.key.decode("utf-8", "surrogateescape"))
            # Pack bytes as strings, because the MessagePack library of Lua has no binary type.
            packed = msgpack.packb(record.values, use_bin_type=False)
            args += (record.kind, record.part, record.expires_at_ms, packed)
            begun += record.part == 0
            size += len(packed) + len(record.values) * _BYTES_PER_ELEMENT
            if size >= _BYTES_PER_CALL or len(keys) >= _ELEMENTS_PER_CALL:
                await self._fill(keys, args)
                yield begun
                keys, args, size, begun = [], [], 0, 0
        if keys:
            await self._fill(keys, args)
            yield begun

    async def _fill(self, keys: Sequence[str], args: Sequence[Arg]) -> None:
        await self._run(
            "fill_keys", (self.shard.keys.frozen, *keys), (self.shard.now_arg, *self._owner, *args)
        )

    async def _run(self, script: str, keys: Sequence[str], args: Sequence[Arg]) -> tuple[str, list[bytes]]:
        word, data = await self.shard.client.run(script, keys, args)
        if word == "other":
            raise LostMoveError
        return word, data
