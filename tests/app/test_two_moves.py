"""One master moves namespaces between its stores: two of them at once, and one with many jobs."""

import time
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from jqmaster.service.namespaces.moves import MIN_LEASE_MS
from jqmaster.store.keys import Keys
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.shard import Shard
from tests.support import real_time
from tests.support.long import size
from tests.support.namespaces import Installation, installed
from tests.support.server import StoreServer, started
from tests.support.store import StoreWorld
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("D29"), real_time.MASTER]
BULK = 1_000


@pytest.fixture
def other() -> Iterator[StoreServer]:
    server = StoreServer()
    with started(server):
        yield server


@pytest.fixture
async def installation(
    lone_server: StoreServer, other: StoreServer, tmp_path: Path
) -> AsyncIterator[Installation]:
    async with installed(lone_server, other, tmp_path) as one:
        yield one


async def ordered(one: Installation, name: str, store: str) -> None:
    status, answer = await one.api().call("POST", f"/api/namespaces/{name}/move", {"store": store})
    assert status == 202, answer


async def ended(one: Installation, name: str, *, timeout_s: float = 60) -> dict[str, Any]:
    api = one.api()

    async def has_ended() -> dict[str, Any] | None:
        found = (await api.call("GET", f"/api/namespaces/{name}"))[1]
        return found if found["move"]["ended_at"] else None

    return await wait_until(has_ended, what=f"the move of {name} has ended", timeout_s=timeout_s)


async def assert_only_there(url: str, elsewhere: str, tag: str, ids: list[str]) -> None:
    """Check that the store has all jobs of the namespace, and that masters serve nothing of it in the other one."""
    for place, is_there in ((url, True), (elsewhere, False)):
        client = StoreClient(place, connections=2)
        try:
            world = StoreWorld(Shard(client, Keys(tag)))
            assert (await client.command("EXISTS", world.shard.keys.generation)) == is_there
            if is_there:
                found: set[str] = set()
                for begin in range(0, len(ids), BULK):
                    found |= (await world.records.get_without_argument(ids[begin : begin + BULK])).keys()
                assert found == set(ids)
        finally:
            await client.close()


async def test_two_moves_in_opposite_directions_end_as_if_each_were_alone(
    installation: Installation, lone_server: StoreServer, other: StoreServer
) -> None:
    await installation.put("shop")
    await installation.put("mail", "b")
    await installation.until_served("shop", "mail")
    jobs = {
        name: [await installation.api(name).enqueue("work") for _ in range(20)] for name in ("shop", "mail")
    }
    await ordered(installation, "shop", "b")
    await ordered(installation, "mail", "default")
    found = {name: await ended(installation, name) for name in ("shop", "mail")}
    assert {name: (one["store"], one["move"]["step"]) for name, one in found.items()} == {
        "shop": ("b", "done"),
        "mail": ("default", "done"),
    }
    await installation.until_served("shop", "mail")
    for name, ids in jobs.items():
        assert [await installation.api(name).state(job_id) for job_id in ids] == ["ready"] * 20
    shard = installation.master.settings.shard
    await assert_only_there(other.url, lone_server.url, f"{shard}-shop", jobs["shop"])
    await assert_only_there(lone_server.url, other.url, f"{shard}-mail", jobs["mail"])
    # The former copies are known to be removed; the next move goes over them.
    await ordered(installation, "shop", "default")
    assert (await ended(installation, "shop"))["store"] == "default"


@pytest.mark.sized
@pytest.mark.timeout(600)
async def test_many_jobs_are_moved_before_running_jobs_lose_their_leases(
    installation: Installation, lone_server: StoreServer, other: StoreServer
) -> None:
    await installation.put("shop")
    await installation.until_served("shop")
    shop = installation.api("shop")
    ids: list[str] = []
    for begin in range(0, size(2_000, 100_000), BULK):
        page = [str(uuid.uuid4()) for _ in range(BULK)]
        jobs = [{"id": job_id, "name": "work", "argument": {"number": begin}} for job_id in page]
        status, answer = await shop.call("POST", "/api/jobs/bulk", {"jobs": jobs})
        assert status == 201, answer
        ids += page
    await ordered(installation, "shop", "b")
    stopped_s = opened_s = 0.0

    async def is_back() -> bool:
        nonlocal stopped_s, opened_s
        status, _ = await shop.call("GET", "/readyz")
        now_s = time.monotonic()
        if status != 200 and not stopped_s:
            stopped_s = now_s
        opened_s = now_s
        return bool(stopped_s) and status == 200

    await wait_until(is_back, what="the namespace is served again", timeout_s=500)
    found = await ended(installation, "shop")
    assert (found["store"], found["move"]["step"]) == ("b", "done")
    stop_s = opened_s - stopped_s
    print(f"\n{len(ids):,} jobs: stopped for {stop_s:.1f} s, announced {found['move']['stop_s']:.1f} s")
    assert stop_s < MIN_LEASE_MS / 1000
    shard = installation.master.settings.shard
    await assert_only_there(other.url, lone_server.url, f"{shard}-shop", ids)
    assert (await shop.counts())["ready"] == len(ids)
