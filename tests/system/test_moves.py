"""Real masters move a namespace under pushes: the one that moves it is killed, and another one is stopped."""

import asyncio
import contextlib
import signal
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from jqmaster.store.health import generation
from jqmaster.store.keys import Keys
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.shard import Shard
from tests.support import real_time
from tests.support.master import Api, assert_sound, forget
from tests.support.processes import MasterProcess, running
from tests.support.server import StoreServer, started
from tests.support.store import StoreWorld
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.system,
    pytest.mark.req("D29"),
    pytest.mark.timeout(240),
    real_time.PROCESSES,
]
# Enough to be copied for a while.
WAITING = 6_000


@pytest.fixture
def other() -> Iterator[StoreServer]:
    server = StoreServer()
    with started(server):
        yield server


class Installation:
    """Masters with the stores `default` and `b`, and the namespace `shop` with waiting jobs."""

    def __init__(self, directory: Path, store: StoreServer, other: StoreServer) -> None:
        self.store, self.other = store, other
        self.shard = f"s{uuid.uuid4().hex[:10]}"
        self.tag = f"{self.shard}-shop"
        self.masters: dict[str, MasterProcess] = {}
        self.plain: dict[str, Api] = {}
        self.shop: dict[str, Api] = {}
        self.accepted: list[str] = []
        for name in ("a", "b", "c"):
            (directory / name).mkdir()
            more: dict[str, Any] = {"stores__b__redis_url": other.url, "leader_ttl_s": 2.5}
            process = MasterProcess(
                directory / name, store.url, shard=self.shard, node_id=name, store_timeout_s=5, **more
            )
            self.masters[name] = process
            self.plain[name], self.shop[name] = Api(process.url), Api(f"{process.url}/ns/shop")

    async def begin(self) -> None:
        """Create the namespace with its jobs."""
        assert (await self.plain["a"].call("PUT", "/api/namespaces/shop", {"tag": self.tag}))[0] == 201
        for name in self.masters:
            await self.until_served(name)
        for begin in range(0, WAITING, 500):
            ids = [str(uuid.uuid4()) for _ in range(500)]
            jobs = [{"id": job_id, "name": "work", "argument": begin} for job_id in ids]
            status, answer = await self.shop["a"].call("POST", "/api/jobs/bulk", {"jobs": jobs})
            assert status == 201, answer
            self.accepted += ids

    async def until_served(self, name: str) -> None:
        async def serves() -> bool:
            status, _ = await self.shop[name].call("GET", "/readyz")
            return status == 200

        await wait_until(serves, what=f"{name} serves the namespace", timeout_s=60)

    async def push(self, name: str, is_over: asyncio.Event) -> None:
        """Push again and again, with the same ID until it is accepted."""
        number = 0
        while not is_over.is_set():
            job_id = str(uuid.uuid4())
            while True:
                with contextlib.suppress(httpx.TransportError):
                    body = {"id": job_id, "name": "work", "argument": number}
                    status, answer = await self.shop[name].call("POST", "/api/jobs", body)
                    if status in (200, 201):
                        break
                    assert (status, answer["code"]) in (
                        (503, "namespace_moving"), (503, "namespace_starting"), (503, "namespace_closed"),
                        (503, "store_unavailable"), (503, "outcome_unknown"), (503, "namespace_faulted"),
                    ), answer  # fmt: skip
                await asyncio.sleep(0.05)
            self.accepted.append(job_id)
            number += 1
            await asyncio.sleep(0.02)

    async def seen(self, name: str) -> dict[str, Any]:
        _, found = await self.plain[name].call("GET", "/api/namespaces/shop")
        return found

    async def ended(self, name: str) -> dict[str, Any]:
        async def has_ended() -> dict[str, Any] | None:
            found = await self.seen(name)
            return found if found["move"]["ended_at"] else None

        return await wait_until(has_ended, what="the move has ended", timeout_s=90)

    async def check(self, name: str) -> None:
        """Check that each accepted job is in the new store, that the former one serves nothing, and that nothing came
        from nowhere."""
        await self.until_served(name)
        found: dict[str, bool] = {}
        for server in (self.store, self.other):
            client = StoreClient(server.url, connections=2)
            try:
                shard = Shard(client, Keys(self.tag))
                found[server.url] = await generation.read(shard) is not None
                if server is self.other:
                    jobs = await StoreWorld(shard).records.get_without_argument(self.accepted)
                    assert jobs.keys() == set(self.accepted)
            finally:
                await client.close()
        assert found == {self.store.url: False, self.other.url: True}
        counts = await self.shop[name].counts()
        assert sum(counts.values()) == len(self.accepted)
        await assert_sound(self.other.url, self.tag)


