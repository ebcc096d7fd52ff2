"""save_progress.lua: what a claim reports about its job, and what the next attempt gets."""

import pytest

from jqmaster.domain.jobs.job import JobState
from jqmaster.domain.jobs.progress import Progress, ProgressReport, RefusedReports
from jqmaster.store.health.findings import Finding
from jqmaster.store.jobs.claims import Claim, ClaimedJob
from tests.store.jobs.test_reclaim import LOST, ending
from tests.store.jobs.test_settle import HANDED_BACK
from tests.support.store import LEASE_MS, StoreWorld

NONE_REFUSED = RefusedReports(frozenset(), frozenset())


def stale(*claim: str) -> RefusedReports:
    job_id, token = claim
    return RefusedReports(frozenset({(job_id, token)}), frozenset())


async def _claimed(world: StoreWorld, worker: str) -> ClaimedJob:
    claim = await world.claims.claim(world.epoch, worker, ["work"], 1)
    assert isinstance(claim, Claim)
    (job,) = claim.jobs
    await world.progress.give_checkpoints([job])
    return job


async def _succeed(world: StoreWorld, worker: str, job: ClaimedJob) -> None:
    assert await world.settlements.settle_success(worker, [(job.job_id, job.token, b"")]) == [True]


async def _told(world: StoreWorld, job_id: str) -> Progress | None:
    return (await world.progress.of([await world.get(job_id)])).get(job_id)


@pytest.mark.req("S7")
async def test_the_next_attempt_gets_the_last_checkpoint_whoever_runs_it(world: StoreWorld) -> None:
    worker, job = await world.running()
    assert (
        await world.progress.save(worker, [ProgressReport(job.job_id, job.token, None, b"\x01")])
        == NONE_REFUSED
    )
    assert (
        await world.progress.save(worker, [ProgressReport(job.job_id, job.token, None, b"\x02")])
        == NONE_REFUSED
    )
    await world.fail(worker, job, HANDED_BACK)
    again = await _claimed(world, await world.worker())
    assert (again.record.attempt, again.checkpoint) == (2, b"\x02")


@pytest.mark.req("S7", "S14")
@pytest.mark.parametrize("field", ["checkpoint", "progress"])
async def test_a_report_that_a_master_held_up_does_not_replace_a_later_one(
    world: StoreWorld, field: str
) -> None:
    worker, job = await world.running()

    def report(of: ClaimedJob, number: int, seq: int | None) -> ProgressReport:
        told = (number / 10, "") if field == "progress" else None
        return ProgressReport(of.job_id, of.token, told, bytes([number]) if told is None else None, seq)

    async def save(of: ClaimedJob, number: int, seq: int | None, *, by: str = worker) -> RefusedReports:
        return await world.progress.save(by, [report(of, number, seq)])

    async def saved() -> int:
        present = await world.get(job.job_id)
        if field == "checkpoint":
            return (await world.progress.checkpoint(present) or b"\0")[0]
        return round(((await _told(world, job.job_id)) or Progress(0, "", 0)).fraction * 10)  # type: ignore[operator]

    assert await save(job, 2, 2) == NONE_REFUSED
    async with world.unchanged():
        outdated = RefusedReports(frozenset(), frozenset({(job.job_id, job.token)}))
        assert await save(job, 1, 1) == outdated
    # A repeat of the same call, at another master, is taken, and so is a report of a worker that does not number.
    assert await save(job, 2, 2) == NONE_REFUSED
    assert await save(job, 3, None) == NONE_REFUSED
    assert await saved() == 3
    assert await save(job, 1, 1) == outdated
    # The next claim's reports are numbered on their own.
    await world.fail(worker, job, HANDED_BACK)
    other = await world.worker()
    again = await _claimed(world, other)
    assert await save(again, 4, 1, by=other) == NONE_REFUSED
    assert await saved() == 4
    # A key of another type is damaged: it does not stop reports.
    await world.redis.set(world.shard.keys.progress(job.job_id), "damaged")
    assert await save(again, 5, 2, by=other) == NONE_REFUSED
    assert await saved() == 5
    # So does a number of another form.
    await world.redis.hset(world.shard.keys.progress(job.job_id), "seq", "damaged")
    assert await save(again, 6, 3, by=other) == NONE_REFUSED
    assert await saved() == 6


async def test_a_checkpoint_can_be_looked_at_before_the_next_attempt(world: StoreWorld) -> None:
    worker, job = await world.running()
    assert await world.progress.checkpoint(await world.get(job.job_id)) is None
    await world.progress.save(worker, [ProgressReport(job.job_id, job.token, (0.5, ""))])
    assert await world.progress.checkpoint(await world.get(job.job_id)) is None
    await world.progress.save(worker, [ProgressReport(job.job_id, job.token, None, b"\x01")])
    assert await world.progress.checkpoint(await world.get(job.job_id)) == b"\x01"


