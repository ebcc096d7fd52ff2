"""The estimate of the bytes of waiting jobs."""

import pytest

from jqmaster.store.operations import waiting_size
from jqmaster.store.operations.waiting_size import WaitingSize
from tests.support.store import StoreWorld

pytestmark = pytest.mark.req("D29")


async def true_size(world: StoreWorld, *job_ids: str) -> int:
    return sum([await world.redis.strlen(world.shard.keys.job(job_id)) for job_id in job_ids])


async def test_a_few_jobs_are_measured_one_by_one_whatever_they_wait_for(world: StoreWorld) -> None:
    size = WaitingSize(world.shard)
    assert await size.bytes() == 0
    large = await world.enqueue(argument="x" * 5_000)
    later = await world.enqueue(argument="y" * 700, run_at_ms=world.now_ms + 60_000)
    other = await world.enqueue("other")
    assert await size.bytes() == await true_size(world, large, later, other)
    worker_id = await world.worker("other")
    await world.claim(worker_id, "other")
    assert await size.bytes() == await true_size(world, large, later)


async def test_some_of_many_jobs_and_names_stand_for_all(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_size, "DRAWS", 40)
    small = await world.enqueue_many(300)
    large = [await world.enqueue(argument="x" * 2_000) for _ in range(100)]
    others = [await world.enqueue(f"name{n}", "x" * 1_000) for n in range(50)]
    true = await true_size(world, *small, *large, *others)
    measured = [await WaitingSize(world.shard).bytes() for _ in range(20)]
    assert 0.7 * true < sum(measured) / len(measured) < 1.3 * true
