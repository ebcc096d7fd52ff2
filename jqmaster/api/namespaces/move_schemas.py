"""HTTP models of moves of namespaces between stores."""

from pydantic import Field

from jqmaster.api.namespaces.schemas import NamespaceName, NamespaceView, StoreName
from jqmaster.api.schemas import Answer, Count, Request
from jqmaster.domain.namespaces.move import MoveStep


class MoveRequest(Request):
    """Where a namespace is to be moved."""

    store: StoreName = Field(description="Configured store to which the namespace is moved.")
    dry_run: bool = Field(False, description="true: only check and measure it, and change nothing.")


class MovePlanView(Answer):
    """The size and the cost of a move that has not begun."""

    name: NamespaceName
    store: StoreName = Field(description="Store to which the namespace would be moved.")
    dry_run: bool
    keys: Count = Field(description="Keys to copy.")
    bytes: Count = Field(description="Memory that they take, by a sample.")
    stop_s: float = Field(
        ge=0, description="How long the namespace is expected to answer 503 `namespace_moving`."
    )
    keeps_leases: bool = Field(
        description="Whether running jobs keep their leases: the expected stop is shorter than the longest lease. "
        "Otherwise they may run again afterwards."
    )


class MoveView(Answer):
    """The newest move of a namespace to another store."""

    source: StoreName
    target: StoreName
    step: MoveStep = Field(
        description="announced: leases are prolonged. closing: masters stop serving the namespace. copying, checking: "
        "its data are copied and compared. returning: the move failed, and the namespace is opened again where it was. "
        "done, failed, aborted: the end."
    )
    keys: Count = Field(description="Keys to copy, as counted before.")
    bytes: Count = Field(description="Memory that they took, by a sample.")
    copied_keys: Count
    compared_keys: Count
    stop_s: float = Field(ge=0, description="The stop that was announced.")
    reason: str = Field(description="Why the move failed or was aborted. Empty otherwise.")
    by: str = Field(description="Caller that ordered it.")
    aborted_by: str = Field(description="Caller that aborted it. Empty: nobody.")
    mover: str = Field(description="ID of the master that works on it. Empty: none.")
    began_at: str
    ended_at: str | None = Field(description="Null: it is under way.")


class NamespaceDetails(NamespaceView):
    """A namespace, with its newest move."""

    move: MoveView | None = Field(
        description="Null: it was never moved, or `move_fault` tells why it is not known."
    )
    move_fault: str = Field(
        description="Why the record of its move cannot be read, or that it is marked as being moved although no move "
        "is under way; and what to do. Empty: nothing is wrong."
    )
