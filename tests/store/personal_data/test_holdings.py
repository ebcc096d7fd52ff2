"""The walk through all jobs of a shard, and what each of them left behind."""

import pytest

from jqmaster.domain.jobs.job import JobState
from jqmaster.domain.jobs.progress import ProgressReport
from jqmaster.store.personal_data import holdings
from jqmaster.store.personal_data.holdings import HoldingStore, JobHoldings
from tests.store.logs.test_logs import lines, save
from tests.support.store import StoreWorld

pytestmark = pytest.mark.req("D21")


@pytest.fixture
def store(world: StoreWorld) -> HoldingStore:
    return HoldingStore(world.shard, world.logs)


async def walked(store: HoldingStore) -> set[str]:
    ids, cursor = set[str](), "0"
    while cursor:
        found, cursor = await store.ids(cursor)
        ids |= set(found)
    return ids


async def all_of(store: HoldingStore, *ids: str) -> tuple[list[JobHoldings], int]:
    found, damaged = list[JobHoldings](), 0
    async for some, unreadable in store.jobs(ids):
        found += some
        damaged += unreadable
    return found, damaged


async def test_the_walk_finds_jobs_in_every_state_and_nothing_else(
    world: StoreWorld, store: HoldingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holdings, "KEYS_PER_STEP", 2)
    worker, job = await world.running(keep_result=True)
    await world.fail(worker, job)
    _, running = await world.running()
    waiting = await world.enqueue_many(5)
    await world.redis.set(f"{world.shard.keys.job('')}no-id", "x")
    assert await walked(store) == {job.job_id, running.job_id, *waiting}
    await world.redis.delete(f"{world.shard.keys.job('')}no-id")


async def test_a_job_is_given_with_everything_that_it_left_behind(
    world: StoreWorld, store: HoldingStore
) -> None:
    worker, job, request = await world.challenged(argument={"to": "jose@example.com"}, keep_result=True)
    await world.progress.save(worker, [ProgressReport(job.job_id, job.token, (0.5, "half"), b"\x07")])
    await world.parts.save(worker, job.job_id, job.token, 1, [b"\xa1a", b"\xa1b"])
    await save(world, worker, job, lines(1, "to José"))
    (found,), damaged = await all_of(store, job.job_id)
    assert damaged == 0
    assert found.job == await world.get(job.job_id)
    assert (found.progress, found.checkpoint) == ("half", b"\x07")
    assert found.parts == [b"\xa1a", b"\xa1b"]
    assert found.challenges is not None
    assert request.digest in found.challenges
    assert (found.has_log, found.attempts, found.result) == (True, [], None)
    await world.fail(worker, job)
    (found,), _ = await all_of(store, job.job_id)
    assert (found.job.state, found.result) == (JobState.FAILED, b"failed result")
    assert [one.message for one in found.attempts] == ["message"]


async def test_jobs_without_anything_and_jobs_that_are_gone(world: StoreWorld, store: HoldingStore) -> None:
    plain, gone = await world.enqueue_many(2)
    await world.operator_actions.delete(gone)
    assert await all_of(store, gone, plain) == ([JobHoldings(await world.get(plain), [], parts=[])], 0)
    assert await all_of(store) == ([], 0)


async def test_jobs_that_cannot_be_read_are_counted_and_keep_no_other_from_being_found(
    world: StoreWorld, store: HoldingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holdings, "JOBS_PER_READ", 2)
    ids = await world.enqueue_many(5)
    key = world.shard.keys.job(ids[1])
    record = await world.redis.get(key)
    await world.redis.set(key, record[:10])
    found, damaged = await all_of(store, *ids)
    assert ([one.job.id for one in found], damaged) == ([ids[0], *ids[2:]], 1)
    await world.redis.set(key, record)


async def test_the_log_of_a_job_is_read_page_by_page(world: StoreWorld, store: HoldingStore) -> None:
    worker, job = await world.running()
    await save(world, worker, job, lines(1, "a", "b"))
    found = await store.log(job.job_id, 0)
    assert found is not None
    read, facts, following = found
    assert ([line.text for line in read], following) == (["a", "b"], None)
    assert facts == (await world.logs.read(job.job_id, 0, watch=False)).facts  # type: ignore[union-attr]
    await world.fail(worker, job)
    await world.operator_actions.delete(job.job_id)
    assert await store.log(job.job_id, 0) is None
