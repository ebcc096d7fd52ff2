"""Repair cleans up what events left behind, and loses nothing that was accepted."""

import pytest

from jqmaster.store.health.document_checks import event_faults
from jqmaster.store.health.repair import Repair
from tests.support.events import Events
from tests.support.store import TIMES, StoreWorld

pytestmark = pytest.mark.req("D9")


@pytest.fixture
def events(world: StoreWorld) -> Events:
    return Events(world)


async def repaired(world: StoreWorld) -> list[str]:
    repair = Repair(world.shard, world.epoch, who="test", times=TIMES)
    return [finding.detail async for step in repair.steps() for finding in step.repaired]


async def test_a_sound_store_is_left_alone(world: StoreWorld, events: Events) -> None:
    await events.define(collect=(10, 1000))
    await events.send(dedupe_key="a")
    assert await repaired(world) == []
    world.pass_ms(1000)
    await events.end_due()
    assert len(await events.jobs()) == 1


async def test_gathered_events_that_nobody_would_look_at_become_a_job(
    world: StoreWorld, events: Events
) -> None:
    await events.define(collect=(10, 60_000))
    group = (await events.send(payload=0)).started[0].job_id
    for n in (1, 2):
        await events.send(payload=n)
    await world.redis.zrem(world.shard.keys.event_groups, group)
    with world.leading_here() as words:
        (detail,) = await repaired(world)
    assert "is never due" in detail
    assert "events" in words
    assert await world.findings() == []
    await events.end_due()
    assert await events.arguments() == [[0, 1, 2]]
    # The next event opens a new group.
    assert (await events.send()).started[0].job_id != group


async def test_a_slot_of_a_group_that_is_gone_does_not_take_in_events(
    world: StoreWorld, events: Events
) -> None:
    await events.define(collect=(10, 1000))
    group = (await events.send(payload=1)).started[0].job_id
    k = world.shard.keys
    await world.redis.delete(k.event_groups, k.event_group(group))
    assert len(await repaired(world)) == 1
    assert await world.findings() == []
    await events.send(payload=2)
    world.pass_ms(1000)
    await events.end_due()
    assert await events.arguments() == [[2]]


async def test_a_group_without_events_is_removed_with_its_slot(world: StoreWorld, events: Events) -> None:
    await events.define(collect=(10, 1000))
    group = (await events.send()).started[0].job_id
    k = world.shard.keys
    await world.redis.hdel(k.event_group(group), "1")
    await world.redis.zadd(k.event_groups, {"lost": 1})
    assert sorted(await repaired(world)) == sorted(f"group {one} has no events" for one in (group, "lost"))
    assert await world.findings() == []
    assert not await world.redis.exists(k.event_groups, k.event_slots, k.event_group(group))


async def test_events_without_a_definition_are_left_to_people(world: StoreWorld, events: Events) -> None:
    await events.define(collect=(10, 1000))
    group = (await events.send()).started[0].job_id
    key = world.shard.keys.event_group(group)
    await world.redis.hdel(key, "definition")
    assert await repaired(world) == []
    assert await world.redis.hexists(key, "1")
    await world.redis.delete(key)
    # Without its events the group is removed, and then the slot that named it.
    assert len(await repaired(world)) == 2


async def test_halves_of_events_and_names_of_nobody_are_removed(world: StoreWorld, events: Events) -> None:
    k = world.shard.keys
    first, second, whole = [(await events.send("user.made")).event_id for _ in range(3)]
    await world.redis.hdel(k.event_bodies, first)
    await world.redis.zrem(k.events, second)
    await world.redis.sadd(k.event_definitions, "nobody")
    assert len(await repaired(world)) == 3
    assert await world.findings() == []
    assert await world.redis.zrange(k.events, 0, -1) == [whole.encode()]
    assert await world.redis.hkeys(k.event_bodies) == [whole.encode()]


async def test_events_reach_a_definition_again_that_was_lost_from_their_list(
    world: StoreWorld, events: Events
) -> None:
    await events.define()
    k = world.shard.keys
    edition = await world.redis.get(k.event_edition)
    await world.redis.delete(k.event_definitions)
    assert await repaired(world) == [
        "definition ship is missing in the list of definitions that events start"
    ]
    assert await world.findings() == []
    assert await world.redis.get(k.event_edition) != edition
    assert len((await events.send()).started) == 1


async def test_a_definition_that_was_changed_since_is_left_as_it_is(
    world: StoreWorld, events: Events
) -> None:
    await events.define()
    k = world.shard.keys
    await world.redis.delete(k.event_definitions)
    (fault,) = await event_faults(world.shard.client, k)
    document = await world.redis.hget(k.definitions, "ship")
    await world.redis.hset(k.definitions, "ship", b"another-etag-000" + document[16:])
    repair = Repair(world.shard, world.epoch, who="test", times=TIMES)
    assert await repair.repair_events([fault]) == []
    assert len(await repaired(world)) == 1


async def test_a_damaged_definition_keeps_no_events_from_the_others(
    world: StoreWorld, events: Events
) -> None:
    await events.define()
    await events.define("damaged")
    key = world.shard.keys.definitions
    document = await world.redis.hget(key, "damaged")
    await world.redis.hset(key, "damaged", b"damaged")
    assert [one.definition for one in (await events.send()).started] == ["ship"]
    await world.redis.hset(key, "damaged", document)
