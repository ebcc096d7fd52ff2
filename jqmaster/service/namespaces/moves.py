"""Checks whether a move is possible, begins moves and aborts them."""

import uuid
from dataclasses import dataclass, replace
from typing import Final

from jqmaster.domain.namespaces.move import (
    MAX_CLOCK_DIFFERENCE_MS,
    MAX_STOP_MS,
    Move,
    MoveSize,
    MoveTerms,
    fits,
)
from jqmaster.domain.namespaces.namespace import DEFAULT, Namespace
from jqmaster.domain.operations.master import Pace
from jqmaster.errors import ConflictError, DamagedError, FieldError, JqmasterError, NotFoundError
from jqmaster.live_value import LiveValue
from jqmaster.service.namespaces.documents import no_namespace, refusal
from jqmaster.service.namespaces.living import check_masters
from jqmaster.service.namespaces.places import Places, faults_of, has_data
from jqmaster.service.namespaces.rescue import MoveRescue
from jqmaster.store.backup import loading
from jqmaster.store.health import generation
from jqmaster.store.identity.audit import encode_entry
from jqmaster.store.leadership.masters import MasterStore
from jqmaster.store.link.shard import Shard
from jqmaster.store.namespaces.copying import measured, moved_keys
from jqmaster.store.namespaces.moves import MoveStore, unrecorded
from jqmaster.store.namespaces.namespaces import NamespaceStore

# Minimum lease of running jobs once a move is announced. The service may be stopped for longer than estimated.
MIN_LEASE_MS: Final = 120_000


@dataclass(frozen=True, slots=True)
class MovePlan:
    """A move that has been checked but not begun. `keeps_leases`: whether running jobs keep their leases. They do if
    the expected stop is shorter than the longest lease."""

    namespace: Namespace
    target: str
    size: MoveSize

    @property
    def keeps_leases(self) -> bool:
        return self.size.stop_ms <= MAX_STOP_MS


