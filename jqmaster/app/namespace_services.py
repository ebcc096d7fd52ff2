"""The services that manage all namespaces of an installation, and their access to its stores."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from jqmaster.api.services import NamespaceServices
from jqmaster.app.shard import ServedShard
from jqmaster.app.shared import Shared
from jqmaster.app.store_set import StoreSet
from jqmaster.config import DEFAULT_STORE, Settings
from jqmaster.domain.namespaces.namespace import Namespace
from jqmaster.errors import JqmasterError
from jqmaster.net.store_url import StoreUrl
from jqmaster.runtime.namespaces.move_loop import MoveLoop
from jqmaster.service.namespaces.editor import NamespaceEditor
from jqmaster.service.namespaces.mover import MoveTools
from jqmaster.service.namespaces.moves import MoveService
from jqmaster.service.namespaces.overview import NamespaceOverview
from jqmaster.service.namespaces.places import StorePlace
from jqmaster.service.namespaces.registry import NamespaceRegistry
from jqmaster.service.namespaces.slot_moves import SlotMoves
from jqmaster.service.namespaces.troubles import InstallationTroubles
from jqmaster.store.identity.audit import AuditStore
from jqmaster.store.keys import Keys
from jqmaster.store.leadership.masters import MasterStore
from jqmaster.store.link.shard import Shard
from jqmaster.store.namespaces.moves import MoveStore
from jqmaster.store.namespaces.namespaces import NamespaceStore


class NamespacePlaces:
    """The implementation of `Places`. If no namespace has needed a store yet, the store is opened at the first
    access."""

    def __init__(self, stores: StoreSet, settings: Settings) -> None:
        self._stores = stores
        self._settings = settings
        self.names: Sequence[str] = (DEFAULT_STORE, *sorted(settings.stores))

    async def stores(self) -> Sequence[StorePlace]:
        return await asyncio.gather(*map(self._look, self.names))

    async def shard_of(self, namespace: Namespace) -> Shard:
        store = await self._stores.get(namespace.store, namespace.tag)
        return Shard(store.client, Keys(namespace.tag))

    async def _look(self, name: str) -> StorePlace:
        topology = StoreUrl.parse(self._stores.url_of(name)).topology
        try:
            store = await self._stores.get(name, self._settings.shard)
            await store.client.command("PING")
        except JqmasterError as exc:
            return StorePlace(name, topology, "", {"away": exc.detail})
        report = store.health.report
        return StorePlace(
            name,
            topology,
            f"{report.kind} {'.'.join(map(str, report.version))}",
            dict(store.health.faults),
            report.memory_used_bytes,
            report.memory_max_bytes or None,
        )


def namespace_services(
    registry: NamespaceRegistry, stores: StoreSet, shard: ServedShard, shared: Shared
) -> NamespaceServices:
    """Return the services for requests. `shard`: the shard of the default namespace, which holds the registry."""
    places = NamespacePlaces(stores, shared.settings)
    tools = move_tools(places, shard.services.link, shared)
    editor = NamespaceEditor(
        tools.namespaces,
        registry,
        tools.masters,
        places,
        tools.moves,
        shard=shared.settings.shard,
        pace=shared.policies.pace,
        max_namespaces=lambda: shared.live.current.max_namespaces,
    )
    moves = MoveService(
        tools.moves, tools.namespaces, tools.masters, places, shard.services.link, pace=tools.pace
    )
    slots = SlotMoves(editor.get, places, AuditStore(shard.services.link))
    overview = NamespaceOverview(registry, places, tools.moves, shared.clock)
    return NamespaceServices(registry, editor, overview, places, moves, slots)


def installation_troubles(
    registry: NamespaceRegistry,
    stores: StoreSet,
    link: Shard,
    shared: Shared,
    *,
    faults: Callable[[], Mapping[str, str]],
) -> InstallationTroubles:
    """Return the service that finds the problems of the installation. `link`: the shard of the default namespace.
    `faults`: see `InstallationTroubles`."""
    places = NamespacePlaces(stores, shared.settings)
    return InstallationTroubles(registry, places, MoveStore(link), shared.clock, faults=faults)


def move_tools(places: NamespacePlaces, link: Shard, shared: Shared) -> MoveTools:
    """Return the stores and services of movers. `link`: the shard of the default namespace."""
    return MoveTools(
        MoveStore(link),
        NamespaceStore(link),
        MasterStore(link),
        places,
        shared.clock,
        shared.policies.pace,
        shared.policies.heartbeat_s,
    )


def move_loop(
    registry: NamespaceRegistry,
    stores: StoreSet,
    link: Shard,
    shared: Shared,
    *,
    is_served: Callable[[str], bool],
) -> MoveLoop:
    """Return the component that lets this process take part in moves. `link`: the shard of the default namespace.
    `is_served`: see `MoveLoop`."""
    tools = move_tools(NamespacePlaces(stores, shared.settings), link, shared)
    return MoveLoop(registry, tools, shared.clock, master_id=shared.master_id, is_served=is_served)
