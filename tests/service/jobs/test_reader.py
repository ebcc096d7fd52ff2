"""Long polls for results, and the views of jobs."""

import asyncio

import pytest

from jqmaster.domain.ids import new_id
from jqmaster.domain.jobs.job import Cause, JobState
from jqmaster.domain.jobs.outcome import Decision
from jqmaster.service.jobs import reader as module
from tests.support import real_time
from tests.support.jobs import Served, running_kept, succeed
from tests.support.waiting import wait_until

pytestmark = real_time.LOOPS


@pytest.mark.req("J14", "M10")
async def test_a_long_poll_returns_as_soon_as_the_job_ends(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An effect within the test's time is due to a message from the store.
    monkeypatch.setattr(module, "LOOK_AGAIN_S", 600)
    worker, job = await running_kept(served.world)
    async with served.listening(), served.polls(job.job_id, 5) as polls:
        await succeed(served.world, worker, job)
        results = await asyncio.wait_for(asyncio.gather(*polls), 30)
    assert all(isinstance(result, bytes) for result in results)


@pytest.mark.req("M10")
async def test_a_word_that_comes_before_the_stores_answer_is_not_missed(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer and the message travel on different connections."""
    monkeypatch.setattr(module, "LOOK_AGAIN_S", 600)
    worker, job = await running_kept(served.world)
    fetch = served.world.results.fetch_result
    calls = 0

    async def overtaken(job_id: str, *, watch: bool) -> object:
        nonlocal calls
        calls += 1
        answer = await fetch(job_id, watch=watch)
        if calls == 1:
            await succeed(served.world, worker, job)
            served.waiters.finished(job_id)
        return answer

    monkeypatch.setattr(served.world.results, "fetch_result", overtaken)
    result = await asyncio.wait_for(served.jobs.result(job.job_id, wait_s=60), 15)
    assert isinstance(result, bytes)


@pytest.mark.req("M10")
async def test_a_lost_word_costs_only_a_while(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_AGAIN_S", 0.1)
    worker, job = await running_kept(served.world)
    poll = asyncio.create_task(served.jobs.result(job.job_id, wait_s=60))
    await wait_until(lambda: served.waiters._waiting)
    await succeed(served.world, worker, job)
    assert isinstance(await asyncio.wait_for(poll, 15), bytes)


@pytest.mark.req("M2", "M10")
async def test_when_the_wait_is_over_the_state_is_told(served: Served) -> None:
    _, job = await running_kept(served.world)
    assert await served.jobs.result(job.job_id, wait_s=0) == JobState.RUNNING
    assert await served.jobs.result(job.job_id, wait_s=0.1) == JobState.RUNNING
    assert not served.waiters._waiting


@pytest.mark.req("J6", "J14")
async def test_results_not_kept_or_not_known_are_none_at_once(served: Served) -> None:
    worker, job = await served.world.running()
    await succeed(served.world, worker, job)
    for job_id in (job.job_id, new_id(), "no id", "../x"):
        assert await asyncio.wait_for(served.jobs.result(job_id, wait_s=60), 15) is None


@pytest.mark.req("J9", "M10")
async def test_a_waiting_poll_ends_with_a_final_failure_or_a_cancel(served: Served) -> None:
    async with served.listening():
        worker, job = await running_kept(served.world)
        async with served.polls(job.job_id) as (poll,):
            decision = Decision(JobState.FAILED, "failure", cause=Cause.ERROR, is_counted=True)
            assert await served.world.fail(worker, job, decision)
            assert await asyncio.wait_for(poll, 15) == b"failed result"
        _, job = await running_kept(served.world)
        async with served.polls(job.job_id) as (poll,):
            await served.actions.cancel(job.job_id)
            assert await asyncio.wait_for(poll, 15) is None


async def test_a_poll_that_is_given_up_leaves_nothing(served: Served) -> None:
    _, job = await running_kept(served.world)
    poll = asyncio.create_task(served.jobs.result(job.job_id, wait_s=60))
    await wait_until(lambda: served.waiters._waiting)
    poll.cancel()
    await asyncio.gather(poll, return_exceptions=True)
    assert not served.waiters._waiting


@pytest.mark.req("M4")
async def test_a_view_lists_every_attempt_and_the_present_one_last(served: Served) -> None:
    world = served.world
    worker, job = await world.running()
    await world.fail(worker, job, Decision(JobState.READY, "failure", cause=Cause.ERROR, is_counted=True))
    (again,) = await world.claim(worker)
    detail = await served.jobs.view(job.job_id)
    assert [(a.attempt, a.outcome) for a in detail.attempts] == [(1, "failure"), (2, None)]
    await succeed(served.world, worker, again)
    detail = await served.jobs.view(job.job_id)
    assert [(a.attempt, a.outcome) for a in detail.attempts] == [(1, "failure"), (2, "success")]
    assert detail.attempts[-1].finished_at_ms


@pytest.mark.req("M4", "M9")
async def test_a_success_that_was_retried_by_hand_stays_in_the_view(served: Served) -> None:
    world = served.world
    worker, job = await world.running()
    await succeed(served.world, worker, job)
    (success,) = (await served.jobs.view(job.job_id)).attempts
    await served.actions.retry(job.job_id)
    assert (await served.jobs.view(job.job_id)).attempts == [success]
    (again,) = await world.claim(worker)
    world.pass_ms(5)
    await succeed(served.world, worker, again)
    first, second = (await served.jobs.view(job.job_id)).attempts
    assert first == success
    assert (second.attempt, second.outcome, second.finished_at_ms) == (2, "success", world.now_ms)
