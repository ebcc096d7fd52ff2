"""A master publishes to the node of the shard alone while all masters hear that."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from jqmaster.domain.operations.master import MasterRecord, Pace
from jqmaster.errors import StoreUnavailableError
from jqmaster.live_value import LiveValue
from jqmaster.runtime.leadership.sharding import Sharding
from jqmaster.store.leadership.masters import MasterStore
from tests.support.clock import ManualClock
from tests.support.store import StoreWorld

pytestmark = pytest.mark.req("D20", "M12")

PACE = Pace(5.0)
NEW = MasterRecord("new", "node", 1, "http://new", "2", 1, listens_sharded=True)
FORMER = MasterRecord("former", "node", 1, "http://former", "1", 1)


class Choosing:
    def __init__(self, world: StoreWorld) -> None:
        self.world = world
        self.clock = ManualClock()
        self.masters = MasterStore(world.shard)
        self.client = world.shard.client
        self.client.publishes_sharded = False
        self.sharding = Sharding(self.masters, self.client, self.clock, pace=LiveValue(PACE))

    async def next(self) -> bool:
        """Return how it publishes after one more beat."""
        await self.clock.pass_s(PACE.beat_s)
        return self.client.publishes_sharded


@pytest.fixture
async def choosing(world: StoreWorld) -> AsyncIterator[Choosing]:
    one = Choosing(world)
    await one.masters.beat(NEW)
    await one.sharding.start()
    await one.clock.asleep()
    yield one
    await one.sharding.stop()
    one.client.publishes_sharded = one.client.is_on_cluster


async def test_all_hear_it(choosing: Choosing) -> None:
    assert choosing.client.publishes_sharded
    await choosing.masters.beat(replace(NEW, id="other"))
    assert await choosing.next()


async def test_a_master_of_a_former_release_is_heeded_from_its_first_beat_to_its_end(
    choosing: Choosing,
) -> None:
    await choosing.masters.beat(FORMER)
    assert not await choosing.next()
    assert not await choosing.next()
    await choosing.masters.forget(FORMER.id)
    assert await choosing.next()


async def test_a_master_whose_entry_cannot_be_read_may_be_one(choosing: Choosing) -> None:
    await choosing.world.redis.hset(choosing.world.shard.keys.master_info, "bad", b"\xc1")
    assert not await choosing.next()
    await choosing.world.redis.hdel(choosing.world.shard.keys.master_info, "bad")
    assert await choosing.next()


async def test_it_stays_as_it_is_while_the_store_is_away(
    choosing: Choosing, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away() -> bool:
        raise StoreUnavailableError("away")

    with monkeypatch.context() as patch:
        patch.setattr(choosing.masters, "all_listen_sharded", away)
        assert await choosing.next()
    await choosing.masters.beat(FORMER)
    await choosing.clock.pass_s(5)
    assert not choosing.client.publishes_sharded
