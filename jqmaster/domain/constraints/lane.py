"""Lanes: jobs of one name with the same gates. A gate that blocks one blocks them all, but no job of another lane."""

from collections.abc import Sequence
from hashlib import blake2b, sha1
from typing import NamedTuple

from jqmaster.domain.constraints.constraint import Gate
from jqmaster.domain.matching.requirement import name_of


class Lane(NamedTuple):
    """`queue` is the name of its jobs, with the labels that they ask for. `group` (16 hexadecimal digits) is the same
    for all lanes that differ in their keyed gates only.

    Gates are sorted by ID. Group and lane are of one edition: after a change of constraints all lanes are new.
    `base_id` is the lane of the group in which its jobs wait while their keyed gates are open.
    """

    queue: str
    edition: int
    group: str
    shared: tuple[Gate, ...]
    keyed: tuple[Gate, ...]
    base_id: bytes

    @property
    def name(self) -> str:
        return name_of(self.queue)

    @property
    def id(self) -> bytes:
        """8 bytes; scripts make the same of group and gates."""
        return _lane_id(self.group, self.keyed) if self.keyed else self.base_id


def unkeyed_lane(queue: str, edition: int, shared: tuple[Gate, ...]) -> Lane:
    """Return the lane of a group whose jobs pass no keyed gates; `shared` is sorted by ID."""
    # No part has a NUL, so that no two lists of parts are joined alike.
    parts = (str(edition), queue, *[gate.id for gate in shared])
    group = blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()
    return Lane(queue, edition, group, shared, (), _lane_id(group, ()))


def _lane_id(group: str, keyed: Sequence[Gate]) -> bytes:
    # SHA-1, because scripts of the store make it too, and know no other.
    text = group + "".join([gate.id for gate in keyed])
    return sha1(text.encode(), usedforsecurity=False).digest()[:8]
