"""lua/jobs/demand.lua counts the jobs that the next claims would start, if there were slots enough for all."""

import random
from dataclasses import replace

import pytest

from jqmaster.domain.constraints.constraint import Mode
from jqmaster.domain.ids import new_id
from jqmaster.domain.workers.worker import WorkerSpec
from jqmaster.live_value import LiveValue
from jqmaster.service.operations import demand as demand_service
from jqmaster.service.operations.demand import Demand, DemandService
from jqmaster.store.operations import demand as demand_module
from jqmaster.store.operations.demand import AskedQueue, DemandSeen, DemandStore
from tests.support.constraints import ConstrainedWorld, override
from tests.support.store import StoreWorld

STALE_MS = 10_000


@pytest.fixture
def limited(world: StoreWorld) -> ConstrainedWorld:
    return ConstrainedWorld(world)


@pytest.fixture
def store(world: StoreWorld) -> DemandStore:
    return DemandStore(world.shard)


@pytest.fixture
def service(world: StoreWorld, store: DemandStore) -> DemandService:
    return DemandService(store, world.workers, world.constraints, stale_ms=LiveValue(STALE_MS))


async def look(store: DemandStore, *names: str) -> DemandSeen:
    return await store.look([AskedQueue(name, True) for name in names or ("work",)])


async def counts(store: DemandStore, *names: str) -> tuple[int, int, bool]:
    seen = await look(store, *names)
    return seen.ready, seen.blocked, seen.is_exact


async def test_it_writes_nothing(world: StoreWorld, limited: ConstrainedWorld, store: DemandStore) -> None:
    await limited.limit(key="argument", concurrency=1)
    await limited.enqueue_many(["a", "a", "b"])
    await limited.take(await world.worker(), limit=1)
    async with world.unchanged():
        assert await counts(store) == (1, 1, True)


async def test_without_constraints_all_ready_jobs_count(world: StoreWorld, store: DemandStore) -> None:
    assert await look(store) == DemandSeen(world.now_ms, 0, 0, True, None, (await store.running()))
    await world.enqueue_many(3)
    await world.enqueue_many(2, "other")
    await world.enqueue_many(4, "third", delay_ms=1_000)
    world.pass_ms(500)
    seen = await look(store, "work", "other", "third")
    assert (seen.ready, seen.blocked, seen.ready_since_ms) == (5, 0, world.now_ms - 500)


async def test_five_of_ten_jobs_behind_a_concurrency_of_five_could_start(
    world: StoreWorld, limited: ConstrainedWorld, store: DemandStore
) -> None:
    await limited.limit(concurrency=5)
    await limited.enqueue_many(range(10))
    assert await counts(store) == (5, 5, True)
    await limited.take(await world.worker(), limit=2)
    assert await counts(store) == (3, 5, True)
    assert (await look(store)).running.by_name() == {"work": 2}
    await limited.take(await world.worker(), limit=9)
    seen = await look(store)
    assert (seen.ready, seen.blocked, seen.ready_since_ms) == (0, 5, None)


async def test_a_shadow_holds_nothing_back_and_a_pause_everything(
    limited: ConstrainedWorld, store: DemandStore
) -> None:
    one = await limited.limit(concurrency=1, mode=Mode.SHADOW)
    await limited.enqueue_many(range(4))
    assert await counts(store) == (4, 0, True)
    one = await limited.edit(one, mode=Mode.ENFORCE, paused=True)
    assert await counts(store) == (0, 4, True)
    await limited.edit(one, enabled=False)
    assert await counts(store) == (4, 0, True)


