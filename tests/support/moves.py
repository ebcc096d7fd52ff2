"""A namespace on one real store that is moved to another, without the processes around it."""

import contextlib
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

from jqmaster.clock import SystemClock
from jqmaster.domain.namespaces.move import Move, MoveSize, MoveTerms
from jqmaster.domain.namespaces.namespace import Namespace
from jqmaster.domain.operations.master import Pace
from jqmaster.errors import StoreUnavailableError
from jqmaster.live_value import LiveValue
from jqmaster.service.namespaces.mover import Mover, MoveTools
from jqmaster.service.namespaces.moves import MoveService
from jqmaster.service.namespaces.places import StorePlace
from jqmaster.store.health import generation
from jqmaster.store.keys import Keys
from jqmaster.store.leadership.masters import MasterStore
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.shard import Shard
from jqmaster.store.namespaces.frozen import FrozenData
from jqmaster.store.namespaces.moves import MoveStore
from jqmaster.store.namespaces.namespaces import NamespaceStore
from tests.support.admin import forget_keys
from tests.support.server import StoreServer
from tests.support.store import StoreWorld

MARK = "m" * 32


class TwoStores:
    """Places: the stores `default` and `b`. `away`: those that do not answer. `faults`, `most_bytes`: of `b`."""

    names = ("default", "b")

    def __init__(self, clients: dict[str, StoreClient]) -> None:
        self.clients = clients
        self.away: set[str] = set()
        self.faults: dict[str, str] = {}
        self.most_bytes: int | None = None
        self.ahead_ms = 0

    async def stores(self) -> Sequence[StorePlace]:
        return [
            StorePlace(name, "single", "valkey", self.faults if name == "b" else {}, 1_000, self.most_bytes)
            for name in self.names
        ]

    async def shard_of(self, namespace: Namespace) -> Shard:
        if namespace.store in self.away:
            raise StoreUnavailableError(f"store {namespace.store} does not answer")
        shard = Shard(self.clients[namespace.store], Keys(namespace.tag))
        if self.ahead_ms and namespace.store == "b":
            now_ms = await shard.now_ms() + self.ahead_ms
            return replace(shard, now=lambda: now_ms)
        return shard


class MoveWorld:
    """The registry is in `control`, whose clock the test moves. The namespace `shop` is in store `default`."""

    def __init__(self, control: StoreWorld, places: TwoStores) -> None:
        self.control = control
        self.places = places
        self.tag = f"t{uuid.uuid4().hex[:10]}"
        self.source = Shard(places.clients["default"], Keys(self.tag), mark=MARK)
        self.target = Shard(places.clients["b"], Keys(self.tag), mark=MARK)
        self.jobs = StoreWorld(self.source)
        self.moves = MoveStore(control.shard)
        self.namespaces = NamespaceStore(control.shard)
        self.masters = MasterStore(control.shard)
        self.tools = MoveTools(
            self.moves,
            self.namespaces,
            self.masters,
            places,
            SystemClock(),
            LiveValue(Pace(5.0)),
            LiveValue(0.0),
        )
        self.service = MoveService(
            self.moves, self.namespaces, self.masters, places, control.shard, pace=self.tools.pace
        )

    async def seed(self, jobs: int = 5) -> list[str]:
        """Create the namespace with this many jobs."""
        await generation.mark(self.source, MARK)
        leadership = await self.jobs.leadership.elect("master-1", "nonce", ttl_ms=600_000)
        assert leadership
        self.jobs.epoch = leadership.epoch
        present = Namespace("shop", self.tag, title="The shop")
        assert await self.namespaces.put(None, present, b"", max_namespaces=9)
        return await self.jobs.enqueue_many(jobs) if jobs else []

    async def begin(self) -> Move:
        """Order a move to store `b` without the checks before it."""
        present = await self.entry()
        terms = MoveTerms("default", "b", present.state, "ada", MoveSize(9, 900), 5_000, 1_000)
        announced = replace(present, stop_ms=60_000)
        assert await self.moves.begin(present, announced, uuid.uuid4().hex, terms, b"")
        return await self.move()

    async def take(self, master_id: str = "master-1") -> Mover:
        """Become the mover, as soon as no other one holds the move."""
        number = await self.moves.take("shop", master_id)
        assert number
        return Mover(self.tools, await self.move(), number)

    async def run(self) -> Move:
        """Let one master move the namespace to its end."""
        await (await self.take()).run()
        return await self.move()

    async def move(self) -> Move:
        found = await self.moves.get("shop")
        assert found
        return found

    async def entry(self) -> Namespace:
        found = await self.namespaces.get("shop")
        assert found
        return found

    async def contents(self, shard: Shard) -> dict[str, Any]:
        return await StoreWorld(shard).contents()

    async def served_at(self) -> list[str]:
        """Return the stores where masters may serve the data."""
        shards = {"default": self.source, "b": self.target}
        return [name for name, shard in shards.items() if await generation.read(shard)]

    def frozen(self, shard: Shard, move: Move, number: int) -> FrozenData:
        return FrozenData(shard, move.id, number)


@contextlib.asynccontextmanager
async def move_world(
    control: StoreWorld, server: StoreServer, other: StoreServer
) -> AsyncIterator[MoveWorld]:
    """Yield the namespace, with `server` as store `default` and `other` as store `b`."""
    clients = {
        name: StoreClient(one.url, connections=8, timeout_s=1.0)
        for name, one in (("default", server), ("b", other))
    }
    one = MoveWorld(control, TwoStores(clients))
    try:
        yield one
    finally:
        for shard in (one.source, one.target):
            await forget_keys(shard)
        for client in clients.values():
            await client.close()
