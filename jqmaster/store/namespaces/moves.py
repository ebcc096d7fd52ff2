"""The records of moves, in the shard of the default namespace. Each change of a mover names the number with which it
took the move, so that a replaced mover changes nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import msgpack

from jqmaster.domain.namespaces.move import (
    LEFT_FOR_MS,
    STEPS,
    LeftCopy,
    Move,
    MoveProgress,
    MoveSize,
    MoveStep,
    MoveTerms,
)
from jqmaster.domain.namespaces.namespace import Namespace
from jqmaster.errors import ConflictError, DamagedError
from jqmaster.store import codec
from jqmaster.store.identity.audit import MAX_ENTRIES
from jqmaster.store.link.shard import Shard
from jqmaster.store.namespaces.documents import decode_namespace, encode_namespace, stored_version

# If a mover is silent for this long, another master continues its move.
HOLD_MS: Final = 10_000
_RELEASED: Final = "released:"
_UNREADABLE: Final = (KeyError, ValueError, TypeError, AttributeError, msgpack.UnpackException)


class LostMoveError(Exception):
    """Another master has taken the move over, or it has ended. Nothing was written."""


@dataclass(frozen=True, slots=True)
class MoveEnd:
    """The end of a move: its last step, its progress, and the audit entry."""

    step: MoveStep
    progress: MoveProgress
    audit_entry: bytes


@dataclass(frozen=True, slots=True)
class FailedMove:
    """The reason why a move failed, and the time of the failure by the clock of the registry's store."""

    reason: str
    at_ms: int


