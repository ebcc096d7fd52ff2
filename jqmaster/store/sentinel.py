"""The primary that Sentinels name."""

from typing import Any, Final

from redis.asyncio import Redis
from redis.asyncio.sentinel import MasterNotFoundError, Sentinel

from jqmaster.store.locator import Locator, ask_all
from jqmaster.store_url import Endpoint, StoreUrl

_EPOCH: Final = "config-epoch"


class SentinelLocator(Locator):
    """Asks all Sentinels and believes the one with the newest configuration: one that was cut off still names the
    primary of before."""

    def __init__(self, url: StoreUrl, options: dict[str, Any]) -> None:
        """`options`: of the connections to the Sentinels."""
        super().__init__()
        self._service = url.service
        self._sentinel = Sentinel(url.endpoints, sentinel_kwargs=options)  # type: ignore[no-untyped-call]

    async def _find(self) -> Endpoint:
        known = await ask_all(self._sentinel.sentinels, self._ask)
        if not known:
            raise MasterNotFoundError(f"no Sentinel that answers knows the service {self._service!r}")
        _, host, port = max(known)
        return host, port

    async def _ask(self, sentinel: Redis) -> tuple[int, str, int]:
        state: Any = await sentinel.sentinel_master(self._service)
        return int(state[_EPOCH]), str(state["ip"]), int(state["port"])

    async def _disconnect(self) -> None:
        for sentinel in self._sentinel.sentinels:
            await sentinel.aclose()
