"""The stores of this process: the default store, and the stores of other namespaces."""

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial

from jqmaster.app.served_store import ServedStore
from jqmaster.app.store_opening import opened_store
from jqmaster.clock import Clock
from jqmaster.config import Settings
from jqmaster.domain.namespaces.namespace import DEFAULT_STORE
from jqmaster.errors import StoreUnfitError
from jqmaster.lifecycle import running
from jqmaster.net.store_url import StoreUrl


class StoreSet:
    """Opens each store when a namespace first needs it, and keeps it open. All namespaces on a store share it. On
    a Cluster, however, each namespace has its own connections to its node.

    * `default`: open from the start. None: the default store was away at the start, and is opened like the
      others.
    * `url`: the address of the default store.
    * `on_opened`: called with each store that has been opened.
    """

    def __init__(
        self,
        default: ServedStore | None,
        settings: Settings,
        clock: Clock,
        *,
        url: str,
        on_opened: Callable[[ServedStore], None],
    ) -> None:
        self._default = default
        self._default_url = url
        self._settings = settings
        self._clock = clock
        self._on_opened = on_opened
        self._stack = contextlib.AsyncExitStack()
        # Attempts to open a store, by store and, on a Cluster, by shard. Namespaces that need the same store at
        # the same time share one attempt.
        self._attempts: dict[tuple[str, str], asyncio.Task[ServedStore]] = {}

    async def get(self, name: str, shard: str) -> ServedStore:
        """Return the store for this shard. Raise StoreUnavailableError. Raise StoreUnfitError if the store is
        unfit or no store with this name is configured."""
        if name != DEFAULT_STORE and name not in self._settings.stores:
            raise StoreUnfitError(
                f"no store {name} is configured on this master: add [stores.{name}] with its redis_url to the "
                "configuration of every master, and restart them"
            )
        url = self.url_of(name)
        is_on_cluster = StoreUrl.parse(url).topology == "cluster"
        if name == DEFAULT_STORE and not is_on_cluster and self._default:
            return self._default
        key = name, shard if is_on_cluster else ""
        attempt = self._attempts.get(key)
        if attempt is None:
            settings = self._settings.at_store(name, shard)
            attempt = self._attempts[key] = asyncio.create_task(self._open(url, settings))
            attempt.add_done_callback(partial(self._forget_failure, key))
        return await asyncio.shield(attempt)

    async def close(self) -> None:
        """Close every store except the default store."""
        for attempt in self._attempts.values():
            attempt.cancel()
        await asyncio.gather(*self._attempts.values(), return_exceptions=True)
        await self._stack.aclose()

    async def _open(self, url: str, settings: Settings) -> ServedStore:
        async with contextlib.AsyncExitStack() as stack:
            store = await stack.enter_async_context(opened_store(url, settings, self._clock))
            self._on_opened(store)
            await stack.enter_async_context(running(store.components(), failures=store.loops))
            self._stack.push_async_exit(stack.pop_all())
        return store

    def url_of(self, name: str) -> str:
        """Return the address of a configured store."""
        return (
            self._default_url
            if name == DEFAULT_STORE
            else self._settings.stores[name].redis_url.get_secret_value()
        )

    def _forget_failure(self, key: tuple[str, str], attempt: "asyncio.Task[ServedStore]") -> None:
        if attempt.cancelled() or attempt.exception():
            self._attempts.pop(key, None)