async def test_each_value_of_a_key_has_room_of_its_own(
    world: StoreWorld, limited: ConstrainedWorld, store: DemandStore
) -> None:
    await limited.limit(
        key="argument",
        concurrency=2,
        overrides=[override("wide", concurrency=3), override("shut", paused=True)],
    )
    await limited.enqueue_many(["a"] * 5 + ["wide"] * 5 + ["shut"] * 2 + ["b"])
    assert await counts(store) == (2 + 3 + 1, 3 + 2 + 2, True)
    # The same once claims have put the lanes of full values aside.
    taken = await limited.take(await world.worker(max_jobs=100), limit=4)
    assert len(taken) == 4
    assert await counts(store) == (2, 7, True)


async def test_names_share_the_room_of_one_gate(limited: ConstrainedWorld, store: DemandStore) -> None:
    await limited.limit(concurrency=3)
    await limited.enqueue_many(range(2), "first")
    await limited.enqueue_many(range(2), "second")
    assert await counts(store, "first", "second") == (3, 1, True)
    assert await counts(store, "second") == (2, 0, True)


async def test_callbacks_that_have_come_wait_for_workers_only(world: StoreWorld, store: DemandStore) -> None:
    _, _, request = await world.awaiting()
    assert await counts(store) == (0, 0, True)
    await world.call_back(request)
    assert await counts(store) == (1, 0, True)


async def test_jobs_that_are_not_matched_to_changed_constraints_are_blocked(
    world: StoreWorld, limited: ConstrainedWorld, store: DemandStore
) -> None:
    await limited.limit(concurrency=5)
    await limited.enqueue_many(range(3))
    one = (await limited.store.load()).stored[0].constraint
    assert await limited.change("another", replace(one, name="another", cid="0badcafe"))
    assert await counts(store) == (0, 3, False)
    await limited.follow_up()
    assert await counts(store) == (3, 0, True)


