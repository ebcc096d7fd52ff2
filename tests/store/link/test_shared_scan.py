"""Checks of many shards share one scan of the store's keys."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from jqmaster.domain.ids import new_id
from jqmaster.errors import StoreUnavailableError
from jqmaster.store.link import shared_scan
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.shared_scan import TURNS
from tests.support.admin import admin_of
from tests.support.server import StoreServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.req("D29", "S6")


class Store:
    """A store in which each of some shards has keys."""

    def __init__(self, client: StoreClient) -> None:
        self.client = client
        self.redis = admin_of(client)
        self.tags = [f"{{scanned-{new_id()}}}:" for _ in range(6)]

    async def fill(self, keys: int) -> None:
        await self.redis.mset({f"{tag}{number}": "" for tag in self.tags for number in range(keys)})

    async def scans(self) -> int:
        """Return the number of scans of the whole store, which fits into one step."""
        stats = await self.redis.info("commandstats")
        return int(stats.get("cmdstat_scan", {"calls": 0})["calls"])

    async def keys_of(self, tag: str) -> list[str] | None:
        async with self.client.scan.keys_of(tag) as found:
            return found and sorted(found)


@pytest.fixture
async def store(lone_server: StoreServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Store]:
    monkeypatch.setattr(shared_scan, "GATHER_S", 0.05)
    # One step, however many keys other tests have left in this store.
    monkeypatch.setattr(shared_scan, "KEYS_PER_STEP", 10_000_000)
    client = StoreClient(lone_server.url)
    client.scan.shards = 6
    one = Store(client)
    await one.redis.config_resetstat()
    yield one
    await one.redis.delete(*[key async for key in one.redis.scan_iter("{scanned-*")] or ["none"])
    await client.close()


async def test_shards_that_wait_share_one_scan_and_get_their_own_keys(store: Store) -> None:
    await store.fill(3)
    found = await asyncio.gather(*map(store.keys_of, store.tags))
    assert found == [[f"{tag}{number}" for number in range(3)] for tag in store.tags]
    assert await store.scans() == 1
    # A later request begins another scan.
    assert await store.keys_of(store.tags[0]) == found[0]
    assert await store.scans() == 2


async def test_the_only_shard_of_a_store_scans_by_itself(store: Store) -> None:
    store.client.scan.shards = 1
    assert await store.keys_of(store.tags[0]) is None
    assert await store.scans() == 0


async def test_shards_without_room_wait_for_the_next_scan(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_scan, "MAX_KEYS", 7)
    await store.fill(3)
    found = await asyncio.gather(*map(store.keys_of, store.tags))
    assert found == [[f"{tag}{number}" for number in range(3)] for tag in store.tags]
    # Two at a time.
    assert await store.scans() == 3


async def test_a_shard_with_too_many_keys_scans_by_itself_and_holds_up_no_other(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_scan, "MAX_KEYS", 2)
    big, small = store.tags[:2]
    await store.redis.mset({f"{big}{number}": "" for number in range(3)} | {f"{small}1": ""})
    async with store.client.scan.keys_of(big) as found:
        assert found is None
        assert await store.keys_of(small) == [f"{small}1"]


async def test_few_shards_are_checked_at_the_same_time(store: Store) -> None:
    under_way, most, go_on = 0, 0, asyncio.Event()

    async def check(tag: str) -> None:
        nonlocal under_way, most
        async with store.client.scan.keys_of(tag):
            under_way += 1
            most = max(most, under_way)
            await go_on.wait()
            under_way -= 1

    checks = [asyncio.create_task(check(tag)) for tag in store.tags]
    await wait_until(lambda: under_way == TURNS, what="all turns are taken")
    go_on.set()
    await asyncio.gather(*checks)
    assert most == TURNS


async def test_a_check_that_ends_early_lets_the_others_go_on(store: Store) -> None:
    await store.fill(1)
    ending, *others = [asyncio.create_task(store.keys_of(tag)) for tag in store.tags]
    await asyncio.sleep(0)
    ending.cancel()
    assert all(await asyncio.gather(*others))
    # One that ends while it has its keys does not hold up the next scan.
    async with asyncio.timeout(30):
        with pytest.raises(ValueError, match="ended"):
            async with store.client.scan.keys_of(store.tags[0]):
                raise ValueError("ended")
        assert await store.keys_of(store.tags[0])


async def test_a_scan_that_fails_tells_every_shard_that_waits(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> None:
        raise StoreUnavailableError("away")

    with monkeypatch.context() as patch:
        patch.setattr(store.client.scan, "_command", away)
        failures = await asyncio.gather(*map(store.keys_of, store.tags), return_exceptions=True)
        assert {type(one) for one in failures} == {StoreUnavailableError}
    await store.fill(1)
    assert await store.keys_of(store.tags[0])
