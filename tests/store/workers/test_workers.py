"""register_worker.lua, forget_worker.lua, and reads of the registry."""

from dataclasses import replace

import pytest

from jqmaster.domain.ids import new_id
from jqmaster.domain.workers.worker import Worker, WorkerSpec
from jqmaster.errors import DamagedError, RateLimitedError, StaleEpochError, StoreUnavailableError
from jqmaster.store.jobs.claims import NotClaimed
from jqmaster.store.link.shard import Shard
from jqmaster.store.workers.workers import WorkerQuota, WorkerStore
from tests.support.store import LEASE_MS, TIMES, StoreWorld

SPEC = WorkerSpec("http://h:1/jq", ("a", "b"), 7, "node-1", 42, {"zone": "x"}, "1.2", "s" * 32)


@pytest.mark.req("D10", "M7")
async def test_a_registered_worker_is_known_as_it_described_itself(world: StoreWorld) -> None:
    worker_id = new_id()
    number = int(world.epoch.split(":")[0])
    async with world.published(world.shard.keys.wake_channel, "workers"):
        assert await world.workers.register(worker_id, SPEC) == (world.now_ms, number)
    worker = await world.workers.get(worker_id)
    assert worker == Worker(
        worker_id, SPEC, world.now_ms, world.now_ms, False, False, 0, own_max_jobs=SPEC.max_jobs
    )
    assert (await world.workers.all_with_time()) == ([worker], world.now_ms)
    assert worker.is_fresh(world.now_ms + 5, 5)
    assert not worker.is_fresh(world.now_ms + 6, 5)


async def test_registering_again_changes_nothing(world: StoreWorld) -> None:
    """The repeat of a call whose answer was lost must not cut the worker off from itself."""
    worker_id = new_id()
    await world.workers.register(worker_id, SPEC)
    async with world.unchanged():
        await world.workers.register(worker_id, SPEC)


@pytest.mark.req("D29")
async def test_a_quota_counts_the_workers_that_take_part(world: StoreWorld) -> None:
    quota = WorkerQuota(most=2, stale_ms=5_000)

    async def register(url: str, owner: str = "ada", worker_id: str = "") -> str:
        worker_id = worker_id or new_id()
        spec = replace(SPEC, url=url)
        await world.workers.register(worker_id, spec, owner, quota=None if owner == "jq.master" else quota)
        return worker_id

    await register("http://own:1", "jq.master")
    first, second = await register("http://a:1"), await register("http://b:1")
    async with world.unchanged():
        with pytest.raises(RateLimitedError, match="2 workers of the namespace") as refused:
            await register("http://c:1")
    assert refused.value.code == "namespace_full"
    # The successor at an address, and a repeat of its call, need no further place.
    successor = await register("http://a:1")
    assert await register("http://a:1", worker_id=successor) == successor != first
    # A silent worker frees its place, and may come back by its heartbeat.
    world.pass_ms(5_001)
    await world.workers.renew(successor, [], 7)
    third = await register("http://c:1")
    with pytest.raises(RateLimitedError):
        await register("http://d:1")
    assert {one.id for one in await world.workers.all()} >= {second, successor, third}


async def test_a_registration_that_nobody_waits_for_any_more_replaces_nobody(world: StoreWorld) -> None:
    """The call was delayed on its way to the store; meanwhile the worker registered through another master."""
    present = new_id()
    await world.workers.register(present, SPEC)
    sent_ms = world.now_ms
    late_ms = sent_ms + round(world.shard.client.gives_up_after_s * 1000) + 1
    instants = iter([sent_ms, late_ms])
    held_up = WorkerStore(
        Shard(world.shard.client, world.shard.keys, now=lambda: next(instants)),
        TIMES,
    )
    async with world.unchanged():
        with pytest.raises(StoreUnavailableError):
            await held_up.register(new_id(), SPEC)
    assert [(w.id, w.is_detached) for w in await world.workers.all()] == [(present, False)]


