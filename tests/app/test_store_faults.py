"""One of several stores is full or slow: its own namespaces say so or wait, and all others go on. For stores that hang
or die, see test_namespaces.py; for all of this under load, tests/chaos/test_namespaces.py."""

import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from jqmaster.store.link.client import StoreClient
from tests.chaos.proxy import RawLink, Weather
from tests.support import real_time
from tests.support.master import Api
from tests.support.namespaces import Installation, installed
from tests.support.server import StoreServer
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("D29", "D20"), real_time.MASTER]

SLOW_S = 0.3


@contextlib.asynccontextmanager
async def serving(
    store: StoreServer, other: StoreServer, directory: Path, *, by: str | None = None
) -> AsyncIterator[Installation]:
    """Run a master with the namespace shop in the default store, and mail in the other, which it reaches `by` this
    address."""
    stores: dict[str, Any] = {"stores": {"b": {"redis_url": by}}} if by else {}
    async with installed(store, other, directory, **stores) as installation:
        await installation.put("shop")
        await installation.put("mail", "b")
        await installation.until_served("shop", "mail")
        yield installation


async def is_served(api: Api) -> bool:
    status, _ = await api.call("POST", "/api/jobs", {"name": "work"})
    return status == 201


async def assert_served(installation: Installation) -> None:
    """Expect that the namespaces of the default store, and the process, are as if nothing had happened."""
    for api in (installation.api("shop"), installation.api()):
        for _ in range(5):
            await api.enqueue("work")
        status, ready = await api.call("GET", "/readyz")
        assert (status, ready["faults"]) == (200, [])


async def test_a_full_store_refuses_the_pushes_to_its_own_namespaces_with_the_reason(
    store_server: StoreServer, other: StoreServer, tmp_path: Path
) -> None:
    async with serving(store_server, other, tmp_path) as installation:
        mail = installation.api("mail")
        kept = await mail.enqueue("work")
        client = StoreClient(other.admin_url, connections=1)
        await client.command("CONFIG", "SET", "maxmemory-policy", "noeviction", "maxmemory", "1")
        try:

            async def refusal() -> str | None:
                status, answer = await mail.call("POST", "/api/jobs", {"name": "work"})
                return str(answer["detail"]) if status == 503 else None

            assert "memory" in await wait_until(refusal, what="the store is full")
            await assert_served(installation)

            async def unready() -> str | None:
                status, ready = await mail.call("GET", "/readyz")
                return " ".join(ready["faults"]) if status == 503 else None

            assert "full" in await wait_until(unready, what="the namespace says that it is not ready")
            # Reads go on.
            assert await mail.state(kept) == "ready"
        finally:
            await client.command("CONFIG", "SET", "maxmemory", "0")
            await client.close()
        await wait_until(lambda: is_served(mail), what="there is room again")
        await installation.until_served("mail")


async def test_a_slow_store_slows_its_own_namespaces_only(
    store_server: StoreServer, other: StoreServer, tmp_path: Path
) -> None:
    link = RawLink("master>b", str(other.socket), seed=1)
    await link.start()
    try:
        async with serving(
            store_server, other, tmp_path, by=f"redis://127.0.0.1:{link.port}"
        ) as installation:
            shop, mail = installation.api("shop"), installation.api("mail")
            link.change(Weather(delay_answers=1.0, delay_s=SLOW_S))
            took_s = {"shop": 0.0, "mail": 0.0}
            for name, api in (("mail", mail), ("shop", shop)):
                began_s = time.monotonic()
                for _ in range(5):
                    await api.enqueue("work")
                took_s[name] = time.monotonic() - began_s
            # The link delays each answer by a fifth of `SLOW_S` at least, and by three fifths on average.
            assert took_s["mail"] >= 5 * SLOW_S / 5
            # None of its calls waited for the slow store.
            assert took_s["shop"] < took_s["mail"] / 2
            await assert_served(installation)
            link.clear()
            await installation.until_served("mail")
    finally:
        await link.stop()
