"""The quota of pushed jobs in each second of the store's clock."""

import pytest

from jqmaster.domain.jobs.job import JobSpec, JobState
from jqmaster.store.jobs.enqueue_outcomes import Accepted, NotUnique, Outcome, PushRefused, TooFast
from tests.support.store import StoreWorld
from tests.support.unique import unique

pytestmark = pytest.mark.req("D29")
NEW, KNOWN = Accepted.NEW, Accepted.KNOWN


async def push(
    world: StoreWorld, *specs: JobSpec, most: int | None = 5, is_whole: bool = False
) -> list[Outcome]:
    return await world.acceptance.enqueue(specs, is_whole=is_whole, most_per_s=most)


def jobs(world: StoreWorld, count: int) -> list[JobSpec]:
    return [world.spec(argument=n) for n in range(count)]


async def test_no_second_takes_more_than_the_quota_and_the_next_one_begins_anew(world: StoreWorld) -> None:
    assert await push(world, *jobs(world, 3)) == [NEW] * 3
    assert await push(world, *jobs(world, 4)) == [NEW, NEW, TooFast(5), TooFast(5)]
    world.pass_ms(999)
    assert await push(world, *jobs(world, 1)) == [TooFast(5)]
    world.pass_ms(1)
    assert await push(world, *jobs(world, 6)) == [*[NEW] * 5, TooFast(5)]
    assert (await world.inspector.counts())[JobState.READY] == 10


async def test_a_repeat_is_answered_and_does_not_count(world: StoreWorld) -> None:
    first = jobs(world, 5)
    await push(world, *first)
    assert await push(world, *first) == [KNOWN] * 5
    assert await push(world, *first, is_whole=True) == [KNOWN] * 5
    world.pass_ms(1000)
    assert await push(world, *first, *jobs(world, 6)) == [*[KNOWN] * 5, *[NEW] * 5, TooFast(5)]


async def test_a_whole_push_is_accepted_or_changes_nothing(world: StoreWorld) -> None:
    await push(world, *jobs(world, 3))
    async with world.unchanged():
        with pytest.raises(PushRefused) as refused:
            await push(world, *jobs(world, 3), is_whole=True)
    assert refused.value.refused == {0: TooFast(5)}
    assert await push(world, *jobs(world, 2), is_whole=True) == [NEW] * 2


async def test_the_first_call_of_a_push_counts_the_jobs_of_all_its_calls(world: StoreWorld) -> None:
    many = jobs(world, 1_200)
    assert await push(world, *many, most=1_201, is_whole=True) == [NEW] * 1_200
    assert await push(world, *jobs(world, 2), most=1_201) == [NEW, TooFast(1_201)]
    world.pass_ms(1000)
    async with world.unchanged():
        with pytest.raises(PushRefused):
            await push(world, *jobs(world, 1_200), most=1_199, is_whole=True)


async def test_a_job_that_is_refused_for_another_reason_takes_no_place(world: StoreWorld) -> None:
    await push(world, world.spec(unique=unique("k")))
    again = await push(world, *[world.spec(unique=unique("k")) for _ in range(9)])
    assert all(isinstance(one, NotUnique) for one in again)
    assert await push(world, *jobs(world, 5)) == [*[NEW] * 4, TooFast(5)]


async def test_without_a_quota_nothing_is_read_or_written(world: StoreWorld) -> None:
    await push(world, *jobs(world, 3), most=None)
    assert not await world.redis.exists(world.shard.keys.pushes)
