"""Starts that the master allows workers, and how their reports end attempts."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import msgpack
import pytest

from jqmaster.domain.ids import new_id
from jqmaster.domain.jobs.job import Cause, JobState
from jqmaster.domain.jobs.outcome import Outcome
from jqmaster.errors import NotFoundError
from jqmaster.service.workers.reports import MAX_MESSAGE, ReportService
from jqmaster.store.jobs.claims import ClaimedJob
from jqmaster.store.jobs.settlements import Settled, Successes
from tests.support.store import StoreWorld
from tests.support.waiting import wait_until


@pytest.fixture
def reports(world: StoreWorld) -> ReportService:
    return service_of(world)


def service_of(world: StoreWorld) -> ReportService:
    return ReportService(
        world.workers,
        world.constraints,
        settlements=world.settlements,
        challenges=world.challenges,
        records=world.records,
    )


def outcome(job: ClaimedJob, kind: str = "success", **fields: object) -> Outcome:
    return Outcome(job.job_id, job.token, kind, finished_at="2026-11-21T00:00:00.000Z", **fields)  # type: ignore[arg-type]


@pytest.mark.req("D10")
async def test_a_worker_with_an_unknown_id_is_told_to_register(reports: ReportService) -> None:
    with pytest.raises(NotFoundError):
        await reports.results("no id", [])
    with pytest.raises(NotFoundError):
        await reports.confirm_start("no id", [])


@pytest.mark.req("M3")
async def test_a_start_is_confirmed_for_the_holder_of_the_token_alone(
    world: StoreWorld, reports: ReportService
) -> None:
    worker, job = await world.running()
    other = await world.worker()
    claims = [(job.job_id, job.token), (job.job_id, "00" * 16), (new_id(), job.token)]
    confirmed, stale = await reports.confirm_start(worker, claims)
    assert (confirmed, stale) == ([job.job_id], [job.job_id, claims[2][0]])
    assert await reports.confirm_start(other, claims[:1]) == ([], [job.job_id])


async def test_reports_of_other_workers_that_arrive_while_the_store_is_busy_are_settled_together(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = [await world.worker() for _ in range(5)]
    await world.enqueue_many(5)
    jobs = [(await world.claim(worker, limit=1))[0] for worker in workers]
    await world.workers.forget(workers[4])
    jobs[4].token = "0" * 32
    calls: list[list[str]] = []
    goes_on, settle = asyncio.Event(), world.settlements.settle_successes

    async def slow(given: Sequence[Successes]) -> list[Settled | Exception]:
        calls.append([one.worker_id for one in given])
        if len(calls) == 1:
            await goes_on.wait()
        return await settle(given)

    monkeypatch.setattr(world.settlements, "settle_successes", slow)
    service = service_of(world)
    tasks = [
        asyncio.create_task(service.results(worker, [outcome(job)]))
        for worker, job in zip(workers, jobs, strict=True)
    ]
    await wait_until(lambda: calls)
    await asyncio.sleep(0)
    goes_on.set()
    *answers, unknown = await asyncio.gather(*tasks, return_exceptions=True)
    assert answers == [([job.job_id], []) for job in jobs[:4]]
    assert isinstance(unknown, NotFoundError)
    assert calls == [workers[:1], workers[1:]]
    assert await service.results(workers[0], [outcome(jobs[0])]) == ([jobs[0].job_id], []), "a repeat"


@pytest.mark.req("J8", "J9", "M4", "M9", "P1")
async def test_every_kind_of_ending_in_one_call(world: StoreWorld, reports: ReportService) -> None:
    ids = await world.enqueue_many(8, keep_result=True, max_retry=3)
    worker = await world.worker()
    jobs = {job.job_id: job for job in await world.claim(worker)}
    one = [jobs[job_id] for job_id in ids]
    outcomes = [
        outcome(one[0], result=msgpack.packb(42)),
        outcome(one[1], "failure", error=b"\xc3", message="no"),
        outcome(one[2], "failure", should_retry=False, message="never", error=b"\xc2"),
        outcome(one[3], "failure", reason="timeout"),
        outcome(one[4], "deferred", retry_after_s=7.0),
        outcome(one[5], "handed_back"),
        outcome(one[6], "canceled"),
        Outcome(ids[7], "00" * 16, "failure"),
        Outcome(new_id(), "00" * 16, "failure"),
        Outcome(new_id(), "00" * 16, "success"),
    ]
    accepted, stale = await reports.results(worker, outcomes)
    assert sorted(accepted) == sorted(ids[:7])
    assert sorted(stale) == sorted([ids[7], outcomes[8].job_id, outcomes[9].job_id])
    found = [await world.get(job_id) for job_id in ids]
    assert [job.state for job in found] == [
        JobState.SUCCEEDED, JobState.RETRYING, JobState.FAILED, JobState.RETRYING, JobState.SCHEDULED, JobState.READY,
        JobState.CANCELED, JobState.RUNNING,
    ]  # fmt: skip
    assert [job.failures for job in found] == [0, 1, 1, 1, 0, 0, 0, 0]
    assert found[2].cause == Cause.ERROR
    assert found[4].due_at_ms == world.now_ms + 7000
    results = [await world.results.fetch_result(job_id, watch=False) for job_id in (ids[0], ids[2])]
    assert [msgpack.unpackb(result) for result in results] == [
        {"type": "success", "finished_at": "2026-11-21T00:00:00.000Z", "result": 42},
        {
            "type": "failure", "finished_at": "2026-11-21T00:00:00.000Z", "reason": "other", "should_retry": False,
            "message": "never", "error": False,
        },
    ]  # fmt: skip
    (attempt,) = await world.records.history(ids[1])
    assert (attempt.attempt, attempt.worker_id, attempt.outcome, attempt.message, attempt.error) == (
        1, worker, "failure", "no", b"\xc3",
    )  # fmt: skip


@pytest.mark.req("M3", "D5")
async def test_a_repeat_of_what_was_accepted_is_accepted_and_changes_nothing(
    world: StoreWorld, reports: ReportService
) -> None:
    await world.enqueue_many(2, keep_result=True)
    worker = await world.worker()
    one, two = await world.claim(worker)
    outcomes = [outcome(one, result=b"\x01"), outcome(two, "failure", message="no")]
    first = await reports.results(worker, outcomes)
    before = [await world.get(job.job_id) for job in (one, two)]
    assert await reports.results(worker, outcomes) == first == ([one.job_id, two.job_id], [])
    assert [await world.get(job.job_id) for job in (one, two)] == before
    assert len(await world.records.history(two.job_id)) == 1


@pytest.mark.req("M3", "D5")
async def test_a_result_of_another_worker_is_stale(world: StoreWorld, reports: ReportService) -> None:
    _, job = await world.running()
    other = await world.worker()
    async with world.unchanged():
        for kind in ("success", "failure", "handed_back"):
            assert await reports.results(other, [outcome(job, kind)]) == ([], [job.job_id])


@pytest.mark.req("J7", "D5")
async def test_the_leader_hears_what_a_worker_leaves_to_others_only_from_the_holder_of_the_token(
    world: StoreWorld, reports: ReportService
) -> None:
    worker, job = await world.running()
    other = await world.worker()
    back = outcome(job, "handed_back")
    with world.leading_here() as words:
        await reports.results(other, [back])
        await reports.results(worker, [replace(back, token="0" * 32)])
        assert not [word for word in words if word.startswith("left:")]
        for _ in range(2):
            assert await reports.results(worker, [back]) == ([job.job_id], [])
    assert [word for word in words if word.startswith("left:")] == [f"left:{worker}:15000:work"]


async def test_a_result_for_a_deleted_job_is_stale(world: StoreWorld, reports: ReportService) -> None:
    worker, job = await world.running()
    assert await reports.results(worker, [outcome(job)]) == ([job.job_id], [])
    await world.operator_actions.delete(job.job_id)
    for kind in ("success", "failure"):
        assert await reports.results(worker, [outcome(job, kind)]) == ([], [job.job_id])


@pytest.mark.req("J5")
async def test_max_retry_is_exact(world: StoreWorld, reports: ReportService) -> None:
    job_id = await world.enqueue(max_retry=2)
    worker = await world.worker()
    starts = 0
    while (await world.get(job_id)).state != JobState.FAILED:
        (job,) = await world.claim(worker)
        starts += 1
        await reports.results(worker, [outcome(job, "failure")])
        if (await world.get(job_id)).state == JobState.RETRYING:
            await world.operator_actions.run_now(job_id)
    assert (starts, (await world.get(job_id)).cause) == (3, Cause.ERROR)


@pytest.mark.req("M4")
async def test_a_long_message_is_cut_in_the_history(world: StoreWorld, reports: ReportService) -> None:
    worker, job = await world.running()
    await reports.results(worker, [outcome(job, "failure", message="ä" * 50_000)])
    (attempt,) = await world.records.history(job.job_id)
    assert attempt.message == "ä" * MAX_MESSAGE


async def test_a_damaged_record_hurts_only_itself(world: StoreWorld, reports: ReportService) -> None:
    good, bad = await world.enqueue_many(2)
    worker = await world.worker()
    jobs = {job.job_id: job for job in await world.claim(worker)}
    redis, key = world.redis, world.shard.keys.job(bad)
    kept = await redis.get(key)
    await redis.set(key, b"x")
    outcomes = [outcome(jobs[bad], "failure"), outcome(jobs[good], "failure")]
    assert await reports.results(worker, outcomes) == ([good], [bad])
    await redis.set(key, kept)


@pytest.mark.req("M2", "P1")
@pytest.mark.parametrize("kind", ["deferred", "handed_back"])
async def test_a_job_that_comes_back_at_once_for_ever_is_claimed_once_a_second(
    world: StoreWorld, reports: ReportService, kind: str
) -> None:
    job_id = await world.enqueue(max_retry=0)
    worker = await world.worker()
    ends_ms, attempts = world.now_ms + 30_000, 0
    while world.now_ms < ends_ms:
        for job in await world.claim(worker):
            attempts += 1
            await reports.results(worker, [outcome(job, kind, retry_after_s=0.0)])
        found = await world.get(job_id)
        if found.state is JobState.SCHEDULED:
            world.now_ms = max(world.now_ms, found.due_at_ms)
            await world.due.promote(world.epoch, JobState.SCHEDULED)
    assert 30 <= attempts <= 40
    assert (found.failures, found.losses) == (0, 0)
