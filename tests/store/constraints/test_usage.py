"""Counts of constraints at their gates, and the jobs that wait and run there."""

import pytest

from jqmaster.domain.ids import new_id
from jqmaster.store.constraints import usage
from jqmaster.store.constraints.usage import GateUsage, UsageStore
from tests.support.constraints import ConstrainedWorld
from tests.support.store import NO_KEY, StoreWorld

pytestmark = pytest.mark.req("J13")


@pytest.fixture
def limited(world: StoreWorld) -> ConstrainedWorld:
    return ConstrainedWorld(world)


@pytest.fixture
def store(world: StoreWorld) -> UsageStore:
    return UsageStore(world.shard, world.records)


async def test_a_gate_tells_what_it_counts_and_when_it_opens(
    world: StoreWorld, limited: ConstrainedWorld, store: UsageStore
) -> None:
    slots = await limited.limit(key="argument.host", concurrency=1)
    rate = await limited.limit(name="rate", rate=(1, 60_000))
    await limited.enqueue_many([{"host": "a"}, {"host": "a"}])
    worker_id = await world.worker()
    await limited.take(worker_id)
    known, total = await store.known_gates(slots.cid)
    assert total == 1
    of_rate = rate.cid + NO_KEY
    by_slots, by_rate = await store.gates([*known, of_rate])
    assert by_slots == GateUsage(known[0], "a", 1, 1, None, None, None, is_open=False)
    assert (by_rate.waiting, by_rate.running, by_rate.starts) == (1, None, 1)
    assert by_rate.opens_at_ms == world.now_ms + 60_001
    assert await store.counts([slots.cid, rate.cid, "ffffffff"]) == [(1, 0), (1, 0), (0, 0)]
    assert await store.counts([]) == []
    assert await store.first_gates({slots.cid: 5, rate.cid: 0}) == known


async def test_the_crowded_of_many_gates_come_first_and_no_more_than_the_bound(
    world: StoreWorld, limited: ConstrainedWorld, store: UsageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = await limited.limit(key="argument", concurrency=1)
    await limited.enqueue_many(["lone", "crowd", "crowd", "pair", "pair", "crowd", "crowd"])
    gates, total = await store.known_gates(one.cid)
    texts = [gate.text for gate in await store.gates(gates)]
    assert (texts[0], sorted(texts), total) == ("crowd", ["crowd", "lone", "pair"], 3)
    monkeypatch.setattr(usage, "MAX_GATES", 1)
    assert await store.known_gates(one.cid) == (gates[:1], 3)


async def test_holders_are_the_running_jobs_with_the_gate_at_which_each_has_its_slot(
    world: StoreWorld, limited: ConstrainedWorld, store: UsageStore
) -> None:
    keyed = await limited.limit(key="argument", concurrency=2)
    whole = await limited.limit(name="whole", concurrency=10)
    await limited.enqueue_many(["a", "b", "a"])
    worker_id = await world.worker()
    running = await limited.take(worker_id)
    gates, _ = await store.known_gates(keyed.cid)
    of_keyed = await store.gates(gates)
    found = await store.holders(of_keyed, 10)
    assert {slot.job_id for slot in found} == set(running)
    assert sorted(slot.text for slot in found) == ["a", "a", "b"]
    assert {(slot.worker_id, slot.since_ms) for slot in found} == {(worker_id, world.now_ms)}
    # Slots at gates without a key are stored under the combination of all such gates.
    of_whole = await store.gates([whole.cid + NO_KEY])
    assert {slot.job_id for slot in await store.holders(of_whole, 10)} == set(running)
    assert len(await store.holders(of_whole, 2)) == 2
    assert await store.holders([], 5) == []


async def test_holders_are_looked_for_in_no_more_lists_than_it_takes(
    world: StoreWorld, limited: ConstrainedWorld, store: UsageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyed = await limited.limit(key="argument", concurrency=1)
    await limited.enqueue_many(["a", "b", "c"])
    await limited.take(await world.worker())
    gates, _ = await store.known_gates(keyed.cid)
    monkeypatch.setattr(usage, "LANES_PER_READ", 1)
    assert len(await store.holders(await store.gates(gates), 2)) == 2
    assert len(await store.holders(await store.gates(gates), 9)) == 3


async def test_lanes_with_ready_jobs_are_read_in_pages(
    world: StoreWorld, limited: ConstrainedWorld, store: UsageStore
) -> None:
    await limited.enqueue_many([1, 2], "mail")
    await limited.enqueue_many([3], "scan")
    await limited.enqueue_many([4], "later", delay_ms=60_000)
    lanes = [lane for page in [page async for page in store.lanes()] for lane in page]
    assert sorted((lane.name, lane.count) for lane in lanes) == [("mail", 2), ("scan", 1)]


async def test_the_first_ready_jobs_of_each_lane_are_read_in_steps(
    world: StoreWorld, limited: ConstrainedWorld, store: UsageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage, "RECORDS_PER_READ", 2)
    ids = await limited.enqueue_many(range(5), "mail")
    (lane,) = [lane for page in [page async for page in store.lanes()] for lane in page]
    for count in (1, 2, 3, 5, 9):
        pages = [page async for page in store.ready_in([lane], count)]
        assert [job_id for page in pages for job_id in page] == ids[:count]
        assert max(map(len, pages)) <= 2
    jobs = await store.jobs([*ids, new_id()], with_argument=True)
    assert [job.id for job in jobs] == ids
    assert jobs == [await world.get(job_id) for job_id in ids]


async def test_jobs_that_cannot_be_read_are_left_out(world: StoreWorld, store: UsageStore) -> None:
    ids = await world.enqueue_many(2)
    key = world.shard.keys.job(ids[0])
    whole = await world.redis.get(key)
    await world.redis.set(key, b"\xff")
    assert [job.id for job in await store.jobs(ids, with_argument=False)] == ids[1:]
    await world.redis.set(key, whole)


async def test_jobs_of_an_older_edition_are_noticed(
    world: StoreWorld, limited: ConstrainedWorld, store: UsageStore
) -> None:
    await limited.enqueue_many([1])
    edition = (await world.rule_store.load()).constraint_set.edition
    assert not await store.has_older_lanes(edition)
    assert await store.has_older_lanes(edition + 1)


async def test_some_of_very_many_lone_gates_are_known_and_all_are_counted(
    world: StoreWorld, limited: ConstrainedWorld, store: UsageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = await limited.limit(key="argument", concurrency=1)
    await limited.enqueue_many(range(600))
    monkeypatch.setattr(usage, "MAX_GATES", 150)
    gates, total = await store.known_gates(one.cid)
    assert (len(set(gates)), total) == (150, 600)
