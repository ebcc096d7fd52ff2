"""relane.lua, settle_rules.lua, end_reopening.lua, open_gates.lua, prune_lanes.lua, prune_gates.lua: whom they refuse."""

from jqmaster.store.rules import Moved
from tests.support.constraints import ConstrainedWorld, constraint
from tests.support.store import StoreWorld


async def test_an_old_leader_follows_no_change_up(world: StoreWorld) -> None:
    limited = ConstrainedWorld(world)
    job_id = await limited.enqueue()
    one = constraint(paused=True)
    assert await limited.change("limit", one)
    rules, store = await limited.rules.reload(), world.rule_store
    ((cid, version),) = await store.reopened()
    old = await world.reelect()
    async with world.unchanged():
        assert await store.move(old, rules, [job_id]) is None
        assert await store.settle(old, rules) is None
        assert await store.open_gates(old) is None
        assert await store.prune(old, ["0" * 16]) is False
        assert await store.prune_gates(old) is None
        await store.reopen(old, cid, version)
        assert await store.reopened() == [(cid, version)]
    await limited.follow_up()


async def test_rules_that_changed_meanwhile_are_not_followed_up(world: StoreWorld) -> None:
    limited = ConstrainedWorld(world)
    job_id = await limited.enqueue()
    assert await limited.change("first", constraint("first", paused=True))
    older = await limited.rules.reload()
    assert await limited.change("second", constraint("second", concurrency=1))
    async with world.unchanged():
        moved = await world.rule_store.move(world.epoch, older, [job_id])
        assert moved == Moved(-1)
        assert not moved
        assert await world.rule_store.settle(world.epoch, older) is False
    assert Moved(0)
    await limited.follow_up()


async def test_a_constraint_that_changed_again_is_looked_at_again(world: StoreWorld) -> None:
    limited, store = ConstrainedWorld(world), world.rule_store
    one = await limited.limit(concurrency=1)
    assert await limited.change("limit", one)
    ((_, version),) = await store.reopened()
    assert await limited.change("limit", one)
    assert await store.reopen(world.epoch, one.cid, version) is False
    ((cid, newer),) = await store.reopened()
    assert (cid, newer) == (one.cid, version + 1)
    await store.reopen(world.epoch, one.cid, newer)
    assert await store.reopened() == []


async def test_a_damaged_constraint_hurts_no_other(world: StoreWorld) -> None:
    limited = ConstrainedWorld(world)
    await limited.change("good", constraint("good", concurrency=1))
    await limited.change("bad", constraint("bad", concurrency=1))
    await world.shard.client.redis.hset(world.shard.keys.constraints, "bad", b"0" * 16 + b"\xc1")
    rules = await world.rule_store.load()
    assert [stored.constraint.name for stored in rules.stored] == ["good"]
    assert [finding.detail for finding in await world.findings() if finding.rule == "constraint"] == [
        "constraint bad: its document cannot be read"
    ]
    await world.shard.client.redis.hdel(world.shard.keys.constraints, "bad")
    await limited.follow_up()
