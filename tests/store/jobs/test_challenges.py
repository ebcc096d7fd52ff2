"""Challenges: opened by an attempt, answered by callbacks, run by a worker, or over."""

import pytest

from jqmaster.domain.challenge import (
    Callback,
    CallbackAnswer,
    ChallengeState,
    new_request_id,
    read_request_id,
)
from jqmaster.domain.job import Cause, JobState
from jqmaster.domain.outcome import Decision
from jqmaster.store import codec
from jqmaster.store.jobs.challenges import NOT_OPENED, Received
from jqmaster.store.jobs.claims import ClaimedJob
from jqmaster.store.jobs.settlements import Settlement
from tests.store.jobs.test_settle import HANDED_BACK, RETRYING
from tests.support.store import LEASE_MS, StoreWorld

pytestmark = pytest.mark.req("P2", "P3")
LOST = Decision(JobState.READY, "lost", is_loss=True)
UNANSWERED = Decision(
    JobState.RETRYING, "callback_timeout", delay_ms=100, cause=Cause.CALLBACK_TIMEOUT, is_counted=True
)


async def _expire(world: StoreWorld, decision: Decision = UNANSWERED) -> list[str]:
    due = await world.challenges.due()
    settlements = [
        Settlement(
            job.id, job.token, decision, codec.encode_attempt(job, decision.ending, "", None), name=job.name
        )
        for _, job in due.jobs
        if job
    ]
    return [ended.job_id for ended in await world.challenges.expire(world.epoch, settlements)]


async def _states(world: StoreWorld, job_id: str) -> list[ChallengeState]:
    return [challenge.state for challenge in (await world.challenges.of([job_id]))[job_id]]


async def _claim_callback(world: StoreWorld) -> tuple[str, ClaimedJob]:
    worker = await world.worker()
    (job,) = await world.claim(worker)
    await world.challenges.give_callbacks([job])
    return worker, job


async def test_a_challenge_frees_the_worker_and_its_callback_goes_on_with_the_attempt(
    world: StoreWorld,
) -> None:
    worker, job, request = await world.challenged()
    assert await world.redis.scard(world.shard.keys.claims(worker)) == 1
    assert await world.challenges.await_callbacks(worker, [(job.job_id, job.token, request.digest)]) == [1]
    waiting = await world.get(job.job_id)
    assert (waiting.state, waiting.due_at_ms) == (JobState.AWAITING_CALLBACK, world.now_ms + 60_000)
    assert await world.redis.exists(world.shard.keys.claims(worker)) == 0
    await world.assert_sound()
    assert await world.claim(await world.worker()) == []
    world.pass_ms(5_000)
    assert await world.call_back(request) is CallbackAnswer.TAKEN
    await world.assert_sound()
    other, again = await _claim_callback(world)
    assert (again.record.attempt, again.record.has_callback, again.fence > job.fence) == (1, True, True)
    assert again.callbacks == [Callback("text/plain", b"done", world.now_ms)]
    assert await world.state(job.job_id) is JobState.RUNNING
    await world.assert_sound()
    assert await world.settlements.settle_success(other, [(job.job_id, again.token, b"")]) == [True]
    (over,) = (await world.challenges.of([job.job_id]))[job.job_id]
    assert (over.state, over.received, list(over.callbacks)) == (ChallengeState.SUCCEEDED, 1, [])
    assert (over.received_at_ms, over.run_at_ms, over.ended_at_ms) == (world.now_ms,) * 3


async def test_a_callback_that_comes_before_the_report_is_kept(world: StoreWorld) -> None:
    worker, job, request = await world.challenged()
    assert await world.call_back(request) is CallbackAnswer.TAKEN
    assert await world.state(job.job_id) is JobState.RUNNING
    assert await world.challenges.await_callbacks(worker, [(job.job_id, job.token, request.digest)]) == [1]
    _, again = await _claim_callback(world)
    assert again.callbacks[0].body == b"done"


async def test_the_same_callback_again_changes_nothing_and_another_conflicts(world: StoreWorld) -> None:
    _, job, request = await world.awaiting()
    assert await world.call_back(request) is CallbackAnswer.TAKEN
    async with world.unchanged():
        assert await world.call_back(request) is CallbackAnswer.REPEATED
        assert await world.call_back(request, b"other") is CallbackAnswer.CONFLICT
    worker, again = await _claim_callback(world)
    async with world.unchanged():
        assert await world.call_back(request) is CallbackAnswer.REPEATED
    await world.settlements.settle_success(worker, [(job.job_id, again.token, b"")])
    async with world.unchanged():
        assert await world.call_back(request) is CallbackAnswer.REPEATED
        assert await world.call_back(request, b"other") is CallbackAnswer.CONFLICT


