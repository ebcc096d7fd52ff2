"""HTTP models of moves of namespaces between stores."""

from pydantic import Field

from jqmaster.api.namespaces.schemas import NamespaceName, NamespaceView, StoreName
from jqmaster.api.schemas import Answer, Count, Request
from jqmaster.domain.namespaces.move import MoveStep


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
        ge=0, description="How long the namespace is expected to answer 503 `namespace_moving`."
    )
    keeps_leases: bool = Field(
        description=(
            "Whether running jobs keep their leases, because the expected stop is shorter than the "
            "longest lease. Otherwise, they may run again afterwards."
        )
    )


class MoveView(Answer):
    """The newest move of a namespace to another store."""

    source: StoreName
    target: StoreName
    step: MoveStep = Field(
        description=(
            "announced: leases are prolonged. closing: masters stop serving the namespace. copying: "
            "its data are copied. checking: the copy is compared. returning: the move failed, and "
            "the namespace is opened again in its previous store. done, failed, aborted: the move "
            "has ended."
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
            "Null: the namespace was never moved, or the move is not known; `move_fault` then says why."
        )
    )
    move_fault: str = Field(
        description=(
            "A fault of the move, and its remedy: the record cannot be read, or the namespace is "
            "marked as being moved although no move is in progress. Empty: there is no fault."
        )
    )