async def test_beyond_its_bounds_the_numbers_are_lower_bounds(
    world: StoreWorld, limited: ConstrainedWorld, store: DemandStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await limited.limit(key="argument", concurrency=1)
    await limited.enqueue_many(["a", "a", "b", "b", "c"])
    assert await counts(store) == (3, 2, True)
    monkeypatch.setattr(demand_module, "MAX_SINGLE_JOBS", 3)
    assert await counts(store) == (2, 1, False)
    monkeypatch.undo()
    await limited.edit((await limited.store.load()).stored[0].constraint, fair=True)
    monkeypatch.setattr(demand_module, "MAX_LANES", 2)
    ready, blocked, is_exact = await counts(store)
    assert (ready <= 2, ready + blocked < 5, is_exact) == (True, True, False)


async def test_running_jobs_are_counted_in_parts(
    world: StoreWorld, store: DemandStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker_id = await world.worker("work", "other", max_jobs=100)
    await world.enqueue_many(7)
    await world.enqueue_many(2, "other")
    await world.claim(worker_id, "work", "other")
    monkeypatch.setattr(demand_module, "RUNNING_PER_CALL", 2)
    found = await store.running()
    assert (found.by_name(), found.is_whole) == ({"work": 7, "other": 2}, True)
    assert found.counts == {(worker_id, "work"): 7, (worker_id, "other"): 2}
    assert (await look(store)).running == found
    monkeypatch.setattr(demand_module, "MAX_RUNNING", 4)
    found = await store.running()
    assert (found.counts.total(), found.is_whole) == (4, False)


async def test_a_damaged_record_counts_nowhere(world: StoreWorld, store: DemandStore) -> None:
    _, job = await world.running()
    key = world.shard.keys.job(job.job_id)
    whole = await world.redis.get(key)
    await world.redis.set(key, whole[:130])
    assert (await store.running()).counts == {}
    await world.redis.delete(key)
    await world.redis.lpush(key, "a list")
    assert (await store.running()).counts == {}
    await world.redis.delete(key)
    await world.redis.set(key, whole)


@pytest.mark.parametrize("seed", range(6))
async def test_it_says_what_claims_without_a_bound_start(
    world: StoreWorld, limited: ConstrainedWorld, store: DemandStore, seed: int
) -> None:
    chance = random.Random(seed)
    await limited.limit("all", concurrency=chance.randint(1, 30))
    await limited.limit("key", key="argument.k", concurrency=chance.randint(1, 3))
    await limited.limit(
        "rate", {"field": "argument.k", "op": "lt", "value": 3}, rate=(chance.randint(1, 9), 60_000)
    )
    for _ in range(4):
        await limited.enqueue_many(
            [{"k": chance.randint(0, 5)} for _ in range(8)], priority=chance.randint(0, 2)
        )
        await limited.take(await world.worker(), limit=chance.randint(1, 3))
    ready, blocked, is_exact = await counts(store)
    waiting = sum((await world.inspector.ready_counts(["work"])).values())
    assert (ready + blocked, is_exact) == (waiting, True)
    assert len(await limited.take(await world.worker(max_jobs=500), limit=500)) == ready


# --- names, labels and slots


async def worker(world: StoreWorld, *names: str, max_jobs: int, labels: dict[str, str] | None = None) -> str:
    worker_id = new_id()
    spec = WorkerSpec(f"http://{worker_id}", names, max_jobs, "n", 1, labels or {}, "1", "s" * 32)
    await world.workers.register(worker_id, spec)
    return worker_id


async def test_slots_are_those_of_live_workers_for_the_names(
    world: StoreWorld, service: DemandService
) -> None:
    await worker(world, "work", max_jobs=4)
    await worker(world, "work", "other", max_jobs=8)
    await worker(world, "third", max_jobs=16)
    draining = await worker(world, "work", max_jobs=32)
    await world.workers.drain(draining, b"\x80")
    # The worker of a master, for deliveries.
    await worker(world, "jq.webhook", max_jobs=64, labels={"role": "master"})
    assert (await service.of(["work"], {})).slots == 12
    assert (await service.of(["work", "third"], {})).slots == 28
    assert (await service.of([], {})).slots == 28
    assert (await service.of(["unknown"], {})).slots == 0
    world.pass_ms(STALE_MS + 1)
    assert (await service.of(["work"], {})).slots == 0


async def test_labels_select_the_jobs_that_such_workers_may_run_and_the_workers(
    world: StoreWorld, service: DemandService
) -> None:
    big = await worker(world, "work", max_jobs=3, labels={"pool": "big", "zone": "a"})
    small = await worker(world, "work", max_jobs=5, labels={"pool": "small"})
    await world.enqueue_many(1)
    await world.enqueue_many(2, requires={"pool": "big"})
    await world.enqueue_many(4, requires={"pool": "small"})
    await world.enqueue_many(8, requires={"pool": "big", "zone": "b"})
    assert await service.of(["work"], {}) == Demand(15, 0, 0, 8, 0.0, is_exact=True)
    assert await service.of(["work"], {"pool": "big"}) == Demand(3, 0, 0, 3, 0.0, is_exact=True)
    assert await service.of([], {"pool": "small"}) == Demand(5, 0, 0, 5, 0.0, is_exact=True)
    # A running job counts for the labels of its worker.
    await world.claim(small, 'work\t{"pool":"small"}', limit=3)
    await world.claim(big, "work", limit=1)
    found = await service.of(["work"], {"pool": "small"})
    assert (found.ready, found.running, found.demand) == (1, 3, 4)
    assert (await service.of(["work"], {})).running == 4


async def test_without_a_name_all_jobs_count_but_deliveries(
    world: StoreWorld, service: DemandService
) -> None:
    await world.enqueue_many(2, "a")
    await world.enqueue_many(3, "b")
    await world.enqueue_many(4, "jq.webhook")
    assert (await service.of([], {})).ready == 5


async def test_more_names_than_one_look_takes_are_a_lower_bound(
    world: StoreWorld, service: DemandService, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        await world.enqueue(name)
    monkeypatch.setattr(demand_service, "MAX_LANES", 2)
    found = await service.of([], {})
    assert (found.ready, found.is_exact) == (2, False)