async def test_several_callbacks_are_awaited_together(world: StoreWorld) -> None:
    _, _, request = await world.awaiting(expect=3)
    for body in (b"1", b"2"):
        assert await world.call_back(request, body) is CallbackAnswer.TAKEN
        assert await world.call_back(request, body) is CallbackAnswer.REPEATED
    assert await world.claim(await world.worker()) == []
    # Equal bodies are told apart by what their sender calls them.
    same = Callback("text/plain", b"2")
    received = await world.challenges.take(request, same, b"a name")
    assert received == Received(CallbackAnswer.TAKEN, "work", 0)
    assert await world.call_back(request, b"4") is CallbackAnswer.CONFLICT
    _, again = await _claim_callback(world)
    assert [callback.body for callback in again.callbacks] == [b"1", b"2", b"2"]


@pytest.mark.req("P6")
async def test_a_callback_that_never_comes_is_a_failed_attempt(world: StoreWorld) -> None:
    _, job, request = await world.awaiting(wait_ms=86_400_000)
    world.pass_ms(86_399_999)
    assert (await world.challenges.due()).jobs == []
    assert (await world.challenges.due()).next_ms == 1
    world.pass_ms(1)
    assert await _expire(world) == [job.job_id]
    failed = await world.get(job.job_id)
    assert (failed.state, failed.failures, failed.has_challenge) == (JobState.RETRYING, 1, False)
    assert await _states(world, job.job_id) == [ChallengeState.EXPIRED]
    await world.assert_sound()
    async with world.unchanged():
        assert await world.call_back(request) is CallbackAnswer.OVER
    world.pass_ms(100)
    await world.due.promote(world.epoch, JobState.RETRYING)
    (again,) = await world.claim(await world.worker())
    assert (again.record.attempt, again.record.has_callback) == (2, False)
    async with world.unchanged():
        assert await world.call_back(request) is CallbackAnswer.OVER


@pytest.mark.req("P6")
async def test_a_callback_in_time_wins_over_a_deadline_that_is_seen_late(world: StoreWorld) -> None:
    _, job, request = await world.awaiting()
    assert await world.call_back(request) is CallbackAnswer.TAKEN
    # As repair leaves it: its index says that it is due.
    await world.redis.zadd(world.shard.keys.awaiting_callback, {job.job_id: 0})
    await world.redis.delete(world.shard.keys.callbacks("work"))
    assert await _expire(world) == []
    _, again = await _claim_callback(world)
    assert again.job_id == job.job_id


@pytest.mark.req("P6", "M9")
@pytest.mark.parametrize("comes_before", [False, True])
async def test_a_canceled_job_awaits_nothing(world: StoreWorld, comes_before: bool) -> None:
    _, job, request = await world.awaiting()
    if comes_before:
        await world.call_back(request)
    assert await world.steering.cancel(job.job_id) is None
    assert await world.state(job.job_id) is JobState.CANCELED
    assert await _states(world, job.job_id) == [ChallengeState.VOID]
    await world.assert_sound()
    async with world.unchanged():
        assert await world.call_back(request) is CallbackAnswer.OVER
    assert [attempt.outcome for attempt in await world.records.history(job.job_id)] == ["canceled"]
    await world.steering.retry(await world.get(job.job_id))
    (again,) = await world.claim(await world.worker())
    assert not again.record.has_callback
    await world.steering.cancel(job.job_id)
    await world.steering.delete(job.job_id)
    assert await world.call_back(request) is CallbackAnswer.UNKNOWN
    assert not await world.redis.exists(world.shard.keys.challenges(job.job_id), world.shard.keys.challenged)


@pytest.mark.parametrize("comes_before", [False, True])
async def test_a_lost_attempt_runs_its_callback_if_that_is_there_and_else_begins_anew(
    world: StoreWorld, comes_before: bool
) -> None:
    _, job, request = await world.challenged()
    if comes_before:
        await world.call_back(request)
    world.pass_ms(LEASE_MS)
    assert await world.leases.reclaim(
        world.epoch, [world.settlement(await world.get(job.job_id), job.token, LOST)]
    ) == [True]
    await world.assert_sound()
    _, again = await _claim_callback(world)
    assert again.record.has_callback is comes_before
    assert again.record.attempt == (1 if comes_before else 2)
    assert await _states(world, job.job_id) == [
        ChallengeState.PROCESSING if comes_before else ChallengeState.VOID
    ]


@pytest.mark.parametrize("ending", ["lost", "handed_back", "returned"])
async def test_a_callback_whose_worker_goes_is_given_to_the_next(world: StoreWorld, ending: str) -> None:
    _, job, request = await world.awaiting()
    await world.call_back(request)
    worker, first = await _claim_callback(world)
    if ending == "lost":
        world.pass_ms(LEASE_MS)
        await world.leases.reclaim(
            world.epoch, [world.settlement(await world.get(job.job_id), first.token, LOST)]
        )
    elif ending == "handed_back":
        await world.fail(worker, first, HANDED_BACK)
    else:
        await world.leases.return_offers(world.epoch, worker, [(job.job_id, first.token)])
    await world.assert_sound()
    assert await world.settlements.settle_success(worker, [(job.job_id, first.token, b"")]) == [False]
    _, again = await _claim_callback(world)
    assert (again.record.attempt, again.callbacks[0].body) == (1, b"done")


