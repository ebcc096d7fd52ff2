"""Constraints in the store: all of them at one instant, and single changes."""

import logging
from dataclasses import dataclass
from typing import Any, Final

from jqmaster.domain.constraints.constraint import Constraint
from jqmaster.domain.constraints.constraint_set import ConstraintSet
from jqmaster.domain.constraints.parts import parts_of
from jqmaster.errors import ConflictError, DamagedError
from jqmaster.store import codec
from jqmaster.store.constraints.documents import (
    StoredConstraint,
    decode_constraint,
    encode_constraint,
    limit_fields,
    override_fields,
)
from jqmaster.store.identity.audit import MAX_ENTRIES
from jqmaster.store.link.scripts import Arg
from jqmaster.store.link.shard import Shard
from jqmaster.store.link.wake import ConstraintsChanged

logger = logging.getLogger(__name__)

MAX_CONSTRAINTS: Final = 1000


@dataclass(frozen=True, slots=True)
class ConstraintSnapshot:
    """All constraints at one instant. `version` grows with every change. The `edition` of `constraint_set` grows only
    with changes after which jobs are matched again. `settled_edition`: the edition in force."""

    version: int
    settled_edition: int
    stored: tuple[StoredConstraint, ...]
    constraint_set: ConstraintSet

    @property
    def editions(self) -> tuple[int, int, int]:
        """Return the version, the edition, and the edition in force."""
        return self.version, self.constraint_set.edition, self.settled_edition

    @property
    def first_end_ms(self) -> int | None:
        """Return when the first constraint expires. None: no constraint expires."""
        ends = (s.constraint.expires_at_ms for s in self.stored)
        return min((at_ms for at_ms in ends if at_ms is not None), default=None)

    def named(self, name: str) -> StoredConstraint | None:
        return next((s for s in self.stored if s.constraint.name == name), None)

    def of_gate(self, gate: str) -> Constraint | None:
        """Return the constraint that a gate belongs to."""
        return next((s.constraint for s in self.stored if gate.startswith(s.constraint.cid)), None)


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one constraint, which was read with `expected_etag` (empty: it did not exist).

    `new` None removes it. `is_rematched`: every unfinished job has to be matched again. `audit_entry` is a packed map.
    """

    name: str
    expected_etag: str
    new: StoredConstraint | None
    old: Constraint | None
    is_rematched: bool
    audit_entry: bytes


class ConstraintStore:
    """Constraints of one shard. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._client = shard.client
        self._keys = shard.keys
        # By name: the document of a constraint, and the constraint decoded from it. A change of one constraint reloads
        # all of them, and decoding a document takes a hundred times as long as comparing it.
        self._decoded: dict[str, tuple[bytes, StoredConstraint]] = {}

    async def versions(self) -> tuple[int, int, int]:
        """Return the version, the edition, and the edition in force."""
        version, edition, settled = await self._client.command(
            "HMGET", self._keys.rules, "version", "edition", "settled"
        )
        return int(version or 0), int(edition or 0), int(settled or 0)

    async def load(self) -> ConstraintSnapshot:
        """Return the present constraints without unreadable ones, which fsck reports. Jobs that an unreadable
        constraint matched before still have to pass its gates.
        """
        _, (version, edition, settled, flat) = await self._client.run(
            "load_constraints", (self._keys.rules, self._keys.constraints), ()
        )
        known, self._decoded = self._decoded, {}
        for n in range(0, len(flat), 2):
            name, raw = flat[n].decode(), flat[n + 1]
            kept = known.get(name)
            try:
                one = kept[1] if kept and kept[0] == raw else decode_constraint(name, raw)
            except DamagedError as exc:
                logger.error("%s; it applies to no new job", exc.detail)
            else:
                self._decoded[name] = raw, one
        stored = sorted((one for _, one in self._decoded.values()), key=lambda s: s.constraint.name)
        return ConstraintSnapshot(
            version, settled, tuple(stored), ConstraintSet(edition, [s.constraint for s in stored])
        )

    async def change(self, change: Change) -> bool:
        """Make the change. Return False if somebody else changed the constraint since it was read. Raise ConflictError
        if there are already MAX_CONSTRAINTS."""
        k, new = self._keys, change.new
        cid = new.constraint.cid if new else ""
        old_cid = (
            change.old.cid
            if change.old and (new is None or change.old.cid != cid or not new.constraint.enabled)
            else ""
        )
        limits: list[Arg] = []
        overrides: list[Arg] = []
        parts: list[list[Any]] = []
        if new and new.constraint.enabled:
            limits, overrides = limit_fields(new.constraint), override_fields(new.constraint)
            others = parts_of(new.constraint)[1:]
            parts = [[one.cid, limit_fields(one), override_fields(one)] for one in others]
        kept = {part[0] for part in parts}
        old_parts = parts_of(change.old)[1:] if change.old else ()
        gone = [one.cid for one in old_parts if one.cid not in kept]
        word, _ = await self._client.run(
            "put_constraint",
            (k.rules, k.constraints, k.limits(cid), k.limits(old_cid), k.overrides(cid), k.overrides(old_cid),
             k.reopened, k.counted, k.audit),
            (self._shard.now_arg, change.name, change.expected_etag, encode_constraint(new) if new else b"", cid,
             old_cid, int(change.is_rematched), change.audit_entry, MAX_ENTRIES, MAX_CONSTRAINTS, k.wake_channel,
             codec.pack(limits), codec.pack(overrides), k.tag, codec.pack(parts), codec.pack(gone)),
        )  # fmt: skip
        if word == "full":
            raise ConflictError(
                f"there are {MAX_CONSTRAINTS} constraints; no more can be made", code="too_many_constraints"
            )
        self._shard.leader.wake(ConstraintsChanged())
        return word == "ok"