class MoveService:
    """Begins and aborts moves. Methods raise what the stores raise."""

    def __init__(
        self,
        moves: MoveStore,
        namespaces: NamespaceStore,
        masters: MasterStore,
        places: Places,
        control: Shard,
        *,
        pace: LiveValue[Pace],
    ) -> None:
        self._moves = moves
        self._namespaces = namespaces
        self._masters = masters
        self._places = places
        self._control = control
        self._pace = pace
        self._rescue = MoveRescue(moves, places)

    async def of(self, name: str) -> Move | None:
        """Return the newest move of a namespace, or None if there was none.

        Raise DamagedError, which names the remedy, if the record of the move cannot be read, or if the namespace is
        marked as being moved although no move is in progress.
        """
        move = await self._moves.get(name)
        if await self._moves.lost([name]):
            raise DamagedError(unrecorded(name))
        return move

    async def plan(self, name: str, target: str) -> MovePlan:
        """Check whether a namespace can be moved to a store, and measure its data. Change nothing. Raise:

        * NotFoundError,
        * InvalidError if the store can never be the target,
        * ConflictError, which says what to do first.
        """
        namespace = await self._present(name)
        if target not in self._places.names:
            raise refusal(
                ("store",),
                f"is not one of the configured stores, {', '.join(self._places.names)}; configure it at every master",
            )
        if target == namespace.store:
            raise refusal(
                ("store",),
                "already has the data of the namespace; to move it to another node of a Cluster, use `jqmaster "
                "namespaces move --to-node` (`POST …/slot/move`)",
            )
        if namespace.is_moving:
            raise ConflictError(f"namespace {name} is already being moved", code="move_under_way")
        if namespace.state == "faulted":
            raise _refused(f"namespace {name} is marked as faulty: open or close it first")
        await check_masters(self._masters, self._pace.current, target)
        source = await self._places.shard_of(namespace)
        if not await has_data(source):
            raise _refused(
                f"store {namespace.store} has no data of namespace {name}: delete it and create it again"
            )
        if await loading.is_under_way(source):
            raise loading.unfinished("move the namespace")
        there = await self._fit(namespace, target)
        await _check_clocks(source, there, namespace.store, target)
        size = await measured(source)
        if size.unknown:
            raise _refused(
                f"{size.unknown} keys of the namespace are of a kind that this release does not know; `jqmaster fsck "
                f"-n {name}` names them: upgrade the masters, or delete these keys"
            )
        await self._check_room(target, size)
        return MovePlan(namespace, target, size)

    async def begin(self, name: str, target: str, who: str) -> Move:
        """Begin to move a namespace. A master starts to carry out the move at once. Raise what `plan` raises."""
        plan = await self.plan(name, target)
        present, size = plan.namespace, plan.size
        stop_ms = min(MAX_STOP_MS, max(MIN_LEASE_MS, size.stop_ms))
        terms = MoveTerms(
            present.store, target, present.state, who, size, size.stop_ms, await self._control.now_ms()
        )
        entry = encode_entry(
            who=who,
            action="namespace.move",
            target=name,
            before={"store": present.store},
            after={"store": target},
        )
        announced = replace(present, stop_ms=stop_ms)
        if not await self._moves.begin(present, announced, uuid.uuid4().hex, terms, entry):
            raise ConflictError(f"namespace {name} was changed at the same time: try again")
        found = await self._moves.get(name)
        assert found is not None
        return found

    async def abort(self, name: str, who: str, *, is_forced: bool = False) -> None:
        """Abort the move of a namespace. The move ends within seconds, unless it has just succeeded.

        In three cases, `MoveRescue` finds the store that has the data, and the registry then names that store. The
        namespace is closed if its data were not being served. The cases are:

        * The record of the move is gone, for example after a restore of the registry.
        * The record cannot be read, and `is_forced` is given.
        * The registry knows of no move but names a store with frozen data, and `is_forced` is given.

        Raise NotFoundError, ConflictError, and what `MoveRescue.run` raises.
        """
        present = await self._present(name)
        try:
            move = await self._moves.get(name)
        except DamagedError as exc:
            if not is_forced:
                raise ConflictError(exc.detail, code="move_record_damaged") from exc
            await self._rescue.run(present, who)
            return
        entry = encode_entry(who=who, action="namespace.abort_move", target=name, before=None, after=None)
        if present.is_moving:
            if await self._moves.abort(name, who, entry):
                return
        # The registry does not mark the namespace as being moved, for example because it was deleted by force and
        # created again. No master carries out its recorded move, so end the move here.
        elif not (move and move.is_under_way) and not (is_forced and await self._rescue.is_needed(present)):
            raise ConflictError(f"namespace {name} is not being moved", code="not_moving")
        await self._rescue.run(present, who)

    async def _present(self, name: str) -> Namespace:
        if name == DEFAULT:
            raise ConflictError(
                f"the namespace {DEFAULT} has the registry of namespaces, and cannot be moved: move its whole store "
                "with a replica and a failover",
                code="default_namespace",
            )
        found = await self._namespaces.get(name)
        if found is None:
            raise no_namespace(name)
        return found

    async def _fit(self, namespace: Namespace, target: str) -> Shard:
        """Return the shard for the data at the target store. Raise ConflictError if the store cannot take them."""
        try:
            place = await self._places.shard_of(replace(namespace, store=target))
        except NotFoundError:
            raise
        except JqmasterError as exc:
            raise _refused(f"store {target} cannot be used: {exc.detail}") from exc
        if faults := await faults_of(self._places, target):
            raise _refused(f"store {target} cannot take jobs: {faults}")
        if await has_data(place):
            raise ConflictError(
                f"store {target} has data with the tag {namespace.tag}, such as those of another installation: remove "
                "them there, or choose another store",
                code="namespace_has_data",
            )
        # Accept a frozen copy that an earlier move left at the target. The mover will remove the copy.
        if await generation.is_frozen(place):
            return place
        async for keys in moved_keys(place):
            raise ConflictError(
                f"store {target} has keys with the tag {namespace.tag}, such as {keys[0].decode('utf-8', 'replace')}: "
                "remove them there, or choose another store",
                code="namespace_has_data",
            )
        return place

    async def _check_room(self, target: str, size: MoveSize) -> None:
        (store,) = [one for one in await self._places.stores() if one.name == target]
        if not fits(size, store.used_memory_bytes, store.max_memory_bytes):
            raise _refused(
                f"store {target} has too little memory: the namespace takes about {size.bytes >> 20} MiB; raise its "
                "maxmemory, or choose another store"
            )


async def _check_clocks(source: Shard, target: Shard, source_name: str, target_name: str) -> None:
    """Raise ConflictError if the clocks of the stores differ by too much. Due times and lease ends are copied
    unchanged, and would be wrong by the difference."""
    before_ms = await source.now_ms()
    there_ms = await target.now_ms()
    after_ms = await source.now_ms()
    difference_ms = max(before_ms - there_ms, there_ms - after_ms, 0)
    if difference_ms > MAX_CLOCK_DIFFERENCE_MS:
        raise _refused(
            f"the clocks of the stores {source_name} and {target_name} differ by {difference_ms / 1000:.1f} s, and may "
            "differ by 0.5 s at most: synchronize them with NTP"
        )


def _refused(rule: str) -> ConflictError:
    return ConflictError(rule, code="move_refused", errors=[FieldError(("store",), rule)])