@pytest.mark.req("P4")
async def test_a_failure_of_the_callback_is_a_failed_attempt_and_the_next_opens_its_own(
    world: StoreWorld,
) -> None:
    _, job, request = await world.awaiting()
    await world.call_back(request)
    worker, again = await _claim_callback(world)
    await world.fail(worker, again, RETRYING)
    assert await _states(world, job.job_id) == [ChallengeState.FAILED]
    world.pass_ms(600_000)
    await world.due.promote(world.epoch, JobState.RETRYING)
    next_worker = await world.worker()
    (third,) = await world.claim(next_worker)
    assert third.record.attempt == 2
    other = await world.open_challenge(next_worker, third)
    assert other.digest != request.digest
    assert await _states(world, job.job_id) == [ChallengeState.FAILED, ChallengeState.PROCESSING]
    assert await world.call_back(request, b"another") is CallbackAnswer.CONFLICT
    assert await world.call_back(other) is CallbackAnswer.TAKEN


async def test_only_the_holder_of_the_job_opens_and_reports(world: StoreWorld) -> None:
    worker, job, request = await world.challenged()
    stranger = await world.worker()
    for who, token in ((stranger, job.token), (worker, "0" * 32)):
        new = new_request_id(job.job_id)
        async with world.unchanged():
            assert await world.challenges.open(who, token, new, wait_ms=1, expect=1, meta=None) == "stale"
            assert await world.challenges.await_callbacks(who, [(job.job_id, token, request.digest)]) == [0]
    assert await world.challenges.await_callbacks(worker, [(job.job_id, job.token, b"x" * 16)]) == [
        NOT_OPENED
    ]
    assert await world.call_back(new_request_id(job.job_id)) is CallbackAnswer.UNKNOWN
    second = await world.open_challenge(worker, job)
    assert await world.call_back(request) is CallbackAnswer.OVER
    assert await world.call_back(second) is CallbackAnswer.TAKEN
    new = new_request_id(job.job_id)
    assert await world.challenges.open(worker, job.token, new, wait_ms=1, expect=1, meta=None) == "answered"


@pytest.mark.req("P1")
async def test_a_constraint_counts_a_job_until_its_callback_is_over(world: StoreWorld) -> None:
    _, job, request = await world.awaiting()
    assert await world.call_back(request) is CallbackAnswer.TAKEN
    _, again = await _claim_callback(world)
    assert again.job_id == job.job_id


async def test_progress_of_the_outside_system_is_kept(world: StoreWorld) -> None:
    _, job, request = await world.awaiting()
    assert await world.challenges.tell(request, 0.5, "half") is CallbackAnswer.TAKEN
    (told,) = (await world.challenges.of([job.job_id]))[job.job_id]
    assert (told.fraction, told.note, told.told_at_ms) == (0.5, "half", world.now_ms)
    await world.call_back(request)
    await world.steering.cancel(job.job_id)
    assert await world.challenges.tell(request, None, "") is CallbackAnswer.OVER
    assert await world.challenges.tell(new_request_id(job.job_id), None, "") is CallbackAnswer.UNKNOWN


async def test_the_newest_challenges_come_first_page_by_page(world: StoreWorld) -> None:
    jobs = []
    for _ in range(5):
        jobs.append((await world.awaiting())[1].job_id)
        world.pass_ms(1)
    first = await world.challenges.newest(None, 3)
    assert [job_id for _, job_id in first] == jobs[:1:-1]
    assert [job_id for _, job_id in await world.challenges.newest(first[-1], 3)] == jobs[1::-1]


def test_a_request_id_is_found_by_its_job_and_cannot_be_guessed() -> None:
    job_id = "0198c3f4-5e6a-7b8c-9d0e-1f2a3b4c5d6e"
    request = new_request_id(job_id)
    assert read_request_id(request.text) == request
    assert request.job_id == job_id
    assert request.shown in request.text
    assert len({new_request_id(job_id).text for _ in range(100)}) == 100
    for text in ("", "x" * 54, request.text[:-1], request.text + "A", "é" * 54, "*" * 54):
        other = read_request_id(text)
        assert other is None or other.digest != request.digest


async def test_an_outstanding_challenge_is_small_and_a_job_without_one_has_none(world: StoreWorld) -> None:
    async def used() -> int:
        return int((await world.redis.info("memory"))["used_memory_dataset"])

    count = 2_000
    worker = await world.worker(max_jobs=1_000)
    per_job = []
    for opens in (False, True):
        before = await used()
        for _ in range(count // 500):
            await world.enqueue_many(500)
            jobs = await world.claim(worker, limit=500)
            reports = []
            for job in jobs if opens else ():
                request = await world.open_challenge(worker, job, wait_ms=86_400_000)
                reports.append((job.job_id, job.token, request.digest))
            if opens:
                assert set(await world.challenges.await_callbacks(worker, reports)) == {1}
            else:
                await world.settlements.settle_success(worker, [(job.job_id, job.token, b"") for job in jobs])
        per_job.append((await used() - before) / count)
    assert per_job[1] - per_job[0] <= 600
    assert not [key for key in await world.key_names() if "challenges:" in key][count:]
