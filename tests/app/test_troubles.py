"""The troubles of an installation are found by name, and end when their causes end."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from jqmaster.app import namespace_services, served_namespace
from jqmaster.domain.namespaces.move import MoveProgress, MoveSize, MoveTerms
from jqmaster.domain.namespaces.troubles import NO_TROUBLES, Troubles
from jqmaster.service.namespaces import troubles
from jqmaster.store.keys import Keys
from jqmaster.store.leadership.leadership import LeadershipStore
from jqmaster.store.namespaces.moves import MoveEnd, MoveStore
from jqmaster.store.namespaces.namespaces import NamespaceStore
from tests.support import real_time
from tests.support.namespaces import Installation, installed
from tests.support.server import StoreServer, started
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("D29"), real_time.MASTER]


@pytest.fixture
def other() -> Iterator[StoreServer]:
    server = StoreServer()
    with started(server):
        yield server


@pytest.fixture
async def one(
    store_server: StoreServer, other: StoreServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Installation]:
    monkeypatch.setattr(troubles, "LIVES_S", 0.0)
    monkeypatch.setattr(served_namespace, "REOPEN_FAULTED_S", 0.2)
    async with installed(store_server, other, tmp_path) as it:
        yield it


async def now(one: Installation) -> Troubles:
    return await one.master.shard.services.troubles()


async def test_an_installation_without_namespaces_is_not_looked_at(
    one: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(namespace_services.NamespacePlaces, "stores")
    assert await now(one) is NO_TROUBLES


async def test_a_store_that_is_down_names_its_namespaces_which_are_not_told_again(
    one: Installation, other: StoreServer
) -> None:
    await one.put("shop")
    await one.put("mail", "b")
    await one.put("post", "b", state="closed")
    await one.until_served("shop", "mail")
    assert await now(one) == NO_TROUBLES
    other.signal(signal.SIGSTOP)
    try:
        found = await now(one)
        assert (list(found.stores), found.namespaces, found.moves) == (["b"], {}, {})
        assert found.stores["b"].startswith("b: ")
        assert found.stores["b"].endswith("; it has the namespaces mail, post")
    finally:
        other.signal(signal.SIGCONT)

    async def is_over() -> bool:
        return await now(one) == NO_TROUBLES

    await wait_until(is_over, what="the trouble is over")


async def test_namespaces_that_are_not_served_are_told_with_the_reason(one: Installation) -> None:
    await one.put("shop")
    await one.put("mail", "b")
    await one.put("odd", "b", state="faulted")
    await one.put("shut", "b", state="closed")
    await one.until_served("shop", "mail")
    assert dict((await now(one)).namespaces) == {"odd": "odd: it is marked as faulty"}
    link = one.master.shard.services.link
    key = Keys(f"{link.keys.shard}-shop").generation
    mark = await link.client.redis.get(key)
    assert mark
    await link.client.redis.set(key, "others")

    async def is_told() -> bool:
        return "generation mark" in (await now(one)).namespaces.get("shop", "")

    await wait_until(is_told, what="the namespace with other data is told")
    await link.client.redis.set(key, mark)

    async def is_over() -> bool:
        return list((await now(one)).namespaces) == ["odd"]

    await wait_until(is_over, what="the trouble is over")


async def test_a_namespace_that_no_master_leads_is_told(
    one: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    await one.put("shop")
    await one.until_served("shop")
    current = LeadershipStore.current

    async def of_none(self: LeadershipStore) -> object:
        return None if self._shard.keys.shard.endswith("-shop") else await current(self)

    monkeypatch.setattr(LeadershipStore, "current", of_none)
    assert dict((await now(one)).namespaces) == {"shop": "shop: no master leads it"}


async def test_a_move_that_failed_is_told_until_the_next_one(one: Installation) -> None:
    await one.put("shop")
    await one.until_served("shop")
    link = one.master.shard.services.link
    moves, registry = MoveStore(link), NamespaceStore(link)
    present = await registry.get("shop")
    assert present
    terms = MoveTerms("default", "b", "open", "ada", MoveSize(9, 900), 5_000, 1_000)
    assert await moves.begin(present, present, "id-1", terms, b"")
    assert await moves.take("shop", "another master") == 1
    present = await registry.get("shop")
    assert present
    end = MoveEnd("failed", MoveProgress(reason="the store is full"), b"")
    assert await moves.end(present, present, 1, end, left=None) == "ok"
    assert dict((await now(one)).moves) == {"shop": "shop: its move to store b failed: the store is full"}
    status, _ = await one.api().call("POST", "/api/namespaces/shop/move", {"store": "b"})
    assert status == 202

    async def is_over() -> bool:
        return not (await now(one)).moves

    await asyncio.wait_for(wait_until(is_over, what="the trouble is over"), 20)
    await wait_until(lambda: one.master.registry.current["shop"].store == "b", timeout_s=30)
    await one.until_served("shop")