class MoveStore:
    """Moves of namespaces. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._keys = shard.keys

    async def get(self, name: str) -> Move | None:
        """Return the newest move of a namespace, or None if there was none. Raise DamagedError."""
        try:
            flat = await self._shard.client.command("HGETALL", self._keys.move(name))
        except DamagedError as exc:
            raise DamagedError(unreadable(name)) from exc
        return _move_from(name, flat)

    async def failed(self, names: Sequence[str], *, within_ms: int) -> dict[str, FailedMove]:
        """Return the newest moves that failed within this time, by namespace. A move with an unreadable record counts
        as failed now.
        """
        now_ms = await self._shard.now_ms()
        commands = [("HGETALL", self._keys.move(name)) for name in names]
        replies = await self._shard.client.pipeline(commands, skip_damaged=True)
        failed = {}
        for name, flat in zip(names, replies, strict=True):
            try:
                move = _move_from(name, flat)
            except DamagedError as exc:
                failed[name] = FailedMove(exc.detail, now_ms)
                continue
            if move and move.failure and (at_ms := move.ended_at_ms or now_ms) > now_ms - within_ms:
                failed[name] = FailedMove(move.failure, at_ms)
        return failed

    async def under_way(self) -> list[str]:
        """Return the namespaces that are being moved."""
        found = await self._shard.client.command("ZRANGE", self._keys.moves, 0, -1)
        return [name.decode("utf-8", "replace") for name in found]

    async def lost(self, names: Sequence[str]) -> list[str]:
        """Return which of these namespaces are marked as being moved although no move of them is under way."""
        if not names:
            return []
        k = self._keys
        # Read the entries before and after the moves. Each move changes the entry of its namespace when it begins and
        # when it ends. So if an entry is the same in both reads, no move of the namespace has begun or ended between
        # them.
        before, under_way, after = await self._shard.client.pipeline(
            [("HMGET", k.namespaces, *names), ("ZRANGE", k.moves, 0, -1), ("HMGET", k.namespaces, *names)]
        )
        moved = set(under_way)
        return [
            name
            for name, raw, again in zip(names, before, after, strict=True)
            if raw is not None and raw == again and name.encode() not in moved and _is_moving(name, raw)
        ]

    async def keeps(self, store: str, tag: str) -> bool:
        """Return whether a copy with this tag is kept in a store, to be removed later."""
        found = await self._shard.client.command("ZRANGE", self._keys.left_copies, 0, -1)
        copies = map(_left_copy, found)
        return any(left is not None and (left.store, left.tag) == (store, tag) for left in copies)

    async def begin(
        self, present: Namespace, announced: Namespace, move_id: str, terms: MoveTerms, audit_entry: bytes
    ) -> bool:
        """Begin a move, and write the registry's entry that announces it. Return False if the entry has changed since
        `present` was read. Raise ConflictError if a move of the namespace is under way."""
        k = self._keys
        word, _ = await self._shard.client.run(
            "begin_move",
            (k.namespaces, k.settings, k.audit, k.move(present.name), k.moves),
            (self._shard.now_arg, present.name, stored_version(present), announced.tag, encode_namespace(announced),
             move_id, codec.pack(asdict(terms)), audit_entry, MAX_ENTRIES, k.wake_channel),
        )  # fmt: skip
        if word == "under_way":
            raise ConflictError(f"namespace {present.name} is already being moved", code="move_under_way")
        return word == "ok"

    async def take(self, name: str, master_id: str) -> int | None:
        """Become the mover, and return the number of this hold on the move. None: another master is the mover, or there
        is no move.
        """
        k = self._keys
        word, data = await self._shard.client.run(
            "take_move", (k.move(name), k.moves), (self._shard.now_arg, name, master_id, HOLD_MS)
        )
        return int(data[0]) if word == "ok" else None

    async def record(
        self, name: str, number: int, step: MoveStep, progress: MoveProgress, *, hold_ms: int = HOLD_MS
    ) -> str:
        """Record the step and renew the hold. Return who wants the move to be aborted (empty: nobody). Raise
        LostMoveError.
        """
        k = self._keys
        word, data = await self._shard.client.run(
            "record_move",
            (k.move(name), k.moves),
            (self._shard.now_arg, name, number, step, codec.pack(asdict(progress)), hold_ms),
        )
        if word == "lost":
            raise LostMoveError
        return str(data[0].decode("utf-8", "replace"))

    async def stop_service(self, present: Namespace, stopped: Namespace, number: int) -> int | None:
        """Write the entry that makes masters stop serving the namespace. Return its version, or None if the entry has
        changed meanwhile. Raise LostMoveError.
        """
        k = self._keys
        word, data = await self._shard.client.run(
            "stop_for_move",
            (k.namespaces, k.settings, k.move(present.name)),
            (self._shard.now_arg, present.name, number, stored_version(present), stopped.tag,
             encode_namespace(stopped), k.wake_channel),
        )  # fmt: skip
        if word == "lost":
            raise LostMoveError
        return int(data[0]) if word == "ok" else None

    async def end(
        self,
        present: Namespace,
        opened: Namespace,
        number: int,
        end: MoveEnd,
        *,
        left: LeftCopy | None,
        left_for_ms: int = LEFT_FOR_MS,
    ) -> str:
        """End the move, and write the entry that makes masters serve the namespace again. Return `ok`, `changed` if the
        entry has changed meanwhile, or `aborted` if somebody aborted a move that succeeded. Raise LostMoveError.
        """
        k = self._keys
        word, _ = await self._shard.client.run(
            "end_move",
            (k.namespaces, k.settings, k.audit, k.move(present.name), k.moves, k.left_copies),
            (self._shard.now_arg, present.name, number, stored_version(present), opened.tag, encode_namespace(opened),
             end.step, codec.pack(asdict(end.progress)), _member(left) if left else "", left_for_ms, end.audit_entry,
             MAX_ENTRIES, k.wake_channel),
        )  # fmt: skip
        if word == "lost":
            raise LostMoveError
        return word

    async def abort(self, name: str, who: str, audit_entry: bytes) -> bool:
        """Ask the mover to end the move and leave the data where they are. Return False if no move is under way."""
        k = self._keys
        word, _ = await self._shard.client.run(
            "abort_move",
            (k.move(name), k.moves, k.audit),
            (self._shard.now_arg, name, who, audit_entry, MAX_ENTRIES),
        )
        return word == "ok"

    async def drop(
        self,
        present: Namespace,
        new: Namespace,
        audit_entry: bytes,
        *,
        left: tuple[LeftCopy, int] | None = None,
    ) -> int | None:
        """Drop the record of the newest move, whether or not it can be read, and write the entry.

        * `audit_entry`: the entry to write. Empty: write no entry.
        * `left`: a copy to remove, and after how many milliseconds.

        Return the version of the entry, or None if the entry has changed since `present` was read.
        """
        k = self._keys
        member, left_for_ms = (_member(left[0]), left[1]) if left else ("", 0)
        word, data = await self._shard.client.run(
            "drop_move",
            (k.namespaces, k.settings, k.audit, k.move(present.name), k.moves, k.left_copies),
            (self._shard.now_arg, present.name, stored_version(present), new.tag, encode_namespace(new), member,
             left_for_ms, audit_entry, MAX_ENTRIES, k.wake_channel),
        )  # fmt: skip
        return int(data[0]) if word == "ok" else None

    async def release(self, name: str, master_id: str, version: int) -> None:
        """Record that a master obeys this version of the registry, and does not serve the namespace."""
        k = self._keys
        await self._shard.client.run("release_namespace", (k.move(name), k.moves), (name, master_id, version))

    async def left_copies(self) -> Sequence[LeftCopy]:
        """Return the copies that are due to be removed. Entries that cannot be read are left out."""
        now_ms = await self._shard.now_ms()
        found = await self._shard.client.command("ZRANGEBYSCORE", self._keys.left_copies, "-inf", now_ms)
        return [left for member in found if (left := _left_copy(member))]

    async def forget(self, left: LeftCopy) -> None:
        """Forget a copy that no longer exists."""
        await self._shard.client.run("forget_copy", (self._keys.left_copies,), (_member(left),))


def _member(left: LeftCopy) -> str:
    return f"{left.store} {left.tag} {left.id} {left.number}"


def _left_copy(member: bytes) -> LeftCopy | None:
    try:
        store, tag, move_id, number = member.decode().split(" ")
        return LeftCopy(store, tag, move_id, int(number))
    except ValueError:
        return None


def _is_moving(name: str, raw: bytes) -> bool:
    """Return whether a stored entry is marked as being moved; False if it cannot be read."""
    try:
        return decode_namespace(name, raw).is_moving
    except DamagedError:
        return False


def _move_from(name: str, flat: Sequence[bytes] | None) -> Move | None:
    """Return the move of a stored record, or None if there is none. `flat` is `None` if the key is of another type."""
    if flat is None:
        raise DamagedError(unreadable(name))
    pairs = zip(flat[::2], flat[1::2], strict=True)
    fields = {key.decode("utf-8", "replace"): value for key, value in pairs}
    return _move_of(name, fields) if fields else None


def _move_of(name: str, fields: Mapping[str, bytes]) -> Move:
    try:
        terms: dict[str, Any] = msgpack.unpackb(fields["terms"])
        progress = msgpack.unpackb(fields["progress"]) if "progress" in fields else {}
        step = fields["step"].decode()
        if step not in STEPS:
            raise ValueError(step)
        return Move(
            name,
            fields["id"].decode(),
            int(fields["number"]),
            step,
            MoveTerms(**{**terms, "size": MoveSize(**terms["size"])}),
            MoveProgress(**progress),
            fields.get("mover", b"").decode(),
            frozenset(
                (key.removeprefix(_RELEASED), int(version))
                for key, version in fields.items()
                if key.startswith(_RELEASED)
            ),
            fields.get("abort", b"").decode("utf-8", "replace"),
            int(fields["ended_at"]) if "ended_at" in fields else None,
        )
    except _UNREADABLE as exc:
        raise DamagedError(unreadable(name)) from exc


def unrecorded(name: str) -> str:
    """Return the text for people about a namespace that is marked as being moved although no move is under way, with
    the remedy."""
    return (
        f"namespace {name[:64]} is marked as being moved, and no move is under way; `jqmaster namespaces abort-move "
        f"{name[:64]}` (`DELETE …/move`) finds the store that has the data, and ends that"
    )


def unreadable(name: str) -> str:
    """Return the text for people about a record that cannot be read, with the remedy."""
    return (
        f"the record of the move of namespace {name[:64]} cannot be read; `jqmaster namespaces abort-move {name[:64]} "
        "--force` (`DELETE …/move?force=true`) finds the store that has the data, and closes the namespace there"
    )
