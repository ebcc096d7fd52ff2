"""Calls of many shards share a round trip, and none of them suffers for another."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from jqmaster.domain.operations.master import MasterRecord
from jqmaster.errors import DamagedError, OutcomeUnknownError, StoreUnavailableError
from jqmaster.store.keys import Keys
from jqmaster.store.leadership.leadership import LeadershipStore
from jqmaster.store.leadership.masters import MasterStore
from jqmaster.store.link import shared_trips
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.pool import StorePool
from jqmaster.store.link.shard import Shard
from jqmaster.store.link.shared_trips import MAX_TOGETHER, MAX_TRIPS
from jqmaster.store.operations.looks import LookStore
from tests.support.admin import admin_of
from tests.support.server import StoreServer
from tests.support.unique import unique
from tests.support.waiting import wait_until

pytestmark = pytest.mark.req("D29", "S6")

ME = MasterRecord("m1", "node", 1, "http://m1", "0", 0)


class Trips:
    """Shards on one client. `sizes`: of how many shards each round trip had heartbeats; `commands`: in how many
    commands."""

    def __init__(self, client: StoreClient) -> None:
        self.client = client
        self.sizes: list[int] = []
        self.commands: list[int] = []

    def shards(self, count: int) -> list[Shard]:
        self.client.together.shards = count
        tag = unique("shared")
        return [Shard(self.client, Keys(f"{tag}-{number}")) for number in range(count)]


@pytest.fixture
async def trips(lone_server: StoreServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Trips]:
    client = StoreClient(lone_server.url)
    one = Trips(client)
    exchange = StorePool.exchange

    async def counting(self: StorePool, connection: Any, commands: Any, *, writes: bool) -> list[Any]:
        keys_each = len(MasterStore(Shard(client, Keys("any")))._beat_keys)
        if all(command[0] == "EVALSHA" for command in commands):
            one.sizes.append(sum(int(command[2]) // keys_each for command in commands))
            one.commands.append(len(commands))
        return await exchange(self, connection, commands, writes=writes)

    monkeypatch.setattr(StorePool, "exchange", counting)
    yield one
    redis = admin_of(client)
    for key in [key async for key in redis.scan_iter("*shared*")]:
        await redis.delete(key)
    await client.close()


async def test_heartbeats_of_many_shards_share_a_round_trip(trips: Trips) -> None:
    shards = trips.shards(20)
    await MasterStore(shards[0]).beat(ME)
    trips.sizes.clear()
    answers = await asyncio.gather(*(MasterStore(shard).beat(ME) for shard in shards))
    assert trips.sizes == [20]
    assert trips.commands[-1] == 1, "one call of the script for all of them"
    assert [answer.versions for answer in answers] == [(0, 0, 0)] * 20
    seen = await MasterStore(shards[7]).look()
    assert [one.record.id for one in seen.seen] == ["m1"]


async def test_a_single_shard_waits_for_no_other(trips: Trips, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_trips, "GATHER_S", 3600.0)
    (shard,) = trips.shards(1)
    async with asyncio.timeout(60):
        await MasterStore(shard).beat(ME)


async def test_a_round_trip_has_a_bound_because_the_store_runs_its_calls_without_a_pause(
    trips: Trips,
) -> None:
    shards = trips.shards(MAX_TOGETHER + 5)
    await MasterStore(shards[0]).beat(ME)
    trips.sizes.clear()
    await asyncio.gather(*(MasterStore(shard).beat(ME) for shard in shards))
    assert sorted(trips.sizes) == [5, MAX_TOGETHER]


async def test_a_shard_whose_key_is_damaged_fails_alone(trips: Trips) -> None:
    shards = trips.shards(3)
    await admin_of(trips.client).set(shards[1].keys.masters, "damaged")
    found = await asyncio.gather(*(MasterStore(shard).beat(ME) for shard in shards), return_exceptions=True)
    assert [type(one).__name__ for one in found] == ["BeatAnswer", "DamagedError", "BeatAnswer"]
    assert isinstance(found[1], DamagedError)
    # So does a shard that is alone on its store.
    trips.client.together.shards = 1
    with pytest.raises(DamagedError):
        await MasterStore(shards[1]).beat(ME)


async def test_a_lost_lock_is_told_to_its_shard_alone(trips: Trips) -> None:
    stores = [LeadershipStore(shard) for shard in trips.shards(3)]
    leads = [await store.elect("m1", "n", ttl_ms=60_000) for store in stores]
    assert leads[1]
    assert await stores[1].resign(leads[1])
    resignations = (store.resign(lead) for store, lead in zip(stores, leads, strict=True) if lead is not None)
    assert await asyncio.gather(*resignations) == [True, False, True]


async def test_a_store_that_is_away_is_told_to_all_and_a_caller_that_gave_up_keeps_none_waiting(
    trips: Trips, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards = trips.shards(3)
    first, *others = [asyncio.create_task(MasterStore(shard).beat(ME)) for shard in shards]
    await asyncio.sleep(0)
    first.cancel()
    assert len(await asyncio.gather(*others)) == 2

    async def away(*_: object, **more: object) -> None:
        raise StoreUnavailableError("away")

    monkeypatch.setattr(trips.client, "_replies", away)
    found = await asyncio.gather(*(MasterStore(shard).beat(ME) for shard in shards), return_exceptions=True)
    assert [type(one) for one in found] == [StoreUnavailableError] * 3


async def test_calls_that_arrive_while_all_round_trips_are_under_way_wait_for_the_end_of_one(
    trips: Trips, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards = trips.shards(MAX_TRIPS + 1)
    monkeypatch.setattr(shared_trips, "MAX_TOGETHER", 1)
    await MasterStore(shards[0]).beat(ME)
    replies, go_on, under_way = trips.client._replies, asyncio.Event(), 0

    async def slow(*args: Any, **more: Any) -> list[Any]:
        nonlocal under_way
        under_way += 1
        await go_on.wait()
        return await replies(*args, **more)

    monkeypatch.setattr(trips.client, "_replies", slow)
    beats = [asyncio.create_task(MasterStore(shard).beat(ME)) for shard in shards]
    await wait_until(lambda: under_way == MAX_TRIPS, what="as many round trips as there may be")
    # Those who gave up and those whose answers are late hold up no other.
    beats[0].cancel()
    go_on.set()
    assert len(await asyncio.gather(*beats[1:])) == MAX_TRIPS
    assert under_way == MAX_TRIPS + 1


async def test_a_round_trip_that_ends_early_tells_all_who_wait_for_it(
    trips: Trips, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards, is_under_way = trips.shards(3), asyncio.Event()

    async def never(*_: Any, **more: Any) -> list[Any]:
        is_under_way.set()
        return await asyncio.Event().wait()  # type: ignore[return-value]

    monkeypatch.setattr(trips.client, "_replies", never)
    beats = [asyncio.create_task(MasterStore(shard).beat(ME)) for shard in shards]
    await is_under_way.wait()
    (trip,) = [task for task in asyncio.all_tasks() if task.get_name() == "shared round trip"]
    trip.cancel()
    await asyncio.wait(beats)
    assert all(beat.cancelled() for beat in beats)


async def test_reads_wait_for_no_replica_and_do_not_fail_with_writes(
    trips: Trips, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards = trips.shards(3)
    leads = [await LeadershipStore(shard).elect("m1", "n", ttl_ms=60_000) for shard in shards]
    looks = [LookStore(shard) for shard in shards]
    trips.client.quorum_replicas = 1
    confirm, go_on, waiting = trips.client._await_replicas, asyncio.Event(), 0

    async def slow(connection: Any, needed: int) -> None:
        nonlocal waiting
        waiting += 1
        await go_on.wait()
        trips.client._timeout_s = 0.1
        await confirm(connection, needed)

    monkeypatch.setattr(trips.client, "_await_replicas", slow)
    # They begin at the same moment.
    beats = [asyncio.create_task(MasterStore(shard).beat(ME)) for shard in shards]
    async with asyncio.timeout(30):
        found = await asyncio.gather(
            *(look.look(lead.epoch) for look, lead in zip(looks, leads, strict=True) if lead)
        )
    await wait_until(lambda: waiting, what="the writes wait for a replica")
    assert len(found) == 3
    assert not any(beat.done() for beat in beats)
    go_on.set()
    failed = await asyncio.gather(*beats, return_exceptions=True)
    assert [type(one) for one in failed] == [OutcomeUnknownError] * 3
