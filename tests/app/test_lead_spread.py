"""Masters of one installation share the leads of its namespaces."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jqmaster.app import Master, running_master
from jqmaster.domain.namespaces.leads import owners
from jqmaster.domain.namespaces.namespace import DEFAULT
from jqmaster.runtime.leadership import hand_over
from jqmaster.store.keys import Keys
from jqmaster.store.leadership.leadership import LeadershipStore
from jqmaster.store.link.shard import Shard
from tests.support import real_time
from tests.support.master import Api
from tests.support.namespaces import Installation, installed
from tests.support.server import StoreServer
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("D29"), real_time.MASTER]
STORES = {DEFAULT: "default", "news": "default", "pay": "default", "cart": "b", "mail": "b", "shop": "b"}


@pytest.fixture
async def installation(
    store_server: StoreServer, other: StoreServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Installation]:
    monkeypatch.setattr(hand_over, "SETTLED_S", 1.0)
    async with installed(store_server, other, tmp_path) as one:
        for name, store in STORES.items():
            if name != DEFAULT:
                await one.put(name, store)
        await one.until_served(*STORES.keys() - {DEFAULT})
        yield one


@contextlib.asynccontextmanager
async def joined(installation: Installation, **settings: object) -> AsyncIterator[Master]:
    """Run another master of the installation."""
    given = installation.master.settings.model_copy(update=settings)
    async with running_master(given) as master:
        yield master


async def leaders(installation: Installation, other: StoreServer) -> dict[str, str]:
    """Return the ID of the leader of each namespace that has one."""
    place = await installation.master.stores.get("b", "")
    found = {}
    for name, namespace in installation.master.registry.current.items():
        client = place.client if namespace.store == "b" else installation.master.store.client
        if lead := await LeadershipStore(Shard(client, Keys(namespace.tag))).current():
            found[name] = lead.master_id
    return found


async def test_a_master_that_joins_gets_its_share_and_gives_it_back_when_it_leaves(
    installation: Installation, other: StoreServer
) -> None:
    first = installation.master.id
    assert await leaders(installation, other) == dict.fromkeys(STORES, first)
    async with joined(installation) as second:
        wanted = owners(STORES, [first, second.id])

        async def is_spread() -> bool:
            return await leaders(installation, other) == wanted

        await wait_until(is_spread, timeout_s=40, what="the leads are spread")
        for name in STORES.keys() - {DEFAULT}:
            assert await installation.api(name).enqueue("work")
            listed = (await installation.api(name).call("GET", "/api/masters"))[1]["masters"]
            assert {one["id"]: one["role"] for one in listed}[wanted[name]] == "leader"

    async def is_back() -> bool:
        return await leaders(installation, other) == dict.fromkeys(STORES, first)

    await wait_until(is_back, what="the first master leads again")


async def test_a_master_that_does_not_reach_a_store_leads_nothing_there(
    installation: Installation, other: StoreServer
) -> None:
    first = installation.master.id
    nowhere = f"unix://{other.directory}/nowhere"
    elsewhere = type(next(iter(installation.master.settings.stores.values())))(redis_url=nowhere)
    async with joined(installation, stores={"b": elsewhere}) as second:
        wanted = owners(STORES, [first, second.id])
        wanted |= {name: first for name, store in STORES.items() if store == "b"}

        async def is_spread() -> bool:
            return await leaders(installation, other) == wanted

        await wait_until(is_spread, timeout_s=40, what="the leads are spread")


async def test_a_master_whose_configuration_lacks_a_store_serves_the_other_ones(
    installation: Installation, other: StoreServer
) -> None:
    first = installation.master.id
    async with joined(installation, stores={}) as second, contextlib.AsyncExitStack() as stack:
        pay, shop, whole = [Api(f"{second.server.url}{path}") for path in ("/ns/pay", "/ns/shop", "")]
        for api in (pay, shop, whole):
            stack.push_async_callback(api.http.aclose)
        wanted = owners(STORES, [first, second.id])
        wanted |= {name: first for name, store in STORES.items() if store == "b"}

        async def is_spread() -> bool:
            return await leaders(installation, other) == wanted

        await wait_until(is_spread, timeout_s=40, what="the leads are spread")
        status, problem = await shop.call("GET", "/api/jobs")
        assert (status, problem["code"]) == (503, "namespace_faulted")
        assert (await pay.call("GET", "/api/jobs"))[0] == 200
        status, ready = await whole.call("GET", "/readyz")
        assert status == 200
        assert any("no store b is configured" in fault for fault in ready["duty_faults"])
