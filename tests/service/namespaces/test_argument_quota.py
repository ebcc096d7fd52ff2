"""The quota for the argument of a job follows the registry."""

from pathlib import Path

import pytest

from jqmaster.clock import SystemClock
from jqmaster.domain.namespaces.namespace import Namespace, Quotas
from jqmaster.lifecycle import running
from jqmaster.service.namespaces.argument_quota import UNBOUNDED, ArgumentQuota
from jqmaster.service.namespaces.registry import NamespaceRegistry
from jqmaster.store.namespaces.disk_copy import RegistryCopy
from jqmaster.store.namespaces.namespaces import NamespaceStore
from tests.support.store import StoreWorld

pytestmark = pytest.mark.req("D29")


async def test_it_is_that_of_its_namespace_until_it_is_removed(world: StoreWorld, tmp_path: Path) -> None:
    store, shard = NamespaceStore(world.shard), world.shard.keys.shard
    registry = NamespaceRegistry(
        store, RegistryCopy(tmp_path, "redis://here", shard), SystemClock(), shard=shard
    )

    async def put(name: str, quota: int | None) -> None:
        new = Namespace(name, name, quotas=Quotas(argument_bytes=quota))
        await store.put(await store.get(name), new, b"", max_namespaces=9)
        await registry.reload()

    await put("shop", 100)
    shop, mail = ArgumentQuota(registry, "shop"), ArgumentQuota(registry, "mail")
    async with running([registry, shop, mail]):
        assert (shop.most.current, mail.most.current) == (100, UNBOUNDED)
        await put("mail", 7)
        await put("shop", 200)
        assert (shop.most.current, mail.most.current) == (200, 7)
        await put("shop", None)
        assert shop.most.current == UNBOUNDED
    await put("mail", 8)
    assert mail.most.current == 7
