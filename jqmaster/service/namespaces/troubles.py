"""Finds troubles of the installation: stores that are down, namespaces that are not served, and failed moves."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from jqmaster.clock import Clock
from jqmaster.domain.namespaces.move import FAILED_SHOWN_MS
from jqmaster.domain.namespaces.namespace import DEFAULT, DEFAULT_STORE, Namespace
from jqmaster.domain.namespaces.troubles import NO_TROUBLES, Troubles
from jqmaster.errors import JqmasterError
from jqmaster.service.namespaces.places import Places
from jqmaster.service.namespaces.registry import NamespaceRegistry
from jqmaster.service.operations.remembered import Remembered
from jqmaster.store.leadership.leadership import LeadershipStore
from jqmaster.store.namespaces.documents import unreadable_entry
from jqmaster.store.namespaces.moves import MoveStore, unrecorded

# Time for which an answer is reused. A new answer costs a call for each store and each open namespace.
LIVES_S: Final = 5.0
# Maximum number of namespaces that are read at the same time.
_MAX_ASKED: Final = 16
_MAX_NAMED: Final = 5


class InstallationTroubles:
    """Finds troubles of the installation. `faults`: returns, by namespace, why this process does not serve it."""

    def __init__(
        self,
        registry: NamespaceRegistry,
        places: Places,
        moves: MoveStore,
        clock: Clock,
        *,
        faults: Callable[[], Mapping[str, str]],
    ) -> None:
        self._registry = registry
        self._places = places
        self._moves = moves
        self._faults = faults
        self._seen = Remembered(clock, LIVES_S, self._look)

    async def now(self) -> Troubles:
        """Return the current troubles. If nobody has created a namespace, return none. Raise what the store of the
        registry raises."""
        return await self._seen.get() if self._registry.version else NO_TROUBLES

    async def _look(self) -> Troubles:
        namespaces = {name: one for name, one in self._registry.current.items() if name != DEFAULT}
        places = await self._places.stores()
        stores = {
            place.name: _told(place.faults, place.name, namespaces)
            for place in places
            if place.faults and place.name != DEFAULT_STORE
        }
        failed = await self._moves.failed(list(namespaces), within_ms=FAILED_SHOWN_MS)
        moves = {name: f"{name}: {one.reason}" for name, one in failed.items()}
        unserved = await self._unserved(namespaces, set(stores))
        damaged = await unmended(self._registry, self._moves)
        return Troubles(stores, unserved | damaged, moves)

    async def _unserved(self, namespaces: Mapping[str, Namespace], away: set[str]) -> dict[str, str]:
        here, turns = self._faults(), asyncio.Semaphore(_MAX_ASKED)

        async def fault(one: Namespace) -> str:
            if one.state == "faulted":
                return "it is marked as faulty"
            if one.state != "open":
                return ""
            if reason := here.get(one.name):
                return reason
            async with turns:
                try:
                    shard = await self._places.shard_of(one)
                    return "" if await LeadershipStore(shard).current() else "no master leads it"
                except JqmasterError as exc:
                    return exc.detail

        asked = [one for one in namespaces.values() if one.store not in away]
        told = zip(asked, await asyncio.gather(*map(fault, asked)), strict=True)
        return {one.name: f"{one.name}: {reason}" for one, reason in told if reason}


async def unmended(registry: NamespaceRegistry, moves: MoveStore) -> dict[str, str]:
    """Return, by namespace, the faults of registry entries that an operator must repair. Each text names the remedy.
    The faults are:

    * The entry cannot be read.
    * The entry says that the namespace is being moved, but no move is in progress.

    Raise what the store of the registry raises.
    """
    current = registry.current
    lost = await moves.lost([name for name, one in current.items() if one.is_moving])
    damaged = {name: unreadable_entry(name, current.get(name)) for name in sorted(registry.damaged)}
    return {name: unrecorded(name) for name in lost} | damaged


def _told(faults: Mapping[str, str], store: str, namespaces: Mapping[str, Namespace]) -> str:
    held = [name for name, one in namespaces.items() if one.store == store]
    more = f" and {len(held) - _MAX_NAMED} more" if len(held) > _MAX_NAMED else ""
    of = f"; it has the namespaces {', '.join(held[:_MAX_NAMED])}{more}" if held else "; it has no namespace"
    return f"{store}: {'; '.join(faults.values())}{of}"
