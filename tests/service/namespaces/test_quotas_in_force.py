"""The quotas in force follow the registry, and the defaults of the installation."""

from pathlib import Path

import pytest

from jqmaster.clock import SystemClock
from jqmaster.domain.namespaces.namespace import Namespace
from jqmaster.domain.namespaces.quotas import NO_QUOTAS, Quotas
from jqmaster.lifecycle import running
from jqmaster.live_value import LiveValue
from jqmaster.service.namespaces.quotas_in_force import UNBOUNDED, QuotasInForce
from jqmaster.service.namespaces.registry import NamespaceRegistry
from jqmaster.store.namespaces.disk_copy import RegistryCopy
from jqmaster.store.namespaces.namespaces import NamespaceStore
from tests.support.store import StoreWorld

pytestmark = pytest.mark.req("D29")


def seen(one: QuotasInForce) -> Quotas:
    return Quotas(
        pushes_per_s=one.pushes_per_s.current,
        argument_bytes=one.argument_bytes.current,
        workers=one.workers.current,
        streams=one.streams.current,
    )


async def test_they_are_those_of_their_namespace_or_else_the_defaults(
    world: StoreWorld, tmp_path: Path
) -> None:
    store, shard = NamespaceStore(world.shard), world.shard.keys.shard
    defaults = LiveValue(NO_QUOTAS)
    registry = NamespaceRegistry(
        store, RegistryCopy(tmp_path, "redis://here", shard), SystemClock(), shard=shard, defaults=defaults
    )

    async def put(name: str, **quotas: int) -> None:
        new = Namespace(name, name, quotas=Quotas(**quotas))
        await store.put(await store.get(name), new, b"", max_namespaces=9)
        await registry.reload()

    await put("shop", argument_bytes=100, workers=5)
    shop, mail = QuotasInForce(registry, "shop"), QuotasInForce(registry, "mail")
    async with running([registry, shop, mail]):
        assert seen(shop) == Quotas(argument_bytes=100, workers=5, streams=UNBOUNDED)
        assert seen(mail) == Quotas(argument_bytes=UNBOUNDED, streams=UNBOUNDED)
        await put("mail", pushes_per_s=7)
        assert seen(mail) == Quotas(argument_bytes=UNBOUNDED, streams=UNBOUNDED, pushes_per_s=7)
        defaults.current = Quotas(pushes_per_s=50, workers=9, streams=3)
        registry.tell()
        assert seen(shop) == Quotas(argument_bytes=100, workers=5, streams=3, pushes_per_s=50)
        assert seen(mail) == Quotas(argument_bytes=UNBOUNDED, workers=9, streams=3, pushes_per_s=7)
        await put("shop")
        defaults.current = NO_QUOTAS
        registry.tell()
        assert seen(shop) == Quotas(argument_bytes=UNBOUNDED, streams=UNBOUNDED)
    # Once stopped, it follows no longer.
    await put("mail", argument_bytes=8)
    assert mail.argument_bytes.current == UNBOUNDED