async def test_a_registration_whose_proof_is_older_than_another_registration_replaces_nobody(
    world: StoreWorld,
) -> None:
    assert SPEC.url is not None
    before = await world.workers.serving(SPEC.url)
    present = new_id()
    await world.workers.register(present, SPEC, former=before)
    async with world.unchanged():
        with pytest.raises(StoreUnavailableError):
            await world.workers.register(new_id(), SPEC, former=before)
    assert [(w.id, w.is_detached) for w in await world.workers.all()] == [(present, False)]
    successor = new_id()
    await world.workers.register(successor, SPEC, former=await world.workers.serving(SPEC.url))
    assert {w.id: w.is_detached for w in await world.workers.all()} == {present: True, successor: False}


async def test_a_second_worker_at_the_same_address_takes_over(world: StoreWorld) -> None:
    first, second, elsewhere, pulls = new_id(), new_id(), new_id(), new_id()
    for worker_id, url in ((first, "u"), (elsewhere, "v"), (pulls, None), (second, "u")):
        await world.workers.register(worker_id, WorkerSpec(url, ("a",), 1, "n", 1, {}, "1", "s" * 32))
    detached = {w.id: w.is_detached for w in await world.workers.all()}
    assert detached == {first: True, second: False, elsewhere: False, pulls: False}
    # The first worker leaves: the address stays with the second.
    assert await world.workers.forget(first)
    assert await world.redis.hgetall(world.shard.keys.worker_urls) == {
        b"u": second.encode(),
        b"v": elsewhere.encode(),
    }
    # A worker that is already gone cannot be detached.
    await world.redis.hset(world.shard.keys.worker_urls, "w", first)
    await world.workers.register(new_id(), WorkerSpec("w", ("a",), 1, "n", 1, {}, "1", "s" * 32))
    assert not await world.redis.exists(world.shard.keys.worker(first))


async def test_a_worker_that_leaves_is_forgotten_and_its_claims_end_with_their_leases(
    world: StoreWorld,
) -> None:
    await world.enqueue("a")
    worker_id = new_id()
    await world.workers.register(worker_id, SPEC)
    await world.claim(worker_id, "a")
    assert await world.workers.forget(worker_id)
    assert await world.workers.get(worker_id) is None
    assert await world.workers.all() == []
    redis, k = world.redis, world.shard.keys
    assert not await redis.exists(k.worker(worker_id), k.workers, k.worker_urls, k.left(worker_id))
    async with world.unchanged():
        assert await world.workers.forget(worker_id) is False
    world.pass_ms(LEASE_MS)
    _, (lease,), _ = await world.leases.expired_leases()
    assert lease.worker_seen_ms == 0


@pytest.mark.req("M14")
async def test_a_worker_that_ends_gets_no_more_jobs_and_keeps_its_claims(world: StoreWorld) -> None:
    worker, job = await world.running()
    await world.enqueue()
    async with world.published(world.shard.keys.wake_channel, "workers"):
        assert await world.workers.announce_leave(worker)
    announced_ms = world.now_ms
    assert await world.claims.claim(world.epoch, worker, ["work"], 1) is NotClaimed.GONE
    world.pass_ms(LEASE_MS - 1)
    answer = await world.workers.renew(worker, [(job.job_id, job.token)], 0)
    assert answer
    assert (answer.is_draining, answer.lost) == (True, frozenset())
    async with world.unchanged(), world.published(world.shard.keys.wake_channel):
        assert await world.workers.announce_leave(worker)
    key = world.shard.keys.worker(worker)
    assert int(await world.redis.hget(key, "leaving_at_ms")) == announced_ms
    async with world.unchanged():
        assert await world.workers.announce_leave(new_id()) is False


async def test_the_leader_here_is_woken_by_workers_that_come_and_go(world: StoreWorld) -> None:
    with world.leading_here() as words:
        async with world.published(world.shard.keys.wake_channel):
            worker = await world.worker()
            await world.workers.forget(worker)
    assert words == ["workers", "workers"]


