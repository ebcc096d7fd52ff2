"""Moves the slot of a namespace to another node of its Cluster.

The engine itself moves the data while masters serve them. It keeps the record of the move, and ends the move if a node
fails. So no master has to carry out the move."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from jqmaster.domain.namespaces.move import MoveSize, fits
from jqmaster.domain.namespaces.namespace import Namespace
from jqmaster.domain.namespaces.slot import ClusterNode, SlotPlace
from jqmaster.errors import ConflictError, FieldError
from jqmaster.service.namespaces.documents import refusal
from jqmaster.service.namespaces.places import Places
from jqmaster.store.identity.audit import AuditStore, encode_entry
from jqmaster.store.namespaces.copying import measured
from jqmaster.store.namespaces.slots import SlotStore


@dataclass(frozen=True, slots=True)
class SlotMovePlan:
    """A move of a slot that has been checked but not begun."""

    namespace: Namespace
    place: SlotPlace
    target: ClusterNode
    size: MoveSize


class SlotMoves:
    """Shows where slots are, and begins and aborts moves of slots. `namespace`: returns the entry of a namespace, or
    raises NotFoundError. Methods raise what the stores raise, and ConflictError for a namespace that is not on a
    Cluster."""

    def __init__(
        self, namespace: Callable[[str], Awaitable[Namespace]], places: Places, audit: AuditStore
    ) -> None:
        self._namespace = namespace
        self._places = places
        self._audit = audit

    async def place(self, name: str) -> tuple[Namespace, SlotPlace]:
        """Return a namespace with the place of its slot and the newest move of the slot."""
        namespace = await self._namespace(name)
        return namespace, await (await self._slot_of(namespace)).look()

    async def plan(self, name: str, node: str) -> SlotMovePlan:
        """Check whether the slot can be moved to `node` (its address or ID), and measure the data. Change nothing.
        Raise InvalidError if the node cannot be the target, and ConflictError, which says what to do first."""
        namespace = await self._namespace(name)
        slot = await self._slot_of(namespace)
        place = await slot.look()
        if (target := place.node(node)) is None:
            known = ", ".join(one.address for one in place.nodes)
            raise refusal(("node",), f"is not a primary of the Cluster that answers; these are: {known}")
        if target.id == place.node_id:
            raise refusal(("node",), f"already has slot {place.slot} of the namespace")
        if namespace.is_moving or (place.move and place.move.is_under_way):
            raise ConflictError(f"namespace {name} is already being moved", code="move_under_way")
        if place.fault:
            raise _refused(place.fault)
        if not place.node_id:
            raise _refused(f"no node has slot {place.slot} now: see CLUSTER SHARDS")
        if target.may_evict:
            raise _refused(
                f"node {target.address} would delete jobs when it is full: set its maxmemory-policy to noeviction"
            )
        size = await measured(await self._places.shard_of(namespace))
        if not fits(size, target.used_memory_bytes, target.max_memory_bytes):
            raise _refused(
                f"node {target.address} has too little memory: the namespace takes about {size.bytes >> 20} MiB; raise "
                "its maxmemory, or choose another node"
            )
        return SlotMovePlan(namespace, place, target, size)

    async def begin(self, name: str, node: str, who: str) -> None:
        """Let the engine move the slot to a node. Raise what `plan` raises."""
        plan = await self.plan(name, node)
        await self._record(
            who,
            "namespace.move_slot",
            name,
            before={"node": plan.place.address_of(plan.place.node_id)},
            after={"node": plan.target.address, "slot": plan.place.slot},
        )
        await (await self._slot_of(plan.namespace)).begin(plan.place.node_id, plan.target.id)

    async def abort(self, name: str, who: str) -> None:
        """Let the engine cancel the move of the slot. The slot then stays at its node. The engine can only cancel all
        moves away from a node together, so raise ConflictError while other slots are also being moved away."""
        namespace, place = await self.place(name)
        move = place.move
        if move is None or not move.is_under_way:
            raise ConflictError(f"the slot of namespace {name} is not being moved", code="not_moving")
        if not move.is_alone:
            raise _refused(
                "the node also moves other slots, and the engine can only cancel all moves together: wait until the "
                "other slots have arrived, or run CLUSTER CANCELSLOTMIGRATIONS at the node"
            )
        await self._record(who, "namespace.abort_slot_move", name, before=None, after=None)
        await (await self._slot_of(namespace)).cancel(move.source)

    async def _slot_of(self, namespace: Namespace) -> SlotStore:
        shard = await self._places.shard_of(namespace)
        if not shard.client.is_on_cluster:
            raise ConflictError(
                f"store {namespace.store} is not a Cluster, so it has no other node for namespace {namespace.name}: "
                "move the namespace to another store",
                code="not_on_cluster",
            )
        return SlotStore(shard)

    async def _record(
        self,
        who: str,
        action: str,
        name: str,
        *,
        before: dict[str, object] | None,
        after: dict[str, object] | None,
    ) -> None:
        # Write the audit entry first, because the engine cannot write it together with the move.
        await self._audit.write(encode_entry(who=who, action=action, target=name, before=before, after=after))


def _refused(rule: str) -> ConflictError:
    return ConflictError(rule, code="move_refused", errors=[FieldError(("node",), rule)])
