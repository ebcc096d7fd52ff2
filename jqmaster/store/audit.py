"""The audit log: who changed what. Entries are written by the scripts that make the changes."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgpack

from jqmaster.errors import InvalidError
from jqmaster.store import codec
from jqmaster.store.shard import Shard

# How many are kept, or a few more.
MAX_ENTRIES: Final = 100_000
# A target that seldom changes is looked for among so many entries for one page; the cursor then goes on from there.
MAX_LOOKED_AT: Final = 2_000
ENTRIES_PER_READ: Final = 200
# The action of an entry that cannot be read.
DAMAGED: Final = "damaged"
_POSITION: Final = re.compile(r"[0-9]{1,19}-[0-9]{1,19}")


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One change. `before` None: there was nothing; `after` None: nothing is left."""

    id: str
    at_ms: int
    who: str
    action: str
    target: str
    before: Any
    after: Any


def encode_entry(
    *, who: str, action: str, target: str, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
) -> bytes:
    """What a script writes down together with the change."""
    return codec.pack({"who": who, "action": action, "target": target, "before": before, "after": after})


class AuditStore:
    """The audit log of one shard. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._client = shard.client
        self._key = shard.keys.audit

    async def write(self, entry: bytes) -> None:
        """An entry of what was done just now. For what is done in one script with others the script writes it."""
        await self._client.run("write_audit", (self._key,), (self._shard.now_arg, entry, MAX_ENTRIES))

    async def page(
        self, *, limit: int, cursor: str | None, target: str | None
    ) -> tuple[list[AuditEntry], str | None]:
        """Up to `limit` entries, the newest first, and where to go on (None: that was all).

        A page may be short, even empty, while a cursor says that there is more. Raises InvalidError for a cursor that
        no page gave.
        """
        if cursor is not None and not _POSITION.fullmatch(cursor):
            raise InvalidError("cursor is not one that a page gave", code="invalid_cursor")
        found: list[AuditEntry] = []
        looked_at = 0
        while looked_at < MAX_LOOKED_AT:
            end = "+" if cursor is None else f"({cursor}"
            entries = await self._client.command("XREVRANGE", self._key, end, "-", "COUNT", ENTRIES_PER_READ)
            for position, fields in entries:
                cursor = position.decode()
                looked_at += 1
                entry = _decode(cursor, fields)
                if target is None or entry.target == target:
                    found.append(entry)
                if len(found) == limit:
                    return found, cursor
            if len(entries) < ENTRIES_PER_READ:
                return found, None
        return found, cursor


def changes_of(entries: Iterable[tuple[bytes, list[bytes]]]) -> set[tuple[str, str]]:
    """Of these entries, as the stream gives them: the first word of each action, which says what kind of thing was
    changed, and its target."""
    found = (_decode(position.decode(), fields) for position, fields in entries)
    return {(entry.action.partition(".")[0], entry.target) for entry in found}


def _decode(position: str, flat: list[bytes]) -> AuditEntry:
    try:
        fields = dict(zip(flat[::2], flat[1::2], strict=True))
        return AuditEntry(position, int(fields[b"at_ms"]), **msgpack.unpackb(fields[b"entry"], timestamp=3))
    except (KeyError, ValueError, TypeError, msgpack.UnpackException):
        # One that cannot be read must not hide the others, nor be hidden.
        return AuditEntry(position, int(position.partition("-")[0]), "", DAMAGED, "", None, None)