async def test_a_half_registered_worker_is_left_out_and_can_be_removed(world: StoreWorld) -> None:
    worker = await world.worker()
    await world.redis.delete(world.shard.keys.worker(worker))
    assert await world.workers.all() == []
    assert await world.workers.forget(worker) is False
    assert not await world.redis.exists(world.shard.keys.workers)


async def test_store_time_comes_with_the_fleet_in_production(world: StoreWorld) -> None:
    world = world.on_store_time()
    assert world.shard.now_arg == ""
    worker = await world.worker()
    (one,), now_ms = await world.workers.all_with_time()
    seconds, _ = await world.redis.time()
    assert one.id == worker
    assert 0 <= seconds - now_ms // 1000 <= 2
    assert 0 <= now_ms - one.last_seen_ms <= 2_000


async def test_a_worker_that_fell_silent_is_forgotten_unless_it_holds_something(world: StoreWorld) -> None:
    worker, job = await world.running()
    world.pass_ms(9_999)
    forget = world.workers.forget_silent
    async with world.unchanged():
        assert await forget(world.epoch, worker, silent_ms=10_000) is False
    world.pass_ms(1)
    old = await world.reelect()
    async with world.unchanged():
        assert await forget(world.epoch, worker, silent_ms=10_000) is False
        with pytest.raises(StaleEpochError):
            await forget(old, worker, silent_ms=10_000)
    await world.settlements.settle_success(worker, [(job.job_id, job.token, b"")])
    assert await forget(world.epoch, worker, silent_ms=10_000) is True
    assert await world.workers.get(worker) is None
    redis, k = world.redis, world.shard.keys
    assert not await redis.exists(k.worker(worker), k.workers, k.worker_urls)


async def test_a_worker_is_given_to_another_owner_only_from_the_expected_one(world: StoreWorld) -> None:
    worker_id = await world.worker("mail")
    assert await world.workers.owner("unknown") is None
    owner = await world.workers.owner(worker_id)
    assert owner
    assert (owner.name, owner.names) == ("", ("mail",))
    async with world.unchanged():
        assert not await world.workers.adopt(worker_id, expected="token:a", owner="token:b")
        assert not await world.workers.adopt("unknown", expected="", owner="token:b")
    assert await world.workers.adopt(worker_id, expected="", owner="token:b")
    adopted = await world.workers.owner(worker_id)
    assert adopted
    assert adopted.name == "token:b"


@pytest.mark.parametrize("names", [b"\xc1", b"\x01"])
async def test_a_worker_that_cannot_be_read_has_no_owner_and_hides_no_other(
    world: StoreWorld, names: bytes
) -> None:
    damaged, other = await world.worker(), await world.worker()
    key = world.shard.keys.worker(damaged)
    whole = await world.redis.hget(key, "names")
    await world.redis.hset(key, "names", names)
    assert await world.workers.owner(damaged) is None
    assert [worker.id for worker in await world.workers.all()] == [other]
    await world.redis.hset(key, "names", whole)


async def test_a_registry_of_the_wrong_type_is_damage(world: StoreWorld) -> None:
    await world.redis.set(world.shard.keys.workers, "x")
    with pytest.raises(DamagedError, match="registry of workers"):
        await world.workers.all()
    await world.redis.delete(world.shard.keys.workers)


async def test_the_jobs_that_a_worker_holds_are_listed_the_oldest_first(world: StoreWorld) -> None:
    ids = await world.enqueue_many(3)
    worker_id = await world.worker()
    await world.claim(worker_id)
    assert await world.workers.claims(worker_id) == sorted(ids)
    assert await world.workers.claims("unknown") == []


async def test_workers_are_named_by_their_node_and_process(world: StoreWorld) -> None:
    first, other = await world.worker(), new_id()
    await world.workers.register(other, replace(SPEC, pid=0))
    assert await world.workers.names_of([first, other, "unknown"]) == {first: "node-1:1", other: "node-1"}