@contextlib.asynccontextmanager
async def installed(directory: Path, store: StoreServer, other: StoreServer) -> AsyncIterator[Installation]:
    one = Installation(directory, store, other)
    with running(*one.masters.values()):
        await one.begin()
        try:
            yield one
        finally:
            for api in (*one.plain.values(), *one.shop.values()):
                await api.http.aclose()
    await forget(store.url, one.tag)
    await forget(store.url, one.shard)


async def test_another_master_ends_the_move_after_the_mover_was_killed(
    store_server: StoreServer, other: StoreServer, tmp_path: Path
) -> None:
    async with installed(tmp_path, store_server, other) as one:
        ids = {(await api.call("GET", "/healthz"))[1]["id"]: name for name, api in one.plain.items()}
        is_over = asyncio.Event()
        pushing = asyncio.create_task(one.push("c", is_over))
        # Master c takes the pushes, and may be the mover.
        assert (await one.plain["a"].call("POST", "/api/namespaces/shop/move", {"store": "b"}))[0] == 202

        async def copies() -> str | None:
            move = (await one.seen("a"))["move"]
            assert move["ended_at"] is None, "it was too quick for this test"
            return ids.get(move["mover"]) if move["copied_keys"] else None

        killed = await wait_until(copies, what="the data are being copied", timeout_s=60)
        one.masters[killed].kill()
        others = [name for name in one.masters if name != killed]
        found = await one.ended(others[0])
        assert (found["move"]["step"], found["store"], found["state"]) == ("done", "b", "open")
        if killed == "c":
            one.masters["c"].start()
        for name in others:
            await one.until_served(name)
        before = len(one.accepted)
        await wait_until(lambda: len(one.accepted) > before + 3, what="pushes go on", timeout_s=30)
        is_over.set()
        await pushing
        await one.check(others[0])


async def test_a_master_that_sleeps_through_a_move_serves_the_new_store_when_it_wakes(
    store_server: StoreServer, other: StoreServer, tmp_path: Path
) -> None:
    async with installed(tmp_path, store_server, other) as one:
        is_over = asyncio.Event()
        pushing = asyncio.create_task(one.push("a", is_over))
        one.masters["c"].signal(signal.SIGSTOP)
        # It has requests that it has not read yet.
        late = [
            asyncio.create_task(one.shop["c"].call("POST", "/api/jobs", {"name": "late"})) for _ in range(5)
        ]
        assert (await one.plain["a"].call("POST", "/api/namespaces/shop/move", {"store": "b"}))[0] == 202
        found = await one.ended("a")
        assert (found["move"]["step"], found["move"]["reason"], found["store"]) == ("done", "", "b")
        one.masters["c"].signal(signal.SIGCONT)
        for answer in await asyncio.gather(*late, return_exceptions=True):
            if isinstance(answer, tuple) and answer[0] == 201:
                one.accepted.append(answer[1]["id"])
        await one.until_served("c")
        one.accepted.append(await one.shop["c"].enqueue("work"))
        is_over.set()
        await pushing
        await one.check("c")
