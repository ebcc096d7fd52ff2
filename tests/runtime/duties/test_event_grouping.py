"""The leader's duty that ends groups of events: when it looks again, and that it ends with its leadership."""

import pytest

from jqmaster.errors import StaleEpochError
from jqmaster.runtime.duties.due_loop import POLL_S, DueLoop
from jqmaster.store.leadership.leadership import Leadership
from tests.support.clock import ManualClock
from tests.support.events import Events
from tests.support.store import StoreWorld


def loop_on(events: Events, epoch: str, stale: list[str] | None = None) -> DueLoop:
    told = [] if stale is None else stale
    return DueLoop(
        "events",
        Leadership(epoch, "master-1"),
        events.grouping.end_due,
        ManualClock(),
        complaint="cannot end groups of events",
        on_stale=lambda: told.append("stale"),
    )


@pytest.mark.req("D6")
async def test_it_looks_again_when_the_next_group_is_due(world: StoreWorld) -> None:
    events = Events(world)
    loop = loop_on(events, world.epoch)
    assert await loop._round() == POLL_S
    await events.define(collect=(10, 5000))
    await events.send(payload=1)
    assert await loop._round() == POLL_S
    world.pass_ms(4750)
    assert await loop._round() == 0.25
    world.pass_ms(250)
    assert await loop._round() == 0
    assert await events.arguments() == [[1]]
    assert await loop._round() == POLL_S


async def test_a_group_that_cannot_be_read_does_not_keep_it_busy(world: StoreWorld) -> None:
    events = Events(world)
    await events.define(collect=(10, 1000))
    group = (await events.send(payload=1)).started[0].job_id
    world.pass_ms(1000)
    key = world.shard.keys.event_group(group)
    await world.redis.hset(key, "1", "broken")
    loop = loop_on(events, world.epoch)
    assert await loop._round() == POLL_S
    await world.redis.delete(key)
    assert await loop._round() == POLL_S
    await world.redis.zrem(world.shard.keys.event_groups, group)


async def test_a_definition_that_cannot_be_read_keeps_its_events(world: StoreWorld) -> None:
    events = Events(world)
    await events.define(collect=(10, 1000))
    await events.send(payload=1)
    world.pass_ms(1000)
    redis, key = world.redis, world.shard.keys.definitions
    document = await redis.hget(key, "ship")
    await redis.hset(key, "ship", document[:20])
    loop = loop_on(events, world.epoch)
    assert await loop._round() == POLL_S
    assert await events.jobs() == []
    await redis.hset(key, "ship", document)
    assert await loop._round() == 0
    assert await events.arguments() == [[1]]


async def test_it_ends_with_its_leadership(world: StoreWorld) -> None:
    events, stale = Events(world), list[str]()
    await events.define(collect=(10, 1000))
    await events.send()
    world.pass_ms(1000)
    loop = loop_on(events, await world.reelect(), stale)
    with pytest.raises(StaleEpochError) as refused:
        await loop._round()
    assert loop._is_over(refused.value)
    assert stale == ["stale"]
    assert await events.jobs() == []
