"""elect.lua, renew_leaderships.lua, resign.lua."""

from dataclasses import replace

import pytest

from jqmaster.store.leadership.leadership import Leadership, Renewed
from tests.support.leads import renewed
from tests.support.store import StoreWorld


@pytest.mark.req("D1")
async def test_nobody_is_elected_while_another_leads(world: StoreWorld) -> None:
    async with world.unchanged():
        assert await world.leadership.elect("master-2", "other", ttl_ms=600_000) is None
    assert await world.leadership.current() == Leadership(world.epoch, "master-1")


@pytest.mark.req("D2")
async def test_the_lock_of_a_dead_leader_does_not_outlive_a_clock_that_was_set_back(
    world: StoreWorld,
) -> None:
    """The lock lives until an instant of the store's clock: set back by an hour, it would live an hour longer."""
    redis, k = world.redis, world.shard.keys
    await redis.pexpire(k.leader, 3_600_000)
    assert await world.leadership.elect("master-2", "other", ttl_ms=5_000) is None
    left_ms = await redis.pttl(k.leader)
    assert 5_000 < left_ms <= 20_000
    # A lock that may be alive is left alone, even if its holder's setting is longer.
    await redis.pexpire(k.leader, 15_000)
    assert await world.leadership.elect("master-2", "other", ttl_ms=5_000) is None
    assert 10_000 < await redis.pttl(k.leader) <= 15_000
    await redis.pexpire(k.leader, 600_000)


@pytest.mark.req("D1", "D2")
async def test_the_epoch_grows_with_the_clock_and_without_it(world: StoreWorld) -> None:
    first = Leadership(world.epoch, "master-1")
    assert first.number == world.now_ms
    assert await world.leadership.resign(first)
    assert await world.leadership.current() is None
    # The clock stands still, then goes back.
    second = await world.leadership.elect("master:2", "n2", ttl_ms=1_000)
    assert second == Leadership(f"{first.number + 1}:n2", "master:2")
    assert await world.leadership.current() == second
    await world.leadership.resign(second)
    world.pass_ms(-10_000)
    third = await world.leadership.elect("master-3", "n3", ttl_ms=60_000)
    assert third == Leadership(f"{first.number + 2}:n3", "master-3")
    await world.leadership.resign(third)
    world.pass_ms(20_000)
    fourth = await world.leadership.elect("master-3", "n4", ttl_ms=60_000)
    assert fourth
    assert fourth.number == world.now_ms


@pytest.mark.req("D2")
async def test_the_first_election_of_all_and_one_after_the_epoch_was_lost(world: StoreWorld) -> None:
    redis, k = world.redis, world.shard.keys
    await redis.delete(k.epoch, k.leader)
    one = await world.leadership.elect("m", "n", ttl_ms=60_000)
    assert one == Leadership(f"{world.now_ms}:n", "m")
    assert await redis.get(k.epoch) == one.epoch.encode()
    assert await redis.get(k.leader) == one.holder.encode()
    assert 50_000 < await redis.pttl(k.leader) <= 60_000


@pytest.mark.req("D1", "D4")
async def test_only_the_holder_renews_and_resigns(world: StoreWorld) -> None:
    holder = Leadership(world.epoch, "master-1")
    number, nonce = world.epoch.split(":")
    strangers = [
        replace(holder, master_id="master-2"), Leadership(f"{number}:other", "master-1"),
        Leadership(f"{int(number) + 1}:{nonce}", "master-1"),
    ]  # fmt: skip
    async with world.unchanged():
        for stranger in strangers:
            assert await renewed(world.leadership, stranger, ttl_ms=900_000) is Renewed.LOST
            assert await world.leadership.resign(stranger) is False
    assert await renewed(world.leadership, holder, ttl_ms=900_000) is Renewed.OK
    assert await world.redis.pttl(world.shard.keys.leader) > 800_000
    async with world.published(world.shard.keys.wake_channel, "resigned"):
        assert await world.leadership.resign(holder)
    async with world.unchanged():
        assert await renewed(world.leadership, holder, ttl_ms=1) is Renewed.LOST
        assert await world.leadership.resign(holder) is False


async def test_a_lock_that_ran_out_is_lost(world: StoreWorld) -> None:
    await world.redis.delete(world.shard.keys.leader)
    async with world.unchanged():
        mine = Leadership(world.epoch, "master-1")
        assert await renewed(world.leadership, mine, ttl_ms=1_000) is Renewed.LOST


async def test_a_lock_that_cannot_be_read_does_not_count_as_lost(world: StoreWorld) -> None:
    await world.redis.delete(world.shard.keys.leader)
    await world.redis.hset(world.shard.keys.leader, "a", "hash")
    async with world.unchanged():
        mine = Leadership(world.epoch, "master-1")
        assert await renewed(world.leadership, mine, ttl_ms=1_000) is Renewed.UNREADABLE
    await world.redis.delete(world.shard.keys.leader)


async def test_the_data_are_marked_once(world: StoreWorld) -> None:
    from jqmaster.store.health import generation

    assert await generation.read(world.shard) is None
    assert await generation.mark(world.shard, "first") == "first"
    async with world.unchanged():
        assert await generation.mark(world.shard, "second") == "first"
    assert await generation.read(world.shard) == "first"
