"""The masters of one store: who leads, who stands by, and how long silence may last."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

MAX_BEAT_S: Final = 1.0
# How long the answer to a heartbeat counts as current.
ANSWER_LIVES_S: Final = 1.5


class MasterRole(StrEnum):
    """The role of a master. The `SUB_LEADER` watches the leader and takes over from it. A `FOLLOWER` only serves
    requests, as all masters do."""

    LEADER = "leader"
    SUB_LEADER = "sub_leader"
    FOLLOWER = "follower"


@dataclass(frozen=True, slots=True)
class MasterRecord:
    """A master process, as it registered itself.

    * `url`: its address for other masters.
    * `listens_sharded`: whether it also receives messages that are published on only one node of a Cluster.
    * `delivers`: whether it delivers jobs to targets.
    * `knows_namespaces`: whether it serves namespaces besides the default one.
    * `stores`: the names of the stores in its configuration.
    * `duty_faults`: by duty, the fault of a side duty that does not stop the master.

    In masters of older releases, `listens_sharded`, `delivers` and `knows_namespaces` are false, and `stores` is empty.
    """

    id: str
    node_id: str
    pid: int
    url: str
    version: str
    started_at_ms: int
    listens_sharded: bool = False
    delivers: bool = False
    knows_namespaces: bool = False
    stores: tuple[str, ...] = ()
    duty_faults: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SeenMaster:
    """A registered master, with the store time of its last heartbeat."""

    record: MasterRecord
    last_seen_ms: int


@dataclass(frozen=True, slots=True)
class Pace:
    """The intervals at which masters send heartbeats and check one another. All are shares of the lifetime of the
    leader's lock."""

    ttl_s: float

    @property
    def beat_s(self) -> float:
        """Return the interval between two heartbeats. It is short enough to notice a changed lifetime of the lock in
        time."""
        return min(self.ttl_s / 5, MAX_BEAT_S)

    @property
    def look_s(self) -> float:
        """Return the interval between two checks of the leader."""
        return min(self.ttl_s / 10, MAX_BEAT_S)

    @property
    def suspect_after_s(self) -> float:
        """Return the silence after which the sub-leader asks the leader itself: two beats."""
        return self.ttl_s * 0.4

    @property
    def fresh_ms(self) -> int:
        """Return the silence after which a master counts as gone: three beats."""
        return round(self.ttl_s * 600)

    @property
    def hold_ms(self) -> int:
        """Return how long a demoted master leaves the lead to others."""
        return round(self.ttl_s * 1000)

    @property
    def head_start_s(self) -> float:
        """Return the head start of the sub-leader when a leader resigns."""
        return self.ttl_s / 50


def sub_leader(
    masters: Sequence[SeenMaster],
    leader_id: str | None,
    *,
    fresh_since_ms: int,
    demoted_id: str | None = None,
    order: Sequence[str] = (),
) -> str | None:
    """Return the ID of the master that takes over next. It is the master that has run longest, preferably on another
    node than the leader. A recently demoted master is not chosen. None if there is no leader, or no other master.

    `order`: the IDs of masters in the order in which they should lead. The first of them is chosen even if it is on
    the leader's node. The remaining masters are chosen in this order, not by how long they have run.
    """
    leader = next((m.record for m in masters if m.record.id == leader_id), None)
    others = [
        m.record
        for m in masters
        if m.record.id not in (leader_id, demoted_id) and m.last_seen_ms >= fresh_since_ms
    ]
    if leader_id is None or not others:
        return None
    # If the leader is not registered, its node is unknown, so the nodes of other masters do not matter.
    node_id = leader.node_id if leader else None
    ranks = {master_id: rank for rank, master_id in enumerate(order)}

    def key(master: MasterRecord) -> tuple[bool, bool, int, int, str]:
        rank = ranks.get(master.id, len(ranks))
        return rank > 0, master.node_id == node_id, rank, master.started_at_ms, master.id

    return min(others, key=key).id


def role_of(master_id: str, leader_id: str | None, sub_leader_id: str | None) -> MasterRole:
    if master_id == leader_id:
        return MasterRole.LEADER
    return MasterRole.SUB_LEADER if master_id == sub_leader_id else MasterRole.FOLLOWER
