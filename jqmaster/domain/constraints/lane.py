"""Lanes: jobs of one name with the same gates. A gate that blocks one job of a lane blocks the whole lane, so no job
waits behind a job with other gates."""

from collections.abc import Sequence
from hashlib import blake2b, sha1
from typing import NamedTuple

from jqmaster.domain.constraints.constraint import Gate
from jqmaster.domain.matching.requirement import name_of


class Lane(NamedTuple):
    """One lane. `queue`: the name of its jobs, with the labels that they require. `group` (16 hexadecimal digits) is
    the same for all lanes that differ only in their keyed gates.

    Gates are sorted by ID. Group and lane belong to one edition: after a change of constraints, all lanes are
    new. `base_id` is the ID of the lane in which the jobs of the group wait while their keyed gates are open.
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

    def with_keyed(self, keyed: Sequence[Gate]) -> "Lane":
        """Return the lane of the same group with these keyed gates, sorted by ID."""
        return Lane(self.queue, self.edition, self.group, self.shared, tuple(keyed), self.base_id)

    @property
    def id(self) -> bytes:
        """Return the ID of the lane, 8 bytes. Scripts derive the same ID from the group and the gates."""
        return _lane_id(self.group, self.keyed) if self.keyed else self.base_id


def unkeyed_lane(queue: str, edition: int, shared: tuple[Gate, ...]) -> Lane:
    """Return the lane of a group whose jobs pass no keyed gates; `shared` is sorted by ID."""
    # Join with NUL, which no part contains, so that different lists never give the same text.
    parts = (str(edition), queue, *[gate.id for gate in shared])
    group = blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()
    return Lane(queue, edition, group, shared, (), _lane_id(group, ()))


def _lane_id(group: str, keyed: Sequence[Gate]) -> bytes:
    # Use SHA-1, because scripts of the store compute this ID, too, and have no other hash.
    text = group + "".join([gate.id for gate in keyed])
    return sha1(text.encode(), usedforsecurity=False).digest()[:8]
