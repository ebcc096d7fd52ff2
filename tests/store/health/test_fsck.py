"""fsck (with inspect_jobs.lua) finds every kind of disagreement, finds none in healthy stores, and changes nothing."""

from collections.abc import Awaitable, Callable

import pytest

from jqmaster.domain.jobs.job import Job, JobState
from jqmaster.store.health.findings import Finding
from jqmaster.store.keys import Keys
from tests.store.jobs.test_claim import damage
from tests.store.jobs.test_operator_actions import job_in
from tests.support.constraints import ConstrainedWorld, constraint
from tests.support.store import NO_KEY, StoreWorld

Harm = Callable[[StoreWorld, Job, Keys], Awaitable[object]]

# A missing index entry is reported twice where the place of its lane depends on it.
HARMS: dict[str, tuple[JobState, str, Harm]] = {
    "no index": (JobState.READY, "membership lane", lambda w, j, k: w.redis.zrem(w.ready(), j.id)),
    "two indexes": (
        JobState.READY, "membership", lambda w, j, k: w.redis.zadd(k.scheduled, {j.id: 1}),
    ),
    "another lane": (
        JobState.READY, "membership lane", lambda w, j, k: w.redis.zadd(w.ready("work2"), {j.id: 0}),
    ),
    "wrong index": (
        JobState.RUNNING, "membership", lambda w, j, k: w.redis.setrange(k.job(j.id), 1, b"\x06"),
    ),
    "priority": (
        JobState.READY, "priority lane", lambda w, j, k: w.redis.zadd(w.ready(), {j.id: 5}),
    ),
    "no claim": (
        JobState.RUNNING, "claim", lambda w, j, k: w.redis.srem(k.claims(j.worker_id), j.id),
    ),
    "claim of another": (
        JobState.RUNNING, "claim", lambda w, j, k: w.redis.sadd(k.claims(w.spec().id), j.id),
    ),
    "claim of a waiting job": (
        JobState.READY, "claim", lambda w, j, k: w.redis.sadd(k.claims(w.spec().id), j.id),
    ),
    "gone": (JobState.SCHEDULED, "missing", lambda w, j, k: w.redis.delete(k.job(j.id))),
    "gone while claimed": (JobState.RUNNING, "missing", lambda w, j, k: w.redis.delete(k.job(j.id))),
    "wrong type": (JobState.READY, "record", lambda w, j, k: damage(w, j.id, "wrong type")),
    "cut short": (JobState.READY, "record", lambda w, j, k: damage(w, j.id, "half a name")),
    "result without end": (
        JobState.SUCCEEDED, "result", lambda w, j, k: w.redis.zrem(k.results, j.id),
    ),
    "end without result": (
        JobState.SUCCEEDED, "result", lambda w, j, k: w.redis.delete(k.result(j.id)),
    ),
    "result of nobody": (
        JobState.SUCCEEDED, "result", lambda w, j, k: w.redis.set(k.result(w.spec().id), b""),
    ),
    "set aside": (JobState.READY, "damaged", lambda w, j, k: w.redis.sadd(k.damaged, j.id)),
    "name unknown": (JobState.READY, "lane", lambda w, j, k: w.redis.srem(k.names, "work")),
}  # fmt: skip


@pytest.mark.parametrize("harm", HARMS)
async def test_each_disagreement_is_found_once_and_nothing_else(world: StoreWorld, harm: str) -> None:
    state, constraints, do = HARMS[harm]
    await world.enqueue("work2")
    redis, k = world.redis, world.shard.keys
    job = await job_in(world, state, keep_result=True)
    await do(world, job, k)
    async with world.unchanged():
        findings = await world.findings()
    assert {f.rule for f in findings} == set(constraints.split())
    if harm not in ("claim of another", "result of nobody", "name unknown"):
        assert [f.key for f in findings if f.rule != "lane"] == [k.job(job.id)]
    await redis.unlink(*[key for key in await world.dump() if key != k.epoch])


async def test_attempts_of_a_job_that_is_gone(world: StoreWorld) -> None:
    job = await job_in(world, JobState.FAILED)
    redis, k = world.redis, world.shard.keys
    await redis.delete(k.job(job.id))
    await redis.zrem(k.index(JobState.FAILED), job.id)
    assert await world.findings() == [
        Finding("history", k.job(job.id), "history, progress, challenges or predecessors of a deleted job")
    ]
    await redis.delete(k.history(job.id))


async def test_a_large_store_is_read_in_pages(world: StoreWorld) -> None:
    await world.enqueue_many(450, keep_result=True)
    await world.enqueue_many(450, "later", delay_ms=9)
    worker = await world.worker(max_jobs=300)
    jobs = [job for _ in range(3) for job in await world.claim(worker)]
    await world.settlements.settle_success(worker, [(j.job_id, j.token, b"") for j in jobs[:150]])
    assert await world.findings() == []
    await world.redis.zrem(world.shard.keys.running, jobs[-1].job_id)
    assert [f.key for f in await world.findings()] == [world.shard.keys.job(jobs[-1].job_id)]
    await world.redis.zadd(world.shard.keys.running, {jobs[-1].job_id: 1})


async def test_a_record_with_a_large_argument_is_healthy(world: StoreWorld) -> None:
    await world.enqueue(argument="x" * 200_000)
    assert await world.findings() == []


# The slots of one running job that passes two gates without a key.
SLOT_HARMS: dict[str, Callable[[StoreWorld, str, Keys], Awaitable[object]]] = {
    "a sum is too high": lambda w, gates, k: w.redis.hincrby(k.slot_counts, gates[:24], 1),
    "a sum is missing": lambda w, gates, k: w.redis.hdel(k.slot_counts, gates[24:]),
    "a sum without slots": lambda w, gates, k: w.redis.hset(k.slot_counts, "f" * 8 + NO_KEY, 1),
    "a list is not listed": lambda w, gates, k: w.redis.srem(k.slot_lists, gates),
}


@pytest.mark.parametrize("harm", SLOT_HARMS)
async def test_slots_that_do_not_add_up_are_found(world: StoreWorld, harm: str) -> None:
    limited = ConstrainedWorld(world)
    await limited.put(constraint("one", concurrency=5), constraint("two", concurrency=5))
    await limited.enqueue()
    await limited.take(await world.worker())
    assert await world.findings() == []
    (gates,) = [raw.decode() for raw in await world.redis.smembers(world.shard.keys.slot_lists)]
    await SLOT_HARMS[harm](world, gates, world.shard.keys)
    assert {finding.rule for finding in await world.findings()} == {"slot"}
    await world.redis.flushdb()
