"""relane.lua, put_in_force.lua, end_reopening.lua, open_gates.lua, prune_lanes.lua, prune_gates.lua: which callers they
refuse."""

import random
from collections import Counter
from typing import Any

import pytest

from jqmaster.domain.constraints.constraint import gate_id
from jqmaster.domain.matching.key_value import key_value
from jqmaster.errors import ConflictError, StaleEpochError, StoreUnavailableError
from jqmaster.store import codec
from jqmaster.store.constraints import constraints as constraint_store
from jqmaster.store.constraints import gates as gate_store
from jqmaster.store.constraints import lanes
from jqmaster.store.constraints.constraints import ConstraintStore
from jqmaster.store.constraints.lanes import LaneStore, Moved
from jqmaster.store.jobs.records import HEAD_READ
from jqmaster.store.link.pages import RECORDS_PER_READ
from tests.support import long
from tests.support.constraints import ConstrainedWorld, constraint
from tests.support.store import NO_KEY, StoreWorld


async def test_an_old_leader_follows_no_change_up(world: StoreWorld) -> None:
    limited = ConstrainedWorld(world)
    job_id = await limited.enqueue()
    one = constraint(paused=True)
    assert await limited.change("limit", one)
    constraints, lanes, gates = await limited.constraints.reload(), world.lanes, world.gates
    ((cid, version),) = await gates.reopened()
    old = await world.reelect()
    async with world.unchanged():
        with pytest.raises(StaleEpochError):
            await lanes.move(old, constraints, [job_id])
        with pytest.raises(StaleEpochError):
            await lanes.settle(old, constraints)
        with pytest.raises(StaleEpochError):
            await gates.open(old)
        with pytest.raises(StaleEpochError):
            await lanes.prune(old, ["0" * 16])
        with pytest.raises(StaleEpochError):
            await gates.prune(old, cid, "0")
        with pytest.raises(StaleEpochError):
            await gates.reopen(old, cid, version)
        assert await gates.reopened() == [(cid, version)]
    await limited.follow_up()


