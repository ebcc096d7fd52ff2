"""Masters move a namespace from one real store to another while pushers and workers go on."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from jqmaster.service.namespaces import mover
from jqmaster.store.keys import Keys
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.shard import Shard
from tests.support import real_time
from tests.support.namespaces import Installation, installed
from tests.support.server import StoreServer, started
from tests.support.store import StoreWorld
from tests.support.topology import Cluster
from tests.support.waiting import wait_until
from worker_sdk import Context, JobResult, Pusher, Worker

pytestmark = [pytest.mark.req("D29"), real_time.MASTER]


@pytest.fixture
async def installation(
    store_server: StoreServer, other: StoreServer, tmp_path: Path
) -> AsyncIterator[Installation]:
    async with installed(store_server, other, tmp_path) as one:
        yield one


@contextlib.asynccontextmanager
async def data_in(server: StoreServer, installation: Installation) -> AsyncIterator[StoreWorld]:
    """Yield what a store has of the namespace `shop`."""
    client = StoreClient(server.url, connections=2)
    try:
        yield StoreWorld(Shard(client, Keys(f"{installation.master.settings.shard}-shop")))
    finally:
        await client.close()


async def move(installation: Installation, store: str, **more: Any) -> tuple[int, Any]:
    return await installation.api().call("POST", "/api/namespaces/shop/move", {"store": store, **more})


async def until_ended(installation: Installation) -> Any:
    api = installation.api()

    async def ended() -> Any:
        _, found = await api.call("GET", "/api/namespaces/shop")
        return found if found["move"]["ended_at"] else None

    return await wait_until(ended, what="the move has ended", timeout_s=60)


async def test_a_dry_run_measures_the_namespace_and_changes_nothing(
    installation: Installation, store_server: StoreServer, other: StoreServer
) -> None:
    await installation.put("shop")
    await installation.until_served("shop")
    shop = installation.api("shop")
    for number in range(20):
        await shop.enqueue("work", number)
    _, before = await installation.api().call("GET", "/api/namespaces/shop")
    status, plan = await move(installation, "b", dry_run=True)
    assert (status, plan["store"], plan["dry_run"], plan["keeps_leases"]) == (200, "b", True, True)
    assert plan["keys"] >= 20
    assert 5 <= plan["stop_s"] < 6
    assert await installation.api().call("GET", "/api/namespaces/shop") == (200, before)
    assert before["move"] is None
    async with data_in(other, installation) as there:
        assert await there.contents() == {}
    await shop.enqueue("work")


async def test_pushes_and_jobs_go_on_through_a_move_and_back(
    installation: Installation, store_server: StoreServer, other: StoreServer
) -> None:
    await installation.put("shop")
    await installation.until_served("shop")
    url = f"{installation.url}/ns/shop"
    worker, started, ran = Worker(url, max_jobs=8), asyncio.Event(), list[int]()
    released = asyncio.Event()

    @worker.handler("work")
    async def work(number: int) -> int:
        ran.append(number)
        return number

    @worker.handler("long")
    async def long(argument: Any, ctx: Context) -> int:
        started.set()
        await released.wait()
        return ctx.attempt

    async with worker.running(), Pusher(url) as pusher:
        long_id = await pusher.enqueue("long", keep_result=True)
        await asyncio.wait_for(started.wait(), 20)
        accepted: list[str] = []
        is_over = asyncio.Event()

        async def push() -> None:
            number = 0
            while not is_over.is_set():
                accepted.append(await pusher.enqueue("work", number, keep_result=True))
                number += 1

        pushing = asyncio.create_task(push())
        for store in ("b", "default"):
            before = len(accepted)
            status, found = await move(installation, store)
            assert (status, found["move"]["target"]) == (202, store)
            found = await until_ended(installation)
            assert (found["move"]["step"], found["move"]["reason"]) == ("done", "")
            assert (found["store"], found["state"]) == (store, "open")
            await wait_until(lambda before=before: len(accepted) > before + 5, what="pushes go on")
        is_over.set()
        await pushing
        released.set()
        for job_id in accepted:
            found = await pusher.result(job_id, wait=30)
            assert isinstance(found, JobResult)
        # The job that ran through both stops kept its lease: this is its first attempt.
        kept = await pusher.result(long_id, wait=30)
        assert isinstance(kept, JobResult)
        assert kept.result == 1
    assert len(ran) == len(set(ran)) == len(accepted)
    counts = await installation.api("shop").counts()
    assert counts["succeeded"] == len(accepted) + 1
    async with data_in(other, installation) as left:
        assert await left.redis.exists(left.shard.keys.frozen, left.shard.keys.generation) == 1


async def test_calls_meanwhile_are_told_to_come_again_and_an_abort_opens_the_namespace(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    await installation.put("shop")
    await installation.until_served("shop")
    shop, copying, may_go_on = installation.api("shop"), asyncio.Event(), asyncio.Event()
    copy = mover.Mover._copy

    async def held(self: mover.Mover, source: Any, target: Any) -> None:
        copying.set()
        await may_go_on.wait()
        await copy(self, source, target)

    monkeypatch.setattr(mover.Mover, "_copy", held)
    assert (await move(installation, "b"))[0] == 202
    await asyncio.wait_for(copying.wait(), 30)
    refused = await shop.http.get("/api/jobs")
    assert (refused.status_code, refused.json()["code"]) == (503, "namespace_moving")
    assert refused.headers["retry-after"] == "1"
    plain = installation.api()
    for method, path, body in (
        ("POST", "/api/namespaces/shop/move", {"store": "b"}),
        ("POST", "/api/namespaces/shop/close", None),
        ("POST", "/api/namespaces/shop/open", None),
        ("DELETE", "/api/namespaces/shop?confirm=shop&force=true", None),
    ):
        status, answer = await plain.call(method, path, body)
        assert (status, answer["code"]) == (409, "move_under_way"), path
    await plain.enqueue("work")
    status, found = await plain.call("DELETE", "/api/namespaces/shop/move")
    assert (status, found["state"], found["move"]["step"]) == (202, "moving", "copying")
    may_go_on.set()
    found = await until_ended(installation)
    assert (found["move"]["step"], found["state"], found["store"]) == ("aborted", "open", "default")
    assert found["move"]["aborted_by"]
    await installation.until_served("shop")
    status, answer = await plain.call("DELETE", "/api/namespaces/shop/move")
    assert (status, answer["code"]) == (409, "not_moving")


async def test_a_move_that_cannot_be_is_refused_with_its_reason(
    installation: Installation, other: StoreServer
) -> None:
    await installation.put("shop")
    await installation.until_served("shop")
    plain = installation.api()
    for store, word in (("c", "not one of the configured stores"), ("default", "already has the data")):
        status, answer = await move(installation, store)
        assert (status, answer["errors"][0]["loc"]) == (422, ["store"])
        assert word in answer["errors"][0]["msg"]
    status, answer = await plain.call("POST", "/api/namespaces/default/move", {"store": "b"})
    assert (status, answer["code"]) == (409, "default_namespace")
    status, answer = await plain.call("POST", "/api/namespaces/ship/move", {"store": "b"})
    assert (status, answer["code"]) == (404, "unknown_namespace")
    async with data_in(other, installation) as there:
        await there.redis.set(there.shard.keys.job("x"), "of another")
        status, answer = await move(installation, "b", dry_run=True)
        assert (status, answer["code"]) == (409, "namespace_has_data")
        assert "keys with the tag" in answer["detail"]
        await there.redis.set(there.shard.keys.generation, "f" * 32)
        status, answer = await move(installation, "b")
        assert (status, answer["code"]) == (409, "namespace_has_data")
        await there.redis.delete(there.shard.keys.generation, there.shard.keys.job("x"))
    other.stop()
    status, answer = await move(installation, "b")
    assert (status, answer["code"]) == (409, "move_refused")
    _, found = await plain.call("GET", "/api/namespaces/shop")
    assert (found["move"], found["state"]) == (None, "open")


@pytest.mark.system
@pytest.mark.req("D20")
async def test_a_namespace_moves_onto_a_cluster_and_off_again(
    store_server: StoreServer, tmp_path: Path
) -> None:
    cluster = Cluster()
    with started(cluster):
        async with installed(store_server, cluster, tmp_path) as installation:
            await installation.put("shop")
            await installation.until_served("shop")
            shop = installation.api("shop")
            ids = [await shop.enqueue("work", number) for number in range(20)]
            for store in ("b", "default"):
                assert (await move(installation, store))[0] == 202
                found = await until_ended(installation)
                assert (found["move"]["step"], found["move"]["reason"]) == ("done", "")
                await installation.until_served("shop")
                ids.append(await shop.enqueue("work"))
            for job_id in ids:
                assert await shop.state(job_id) == "ready"
