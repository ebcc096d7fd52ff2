"""Failed jobs, in the order in which they failed, each exactly once."""

import pytest

from jqmaster.store.notices import failed_jobs
from jqmaster.store.notices.failed_jobs import CLOCK_STEP_MS, FailedJobStore
from tests.support.store import StoreWorld

pytestmark = pytest.mark.req("M10")


async def failed(world: StoreWorld) -> str:
    worker, job = await world.running()
    assert await world.fail(worker, job)
    return job.job_id


@pytest.fixture
def store(world: StoreWorld) -> FailedJobStore:
    return FailedJobStore(world.shard, world.records)


async def test_each_is_found_once_and_those_of_the_present_millisecond_later(
    world: StoreWorld, store: FailedJobStore
) -> None:
    began_ms = world.now_ms - 1
    first = await failed(world)
    assert await store.after(began_ms, world.now_ms) == ([], began_ms)
    world.pass_ms(10)
    second = await failed(world)
    world.pass_ms(1)
    found, until_ms = await store.after(began_ms, world.now_ms)
    assert (found, until_ms) == ([first, second], world.now_ms - 1)
    assert await store.after(until_ms, world.now_ms) == ([], until_ms)


async def test_pages_end_between_milliseconds(
    world: StoreWorld, store: FailedJobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failed_jobs, "PER_READ", 2)
    at_ms = world.now_ms - 1
    one = [await failed(world)]
    world.pass_ms(1)
    # One millisecond has more jobs than a page holds.
    three = [await failed(world) for _ in range(3)]
    world.pass_ms(5)
    pages = []
    for _ in range(3):
        found, at_ms = await store.after(at_ms, world.now_ms)
        pages.append(sorted(found))
    assert pages == [one, sorted(three), []]


async def test_jobs_of_a_clock_that_was_set_back_are_found(world: StoreWorld, store: FailedJobStore) -> None:
    seen_ms = world.now_ms
    assert await store.after(seen_ms + 2 * CLOCK_STEP_MS, seen_ms) == ([], seen_ms - 1)


async def test_jobs_are_read_with_their_last_end(world: StoreWorld, store: FailedJobStore) -> None:
    job_id = await failed(world)
    (found,) = await store.read([job_id, "01a20bb0-785c-7008-b0b0-b730fcd34c74"])
    assert found.job.id == job_id
    assert found.end is not None
    assert found.end.outcome == "failure"
    assert await store.read(["01a20bb0-785c-7008-b0b0-b730fcd34c74"]) == []