async def test_a_move_holds_few_whole_records_at_once(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each job may have an argument of megabytes."""
    limited = ConstrainedWorld(world)
    count = 5 * RECORDS_PER_READ
    large = "x" * (2 * lanes.BYTES_PER_READ // count)
    job_ids = await limited.enqueue_many({"k": n, "text": large} for n in range(count))
    job_ids += await limited.enqueue_many({"k": n} for n in range(count))
    assert await limited.change("limit", constraint(key="argument.k", concurrency=1))
    constraints = await limited.constraints.reload()
    read, whole = [], LaneStore._records_of

    async def counted(store: LaneStore, found: Any) -> Any:
        read.append(len(found))
        return await whole(store, found)

    monkeypatch.setattr(LaneStore, "_records_of", counted)
    assert await world.lanes.move(world.epoch, constraints, job_ids) == Moved(len(job_ids))
    assert sorted(read) == [RECORDS_PER_READ] * 5 + [count]
    await limited.follow_up()


async def test_a_job_whose_record_is_long_is_matched_by_all_of_it(world: StoreWorld) -> None:
    """Its headers reach beyond what is read at first, and they decide. A damaged job keeps its lane."""
    limited = ConstrainedWorld(world)
    headers = {"a": "x" * HEAD_READ, "b": "last"}
    long, damaged = [await world.enqueue(headers=headers) for _ in range(2)]
    key = world.shard.keys.job(damaged)
    record = await world.redis.get(key)
    # This is more gates than any job has.
    await world.redis.setrange(key, codec.HEAD_SIZE + 1 + len("work"), bytes([254]))
    assert await limited.change(
        "limit", constraint(matcher={"field": "headers.b", "op": "eq", "value": "last"}, paused=True)
    )
    constraints = await limited.constraints.reload()
    assert await world.lanes.move(world.epoch, constraints, [long, damaged]) == Moved(1)
    await world.redis.set(key, record)
    assert await world.lanes.move(world.epoch, constraints, [damaged]) == Moved(1)
    await limited.follow_up()


async def test_rules_that_changed_meanwhile_are_not_followed_up(world: StoreWorld) -> None:
    limited = ConstrainedWorld(world)
    job_id = await limited.enqueue()
    assert await limited.change("first", constraint("first", paused=True))
    older = await limited.constraints.reload()
    assert await limited.change("second", constraint("second", concurrency=1))
    async with world.unchanged():
        moved = await world.lanes.move(world.epoch, older, [job_id])
        assert moved == Moved(-1)
        assert not moved
        assert await world.lanes.settle(world.epoch, older) is False
    assert Moved(0)
    await limited.follow_up()


async def test_a_constraint_that_changed_again_is_looked_at_again(world: StoreWorld) -> None:
    limited, gates = ConstrainedWorld(world), world.gates
    one = await limited.limit(concurrency=1)
    assert await limited.change("limit", one)
    ((_, version),) = await gates.reopened()
    assert await limited.change("limit", one)
    assert await gates.reopen(world.epoch, one.cid, version) is False
    ((cid, newer),) = await gates.reopened()
    assert (cid, newer) == (one.cid, version + 1)
    await gates.reopen(world.epoch, one.cid, newer)
    assert await gates.reopened() == []


async def test_a_damaged_constraint_hurts_no_other(world: StoreWorld) -> None:
    limited = ConstrainedWorld(world)
    await limited.change("good", constraint("good", concurrency=1))
    await limited.change("bad", constraint("bad", concurrency=1))
    await world.redis.hset(world.shard.keys.constraints, "bad", b"0" * 16 + b"\xc1")
    constraints = await world.rule_store.load()
    assert [stored.constraint.name for stored in constraints.stored] == ["good"]
    assert [finding.detail for finding in await world.findings() if finding.rule == "constraint"] == [
        "constraint bad: its document cannot be read"
    ]
    await world.redis.hdel(world.shard.keys.constraints, "bad")
    await limited.follow_up()


@pytest.mark.sized
async def test_a_batch_may_free_thousands_of_gates_at_which_others_wait(world: StoreWorld) -> None:
    limited = ConstrainedWorld(world)
    await limited.put(*[constraint(f"c{i:02}", key=f"argument.k{i}", concurrency=1) for i in range(16)])
    worker = await world.worker("work", max_jobs=1000)
    count = long.size(150, 500)
    arguments = [{f"k{i}": str(n) for i in range(16)} for n in range(count)]
    await limited.enqueue_many(arguments)
    jobs = await limited.claim(worker, limit=count)
    await limited.enqueue_many(arguments)
    assert await limited.claim(worker, limit=count) == []
    await limited.succeed(worker, *jobs)
    assert len(await limited.claim(worker, limit=count)) == count


async def test_rules_made_anew_on_a_store_that_fell_back_are_not_taken_for_the_old_ones(
    world: StoreWorld,
) -> None:
    redis, k = world.redis, world.shard.keys
    limited, other = ConstrainedWorld(world), ConstrainedWorld(world, ConstraintStore(world.shard))
    saved = {key: await redis.dump(key) for key in (k.rules, k.constraints)}
    lost = constraint("b", concurrency=1)
    await other.change("b", lost)
    await limited.constraints.reload()
    for key, value in saved.items():
        await redis.delete(key) if value is None else await redis.restore(key, 0, value, replace=True)
    await redis.delete(k.limits(lost.cid), k.reopened)
    world.pass_ms(1)
    await other.constraints.reload()
    await other.change("b", constraint("b", concurrency=1))
    await other.follow_up()
    await limited.enqueue_many([None] * 5)
    assert len(await other.take(await world.worker("work", max_jobs=100))) == 1


async def test_a_lane_that_cannot_be_read_keeps_no_other_from_moving(world: StoreWorld) -> None:
    redis, k = world.redis, world.shard.keys
    limited = ConstrainedWorld(world)
    await limited.enqueue_many([None] * 3, name="a")
    await limited.enqueue_many([None] * 3, name="b")
    (lane,) = await redis.zrange(k.lanes("a"), 0, -1)
    await redis.set(k.lane(lane.decode()), "garbage")
    await limited.change("b", constraint("b", concurrency=100))
    await limited.follow_up()
    worker = await world.worker("a", "b", max_jobs=100)
    assert len(await limited.claim(worker, "b")) == 3
    assert len(await limited.claim(worker, "a")) == 3
    # Only the lane knew its group.
    await redis.delete(*[key async for key in redis.scan_iter(match=f"{k.open_prefix}*")])


async def test_a_constraint_is_found_by_its_name_and_by_its_gates(world: StoreWorld) -> None:
    limited = ConstrainedWorld(world)
    one = await limited.limit("one", concurrency=1)
    constraints = await world.rule_store.load()
    found = constraints.named("one")
    assert found
    assert found.constraint == one
    assert constraints.named("two") is None
    assert constraints.of_gate(one.cid + NO_KEY) == one
    assert constraints.of_gate("f" * 8 + NO_KEY) is None


async def test_there_are_only_so_many_constraints(world: StoreWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constraint_store, "MAX_CONSTRAINTS", 1)
    limited = ConstrainedWorld(world)
    await limited.limit("one", paused=True)
    with pytest.raises(ConflictError) as full:
        await limited.change("two", constraint("two", paused=True))
    assert full.value.code == "too_many_constraints"
    assert await limited.change("one", constraint("one", concurrency=1))
    await limited.follow_up()


async def test_gates_whose_time_has_come_are_opened_however_many_there_are(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate_store, "GATES_PER_CALL", 1)
    limited = ConstrainedWorld(world)
    await limited.limit(key="argument", rate=(1, 1_000))
    ids = await limited.enqueue_many([*range(3), *range(3)])
    worker_id = await world.worker()
    assert len(await limited.take(worker_id)) == 3
    world.pass_ms(1_001)
    assert await world.gates.open(world.epoch) == (-1, True)
    assert set(await limited.take(worker_id)) <= set(ids)


async def test_a_job_with_more_gates_than_a_record_holds_leaves_them_in_its_lane(world: StoreWorld) -> None:
    limited = ConstrainedWorld(world)
    count = codec.MAX_GATES + 1
    for n in range(count):
        await limited.change(f"limit-{n}", constraint(f"limit-{n}", key=f"argument.k{n}", concurrency=1))
    await limited.follow_up()
    few, many = [{f"k{n}": n for n in range(most)} for most in (count - 1, count)]
    ids = await limited.enqueue_many([few, many, many])
    place = codec.HEAD_SIZE + 1 + len("work")
    gates = [(await world.redis.get(world.shard.keys.job(job_id)))[place] for job_id in ids]
    assert gates == [codec.MAX_GATES, codec.GATES_IN_LANE[0], codec.GATES_IN_LANE[0]]
    # All three share gates with one slot each.
    assert await limited.take(await world.worker()) == ids[:1]


async def test_headers_beyond_what_is_read_at_first_are_matched_all_the_same(world: StoreWorld) -> None:
    limited = ConstrainedWorld(world)
    job_id = await limited.enqueue(headers={"z": "last", **{f"h{n}": "x" * 100 for n in range(20)}})
    broken = await limited.enqueue()
    key = world.shard.keys.job(broken)
    whole = await world.redis.get(key)
    # The length of the name, and then the number of gates, point beyond what is read.
    await world.redis.set(key, whole[: codec.HEAD_SIZE] + b"\xff" + b"x" * 2_000)
    one = constraint("limit", {"field": "headers.z", "op": "eq", "value": "last"}, paused=True)
    assert await limited.change("limit", one)
    constraints = await limited.constraints.reload()
    assert await world.lanes.move(world.epoch, constraints, [job_id, broken, "unknown"])
    await world.redis.set(key, whole)
    await limited.follow_up()
    lanes = (await limited.structures()).lanes
    assert await limited.gates_of(job_id, lanes) == [one.cid + NO_KEY]
    assert await limited.gates_of(broken, lanes) == []


async def test_running_jobs_get_no_slots_by_rules_that_changed_meanwhile(world: StoreWorld) -> None:
    limited = ConstrainedWorld(world)
    await world.running()
    assert await limited.change("first", constraint("first", concurrency=1))
    older = await limited.constraints.reload()
    assert await limited.change("second", constraint("second", concurrency=1))
    async with world.unchanged():
        assert not await world.lanes.settle(world.epoch, older)
    await limited.follow_up()


async def test_a_page_that_could_not_be_read_ends_the_move(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await world.enqueue()

    async def away(*_: object) -> None:
        raise StoreUnavailableError("the store is away", retry_after_s=1)

    constraints = await world.constraints.reload()
    with monkeypatch.context() as patch:
        patch.setattr(LaneStore, "_moves_of", away)
        with pytest.raises(StoreUnavailableError):
            await world.lanes.move(world.epoch, constraints, [job_id])
    assert await world.lanes.move(world.epoch, constraints, [job_id]) == Moved(0)


@pytest.mark.parametrize("seed", range(3))
async def test_neighbours_of_several_lanes_and_states_are_counted_where_they_go(
    world: StoreWorld, seed: int
) -> None:
    """In one page, jobs that are ready, delayed or running leave several lanes for several, with gates of their own or
    without."""
    limited = ConstrainedWorld(world)
    worker_id = await world.worker("a", "b", max_jobs=100)
    await limited.limit(key="argument.old", concurrency=1)
    values: dict[str, int] = {}
    for n in range(40):
        value = n % 5
        argument = {"old": n % 3} | ({"new": value} if value else {})
        later = {"delay_ms": 1_000} if n % 8 == 7 else {}
        values[await limited.enqueue("ab"[n % 2], argument, priority=n % 4 - 2, **later)] = value
    running = await limited.take(worker_id, "a", "b", limit=10)
    # Other jobs were found behind closed gates, and wait in lanes of their own.
    assert len((await limited.structures()).lanes) > 2
    one = constraint(key="argument.new", concurrency=50)
    assert await limited.change("limit", one)
    assert await limited.settle()
    mixed = list(values)
    random.Random(seed).shuffle(mixed)
    constraints = await limited.constraints.reload()
    moved = await world.lanes.move(world.epoch, constraints, mixed)
    assert moved == Moved(len(values) - len(running))
    assert await world.lanes.move(world.epoch, constraints, mixed) == Moved(0)
    await limited.follow_up()
    there = await limited.structures()
    expected = Counter(
        gate_id(one.cid, key_value(value))
        for job_id, value in values.items()
        if value and job_id not in running
    )
    assert {gate: count for gate, count in there.waiting.items() if count} == expected
    assert sum(there.lane_jobs.values()) == len(values)
    held = {job_id for holders in (await limited.slots(one)).values() for job_id in holders}
    assert held == {job_id for job_id in running if values[job_id]}
    order = sorted((n % 4, job_id) for n, job_id in enumerate(values) if n % 8 != 7 and job_id not in running)
    assert await limited.take(worker_id, "a", "b", limit=100) == [job_id for _, job_id in order]
