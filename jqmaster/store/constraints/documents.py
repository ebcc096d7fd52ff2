"""The forms of a constraint in the store: its document, and the limits that scripts read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgpack

from jqmaster.domain.constraints.constraint import (
    ConditionalOverride,
    Constraint,
    GateLimits,
    Mode,
    Override,
    gate_id,
)
from jqmaster.domain.constraints.limit_kinds import KINDS, PER_VALUE
from jqmaster.domain.constraints.turns import ProportionalTurns
from jqmaster.domain.matching.key_value import key_value
from jqmaster.domain.matching.matcher import parse_matcher
from jqmaster.domain.matching.paths import parse_path
from jqmaster.errors import DamagedError
from jqmaster.store import codec
from jqmaster.store.link.scripts import Arg
from jqmaster.store.named_documents import ETAG_LENGTH

# Prefix of the entries for shares at fair gates, among the overrides for scripts.
SHARE_PREFIX: Final = "weight:"


@dataclass(frozen=True, slots=True)
class StoredConstraint:
    """A stored constraint. `etag` changes with every change."""

    constraint: Constraint
    etag: str
    created_at_ms: int
    changed_at_ms: int
    # None if a release without this field stored the constraint.
    created_by: str | None = None


def encode_constraint(stored: StoredConstraint) -> bytes:
    """Encode a constraint as it is stored."""
    c = stored.constraint
    document: dict[str, Any] = {
        "cid": c.cid,
        "enabled": c.enabled,
        "mode": str(c.mode),
        "matcher": c.matcher.document,
        "key": None if c.key is None else str(c.key),
        "overrides": [[o.value, *_packed(o.limits)] for o in c.overrides],
        "reason": c.reason,
        "expires_at_ms": c.expires_at_ms,
        "created_by": stored.created_by,
        "created_at_ms": stored.created_at_ms,
        "changed_at_ms": stored.changed_at_ms,
    }
    for kind in KINDS:
        document |= kind.stored(getattr(c, kind.name))
    if c.conditions:
        document["conditions"] = [[one.matcher.document, *_packed(one.limits)] for one in c.conditions]
    return stored.etag.encode() + codec.pack(document)


def decode_constraint(name: str, raw: bytes) -> StoredConstraint:
    """Decode a stored constraint. Raise DamagedError."""
    try:
        document: dict[str, Any] = msgpack.unpackb(raw[ETAG_LENGTH:])
        key = document["key"]
        constraint = Constraint(
            name=name,
            cid=document["cid"],
            matcher=parse_matcher(document["matcher"]),
            enabled=document["enabled"],
            mode=Mode(document["mode"]),
            key=None if key is None else parse_path(key),
            overrides=tuple(Override(value, _unpacked(limits)) for value, *limits in document["overrides"]),
            # These fields are missing in documents of older releases.
            conditions=tuple(
                ConditionalOverride(parse_matcher(matcher), _unpacked(limits))
                for matcher, *limits in document.get("conditions", ())
            ),
            reason=document.get("reason", ""),
            expires_at_ms=document.get("expires_at_ms"),
            **{kind.name: kind.restored(document) for kind in KINDS},
        )
        return StoredConstraint(
            constraint,
            raw[:ETAG_LENGTH].decode(),
            document["created_at_ms"],
            document["changed_at_ms"],
            document.get("created_by"),
        )
    except (KeyError, ValueError, TypeError, AttributeError, msgpack.UnpackException) as exc:
        raise DamagedError(f"constraint {name}: its document cannot be read") from exc


def limit_fields(constraint: Constraint) -> list[Arg]:
    """Return the limits for scripts: a list that alternates names and values."""
    counted = constraint.counted
    fields: dict[str, Arg | None] = {"mode": str(constraint.mode)}
    for kind in KINDS:
        fields |= kind.script_fields(getattr(constraint, kind.name))
    fields |= {
        "has_overrides": int(bool(constraint.overrides)),
        "has_conditions": 1 if constraint.conditions else None,
        "tracks_slots": int(counted.slots),
        "tracks_starts": int(counted.starts),
        # Scripts read the unit only when they settle an attempt that reports its usage.
        "unit": constraint.weight.unit if constraint.weight else None,
    }
    return [part for name, value in fields.items() if value is not None for part in (name, str(value))]


def override_fields(constraint: Constraint) -> list[Arg]:
    """Return the overrides for scripts: a list that alternates IDs and limits. An ID is that of a gate or of a
    condition.

    The shares of key values follow, because scripts read them from the same hash.
    """
    fields: list[Arg] = []
    for override in constraint.overrides:
        fields += (gate_id(constraint.cid, key_value(override.value)), _text(override.limits))
    for condition in constraint.conditions:
        fields += (condition.id, _text(condition.limits))
    if isinstance(constraint.fair, ProportionalTurns):
        for one in constraint.fair.shares:
            fields += (SHARE_PREFIX + gate_id(constraint.cid, key_value(one.value)), str(one.share))
    return fields


def _text(limits: GateLimits) -> str:
    parts = [part for kind in PER_VALUE for part in kind.script_fields(getattr(limits, kind.name)).values()]
    return ",".join("" if part is None else str(part) for part in parts)


def _packed(limits: GateLimits) -> list[Any]:
    return [kind.pack(getattr(limits, kind.name)) for kind in PER_VALUE]


def _unpacked(limits: Sequence[Any]) -> GateLimits:
    if len(limits) > len(PER_VALUE):
        raise ValueError("an override has limits of a later release")
    parts = zip(PER_VALUE, limits, strict=False)
    return GateLimits(**{kind.name: kind.unpack(part) for kind, part in parts})
