"""Questions about a job, a batch or a definition that was removed meanwhile."""

import pytest

from jqmaster.domain.batches.batch import BatchCallback, callback_job_id
from jqmaster.domain.jobs.job import JobState
from jqmaster.domain.jobs.predecessors import After
from jqmaster.store.jobs.enqueue_outcomes import Accepted, PredecessorRefused
from tests.support.batches import RETENTION_MS, Batches
from tests.support.definitions import MINUTE_MS, Definitions
from tests.support.store import StoreWorld


async def run_and_sweep(world: StoreWorld, name: str) -> str:
    """Run the one ready job of a name, and let it be removed."""
    worker = await world.worker(name)
    (job,) = await world.claim(worker, name)
    await world.settlements.settle_success(worker, [(job.job_id, job.token, b"\xc0")])
    world.pass_ms(10)
    assert await world.retention.sweep(world.epoch, JobState.SUCCEEDED, retention_ms=5, max_jobs=9) == 1
    return job.job_id


@pytest.mark.req("D6")
@pytest.mark.parametrize("overlap", ["forbid", "queue", "replace"])
async def test_an_earlier_job_that_was_removed_has_finished(world: StoreWorld, overlap: str) -> None:
    definitions = Definitions(world)
    await definitions.put(overlap=overlap, job={"name": "work"})
    for minute in (1, 2):
        world.pass_ms(MINUTE_MS)
        await definitions.fire()
        assert (await definitions.outcomes())[-1][:2] == (minute, "fired")
        await run_and_sweep(world, "work")


@pytest.mark.req("S7")
async def test_a_batch_that_is_made_again_after_its_retention_is_a_new_one(world: StoreWorld) -> None:
    batches = Batches(world)
    batch = await batches.make([BatchCallback.SUCCESS])
    for _ in range(2):
        await batches.service.seal(batch)
        await batches.carry_out()
        assert await batches.state(batch) == "complete"
        assert await run_and_sweep(world, "on_success") == callback_job_id(batch, BatchCallback.SUCCESS)
        world.pass_ms(RETENTION_MS)
        await batches.expiry.end_due(world.epoch)
        assert await batches.store.get(batch) is None
        await batches.make([BatchCallback.SUCCESS], id=batch)


@pytest.mark.req("P9")
async def test_a_push_behind_a_job_that_was_removed_is_refused(world: StoreWorld) -> None:
    first = await world.enqueue("work")
    assert await run_and_sweep(world, "work") == first
    async with world.unchanged():
        refused = await world.acceptance.enqueue([world.spec(after=After((first,)))])
    assert refused == [PredecessorRefused(first, is_none=True)]


@pytest.mark.req("P1")
async def test_an_id_stands_for_a_job_as_long_as_it_is_kept(world: StoreWorld) -> None:
    spec = world.spec("work")
    for _ in range(2):
        assert await world.acceptance.enqueue([spec]) == [Accepted.NEW]
        assert await world.acceptance.enqueue([spec]) == [Accepted.KNOWN]
        assert await run_and_sweep(world, "work") == spec.id
