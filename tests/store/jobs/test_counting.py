"""Each transition counts once, under the name of its job, whoever requests it and however often."""

from dataclasses import replace

import pytest

from jqmaster.domain.constraints.constraint_set import NO_CONSTRAINTS
from jqmaster.domain.jobs.job import Cause, JobState
from jqmaster.domain.jobs.outcome import Decision
from jqmaster.store.jobs.settlements import Settlement
from tests.support.store import LEASE_MS, OFFER_MS, StoreWorld

FAILED = Decision(JobState.FAILED, "failure", cause=Cause.ERROR, is_counted=True)


def counted(world: StoreWorld, name: str = "work") -> dict[str, int]:
    """Return the nonzero counts of this name."""
    counts = world.tally.since_start()[name]
    words = (
        "pushed",
        "succeeded",
        "discarded",
        "failed",
        "canceled",
        "skipped",
        "retried",
        "deferred",
        "handed_back",
        "lost",
    )
    found = {word: getattr(counts, word) for word in words}
    found |= {"waits": counts.wait.count, "runs": counts.run.count}
    return {word: count for word, count in found.items() if count}


def named(settlement: Settlement, message: str = "boom") -> Settlement:
    return replace(settlement, name="work", message=message)


@pytest.mark.req("P8")
async def test_a_job_that_succeeds_is_counted_with_its_wait_and_its_run(world: StoreWorld) -> None:
    spec = world.spec()
    await world.acceptance.enqueue([spec])
    await world.acceptance.enqueue([spec])
    world.pass_ms(700)
    worker = await world.worker()
    (job,) = await world.claim(worker)
    world.pass_ms(3_000)
    for _ in range(2):
        assert await world.settlements.settle_success(worker, [(job.job_id, job.token, b"")]) == [True]
    assert counted(world) == {"pushed": 1, "succeeded": 1, "waits": 1, "runs": 1}
    counts = world.tally.since_start()["work"]
    assert (counts.wait.max_ms, counts.run.max_ms) == (700, 3_000)


async def test_a_wait_begins_when_the_job_becomes_ready(world: StoreWorld) -> None:
    worker = await world.worker()
    await world.enqueue(delay_ms=60_000)
    world.pass_ms(60_000)
    await world.due.promote(world.epoch, JobState.SCHEDULED)
    world.pass_ms(5)
    (job,) = await world.claim(worker)
    assert world.tally.since_start()["work"].wait.max_ms == 5
    await world.settlements.settle_success(worker, [(job.job_id, job.token, b"")])
    world.pass_ms(9_000_000)
    await world.operator_actions.retry(await world.get(job.job_id), NO_CONSTRAINTS)
    assert await world.claim(worker)
    # The start of the wait is unknown for a job that was retried by hand.
    assert counted(world)["waits"] == 1


async def test_ends_that_are_no_success_are_counted_once(world: StoreWorld) -> None:
    worker, job = await world.running()
    world.pass_ms(40)
    again = Decision(JobState.RETRYING, "failure", delay_ms=10, cause=Cause.ERROR, is_counted=True)
    settlement = named(world.settlement(await world.get(job.job_id), job.token, again))
    for _ in range(2):
        assert await world.settlements.settle(worker, [settlement]) == [True]
    stale = replace(settlement, token="0" * 32)
    assert await world.settlements.settle(worker, [stale]) == [False]
    assert counted(world) == {"pushed": 1, "retried": 1, "waits": 1, "runs": 1}
    world.pass_ms(10)
    await world.due.promote(world.epoch, JobState.RETRYING)
    (job,) = await world.claim(worker)
    settlement = named(world.settlement(await world.get(job.job_id), job.token, FAILED))
    for _ in range(2):
        assert await world.settlements.settle(worker, [settlement]) == [True]
    assert counted(world) == {"pushed": 1, "retried": 1, "failed": 1, "waits": 2, "runs": 2}
    ((key, failure),) = world.tally.take().failures.items()
    assert (key, failure.count, failure.example_job_id) == (("work", Cause.ERROR, "boom", ""), 1, job.job_id)


async def test_jobs_that_the_leader_ends_are_counted(world: StoreWorld) -> None:
    worker, job = await world.running()
    lost = Decision(JobState.READY, "lost", is_loss=True)
    settlement = named(world.settlement(await world.get(job.job_id), job.token, lost))
    assert await world.leases.reclaim(world.epoch, [settlement]) == [False]
    world.pass_ms(LEASE_MS + OFFER_MS)
    assert await world.leases.reclaim(world.epoch, [settlement]) == [True]
    await world.enqueue("waits", expires_at_ms=world.now_ms + 1)
    await world.enqueue("waits", expires_at_ms=world.now_ms + 2)
    world.pass_ms(1)
    await world.due.expire(world.epoch)
    world.pass_ms(1)
    # A claim finds this job first.
    assert not await world.claim(await world.worker("waits"), "waits")
    await world.due.expire(world.epoch)
    assert counted(world) == {"pushed": 1, "retried": 1, "lost": 1, "waits": 1}
    assert counted(world, "waits") == {"pushed": 2, "skipped": 2}
    (job,) = await world.claim(worker)
    await world.leases.return_offers(world.epoch, worker, [(job.job_id, job.token)])
    await world.leases.return_offers(world.epoch, worker, [(job.job_id, job.token)])
    assert world.tally.returned_offers == 1


async def test_a_canceled_job_is_counted_once_whether_it_waited_or_ran(world: StoreWorld) -> None:
    worker, job = await world.running()
    waiting = await world.enqueue()
    for job_id in (job.job_id, waiting, job.job_id, waiting):
        await world.operator_actions.cancel(job_id)
    late = Decision(JobState.CANCELED, "canceled", cause=Cause.CANCELED)
    await world.settlements.settle(
        worker, [named(world.settlement(await world.get(job.job_id), job.token, late))]
    )
    assert counted(world) == {"pushed": 2, "canceled": 2, "waits": 1}


async def test_many_pushes_are_counted_as_often_as_they_were_accepted(world: StoreWorld) -> None:
    specs = [world.spec() for _ in range(1_100)]
    await world.acceptance.enqueue(specs[:3])
    await world.acceptance.enqueue(specs, is_whole=True)
    assert counted(world) == {"pushed": 1_100}
