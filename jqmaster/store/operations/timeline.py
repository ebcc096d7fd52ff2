"""The timeline in the store. The leader writes it. Requests read it, and add people's acknowledgements."""

import logging
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Final

import msgpack

from jqmaster.domain.operations.incidents import position_of
from jqmaster.domain.operations.timeline import (
    KnownState,
    LostWorker,
    TimelineEntry,
    TimelineKind,
)
from jqmaster.store import codec
from jqmaster.store.identity.audit import MAX_ENTRIES
from jqmaster.store.link.shard import Shard

logger = logging.getLogger(__name__)

# The approximate number of entries that are kept, and the approximate number of acknowledgements.
MAX_TIMELINE: Final = 2_000
_OPTIONAL: Final = tuple(
    one.name for one in fields(TimelineEntry) if one.name not in ("kind", "at_ms", "subject", "id")
)
_NUMBERS: Final = frozenset({"since_ms", "count"})
_UNREADABLE: Final = (
    KeyError, ValueError, TypeError, AttributeError, OverflowError, msgpack.UnpackException,
)  # fmt: skip


class TimelineStore:
    """The timeline of one shard. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._client = shard.client
        self._keys = shard.keys

    async def known(self) -> KnownState | None:
        """Return the stored known state, or None if nothing was written yet or it cannot be read."""
        packed = await self._client.command("GET", self._keys.timeline_marks)
        return _known(packed) if packed else None

    async def note(self, epoch: str, known: KnownState, entries: Sequence[TimelineEntry]) -> None:
        """Add entries, and replace the known state, in one step. Raise StaleEpochError."""
        k = self._keys
        packed = codec.pack(
            {
                "leader": list(known.leader),
                "versions": sorted(known.versions),
                "lost": {worker_id: [one.label, one.jobs] for worker_id, one in known.lost.items()},
                "away_until_ms": known.away_until_ms,
                "old": [known.old_since_ms, known.old_name],
            }
        )
        await self._client.run(
            "note_timeline",
            (k.epoch, k.timeline, k.timeline_marks),
            (epoch, MAX_TIMELINE, packed, *map(_encode, entries)),
        )

    async def entries(self) -> list[TimelineEntry]:
        """Return all kept entries, including acknowledgements by people, the oldest first. Entries of a newer release
        and damaged entries are left out."""
        # The stream may have more than MAX_TIMELINE entries, by at most one node of the stream.
        k = self._keys
        happened, acknowledged = await self._client.pipeline(
            [
                ("XREVRANGE", key, "+", "-", "COUNT", 2 * MAX_TIMELINE)
                for key in (k.timeline, k.timeline_acknowledged)
            ],
            skip_damaged=True,
        )
        read = (
            _decode(position.decode(), flat)
            for found in (happened, acknowledged)
            for position, flat in reversed(found or ())
        )
        entries = [entry for entry in read if entry is not None]
        return sorted(entries, key=lambda entry: position_of(entry.id))

    async def acknowledge(self, entry_id: str, entry: TimelineEntry, audit_entry: bytes) -> bool:
        """Record that somebody is handling the incident of this entry. Return False if the entry is no longer kept."""
        k = self._keys
        word, _ = await self._client.run(
            "acknowledge_incident",
            (k.timeline, k.timeline_acknowledged, k.audit),
            (self._shard.now_arg, entry_id, _encode(entry), MAX_TIMELINE, audit_entry, MAX_ENTRIES),
        )
        return word == "ok"


def _encode(entry: TimelineEntry) -> bytes:
    document: dict[str, Any] = {"kind": str(entry.kind), "at_ms": entry.at_ms, "subject": entry.subject}
    document |= {name: value for name in _OPTIONAL if (value := getattr(entry, name))}
    return codec.pack(document)


def _decode(position: str, flat: Sequence[bytes]) -> TimelineEntry | None:
    try:
        document = msgpack.unpackb(dict(zip(flat[::2], flat[1::2], strict=True))[b"entry"])
        known = {
            name: int(document[name]) if name in _NUMBERS else str(document[name])
            for name in _OPTIONAL
            if name in document
        }
        return TimelineEntry(
            TimelineKind(document["kind"]),
            int(document["at_ms"]),
            str(document["subject"]),
            id=position,
            **known,  # type: ignore[arg-type]  # by `_NUMBERS`
        )
    except _UNREADABLE:
        return None


def _known(packed: bytes) -> KnownState | None:
    try:
        document = msgpack.unpackb(packed)
        leader_id, label = document["leader"]
        old_since_ms, old_name = document["old"]
        lost = {str(one): LostWorker(str(name), int(jobs)) for one, (name, jobs) in document["lost"].items()}
        return KnownState(
            (str(leader_id), str(label)),
            frozenset(map(str, document["versions"])),
            lost,
            int(document["away_until_ms"]),
            int(old_since_ms),
            str(old_name),
        )
    except _UNREADABLE:
        logger.warning("the marks of the timeline cannot be read; they begin anew")
        return None
