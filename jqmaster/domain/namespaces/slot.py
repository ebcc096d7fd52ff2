"""The slot of a namespace on a Cluster, and its moves between the nodes, which the engine carries out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

SlotMoveState = Literal["moving", "done", "failed", "aborted"]
# The final states of a slot's move, by the engine's words. All other words mean that the engine is moving the slot.
_ENDS: Final[dict[str, SlotMoveState]] = {"success": "done", "failed": "failed", "cancelled": "aborted"}


def state_of(engine_state: str) -> SlotMoveState:
    """Return the state that the engine's word stands for."""
    return _ENDS.get(engine_state, "moving")


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """A primary of a Cluster.

    * `address`: host and port.
    * `max_memory_bytes`: 0 if it has no limit.
    * `may_evict`: whether it deletes keys when its memory is full.
    """

    id: str
    address: str
    used_memory_bytes: int
    max_memory_bytes: int
    may_evict: bool


@dataclass(frozen=True, slots=True)
class SlotMove:
    """The newest move of a slot that the engine knows.

    * `source`, `target`: IDs of nodes.
    * `engine_state`: the engine's word for the state.
    * `reason`: why it failed, in the words of the engine.
    * `is_alone`: whether the source moves no other slots now.
    * `began_at_ms`, `ended_at_ms`: by the clock of the node, to the second. None: it is under way.
    """

    source: str
    target: str
    state: SlotMoveState
    engine_state: str
    reason: str
    is_alone: bool
    began_at_ms: int
    ended_at_ms: int | None

    @property
    def is_under_way(self) -> bool:
        return self.state == "moving"


@dataclass(frozen=True, slots=True)
class SlotPlace:
    """Where a slot is.

    * `node_id`: the node that has the slot. Empty: no node that answers says that it has the slot.
    * `nodes`: the primaries that answer, by address.
    * `move`: the newest move of the slot. None: the engine knows none.
    * `fault`: why the engine cannot move the slot; empty if it can.
    """

    slot: int
    node_id: str
    nodes: Sequence[ClusterNode]
    move: SlotMove | None
    fault: str

    def node(self, named: str) -> ClusterNode | None:
        """Return the node with this address or ID."""
        return next((one for one in self.nodes if named in (one.id, one.address)), None)

    def address_of(self, node_id: str) -> str:
        """Return the address of a node. If the node does not answer, return its ID."""
        node = self.node(node_id)
        return node.address if node else node_id
