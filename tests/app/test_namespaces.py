"""One process serves several namespaces on two stores, each by its address alone; a store that is away concerns its own
namespaces only."""

import asyncio
import contextlib
import gc
import itertools
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from jqmaster.app import served_namespace, serving
from jqmaster.errors import StoreUnavailableError
from jqmaster.store.keys import Keys
from jqmaster.store.leadership.leadership import LeadershipStore
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.cluster import slot_of
from jqmaster.store.link.shard import Shard
from jqmaster.store.namespaces.frozen import FrozenData
from jqmaster.store.namespaces.namespaces import NamespaceStore
from tests.api.challenges.test_challenges import awaiting
from tests.store.link.test_cluster import shard_on
from tests.support import real_time
from tests.support.namespaces import Installation, installed
from tests.support.scripted_worker import puller_at
from tests.support.server import StoreServer, started
from tests.support.topology import Cluster
from tests.support.waiting import wait_until
from worker_sdk import JobResult, Pusher, Worker

pytestmark = [pytest.mark.req("D29"), real_time.MASTER]


@pytest.fixture
async def installation(
    store_server: StoreServer, other: StoreServer, tmp_path: Path
) -> AsyncIterator[Installation]:
    async with installed(store_server, other, tmp_path) as one:
        yield one


@contextlib.asynccontextmanager
async def working(url: str) -> AsyncIterator[None]:
    """Run a worker that returns its argument and its address."""
    worker = Worker(url)

    @worker.handler("work")
    async def work(argument: Any) -> Any:
        return [argument, url]

    async with worker.running():
        yield


async def test_namespaces_of_two_stores_work_by_their_addresses_alone(installation: Installation) -> None:
    await installation.put("shop")
    await installation.put("mail", "b")
    await installation.until_served("shop", "mail")
    urls = [installation.url, f"{installation.url}/ns/shop", f"{installation.url}/ns/mail"]
    async with contextlib.AsyncExitStack() as stack:
        for url in urls:
            await stack.enter_async_context(working(url))
        for url in urls:
            async with Pusher(url) as pusher:
                found = await pusher.result(await pusher.enqueue("work", 1, keep_result=True), wait=30)
            assert isinstance(found, JobResult)
            assert found.result == [1, url]
    for api in (installation.api(), installation.api("shop"), installation.api("mail")):
        assert (await api.counts())["succeeded"] == 1
        assert len((await api.call("GET", "/api/masters"))[1]["masters"]) == 1


@pytest.mark.req("D29")
async def test_paths_below_ns_are_those_of_the_namespace(installation: Installation) -> None:
    await installation.put("shop")
    await installation.until_served("shop")
    plain, shop = installation.api(), installation.api("shop")
    job_id = await shop.enqueue("work")
    assert (await plain.call("GET", f"/api/jobs/{job_id}"))[0] == 404
    assert await shop.state(job_id) == "ready"
    # The default namespace has this name, too.
    own_id = await plain.enqueue("work")
    assert await installation.api("default").state(own_id) == "ready"
    page = await shop.http.get("/")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    led = await plain.http.get("/ns/shop")
    assert (led.status_code, str(led.next_request.url if led.next_request else "")) == (
        302,
        f"{installation.url}/ns/shop/",
    )
    assert (await shop.call("GET", "/api/no-such-path"))[0] == 404
    metrics = (await shop.http.get("/metrics")).text
    assert 'jqmaster_ready_jobs{name="work"} 1' in metrics


async def test_a_namespace_that_is_not_served_says_why(installation: Installation) -> None:
    api = installation.api()
    status, answer = await api.call("GET", "/ns/nobody/api/jobs")
    assert (status, answer["code"]) == (404, "unknown_namespace")
    assert (await api.http.get("/ns/nobody/readyz")).status_code == 404
    for state in ("closed", "moving", "faulted"):
        await installation.put(state, state=state)

        async def refused(state: str = state) -> Any:
            response = await api.http.get(f"/ns/{state}/api/jobs")
            return response if response.status_code == 503 else None

        response = await wait_until(refused, what=f"namespace {state} is known")
        assert response.json()["code"] == f"namespace_{state}"
        assert response.headers["retry-after"] == "1"
    await installation.put("closed")
    await installation.until_served("closed")
    await installation.put("closed", state="closed")

    async def is_closed() -> bool:
        return (await api.http.get("/ns/closed/api/jobs")).status_code == 503

    await wait_until(is_closed, what="the namespace is closed again")
    registry = NamespaceStore(installation.master.shard.services.link)
    present = await registry.get("closed")
    assert present
    assert await registry.remove(present, b"")

    async def is_unknown() -> bool:
        return (await api.http.get("/ns/closed/api/jobs")).status_code == 404

    await wait_until(is_unknown, what="the namespace is gone")


