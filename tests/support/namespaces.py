"""A master with two stores and namespaces on both."""

import contextlib
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from jqmaster.app import Master, running_master
from jqmaster.clock import Clock
from jqmaster.domain.namespaces.namespace import Namespace
from jqmaster.store.namespaces.namespaces import NamespaceStore
from tests.support.master import QUICK, Api, GivenSettings, assert_sound
from tests.support.server import StoreServer
from tests.support.topology import Cluster
from tests.support.waiting import wait_until


class Installation:
    """A master with the stores `default` and `b`, and namespaces on both."""

    def __init__(self, master: Master, token: str | None) -> None:
        self.master = master
        self._token = token
        self.url = master.server.url
        self.apis: list[Api] = []

    def api(self, namespace: str | None = None, token: str | None = None) -> Api:
        url = f"{self.url}/ns/{namespace}" if namespace else self.url
        api = Api(url, token or self._token)
        self.apis.append(api)
        return api

    async def put(self, name: str, store: str = "default", *, tag: str | None = None, **fields: Any) -> None:
        registry = NamespaceStore(self.master.shard.services.link)
        present = await registry.get(name)
        new = Namespace(name, tag or f"{self.master.settings.shard}-{name}", store, **fields)
        version = await registry.put(present, new, b"", max_namespaces=100)
        assert version

        def is_known() -> bool:
            known = self.master.registry.current.get(name)
            return known is not None and known.version == version

        await wait_until(is_known, what=f"namespace {name} is known")

    async def until_served(self, *names: str) -> None:
        for name in names:

            async def leads(name: str = name) -> bool:
                status, ready = await self.api(name).call("GET", "/readyz")
                return status == 200 and bool(ready["leader"])

            await wait_until(leads, what=f"namespace {name} is served")


@contextlib.asynccontextmanager
async def installed(
    store: StoreServer,
    other: StoreServer | Cluster,
    directory: Path,
    *,
    clock: Clock | None = None,
    token: str | None = None,
    **settings: Any,
) -> AsyncIterator[Installation]:
    """Run a master on `store`, with the further store `b`. Calls show `token` unless they name another."""
    shard = f"m{uuid.uuid4().hex[:10]}"
    given = GivenSettings(
        **{
            **QUICK,
            "redis_url": store.url,
            "shard": shard,
            "stores": {"b": {"redis_url": other.url}},
            "data_dir": directory,
            "store_timeout_s": 1.0,
            **settings,
        }
    )
    async with running_master(given, clock) as master:
        await wait_until(lambda: master.shard.leader.leadership, what="the master leads")
        one = Installation(master, token)
        try:
            yield one
        finally:
            for api in one.apis:
                await api.http.aclose()
            found = (await NamespaceStore(master.shard.services.link).load()).namespaces
            named = list(found.values())
    for namespace in named:
        if namespace.store == "default":
            await assert_sound(store.url, namespace.tag, then_forget=True)
    await assert_sound(store.url, shard, then_forget=True)
