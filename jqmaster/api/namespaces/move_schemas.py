"""HTTP models of moves of namespaces: to another store, and to another node of a Cluster."""

from pydantic import Field

from jqmaster.api.namespaces.schemas import NamespaceName, NamespaceView, StoreName
from jqmaster.api.schemas import Answer, Count, Request
from jqmaster.domain.namespaces.move import MoveStep
from jqmaster.domain.namespaces.slot import SlotMoveState


class MoveRequest(Request):
    """A request to move a namespace to another store."""

    store: StoreName = Field(description="Configured store to which the namespace is moved.")
    dry_run: bool = Field(False, description="true: only check and measure the move, and change nothing.")


class MovePlanView(Answer):
    """The size and the cost of a move that has not begun."""

    name: NamespaceName
    store: StoreName = Field(description="Store to which the namespace would be moved.")
    dry_run: bool
    keys: Count = Field(description="Keys to copy.")
    bytes: Count = Field(description="Memory that the keys take, estimated from a sample.")
    stop_s: float = Field(
        ge=0, description="Expected time for which the namespace answers 503 `namespace_moving`."
    )
    keeps_leases: bool = Field(
        description=(
            "True: running jobs keep their leases, because the expected stop is shorter than the longest "
            "lease. False: running jobs may run again after the move."
        )
    )


class MoveView(Answer):
    """The newest move of a namespace to another store."""

    source: StoreName
    target: StoreName
    step: MoveStep = Field(
        description=(
            "announced: leases are prolonged. closing: masters stop serving the namespace. copying: its "
            "data are copied. checking: the copy is compared. returning: the move failed, and masters open "
            "the namespace again in its previous store. done, failed, aborted: the move has ended."
        )
    )
    keys: Count = Field(description="Keys to copy, as counted before the move.")
    bytes: Count = Field(description="Memory that the keys took, estimated from a sample.")
    copied_keys: Count
    compared_keys: Count
    stop_s: float = Field(ge=0, description="Announced duration of the stop, in seconds.")
    reason: str = Field(description="Why the move failed or was aborted. Empty otherwise.")
    by: str = Field(description="Caller that started the move.")
    aborted_by: str = Field(description="Caller that aborted the move. Empty: nobody.")
    mover: str = Field(description="ID of the master that carries out the move. Empty: none.")
    began_at: str
    ended_at: str | None = Field(description="Null: the move is in progress.")


class NamespaceDetails(NamespaceView):
    """A namespace, with its newest move."""

    move: MoveView | None = Field(
        description=(
            "Null: the namespace was never moved, or the move is unknown. If it is unknown, `move_fault` "
            "says why."
        )
    )
    move_fault: str = Field(
        description=(
            "A fault of the move, and its remedy. The record cannot be read, or the namespace is marked as "
            "being moved although no move is in progress. Empty: there is no fault."
        )
    )


class SlotMoveRequest(Request):
    """A request to move the slot of a namespace to another node of its Cluster."""

    node: str = Field(
        min_length=1,
        max_length=300,
        description="Primary to which the slot is moved: `host:port` or ID, as `nodes` lists them.",
    )
    dry_run: bool = Field(False, description="true: only check and measure the move, and change nothing.")


class SlotMovePlanView(Answer):
    """A move of a slot that has not begun. Masters serve the namespace during the move, so there is no stop."""

    name: NamespaceName
    store: StoreName
    slot: Count
    source: str = Field(description="Address of the node that has the slot.")
    target: str = Field(description="Address of the node to which the slot would be moved.")
    dry_run: bool
    keys: Count = Field(description="Keys of the namespace.")
    bytes: Count = Field(description="Memory that the keys take, estimated from a sample.")


class ClusterNodeView(Answer):
    """A primary of a Cluster that answers."""

    id: str
    address: str
    has_slot: bool = Field(description="Whether the node has the slot of the namespace.")
    used_memory_bytes: Count
    max_memory_bytes: int | None = Field(description="Null: the node has no limit.")


class SlotMoveView(Answer):
    """The newest move of a slot that the engine of the store remembers. A node that restarts forgets its moves."""

    source: str = Field(description="Address of the node; its ID if the node does not answer.")
    target: str = Field(description="Address of the node; its ID if the node does not answer.")
    state: SlotMoveState = Field(
        description=(
            "moving: the engine copies the slot, and the old node still serves it. done: the new node has "
            "the slot. failed, aborted: the move has ended, and the slot stays at its old node."
        )
    )
    engine_state: str = Field(description="The engine's own word for the state.")
    reason: str = Field(description="Why the move failed, as the engine says. Empty otherwise.")
    began_at: str
    ended_at: str | None = Field(description="Null: the move is in progress.")


class SlotView(Answer):
    """The slot of a namespace on a Cluster, and the node that has it."""

    name: NamespaceName
    store: StoreName
    slot: Count
    node: str | None = Field(
        description="Address of the node that has the slot. Null: no answering node has the slot."
    )
    nodes: list[ClusterNodeView] = Field(description="Primaries that answer, by address.")
    move: SlotMoveView | None = Field(description="Null: the engine remembers no move.")
    fault: str = Field(
        description=(
            "Reason why the engine cannot move the slot, and the remedy. The store's user lacks the right, "
            "or the engine is older than Valkey 9. Empty: the engine can move the slot."
        )
    )
