"""The node of a Cluster that holds the slot of a shard. All keys of a shard carry its tag, so one node serves the whole
shard."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from redis.asyncio import Redis
from redis.crc import key_slot
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import MovedError

from jqmaster.net.store_url import Endpoint, StoreUrl
from jqmaster.store.link.locator import Locator, ask_all

_Nodes = dict[str, dict[str, Any]]
_FAILED: Final = ("fail", "noaddr", "handshake")


def slot_of(shard: str) -> int:
    """Return the slot of all keys whose hash tag is this shard."""
    return int(key_slot(f"{{{shard}}}".encode()))


@dataclass(frozen=True, slots=True)
class Primary:
    """A primary of the Cluster. `epoch`: the config epoch of the node; the highest one has the newest claim to a slot.
    `has_slot`: whether the node has the slot of the shard.
    """

    id: str
    endpoint: Endpoint
    epoch: int
    has_slot: bool


class ClusterLocator(Locator):
    """Asks the nodes in the URL and all other nodes that it knows, and uses the node with the newest claim to the slot.
    Without a tag, it begins at any node, and learns the slot from the first redirect (`follow`)."""

    def __init__(self, url: StoreUrl, connect: Callable[[Endpoint], Redis]) -> None:
        super().__init__()
        self._is_tls = url.is_tls
        self._connect = connect
        self._seeds = {endpoint: connect(endpoint) for endpoint in url.endpoints}
        self._others: dict[Endpoint, Redis] = {}
        self._slot: int | None = None
        # A key that never exists. Each script gets it, so that a node from which the slot is being moved refuses the
        # whole script. Otherwise the node would start the script, and fail at a key that has moved or is not declared.
        self.guard: str | None = None

    def bind(self, tag: str) -> None:
        """Locate the node that holds the keys of this tag (`{jq}:`) from now on."""
        self.guard = f"{tag}nothing"
        slot = key_slot(tag.encode())
        if slot != self._slot:
            self._slot = slot
            self.doubt()

    def follow(self, moved: MovedError) -> None:
        """Use the node that a redirect names as the holder of the slot. Connections to the former node stay open, so
        that calls under way get their answers."""
        self._slot = moved.slot_id
        host = moved.host or (self._last[0] if self._last else "")
        self._address = (host, moved.port)
        if self._address != self._last:
            self._take(self._address)

    async def primaries(self) -> list[Primary]:
        """Return the primaries of the Cluster, by address. Only the newest claim to the slot counts. Raise
        redis.exceptions.ConnectionError if no node answers."""
        views = await ask_all(self._nodes, self._view)
        if not views:
            raise RedisConnectionError("no node of the cluster answers")
        newest: dict[str, Primary] = {}
        for one in (one for view in views for one in view):
            if one.id not in newest or newest[one.id].epoch < one.epoch:
                newest[one.id] = one
        owner = max((one for one in newest.values() if one.has_slot), key=lambda one: one.epoch, default=None)
        return sorted(
            (replace(one, has_slot=one is owner) for one in newest.values()), key=lambda one: one.endpoint
        )

    def client_of(self, primary: Primary) -> Redis:
        """Return a client of one node, which stays open as long as this locator."""
        self._remember(primary.endpoint)
        return self._seeds.get(primary.endpoint) or self._others[primary.endpoint]

    async def _find(self) -> Endpoint:
        if self._last:
            self._remember(self._last)
        claims = [claim for claims in await ask_all(self._nodes, self._claims) for claim in claims]
        if not claims:
            raise RedisConnectionError("no node of the cluster says which node holds the slot")
        newest = max(one.epoch for one in claims)
        return min(one.endpoint for one in claims if one.epoch == newest)

    @property
    def _nodes(self) -> Sequence[Redis]:
        return [*self._seeds.values(), *self._others.values()]

    async def _claims(self, node: Redis) -> list[Primary] | None:
        """Return the primaries that have the slot in the view of this node. None: the node knows no such primary."""
        return [one for one in await self._view(node) if one.has_slot] or None

    async def _view(self, node: Redis) -> list[Primary]:
        nodes: _Nodes = await node.execute_command("CLUSTER NODES")  # type: ignore[no-untyped-call]
        asked_host = str(node.connection_pool.connection_kwargs["host"])
        return [
            Primary(
                one["node_id"], self._endpoint(address, one, asked_host), int(one["epoch"]), self._serves(one)
            )
            for address, one in nodes.items()
            if _is_primary(one)
        ]

    def _serves(self, node: dict[str, Any]) -> bool:
        if self._slot is None:
            return "myself" in node["flags"].split(",")
        return any(int(found[0]) <= self._slot <= int(found[-1]) for found in node["slots"])

    def _endpoint(self, address: str, node: dict[str, Any], asked_host: str) -> Endpoint:
        host, _, port = address.rpartition(":")
        # A node that does not know its own address returns no address, so use the address that was asked. With TLS,
        # prefer the host name, because certificates are issued for names.
        name = str(node.get("hostname") or "")
        return (name if name and self._is_tls else host) or asked_host, int(port)

    def _remember(self, endpoint: Endpoint) -> None:
        if endpoint not in self._seeds and endpoint not in self._others:
            self._others[endpoint] = self._connect(endpoint)

    async def _disconnect(self) -> None:
        for node in self._nodes:
            await node.aclose()


def _is_primary(node: dict[str, Any]) -> bool:
    flags = node["flags"].split(",")
    return "master" in flags and not any(flag in flags for flag in _FAILED)
