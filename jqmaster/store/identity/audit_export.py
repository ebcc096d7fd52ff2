"""The position of the audit log's export, and the entries after it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from jqmaster.store.identity.audit import LOGS, AuditEntry, Log, decode_entry, position_parts
from jqmaster.store.link.scripts import Arg
from jqmaster.store.link.shard import Shard

_START: Final = ("0-0", 0)


@dataclass(frozen=True, slots=True)
class Numbered:
    """An entry and its number in its log. The numbers of a log grow by one, with gaps where entries were removed before
    they were read."""

    number: int
    position: str
    entry: AuditEntry


class AuditExportStore:
    """The export of one shard's audit log. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard) -> None:
        self._client = shard.client
        self._keys = shard.keys
        self._logs: Mapping[Log, str] = {"changes": shard.keys.audit, "access": shard.keys.access}

    async def load(self) -> dict[Log, tuple[str, int]]:
        """Return the position and number of the newest exported entry of each log."""
        stored = await self._client.command("HMGET", self._keys.audit_export, *LOGS)
        found = {}
        for log, raw in zip(LOGS, stored, strict=True):
            position, _, number = (raw or b"").decode().partition(" ")
            found[log] = (position, int(number)) if number else _START
        return found

    async def read(self, done: Mapping[Log, tuple[str, int]], *, limit: int) -> list[Numbered]:
        """Return the next entries of both logs, sorted by time, at most `limit` of each log."""
        positions: list[Arg] = [part for log in LOGS for part in done[log]]
        _, data = await self._client.run(
            "read_audit_logs", tuple(self._logs[log] for log in LOGS), (limit, *positions)
        )
        found: list[Numbered] = []
        bounds = []
        for log, (first, entries) in zip(LOGS, data[0], strict=True):
            numbered = [
                Numbered(first + n, raw.decode(), decode_entry(log, raw.decode(), fields))
                for n, (raw, fields) in enumerate(entries)
            ]
            found += numbered
            if len(numbered) == limit:
                bounds.append(position_parts(numbered[-1].position))
        # If one log has further entries, hold back all later entries of the other log, so that the export stays sorted
        # by time.
        found = [one for one in found if all(position_parts(one.position) <= bound for bound in bounds)]
        return sorted(found, key=lambda one: position_parts(one.position))

    async def save(self, epoch: str, exported: Sequence[Numbered]) -> None:
        """Record that these entries were exported."""
        newest = {one.entry.log: f"{one.position} {one.number}" for one in exported}
        args: list[Arg] = [part for pair in newest.items() for part in pair]
        await self._client.run(
            "note_audit_export", (self._keys.epoch, self._keys.audit_export), (epoch, *args)
        )
