"""More jobs are pushed than the master can take in: it refuses them with a Retry-After before memory grows, and nobody
else waits."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import msgpack
import pytest

from jqmaster.app import Master
from jqmaster.config import KIB, MIB
from jqmaster.domain.ids import new_id
from jqmaster.service.jobs import intake as intake_module
from jqmaster.service.jobs import push_pace as pace_module
from jqmaster.service.jobs.push_pace import PushPace
from tests.support import real_time
from tests.support.clock import ManualClock
from tests.support.master import Api, master_on
from tests.support.scripted_worker import worker_at
from tests.support.server import StoreServer
from tests.support.waiting import wait_until

pytestmark = real_time.MASTER

MSGPACK = {"Content-Type": "application/msgpack", "Accept": "application/msgpack"}
CALM = {"worker_stale_s": 30, "lease_ms": 60_000, "leader_ttl_s": 10.0}


@contextlib.asynccontextmanager
async def held_up(master: Master, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """Block every enqueue at the store."""
    free = asyncio.Event()
    store = master.shard.services.stores.new_jobs
    enqueue = store.enqueue

    async def late(*args: Any, **options: Any) -> Any:
        await free.wait()
        return await enqueue(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(store, "enqueue", late)
        try:
            yield
        finally:
            free.set()


class Pushers:
    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url = url
        self._session = session

    async def push(self, path: str, value: Any, *, is_chunked: bool = False) -> tuple[int, str, int]:
        """Return the status, the code and the seconds of Retry-After."""
        body = msgpack.packb(value)

        async def pieces() -> AsyncIterator[bytes]:
            for start in range(0, len(body), 64 * KIB):
                yield body[start : start + 64 * KIB]

        data = pieces() if is_chunked else body
        async with self._session.post(self._url + path, data=data, headers=MSGPACK) as response:
            answer = msgpack.unpackb(await response.read())
            return response.status, answer.get("code", ""), int(response.headers.get("Retry-After", 0))

    async def single(self, size: int = 10, **options: Any) -> tuple[int, str, int]:
        return await self.push("/api/jobs", {"id": new_id(), "name": "a", "argument": b"x" * size}, **options)

    async def bulk(self, count: int, size: int, **options: Any) -> tuple[int, str, int]:
        jobs = [{"id": new_id(), "name": "a", "argument": b"x" * size} for _ in range(count)]
        return await self.push("/api/jobs/bulk", {"jobs": jobs}, **options)


@contextlib.asynccontextmanager
async def storm_at(store: StoreServer, **settings: Any) -> AsyncIterator[tuple[Master, Api, Pushers]]:
    async with (
        master_on(store.url, **{**CALM, **settings}) as (master, api),
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
    ):
        yield master, api, Pushers(master.server.url, session)


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_bodies_that_are_held_are_bounded_and_the_rest_is_told_when_to_come_back(
    store_server: StoreServer, monkeypatch: pytest.MonkeyPatch, is_chunked: bool
) -> None:
    async with storm_at(store_server, max_intake_bytes=2 * MIB, max_body_bytes=2 * MIB) as (
        master,
        api,
        pushers,
    ):
        async with held_up(master, monkeypatch):
            pushes = [
                asyncio.create_task(pushers.bulk(5, 100 * KIB, is_chunked=is_chunked)) for _ in range(12)
            ]
            # At most four pushes of half a MiB wait; all others are answered meanwhile.
            await wait_until(lambda: sum(push.done() for push in pushes) >= 8, what="the others are refused")
            assert master.shard.services.intake.held_bytes <= 2 * MIB
            for push in pushes:
                if push.done():
                    status, code, retry_after_s = push.result()
                    assert (status, code) == (503, "overloaded")
                    assert retry_after_s >= 1
        answers = [status for status, _, _ in await asyncio.gather(*pushes)]
        assert 1 <= answers.count(201) <= 4
        assert (await api.counts())["ready"] == 5 * answers.count(201), (
            "a refused bulk is not in, an accepted one whole"
        )
        assert (master.shard.services.intake.held_bytes, master.shard.services.intake.pushes) == (0, 0)
        assert (await pushers.bulk(5, 100 * KIB))[0] == 201, "there is room again"


async def test_results_and_heartbeats_are_taken_while_pushes_are_refused(
    store_server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake_module, "MAX_SINGLE", 20)
    async with storm_at(store_server) as (master, api, pushers):
        async with worker_at(api, "a", max_jobs=1) as worker:
            assert (await pushers.single())[0] == 201
            job = await worker.next_job()
            async with held_up(master, monkeypatch):
                pushes = [asyncio.create_task(pushers.single()) for _ in range(40)]
                pushes += [asyncio.create_task(pushers.bulk(10, 10)) for _ in range(20)]
                await wait_until(lambda: sum(push.done() for push in pushes) >= 20, what="pushes are refused")
                status, answer = await worker.beat()
                assert (status, answer["lost"]) == (200, [])
                await worker.end(job)
                await api.until_state(job["job_id"], "succeeded")
            answers = [status for status, _, _ in await asyncio.gather(*pushes)]
        assert sorted(set(answers)) == [201, 503]


async def test_connections_beyond_the_cap_are_for_workers(store_server: StoreServer) -> None:
    async with (
        storm_at(store_server, max_connections=64, address_share=1) as (master, _, pushers),
        contextlib.AsyncExitStack() as stack,
    ):
        for _ in range(64):
            reader, writer = await asyncio.open_connection("127.0.0.1", master.server.port)
            stack.callback(writer.close)
            writer.write(b"GET /api/jobs?limit=1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
        status, code, retry_after_s = await pushers.single()
        assert (status, code) == (503, "overloaded")
        assert retry_after_s == 1
        status, code, _ = await pushers.push(f"/api/workers/{new_id()}/heartbeat", {"running": [], "free": 1})
        assert (status, code) == (404, "unknown_worker"), "it was asked"


async def test_pushes_leave_the_store_to_claims_and_results_while_far_more_waits_than_is_worked_off() -> None:
    load = (pace_module.ENOUGH_WAITING + 1, 1)
    looks = 0

    async def counts() -> tuple[int, int]:
        nonlocal looks
        looks += 1
        return load

    clock = ManualClock()
    pace = PushPace(counts, clock)
    await pace.start()
    try:
        assert looks == 0, "nobody pushes"
        assert pace.rest_s(0.01) == 0
        await wait_until(lambda: pace.is_slowed, what="the first push begins a look")
        assert pace.rest_s(0.01) == pytest.approx(0.01 * pace_module.REST_SHARE)
        assert pace.rest_s(60) == pace_module.LONGEST_REST_S
        load = (pace_module.ENOUGH_WAITING + 1, 0)
        await clock.pass_s(1)
        assert pace.rest_s(0.01) == 0, "nobody works"
        load = (10, 10)
        await clock.pass_s(1)
        assert pace.rest_s(0.01) == 0, "little waits"
    finally:
        await pace.stop()
