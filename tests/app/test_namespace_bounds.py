"""The namespaces of a process share its memory for bodies, its event streams and its places for calls; a namespace that
floods it leaves room for the others."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from jqmaster.api.http import endpoint
from tests.support import real_time
from tests.support.namespaces import Installation, installed
from tests.support.server import StoreServer
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("D29", "D15"), real_time.MASTER]

KIB, MIB = 1024, 1024 * 1024
MSGPACK = {"Content-Type": "application/msgpack", "Accept": "application/json"}
REFUSED = "overloaded"


@contextlib.asynccontextmanager
async def two_namespaces(
    store: StoreServer, other: StoreServer, directory: Path, **settings: Any
) -> AsyncIterator[tuple[Installation, aiohttp.ClientSession]]:
    """Run a master with the namespaces shop and mail, and a client for floods."""
    async with (
        installed(store, other, directory, **settings) as installation,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
    ):
        await installation.put("shop")
        await installation.put("mail", "b")
        await installation.until_served("shop", "mail")
        yield installation, session


async def test_bodies_of_all_namespaces_are_held_in_one_bound_and_none_takes_all(
    store_server: StoreServer, other: StoreServer, tmp_path: Path
) -> None:
    bounds: dict[str, Any] = {"max_intake_bytes": MIB, "max_body_bytes": MIB}
    async with two_namespaces(store_server, other, tmp_path, **bounds) as (installation, session):
        end = asyncio.Event()

        async def unfinished() -> AsyncIterator[bytes]:
            yield b"x" * 100 * KIB
            await end.wait()
            yield b"x"

        async def push(namespace: str) -> int:
            url = f"{installation.url}/ns/{namespace}/api/jobs/bulk"
            async with session.post(url, data=unfinished(), headers=MSGPACK) as answer:
                return answer.status

        held = installation.master.shared.portions.intake.held_bytes.shared
        shop = [asyncio.create_task(push("shop")) for _ in range(16)]
        await wait_until(lambda: sum(one.done() for one in shop) >= 8, what="most of shop are refused")
        await wait_until(lambda: held.taken >= 700 * KIB, what="the others are held")
        assert held.taken <= 0.75 * MIB
        mail = [asyncio.create_task(push("mail")) for _ in range(16)]
        await wait_until(lambda: sum(one.done() for one in mail) >= 14, what="most of mail are refused")
        assert held.taken <= MIB
        # A namespace that holds nothing gets in beside two floods.
        await installation.api().enqueue("work", "x" * 20 * KIB)
        end.set()
        statuses = await asyncio.gather(*shop, *mail)
        assert set(statuses) == {400, 503}
        await wait_until(lambda: held.taken == 0, what="the room is given back")


async def test_a_namespace_that_opens_streams_leaves_some_to_the_others(
    store_server: StoreServer, other: StoreServer, tmp_path: Path
) -> None:
    async with two_namespaces(store_server, other, tmp_path, max_streams=8) as (installation, session):
        async with contextlib.AsyncExitStack() as stack:

            async def opened(namespace: str) -> int:
                answer = await session.get(f"{installation.url}/ns/{namespace}/api/stream")
                stack.callback(answer.close)
                return answer.status

            assert [await opened("shop") for _ in range(8)] == [200] * 6 + [503] * 2
            assert await opened("mail") == 200
            assert await opened("default") == 200
        streams = installation.master.shared.portions.streams.shared
        await wait_until(lambda: streams.taken == 0, what="all streams have ended")


async def test_calls_that_wait_in_one_namespace_leave_places_to_the_others(
    store_server: StoreServer, other: StoreServer, tmp_path: Path
) -> None:
    async with two_namespaces(store_server, other, tmp_path, max_connections=64) as (installation, session):
        jobs = {name: await installation.api(name).enqueue("work") for name in ("shop", "mail")}

        async def waits(namespace: str) -> int:
            path = f"/ns/{namespace}/api/jobs/{jobs[namespace]}/result?wait=8"
            async with session.get(f"{installation.url}{path}") as answer:
                return answer.status

        shop = [asyncio.create_task(waits("shop")) for _ in range(48)]
        places = installation.master.shared.portions.waiting.shared
        # Three quarters of the 48 places for clients are taken.
        await wait_until(lambda: places.taken == 36, what="shop waits in all places that it gets")
        await wait_until(
            lambda: sum(one.done() for one in shop) == 12, what="the rest of shop is answered at once"
        )
        mail = asyncio.create_task(waits("mail"))
        await wait_until(lambda: places.taken == 37, what="mail waits, too")
        await asyncio.gather(*shop, mail)
        await wait_until(lambda: places.taken == 0, what="the places are given back")


async def test_calls_that_a_hung_store_holds_up_leave_places_to_other_namespaces(
    store_server: StoreServer, other: StoreServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "FEW_CALLS", 4)
    settings: dict[str, Any] = {"max_connections": 200, "address_share": 1.0, "store_timeout_s": 5.0}
    async with two_namespaces(store_server, other, tmp_path, **settings) as (installation, session):
        calls = installation.master.shared.portions.calls.shared
        most = calls.most.current
        assert most == 200
        other.signal(signal.SIGSTOP)
        try:

            async def read() -> tuple[int, str]:
                async with session.get(f"{installation.url}/ns/mail/api/jobs") as answer:
                    return answer.status, (await answer.json()).get("code", "")

            floods = [asyncio.create_task(read()) for _ in range(170)]
            await wait_until(lambda: sum(one.done() for one in floods) >= 19, what="mail is refused")
            assert calls.taken <= 0.75 * most + 1
            assert {one.result() for one in floods if one.done()} <= {
                (503, REFUSED),
                (503, "store_unavailable"),
            }
            await installation.api("shop").enqueue("work")
            plain = installation.api()

            async def is_ready() -> bool:
                return (await plain.call("GET", "/readyz"))[0] == 200

            await wait_until(is_ready, what="the process is ready while the calls still wait")
            assert not all(one.done() for one in floods)
        finally:
            other.signal(signal.SIGCONT)
        answers = await asyncio.gather(*floods)
        assert (503, REFUSED) in answers
        await wait_until(lambda: calls.taken == 0, what="all calls have ended")


async def test_previews_of_one_namespace_leave_a_turn_to_another(
    store_server: StoreServer, other: StoreServer, tmp_path: Path
) -> None:
    async with two_namespaces(store_server, other, tmp_path) as (installation, _):
        mine = installation.master.shared.portions.previews
        assert mine.has_room()
        mine.take()
        matcher = {"matcher": {"field": "name", "op": "eq", "value": "work"}}
        status, answer = await installation.api().call("POST", "/api/constraints/preview", matcher)
        assert (status, answer["code"]) == (503, REFUSED)
        status, _ = await installation.api("shop").call("POST", "/api/constraints/preview", matcher)
        assert status == 200
        mine.give()
