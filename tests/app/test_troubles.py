"""The troubles of an installation are found by name, and end when their causes end."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from jqmaster.app import namespace_services, served_namespace
from jqmaster.domain.namespaces.move import MoveProgress, MoveSize, MoveTerms
from jqmaster.domain.namespaces.troubles import NO_TROUBLES, Troubles
from jqmaster.service.namespaces import troubles
from jqmaster.service.namespaces.registry import NO_NAMESPACES
from jqmaster.store.keys import Keys
from jqmaster.store.leadership.leadership import LeadershipStore
from jqmaster.store.link.shard import Shard
from jqmaster.store.namespaces.frozen import FrozenData
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


@pytest.mark.parametrize("was_known", [True, False])
async def test_an_entry_that_is_damaged_is_told_until_it_is_created_again(
    one: Installation, was_known: bool
) -> None:
    await one.put("shop", "b")
    await one.put("mail")
    await one.until_served("shop", "mail")
    job_id = await one.api("shop").enqueue("work")
    link, registry, tag = (
        one.master.shard.services.link,
        one.master.registry,
        f"{one.master.settings.shard}-shop",
    )
    if not was_known:
        # As for a master that starts without a copy.
        registry._known = NO_NAMESPACES
    await link.client.redis.hset(link.keys.namespaces, "shop", b"damaged")
    await registry.reload()
    told = (await now(one)).namespaces["shop"]
    assert "its entry in the registry cannot be read" in told
    assert ("--tag TAG --store STORE" in told) is not was_known
    assert (f"--tag {tag} --store b" in told) is was_known
    overview = {
        entry["name"]: entry for entry in (await one.api().call("GET", "/api/overview"))[1]["namespaces"]
    }
    assert list(overview) == ["default", "mail", "shop"]
    assert overview["shop"]["fault"] == told
    assert (overview["shop"]["state"], overview["shop"]["store"]) == (
        ("open", "b") if was_known else ("faulted", None)
    )
    status, problem = await one.api().call("GET", "/api/namespaces/shop")
    assert (status, problem["code"]) == (500, "damaged")
    # The remedy.
    path = "/api/namespaces/shop"
    assert (await one.api().call("DELETE", f"{path}?confirm=shop&force=true"))[0] == 204
    assert (await one.api().call("PUT", path, {"tag": tag, "store": "b"}))[0] == 201
    await one.until_served("shop")
    assert await one.api("shop").state(job_id) == "ready"
    assert "shop" not in (await now(one)).namespaces


async def test_an_entry_that_is_damaged_during_a_move_is_mended_and_the_move_ends(one: Installation) -> None:
    await one.put("shop")
    await one.until_served("shop")
    job_id = await one.api("shop").enqueue("work")
    link, tag = one.master.shard.services.link, f"{one.master.settings.shard}-shop"
    moves, registry = MoveStore(link), NamespaceStore(link)
    present = await registry.get("shop")
    assert present
    terms = MoveTerms("default", "b", "open", "ada", MoveSize(9, 900), 5_000, 1_000)
    # The mover dies after it froze the data, and the record goes with it.
    assert await moves.begin(present, replace(present, state="moving"), "id-1", terms, b"")
    await wait_until(lambda: one.master.registry.current["shop"].is_moving)
    await wait_until(lambda: not one.master.namespaces.is_serving("shop"))
    assert await FrozenData(Shard(link.client, Keys(tag)), "id-1", 99).freeze()
    await link.client.redis.delete(link.keys.move("shop"), link.keys.moves)
    await link.client.redis.hset(link.keys.namespaces, "shop", b"damaged")
    await one.master.registry.reload()
    path = "/api/namespaces/shop"
    assert (await one.api().call("DELETE", f"{path}?confirm=shop&force=true"))[0] == 204
    status, made = await one.api().call("PUT", path, {"tag": tag})
    assert (status, made["state"]) == (201, "moving")
    told = (await now(one)).namespaces["shop"]
    assert "no move is under way; `jqmaster namespaces abort-move shop`" in told
    shown = (await one.api().call("GET", path))[1]
    assert (shown["move"], shown["move_fault"]) == (None, told)
    overview = (await one.api().call("GET", "/api/overview"))[1]["namespaces"]
    assert {entry["name"]: entry["fault"] for entry in overview} == {"default": None, "shop": told}
    # The remedy.
    status, shown = await one.api().call("DELETE", f"{path}/move")
    assert (status, shown["state"], shown["move_fault"]) == (202, "closed", "")
    assert (await one.api().call("POST", f"{path}/open"))[0] == 200
    await one.until_served("shop")
    assert await one.api("shop").state(job_id) == "ready"

    async def is_over() -> bool:
        return await now(one) == NO_TROUBLES

    await wait_until(is_over, what="the trouble is over")