async def test_a_namespace_on_a_store_that_is_not_configured_says_so(installation: Installation) -> None:
    await installation.put("shop", "c")

    async def fault() -> Any:
        status, ready = await installation.api("shop").call("GET", "/readyz")
        return ready["faults"][0] if status == 503 and "configured" in ready["faults"][0] else None

    assert "add [stores.c] with its redis_url" in await wait_until(fault, what="the fault is shown")
    status, ready = await installation.api().call("GET", "/readyz")
    assert (status, ready["faults"]) == (200, [])
    assert "no store c is configured" in ready["duty_faults"][0]


async def test_a_master_starts_while_another_store_is_away_and_serves_it_when_it_comes(
    store_server: StoreServer, tmp_path: Path
) -> None:
    other = StoreServer()
    try:
        async with installed(store_server, other, tmp_path) as installation:
            await installation.put("mail", "b")
            await installation.put("shop")
            await installation.until_served("shop")
            mail = installation.api("mail")
            status, answer = await mail.call("POST", "/api/jobs", {"name": "work"})
            assert (status, answer["code"]) == (503, "store_unavailable")
            await installation.api().enqueue("work")
            other.start()
            await installation.until_served("mail")
            await mail.enqueue("work")
    finally:
        other.stop()


async def test_a_store_that_hangs_and_dies_concerns_its_own_namespaces_only(
    installation: Installation, other: StoreServer
) -> None:
    await installation.put("shop")
    await installation.put("mail", "b")
    await installation.until_served("shop", "mail")
    shop, mail, plain = installation.api("shop"), installation.api("mail"), installation.api()
    kept = await mail.enqueue("work")
    for number in (signal.SIGSTOP, signal.SIGKILL):
        other.signal(number)

        async def is_away() -> bool:
            status, answer = await mail.call("POST", "/api/jobs", {"name": "work"})
            return status == 503 and answer["code"] in ("store_unavailable", "outcome_unknown")

        await wait_until(is_away, what="the store is away")
        for api in (shop, plain):
            for _ in range(5):
                await api.enqueue("work")
        assert (await mail.call("GET", "/readyz"))[0] == 503
        assert (await plain.call("GET", "/readyz"))[0] == 200
    assert (await shop.call("GET", "/readyz"))[1]["leader"]
    other.kill()
    other.start()
    await installation.until_served("mail")
    assert await mail.state(kept) == "ready"
    assert installation.master.failure is None


@pytest.mark.req("D29")
async def test_other_data_close_their_namespace_only_and_its_own_open_it_again(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served_namespace, "REOPEN_FAULTED_S", 0.2)
    await installation.put("shop")
    await installation.until_served("shop")
    shop, plain = installation.api("shop"), installation.api()
    link = installation.master.shard.services.link
    key = Keys(f"{link.keys.shard}-shop").generation
    mark = await link.client.redis.get(key)
    assert mark
    await link.client.redis.set(key, "others")

    async def fault() -> Any:
        status, ready = await shop.call("GET", "/readyz")
        return ready["faults"][0] if status == 503 and "generation mark" in ready["faults"][0] else None

    await wait_until(fault, what="the namespace is closed")
    status, answer = await shop.call("POST", "/api/jobs", {"name": "work"})
    assert (status, answer["code"]) == (503, "namespace_faulted")
    await plain.enqueue("work")
    status, ready = await plain.call("GET", "/readyz")
    assert (status, ready["faults"]) == (200, [])
    assert "generation mark" in ready["duty_faults"][0]
    assert installation.master.failure is None
    await link.client.redis.set(key, mark)
    await installation.until_served("shop")
    await shop.enqueue("work")