@pytest.mark.req("D21")
async def test_progress_is_what_was_told_last(world: StoreWorld) -> None:
    worker, job = await world.running()
    assert await _told(world, job.job_id) is None
    await world.progress.save(worker, [ProgressReport(job.job_id, job.token, (0.25, "row 25"))])
    assert await _told(world, job.job_id) == Progress(0.25, "row 25", world.now_ms)
    world.pass_ms(5)
    # A checkpoint alone leaves the progress unchanged.
    await world.progress.save(worker, [ProgressReport(job.job_id, job.token, None, b"\x01")])
    assert await _told(world, job.job_id) == Progress(0.25, "row 25", world.now_ms - 5)
    await world.progress.save(worker, [ProgressReport(job.job_id, job.token, (None, "at the end"))])
    assert await _told(world, job.job_id) == Progress(None, "at the end", world.now_ms)


async def test_a_checkpoint_without_progress_tells_none(world: StoreWorld) -> None:
    worker, job = await world.running()
    await world.progress.save(worker, [ProgressReport(job.job_id, job.token, None, b"\x01")])
    assert await _told(world, job.job_id) is None


@pytest.mark.req("M3", "M4")
async def test_a_stale_claim_saves_nothing(world: StoreWorld) -> None:
    worker, job = await world.running()
    stranger = await world.worker()
    other = ProgressReport(job.job_id, "0" * 32, (0.5, ""), b"\x01")
    async with world.unchanged():
        assert await world.progress.save(worker, [other]) == stale(job.job_id, "0" * 32)
        mine = ProgressReport(job.job_id, job.token, (0.5, ""), b"\x01")
        assert await world.progress.save(stranger, [mine]) == stale(job.job_id, job.token)
    await _succeed(world, worker, job)
    async with world.unchanged():
        assert await world.progress.save(worker, [mine]) == stale(job.job_id, job.token)


async def test_a_job_that_went_well_begins_anew_and_one_that_failed_goes_on(world: StoreWorld) -> None:
    for state, checkpoint in ((JobState.SUCCEEDED, None), (JobState.FAILED, b"\x07")):
        worker, job = await world.running(max_retry=0)
        await world.progress.save(worker, [ProgressReport(job.job_id, job.token, (0.5, "half"), b"\x07")])
        if state is JobState.SUCCEEDED:
            await _succeed(world, worker, job)
        else:
            await world.fail(worker, job)
        assert (await world.get(job.job_id)).state is state
        await world.operator_actions.retry(await world.get(job.job_id))
        again = await _claimed(world, worker)
        assert (again.job_id, again.checkpoint) == (job.job_id, checkpoint)
        await _succeed(world, worker, again)


@pytest.mark.req("J12")
async def test_a_job_that_saves_a_checkpoint_between_its_losses_is_not_given_up(world: StoreWorld) -> None:
    worker, job = await world.running()
    for losses in range(1, 6):
        world.pass_ms(LEASE_MS)
        over = ending(world, await world.get(job.job_id), LOST)
        assert await world.leases.reclaim(world.epoch, [over]) == [True]
        assert (await world.get(job.job_id)).losses == 1
        worker = await world.worker()
        job = await _claimed(world, worker)
        await world.progress.save(worker, [ProgressReport(job.job_id, job.token, (0.1, ""))])
        assert (await world.get(job.job_id)).losses == 1
        await world.progress.save(worker, [ProgressReport(job.job_id, job.token, None, bytes([losses]))])
        assert (await world.get(job.job_id)).losses == 0


async def test_progress_goes_with_its_job(world: StoreWorld) -> None:
    worker, job = await world.running()
    await world.progress.save(worker, [ProgressReport(job.job_id, job.token, (0.5, "half"))])
    await _succeed(world, worker, job)
    key = world.shard.keys.progress(job.job_id)
    assert await world.redis.exists(key)
    await world.operator_actions.delete(job.job_id)
    assert not await world.redis.exists(key)
    await world.redis.hset(key, "message", "left over")
    assert await world.findings() == [
        Finding(
            "history",
            world.shard.keys.job(job.job_id),
            "history, progress, challenges or predecessors of a deleted job",
        )
    ]
    await world.redis.delete(key)


async def test_a_damaged_progress_hurts_nothing(world: StoreWorld) -> None:
    worker, job = await world.running()
    await world.progress.save(worker, [ProgressReport(job.job_id, job.token, (0.5, "half"), b"\x01")])
    key = world.shard.keys.progress(job.job_id)
    await world.redis.hset(key, "fraction", "x")
    assert await _told(world, job.job_id) == Progress(None, "half", world.now_ms)
    await world.redis.delete(key)
    await world.redis.set(key, "no hash")
    assert await _told(world, job.job_id) is None
    await world.fail(worker, job, HANDED_BACK)
    again = await _claimed(world, worker)
    assert again.checkpoint is None
    # The next report replaces it.
    await world.progress.save(worker, [ProgressReport(again.job_id, again.token, (0.7, "anew"), b"\x02")])
    assert await _told(world, job.job_id) == Progress(0.7, "anew", world.now_ms)
