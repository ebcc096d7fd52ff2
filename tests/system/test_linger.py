"""A master that is told to stop goes on serving while load balancers take it out."""

import asyncio

import httpx
import pytest

from jqmaster import app
from jqmaster.config import Settings
from tests.support import real_time
from tests.support.master import QUICK
from tests.support.server import StoreServer
from tests.support.waiting import wait_until

pytestmark = real_time.PROCESSES


async def readiness(http: httpx.AsyncClient) -> tuple[int, list[str]]:
    answer = await http.get("/readyz")
    return answer.status_code, answer.json()["faults"]


async def test_the_port_stays_open_and_the_lead_goes_at_once(store_server: StoreServer) -> None:
    stop, address = asyncio.Event(), asyncio.get_running_loop().create_future()
    settings = Settings(**QUICK, redis_url=store_server.url, shard="linger", linger_s=3)
    serving = asyncio.create_task(app.serve(settings, stop=stop, ready=address.set_result))
    async with httpx.AsyncClient(base_url=await address, trust_env=False) as http:

        async def leads() -> bool:
            return bool((await http.get("/readyz")).json()["leader"])

        await wait_until(leads)
        async with app.running_master(
            Settings(**QUICK, redis_url=store_server.url, shard="linger")
        ) as successor:
            stop.set()

            async def says_so() -> bool:
                status, faults = await readiness(http)
                return status == 503 and "this master was told to stop" in faults

            await wait_until(says_so)
            # Requests are served, and the other master leads while they are.
            await wait_until(lambda: successor.shard.leader.leadership, timeout_s=2.5)
            pushed = await http.post("/api/jobs", json={"name": "work", "argument": None})
            assert pushed.status_code == 201
            assert not serving.done()
            await serving
        with pytest.raises(httpx.ConnectError):
            await http.get("/healthz")


async def test_clients_with_open_connections_go_elsewhere_while_it_lingers(store_server: StoreServer) -> None:
    stop, address = asyncio.Event(), asyncio.get_running_loop().create_future()
    settings = Settings(**QUICK, redis_url=store_server.url, shard="linger-open", linger_s=3)
    serving = asyncio.create_task(app.serve(settings, stop=stop, ready=address.set_result))
    push = {"name": "work", "argument": None}
    async with httpx.AsyncClient(base_url=await address, trust_env=False) as http:

        async def is_pushed() -> bool:
            pushed = await http.post("/api/jobs", json=push)
            assert "connection" not in pushed.headers
            return pushed.status_code == 201

        await wait_until(is_pushed)
        host, port = http.base_url.host, http.base_url.port
        reader, writer = await asyncio.open_connection(host, port)
        stop.set()

        async def says_so() -> bool:
            return (await readiness(http))[0] == 503

        await wait_until(says_so)
        for answer in (await http.post("/api/jobs", json=push), await http.get("/api/jobs?limit=1")):
            assert answer.is_success
            assert answer.headers["connection"] == "close"
        # Requests that came together are all answered before the connection ends.
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" * 3)
        answers = await reader.read()
        writer.close()
        assert answers.count(b"HTTP/1.1 200 ") == 3
        assert answers.lower().count(b"connection: close") == 1
    await serving


async def test_without_the_setting_a_master_ends_at_once(store_server: StoreServer) -> None:
    stop, address = asyncio.Event(), asyncio.get_running_loop().create_future()
    settings = Settings(**QUICK, redis_url=store_server.url, shard="no-linger")
    assert settings.linger_s == 0
    serving = asyncio.create_task(app.serve(settings, stop=stop, ready=address.set_result))
    await address
    stop.set()
    async with asyncio.timeout(10):
        await serving