async def test_a_master_that_has_not_heard_of_a_move_yet_raises_no_alarm(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(served_namespace, "REOPEN_FAULTED_S", 2.0)
    await installation.put("shop")
    await installation.until_served("shop")
    shop, plain = installation.api("shop"), installation.api()
    link = installation.master.shard.services.link
    data = FrozenData(Shard(link.client, Keys(f"{link.keys.shard}-shop")), "id-1", 1)
    mark = await data.freeze()
    assert mark

    async def is_told() -> bool:
        status, answer = await shop.call("POST", "/api/jobs", {"name": "work"})
        return (status, answer["code"]) == (503, "namespace_moving")

    await wait_until(is_told, what="calls are told that the namespace is being moved")
    # The registry of this master still says that it is open here.
    assert installation.master.registry.current["shop"].state == "open"
    _, ready = await plain.call("GET", "/readyz")
    assert ready["duty_faults"] == []
    assert [r.message for r in caplog.records if r.levelname == "ERROR"] == []
    # If that lasts, it is told as a fault, with its remedy.
    await wait_until(lambda: "abort-move NAME --force" in caplog.text, what="the fault is logged")
    await data.unfreeze(mark)
    await installation.until_served("shop")
    await shop.enqueue("work")


async def test_callbacks_come_back_to_their_namespace(installation: Installation) -> None:
    await installation.put("shop")
    await installation.until_served("shop")
    shop = installation.api("shop")
    async with puller_at(shop) as worker:
        opened = await awaiting(shop, worker)
        assert opened["callback_url"].startswith(f"{installation.url}/ns/shop/callbacks/")
        answer = await installation.api().http.post(opened["callback_url"], content=b"ok")
        assert answer.status_code == 202
        (job,) = await worker.claim()
        assert job["callback"]["body"] == b"ok"
        await worker.end(job)


async def test_readers_alone_see_why_a_namespace_failed(
    store_server: StoreServer, other: StoreServer, tmp_path: Path
) -> None:
    tokens = ["read:reader-token", "push:pusher-token"]
    async with installed(store_server, other, tmp_path, tokens=tokens) as installation:
        await installation.put("shop", "c")

        async def refused(token: str) -> str | None:
            status, answer = await installation.api("shop", token).call("GET", "/api/jobs")
            return answer["detail"] if (status, answer["code"]) == (503, "namespace_faulted") else None

        told = await wait_until(lambda: refused("reader-token"), what="readers see it")
        assert "no store c is configured" in told
        assert await refused("pusher-token") == "namespace shop has failed on this master"
        _, ready = await installation.api("shop", "pusher-token").call("GET", "/readyz")
        assert ready["faults"] == ["namespace_faulted"]


async def test_a_master_that_stops_gives_the_leads_of_its_namespaces_back(
    store_server: StoreServer, other: StoreServer, tmp_path: Path
) -> None:
    async with installed(store_server, other, tmp_path) as installation:
        await installation.put("shop")
        await installation.put("mail", "b")
        await installation.until_served("shop", "mail")
        shard = installation.master.settings.shard
    client = StoreClient(other.url, connections=2)
    try:
        assert await LeadershipStore(Shard.bound(client, Keys(f"{shard}-mail"))).current() is None
    finally:
        await client.close()


@pytest.mark.system
@pytest.mark.req("D20")
async def test_a_change_of_leaders_is_no_fault_although_nobody_has_asked_before(
    installation: Installation,
) -> None:
    await installation.put("shop")
    led = await wait_until(lambda: installation.master.namespaces.led().get("shop"), what="shop is led")
    await led.leader.stop()
    try:
        shop = installation.api("shop")
        assert (await shop.call("GET", "/readyz"))[0] == 200

        async def faults() -> Any:
            status, answer = await shop.call("GET", "/readyz")
            return status == 503 and answer["faults"]

        assert await wait_until(faults, what="the lack of a leader lasts") == ["no master leads"]
    finally:
        await led.leader.start()


async def test_namespaces_on_a_cluster_are_spread_over_its_nodes(
    store_server: StoreServer, tmp_path: Path
) -> None:
    cluster = Cluster()
    with started(cluster):
        async with installed(store_server, cluster, tmp_path) as installation:
            tags = [shard_on(cluster, node)[0] for node in cluster.primaries[:2]]
            for name, tag in zip(("shop", "mail"), tags, strict=True):
                await installation.put(name, "b", tag=tag)
            await installation.until_served("shop", "mail")
            for name in ("shop", "mail"):
                async with working(f"{installation.url}/ns/{name}"):
                    api = installation.api(name)
                    await api.until_state(await api.enqueue("work", 1), "succeeded")
            assert installation.master.failure is None


@pytest.mark.system
@pytest.mark.req("D20")
async def test_two_namespaces_never_share_a_slot_of_a_cluster(
    store_server: StoreServer, tmp_path: Path
) -> None:
    cluster = Cluster()
    with started(cluster):
        async with installed(store_server, cluster, tmp_path) as installation:
            api = installation.api()
            assert (await api.call("PUT", "/api/namespaces/shop", {"store": "b"}))[0] == 201
            twin = next(tag for n in itertools.count() if slot_of(tag := f"t{n}") == slot_of("shop"))
            status, answer = await api.call("PUT", "/api/namespaces/mail", {"store": "b", "tag": twin})
            assert (status, answer["errors"][0]["loc"]) == (409, ["tag"])
            assert "same slot" in answer["detail"]
            assert "namespace shop" in answer["detail"]
            # In a store without slots, the tag is as good as any other.
            fields = {"store": "default", "tag": f"{installation.master.settings.shard}-{twin}"}
            assert (await api.call("PUT", "/api/namespaces/mail", fields))[0] == 201


async def test_more_namespaces_than_connections_to_their_store_are_served(
    store_server: StoreServer, other: StoreServer, tmp_path: Path
) -> None:
    names = [f"n{number:02}" for number in range(12)]
    async with installed(store_server, other, tmp_path, store_connections=8) as installation:
        for name in names:
            await installation.put(name, "b")
        await installation.until_served(*names)
        for name in names:
            await installation.api(name).enqueue("work")


async def test_a_namespace_that_was_closed_leaves_nothing_in_the_process(installation: Installation) -> None:
    await installation.put("shop")
    await installation.until_served("shop")

    def followers() -> int:
        return len(installation.master.store._followers)

    before = followers()
    for _ in range(2):
        await installation.put("shop", state="closed")
        await wait_until(lambda: followers() == before - 1, what="the closed namespace follows nothing")
        await installation.put("shop")
        await installation.until_served("shop")
        assert followers() == before


async def test_namespaces_have_no_namespaces_below_them(installation: Installation) -> None:
    await installation.put("shop")
    await installation.until_served("shop")
    for path in (
        "/ns/default/ns/shop/api/jobs",
        "/ns/default/ns/default/api/jobs",
        "/ns/shop/ns/shop/api/jobs",
    ):
        assert (await installation.api().call("GET", path))[0] == 404


async def test_a_namespace_whose_entry_cannot_be_read_is_not_told_to_be_none(
    installation: Installation,
) -> None:
    link = installation.master.shard.services.link
    await link.client.command("HSET", link.keys.namespaces, "shop", b"damaged")
    await installation.put("mail")
    response = await installation.api("shop").http.get("/api/jobs")
    assert (response.status_code, response.json()["code"]) == (503, "namespace_faulted")
    assert response.headers["retry-after"] == "5"
    assert "the entry of namespace shop in the registry cannot be read" in response.json()["detail"]
    assert (await installation.api().call("GET", "/ns/nobody/api/jobs"))[0] == 404
    await link.client.command("HDEL", link.keys.namespaces, "shop")


async def test_a_stall_in_one_namespace_costs_no_other_a_connection(
    store_server: StoreServer, other: StoreServer, tmp_path: Path
) -> None:
    async with installed(store_server, other, tmp_path, store_timeout_s=10) as installation:
        for name in ("shop", "mail"):
            await installation.put(name, "b")
        await installation.until_served("shop", "mail")
        opened = [installation.master.namespaces._served[name]._open for name in ("shop", "mail")]
        shop, mail = (one.shard for one in opened if one)
        client = shop.services.link.client
        other.signal(signal.SIGSTOP)
        try:
            stalled, going_on = (
                asyncio.create_task(client.command("EXISTS", shard.services.link.keys.leader))
                for shard in (shop, mail)
            )
            await asyncio.sleep(0.1)
            await shop._watchdog._rebuild()
            with pytest.raises(StoreUnavailableError):
                await asyncio.wait_for(stalled, 5)
        finally:
            other.signal(signal.SIGCONT)
        assert await going_on in (0, 1)  # the lock may have expired meanwhile
        for name in ("shop", "mail"):
            await installation.api(name).enqueue("work")


async def test_open_namespaces_are_spared_by_garbage_collection_and_closed_ones_are_freed_in_the_end(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    monkeypatch.setattr(gc, "freeze", lambda: done.append("freeze"))
    monkeypatch.setattr(gc, "unfreeze", lambda: done.append("unfreeze"))
    monkeypatch.setattr(serving, "FREED_AT", 2)
    serving._spare_open_namespaces(installation.master)
    namespaces = installation.master.namespaces
    for name in ("shop", "mail"):
        await installation.put(name)
        await installation.until_served(name)
    assert done == ["freeze"] * 3
    for name in ("shop", "mail"):
        await installation.put(name, state="closed")
        await wait_until(lambda name=name: not namespaces.is_serving(name), what=f"{name} is closed")
    assert done == ["freeze"] * 3 + ["unfreeze"]
