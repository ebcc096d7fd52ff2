"""One loop renews the locks of all leads on a store, and each lead ends by itself."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any

import pytest

from jqmaster.clock import SystemClock
from jqmaster.domain.operations.master import Pace
from jqmaster.errors import OutcomeUnknownError, StoreUnavailableError
from jqmaster.live_value import LiveValue
from jqmaster.runtime.leadership.renewals import TRUST, HeldLock, Renewals
from jqmaster.store.keys import Keys
from jqmaster.store.leadership.leadership import LeadershipStore
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.scripts import ScriptCall
from jqmaster.store.link.shard import Shard
from tests.support import real_time
from tests.support.admin import admin_of
from tests.support.server import StoreServer
from tests.support.unique import unique
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("D29", "D4", "S6"), real_time.LOOPS]

LEADS = 10
TTL_S = 3.0


class Leads:
    """Leads of one master on a store. `lost`: the numbers of those that it has lost. `trips`: how many calls each round
    trip had."""

    def __init__(self, client: StoreClient) -> None:
        self.client = client
        self.clock = SystemClock()
        self.pace = LiveValue(Pace(TTL_S))
        self.renewals = Renewals(client, self.clock)
        tag = unique("renewed")
        self.shards = [Shard(client, Keys(f"{tag}-{number}")) for number in range(LEADS)]
        self.locks: list[HeldLock] = []
        self.lost: list[int] = []
        self.refusals: set[str] = set()
        self.trips: list[int] = []

    async def begin(self) -> None:
        for number, shard in enumerate(self.shards):
            store, sent_at_s = LeadershipStore(shard), self.clock.monotonic_s()
            leadership = await store.elect("me", "n", ttl_ms=round(TTL_S * 1000))
            assert leadership
            lock = HeldLock(
                store,
                leadership,
                self.pace,
                sent_at_s=sent_at_s,
                ttl_s=TTL_S,
                on_lost=partial(self.lost.append, number),
                on_answer=self.refusals.add,
            )
            self.locks.append(lock)
            self.renewals.hold(lock)

    async def until_renewed(self) -> None:
        before = self.locks[-1].trusted_until_s
        await wait_until(lambda: self.locks[-1].trusted_until_s > before, what="another renewal")


@pytest.fixture
async def leads(lone_server: StoreServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Leads]:
    client = StoreClient(lone_server.url)
    one = Leads(client)
    run_joined = client.run_joined

    async def counting(calls: Sequence[ScriptCall]) -> list[Any]:
        one.trips.append(len(calls))
        return await run_joined(calls)

    monkeypatch.setattr(client, "run_joined", counting)
    await one.renewals.start()
    await one.begin()
    yield one
    await one.renewals.stop()
    redis = admin_of(client)
    for key in [key async for key in redis.scan_iter("*renewed*")]:
        await redis.delete(key)
    await client.close()


async def test_locks_of_many_shards_are_renewed_in_one_round_trip(leads: Leads) -> None:
    for _ in range(3):
        await leads.until_renewed()
    assert set(leads.trips) == {LEADS}
    assert (leads.lost, leads.refusals) == ([], {""})


async def test_a_lock_that_another_holds_is_lost_alone(leads: Leads) -> None:
    await admin_of(leads.client).set(leads.shards[4].keys.leader, "99:other:m9", px=60_000)
    await wait_until(lambda: leads.lost, what="the lead is lost")
    await leads.until_renewed()
    assert leads.lost == [4]
    assert leads.trips[-1] == LEADS - 1


async def test_a_lock_that_cannot_be_read_is_lost_when_its_trust_ends_and_the_others_are_kept(
    leads: Leads,
) -> None:
    damaged = leads.shards[2].keys.leader
    redis = admin_of(leads.client)
    await redis.delete(damaged)
    await redis.lpush(damaged, "damaged")
    until_s = leads.locks[2].trusted_until_s
    await wait_until(lambda: leads.lost, what="the lead is lost")
    assert leads.clock.monotonic_s() >= until_s
    await leads.until_renewed()
    assert leads.lost == [2]


async def test_a_released_lock_is_renewed_no_longer(leads: Leads) -> None:
    leads.renewals.release(leads.locks[0])
    leads.trips.clear()
    await leads.until_renewed()
    assert set(leads.trips) == {LEADS - 1}
    assert leads.lost == []


@pytest.mark.parametrize("error", [StoreUnavailableError("refused"), OutcomeUnknownError("who knows"), None])
async def test_every_lead_ends_in_time_while_the_store_gives_no_answer(
    leads: Leads, monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    async def unanswered(calls: object) -> None:
        if error:
            raise error
        await asyncio.Event().wait()

    await leads.until_renewed()
    until_s = max(lock.trusted_until_s for lock in leads.locks)
    with monkeypatch.context() as patch:
        patch.setattr(leads.client, "run_joined", unanswered)
        await wait_until(lambda: len(leads.lost) == LEADS, what="every lead is lost")
    # Trust counts from the sending of the last answered renewal; a busy machine notices its end a little later.
    assert leads.clock.monotonic_s() - until_s < (1 - TRUST) * TTL_S
    assert sorted(leads.lost) == list(range(LEADS))


async def test_a_shorter_life_counts_from_a_renewal_without_an_answer(
    leads: Leads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The renewal may have shortened the lock."""

    async def unknown(calls: object) -> None:
        raise OutcomeUnknownError("who knows")

    lock = leads.locks[0]
    with monkeypatch.context() as patch:
        patch.setattr(leads.client, "run_joined", unknown)
        leads.pace.current = Pace(0.5)
        before_s = lock.trusted_until_s
        await wait_until(lambda: lock.trusted_until_s < before_s, what="trust is shorter")
