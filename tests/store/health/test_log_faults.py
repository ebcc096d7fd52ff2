"""inspect_logs.lua finds faults in the logs of jobs, and repair_logs.lua fixes them."""

from collections.abc import Awaitable, Callable

import pytest

from jqmaster.store.health.repair import Repair
from jqmaster.store.jobs.claims import ClaimedJob
from jqmaster.store.keys import Keys
from tests.store.logs.test_archiving import over, sweep
from tests.store.logs.test_logs import lines, save, texts
from tests.support.store import TIMES, StoreWorld

pytestmark = [pytest.mark.req("D17")]

Harm = Callable[[StoreWorld, Keys, str], Awaitable[object]]

# The harm, its finding, and whether the lines exist afterwards.
HARMS: dict[str, tuple[Harm, str, bool]] = {
    "not listed": (lambda w, k, i: w.redis.srem(k.logged, i), "is not listed", True),
    "wrong size": (lambda w, k, i: w.redis.hset(k.log(i), "size", 5), "counts 5 bytes, and has 34", True),
    "damaged size": (lambda w, k, i: w.redis.hset(k.log(i), "size", "x"), "counts 0 bytes, and has 34", True),
    "no age": (lambda w, k, i: w.redis.zrem(k.log_times, i), "its age is not tracked", True),
    "no lines": (lambda w, k, i: w.redis.delete(k.logs(i)), "counts 34 bytes, and has 0", False),
    "no facts": (lambda w, k, i: w.redis.delete(k.log(i)), "is listed but does not exist", True),
    "waits": (
        lambda w, k, i: w.redis.zadd(k.log_waits, {i: 1}),
        "waits for the archive although its job exists",
        True,
    ),
}


async def repaired(world: StoreWorld) -> list[str]:
    """Repair, and return the rules of the findings that were repaired."""
    repair = Repair(world.shard, world.epoch, who="test", times=TIMES)
    return [finding.rule async for step in repair.steps() for finding in step.repaired]


async def with_log(world: StoreWorld) -> tuple[str, ClaimedJob]:
    worker, job = await world.running()
    await save(world, worker, job, lines(1, "a"), lines(2, "b"))
    return worker, job


@pytest.mark.parametrize("harm", HARMS)
async def test_faults_of_a_log_are_found_and_repaired(world: StoreWorld, harm: str) -> None:
    do, fault, has_lines = HARMS[harm]
    worker, job = await with_log(world)
    k = world.shard.keys
    await do(world, k, job.job_id)
    assert fault in [f.detail for f in await world.findings() if f.key == k.log(job.job_id)]
    assert "log" in await repaired(world)
    assert await world.findings() == []
    assert [text for *_, text in await texts(world, job.job_id)] == (["a", "b"] if has_lines else [])
    # Writing continues.
    assert not (await save(world, worker, job, lines(3, "c"))).is_stale
    assert (await texts(world, job.job_id))[-1][2] == "c"
    assert await world.findings() == []


@pytest.mark.parametrize("value", ["7", "damaged"])
async def test_a_wrong_sum_is_counted_again(world: StoreWorld, value: str) -> None:
    await with_log(world)
    k = world.shard.keys
    await world.redis.hset(k.log_totals, "size", value)
    (finding,) = await world.findings()
    assert (finding.rule, finding.key) == ("log", k.log_totals)
    assert finding.detail.endswith("and the logs have 34")
    assert await repaired(world) == ["log"]
    assert await world.logs.total_bytes() == 34


async def test_a_log_that_waits_for_the_archive_without_a_record_is_removed(world: StoreWorld) -> None:
    job = await over(world, "a")
    await sweep(world)
    k = world.shard.keys
    assert await world.findings() == []
    await world.redis.hdel(k.log(job.job_id), "record")
    (finding,) = await world.findings()
    assert finding.detail == "waits for the archive without the record of its job"
    assert await repaired(world) == ["log"]
    assert await world.redis.exists(k.log(job.job_id), k.logs(job.job_id), k.log_waits, k.log_times) == 0
    assert await world.findings() == []


async def test_keys_of_another_type_are_removed(world: StoreWorld) -> None:
    _, job = await with_log(world)
    k = world.shard.keys
    await world.redis.delete(k.logs(job.job_id))
    await world.redis.set(k.logs(job.job_id), "text")
    assert "a key has the wrong type" in [f.detail for f in await world.findings()]
    assert "log" in await repaired(world)
    assert await world.findings() == []


async def test_objects_that_name_no_job_are_not_removed_from_the_archive(world: StoreWorld) -> None:
    _, job = await with_log(world)
    k = world.shard.keys
    # The ID of a job that was deleted may be used again.
    for key in (k.log_erasures, k.log_erased):
        await world.redis.zadd(key, {job.job_id: 1, "../other": 1})
    finding = (await world.findings())[0]
    assert finding.detail == "is to be removed from the archive, but no job can have this ID"
    assert await repaired(world) == ["log"]
    for key in (k.log_erasures, k.log_erased):
        assert await world.redis.zrange(key, 0, -1) == [job.job_id.encode()]
    assert await world.findings() == []
