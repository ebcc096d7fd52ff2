"""The primary that Sentinels name."""

from collections.abc import Callable
from typing import Any, Final

from redis.asyncio import Redis
from redis.asyncio.sentinel import MasterNotFoundError

from jqmaster.net.store_url import Endpoint, StoreUrl
from jqmaster.store.link.locator import Locator, ask_all

_EPOCH: Final = "config-epoch"


class SentinelLocator(Locator):
    """Asks all Sentinels, and uses the answer with the newest configuration. A Sentinel that was cut off may still name
    the former primary.
    """

    def __init__(self, url: StoreUrl, connect: Callable[[Endpoint], Redis]) -> None:
        super().__init__()
        self._service = url.service
        self._sentinels = [connect(endpoint) for endpoint in url.endpoints]

    async def _find(self) -> Endpoint:
        known = await ask_all(self._sentinels, self._ask)
        if not known:
            raise MasterNotFoundError(f"no Sentinel that answers knows the service {self._service!r}")
        _, host, port = max(known)
        return host, port

    async def _ask(self, sentinel: Redis) -> tuple[int, str, int]:
        state: Any = await sentinel.sentinel_master(self._service)
        return int(state[_EPOCH]), str(state["ip"]), int(state["port"])

    async def _disconnect(self) -> None:
        for sentinel in self._sentinels:
            await sentinel.aclose()
