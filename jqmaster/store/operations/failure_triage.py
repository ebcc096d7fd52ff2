"""Decisions of people about groups of failures."""

from collections.abc import Mapping
from typing import Final, Literal

import msgpack

from jqmaster.domain.jobs.triage import AssignedPerson, Merge, Resolution
from jqmaster.store import codec
from jqmaster.store.identity.audit import MAX_ENTRIES
from jqmaster.store.link.shard import Shard

TriagePart = Literal["assignment", "resolution", "merge"]
_FIELDS: Final[dict[TriagePart, str]] = {"assignment": "a", "resolution": "r", "merge": "m"}
_MERGE: Final = b"m:"
_UNREADABLE: Final = (ValueError, TypeError, IndexError, AttributeError, msgpack.UnpackException)


class FailureTriageStore:
    """The decisions of one shard; `HistoryStore.failure_groups` reads them. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._client = shard.client
        self._keys = shard.keys

    async def now_ms(self) -> int:
        """Return the time of the store."""
        return await self._shard.now_ms()

    async def put(
        self,
        group_id: str,
        part: TriagePart,
        decision: AssignedPerson | Resolution | Merge | None,
        audit_entry: bytes,
    ) -> bool:
        """Store a decision; None removes it. Return False if no group has this ID."""
        k = self._keys
        word, _ = await self._client.run(
            "triage_failure",
            (k.failure_groups, k.failure_triage, k.audit),
            (
                self._shard.now_arg,
                group_id,
                _FIELDS[part],
                encode_decision(decision) if decision else b"",
                audit_entry,
                MAX_ENTRIES,
            ),
        )
        return word != "unknown"


def encode_decision(decision: AssignedPerson | Resolution | Merge) -> bytes:
    if isinstance(decision, Merge):
        return codec.pack([decision.into, decision.who, decision.at_ms])
    if isinstance(decision, AssignedPerson):
        return codec.pack([decision.assignee, decision.who, decision.at_ms])
    return codec.pack([decision.who, decision.at_ms, decision.version, decision.known])


def decode_assignment(packed: bytes | None) -> AssignedPerson | None:
    """Return the decision, or None if there is none, or it cannot be read."""
    if packed is None:
        return None
    try:
        assignee, who, at_ms, *_ = msgpack.unpackb(packed)
        return AssignedPerson(str(assignee), str(who), int(at_ms))
    except _UNREADABLE:
        return None


def merges_in(triage: Mapping[bytes, bytes]) -> dict[str, str]:
    """Return, by ID of a group, the ID of the group into which it was merged. Decisions that cannot be read are left
    out."""
    found = {}
    for field, packed in triage.items():
        if field.startswith(_MERGE):
            try:
                found[field[len(_MERGE) :].decode()] = str(msgpack.unpackb(packed)[0])
            except _UNREADABLE:
                continue
    return found


def decode_resolution(packed: bytes | None) -> Resolution | None:
    """Return the decision, or None if there is none, or it cannot be read."""
    if packed is None:
        return None
    try:
        who, at_ms, version, known, *_ = msgpack.unpackb(packed)
        return Resolution(str(who), int(at_ms), str(version), tuple(map(str, known)))
    except _UNREADABLE:
        return None
