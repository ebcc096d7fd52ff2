"""Lanes: jobs of one name with the same gates. What blocks one of them blocks them all, and no job of another lane."""

from collections.abc import Sequence
from hashlib import blake2b, sha1
from typing import NamedTuple

from jqmaster.domain.constraint import MAX_KNOWN_LANES, Gate, Ruleset
from jqmaster.domain.matcher import JobFields


class Lane(NamedTuple):
    """`group` (16 hexadecimal digits) is the same for all lanes that differ in their keyed gates only.

    Gates are sorted by ID. Group and lane are of one edition: after a change of constraints all lanes are new.
    `base_id` is the lane of the group in which its jobs wait while their keyed gates are open.
    """

    name: str
    edition: int
    group: str
    shared: tuple[Gate, ...]
    keyed: tuple[Gate, ...]
    base_id: bytes

    @property
    def id(self) -> bytes:
        """8 bytes; scripts make the same of group and gates."""
        return _lane_id(self.group, self.keyed) if self.keyed else self.base_id


def lane_of_name(ruleset: Ruleset, name: str) -> Lane | None:
    """The lane of all jobs of that name; None where other fields of a job decide."""
    plan = ruleset.plan(name)
    if plan.sole_lane is None and plan.is_decided:
        shared = sum(step.bit for step in plan.steps)
        plan.sole_lane = _unkeyed_lane(ruleset, name, shared)
    return plan.sole_lane


def lane_of(ruleset: Ruleset, fields: JobFields) -> Lane:
    """The lane that the job waits in. The caller who has no fields yet asks `lane_of_name` first."""
    name = fields.name
    lane = lane_of_name(ruleset, name)
    if lane is not None:
        return lane
    shared, keyed = ruleset.scan(fields)
    lane = ruleset.lanes.get((name, shared))
    if lane is None:
        if len(ruleset.lanes) >= MAX_KNOWN_LANES:
            ruleset.lanes.clear()
        lane = ruleset.lanes[name, shared] = _unkeyed_lane(ruleset, name, shared)
    if not keyed:
        return lane
    return Lane(name, lane.edition, lane.group, lane.shared, tuple(keyed), lane.base_id)


def _unkeyed_lane(ruleset: Ruleset, name: str, shared: int) -> Lane:
    gates = ruleset.shared_gates(shared)
    # No part has a NUL, so that no two lists of parts are joined alike.
    parts = (str(ruleset.edition), name, *[gate.id for gate in gates])
    group = blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()
    return Lane(name, ruleset.edition, group, gates, (), _lane_id(group, ()))


def _lane_id(group: str, keyed: Sequence[Gate]) -> bytes:
    # SHA-1, because scripts of the store make it too, and know no other.
    text = group + "".join([gate.id for gate in keyed])
    return sha1(text.encode(), usedforsecurity=False).digest()[:8]
