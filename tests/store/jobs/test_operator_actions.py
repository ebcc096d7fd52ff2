"""cancel.lua, retry.lua, run_now.lua, patch.lua, delete.lua: actions of people and pushers on one job."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import msgpack
import pytest

from jqmaster.domain.constraints.constraint_set import NO_CONSTRAINTS
from jqmaster.domain.ids import new_id
from jqmaster.domain.jobs.bulk_action import ActionProgress, BulkAction
from jqmaster.domain.jobs.job import ActionKind, Attempt, Cause, Job, JobState
from jqmaster.domain.jobs.outcome import Decision
from jqmaster.domain.jobs.predecessors import After
from jqmaster.store import codec
from jqmaster.store.identity.audit import encode_entry
from jqmaster.store.jobs.operator_actions import Changes, CountedBy, Refusal, StateConflict
from jqmaster.store.jobs.placement import StaleConstraints
from jqmaster.store.operations.bulk_actions import ActionStore
from tests.store.jobs.test_settle import DISCARDED, RETRYING
from tests.support.constraints import ConstrainedWorld
from tests.support.store import StoreWorld


async def job_in(world: StoreWorld, state: JobState, **fields: Any) -> Job:
    """Return a job in this state, with the clock advanced."""
    match state:
        case JobState.READY:
            job_id = await world.enqueue(**fields)
        case JobState.SCHEDULED:
            job_id = await world.enqueue(**fields | {"delay_ms": 60_000})
        case JobState.AWAITING_JOBS:
            predecessor = await world.enqueue("predecessor")
            fields.pop("unique", None)
            job_id = await world.enqueue(**fields, after=After((predecessor,)))
        case JobState.SKIPPED:
            job_id = await world.enqueue(**fields | {"expires_at_ms": world.now_ms + 1})
            world.pass_ms(1)
            await world.due.expire(world.epoch)
        case JobState.AWAITING_CALLBACK:
            _, claimed, _ = await world.awaiting(**fields)
            job_id = claimed.job_id
        case _:
            worker, claimed = await world.running(**fields)
            job_id = claimed.job_id
            match state:
                case JobState.SUCCEEDED:
                    await world.settlements.settle_success(worker, [(job_id, claimed.token, b"result")])
                case JobState.FAILED:
                    await world.fail(worker, claimed)
                case JobState.DISCARDED:
                    await world.fail(worker, claimed, DISCARDED)
                case JobState.RETRYING:
                    await world.fail(worker, claimed, RETRYING)
                case JobState.CANCELED:
                    await world.operator_actions.cancel(job_id)
    world.pass_ms(100)
    job = await world.get(job_id)
    assert job.state is state
    return job


WAITING = [JobState.SCHEDULED, JobState.READY, JobState.RETRYING]
FINISHED = [JobState.SUCCEEDED, JobState.DISCARDED, JobState.FAILED, JobState.CANCELED, JobState.SKIPPED]


@pytest.mark.req("M9")
@pytest.mark.parametrize("state", WAITING)
async def test_cancel_ends_a_waiting_job(world: StoreWorld, state: JobState) -> None:
    job = await job_in(world, state)
    await world.results.fetch_result(job.id, watch=True)
    async with (
        world.published(world.shard.keys.finished_channel, job.id),
        world.published(world.shard.keys.wake_channel),
    ):
        assert await world.operator_actions.cancel(job.id) is None
    assert await world.get(job.id) == replace(
        job, state=JobState.CANCELED, cause=Cause.CANCELED, finished_at_ms=world.now_ms
    )
    assert await world.score(world.shard.keys.index(JobState.CANCELED), job.id) == world.now_ms
    worker = await world.worker()
    assert await world.claim(worker) == []


@pytest.mark.req("M9")
async def test_cancel_ends_a_running_job_and_tells_who_holds_it(world: StoreWorld) -> None:
    job = await job_in(world, JobState.RUNNING, keep_result=True)
    async with world.published(world.shard.keys.wake_channel, f"freed:{job.worker_id}:1"):
        assert await world.operator_actions.cancel(job.id) == (job.worker_id, job.token)
    assert await world.get(job.id) == replace(
        job, state=JobState.CANCELED, cause=Cause.CANCELED, finished_at_ms=world.now_ms
    )
    redis, k = world.redis, world.shard.keys
    assert not await redis.exists(k.running, k.claims(job.worker_id))
    assert await world.records.history(job.id) == [
        Attempt(1, job.worker_id, job.started_at_ms, world.now_ms, "canceled", None, None)
    ]


async def test_cancel_writes_the_entry_of_an_attempt_as_python_does(world: StoreWorld) -> None:
    for attempt in (1, 200, 70_000, 2**32 - 1):
        job = await job_in(world, JobState.RUNNING)
        key, history = world.shard.keys.job(job.id), world.shard.keys.history(job.id)
        await world.redis.setrange(key, 4, attempt.to_bytes(4, "big"))
        await world.operator_actions.cancel(job.id)
        (written,) = await world.redis.lrange(history, 0, -1)
        entry = codec.encode_attempt(replace(job, attempt=attempt), "canceled", "", None)
        assert written[:8] == world.now_ms.to_bytes(8, "big")
        # Numbers may be stored wider than they need to be.
        assert msgpack.unpackb(written[8:]) == msgpack.unpackb(entry)
        assert codec.decode_attempt(written) == codec.decode_attempt(written[:8] + entry)


@pytest.mark.req("M4")
async def test_the_last_hundred_canceled_attempts_are_kept(world: StoreWorld) -> None:
    worker, job = await world.running()
    for _ in range(102):
        await world.operator_actions.cancel(job.job_id)
        await world.operator_actions.retry(await world.get(job.job_id))
        (job,) = await world.claim(worker)
    attempts = [a.attempt for a in await world.records.history(job.job_id)]
    assert attempts == list(range(3, 103))


async def test_a_repeated_cancel_changes_nothing(world: StoreWorld) -> None:
    job = await job_in(world, JobState.CANCELED)
    async with world.unchanged():
        assert await world.operator_actions.cancel(job.id) is None


@pytest.mark.parametrize("state", [JobState.SUCCEEDED, JobState.DISCARDED, JobState.FAILED, JobState.SKIPPED])
async def test_cancel_refuses_what_is_over(world: StoreWorld, state: JobState) -> None:
    job = await job_in(world, state, keep_result=True)
    async with world.unchanged():
        with pytest.raises(StateConflict) as conflict:
            await world.operator_actions.cancel(job.id)
    assert conflict.value.state is state


@pytest.mark.req("M9")
@pytest.mark.parametrize("state", FINISHED)
async def test_retry_makes_a_finished_job_ready_with_all_its_retries(
    world: StoreWorld, state: JobState
) -> None:
    job = await job_in(world, state, keep_result=True, priority=-3)
    history = await world.records.history(job.id)
    async with world.published(world.shard.keys.wake_channel, "ready"):
        await world.operator_actions.retry(job)
    assert await world.get(job.id) == replace(
        job, state=JobState.READY, cause=Cause.NONE, failures=0, losses=0, due_at_ms=0, started_at_ms=0,
        finished_at_ms=0, expires_at_ms=0, token="",
    )  # fmt: skip
    redis, k = world.redis, world.shard.keys
    assert await world.score(world.ready(), job.id) == -3
    assert not await redis.exists(k.result(job.id), k.results)
    if state is JobState.SUCCEEDED:
        # The history did not contain it while it was the last attempt.
        history.append(
            Attempt(1, job.worker_id, job.started_at_ms, job.finished_at_ms, "success", None, None)
        )
    assert await world.records.history(job.id) == history
    worker = await world.worker()
    assert [c.record.attempt for c in await world.claim(worker)] == [job.attempt + 1]


@pytest.mark.parametrize("state", [*WAITING, JobState.RUNNING])
async def test_retry_refuses_what_is_not_over(world: StoreWorld, state: JobState) -> None:
    job = await job_in(world, state)
    async with world.unchanged():
        with pytest.raises(StateConflict) as conflict:
            await world.operator_actions.retry(job)
    assert conflict.value.state is state


async def test_the_token_of_a_job_retried_by_hand_is_dead(world: StoreWorld) -> None:
    worker, claimed = await world.running()
    await world.fail(worker, claimed)
    await world.operator_actions.retry(await world.get(claimed.job_id))
    async with world.unchanged():
        assert await world.fail(worker, claimed) is False
        assert await world.settlements.settle_success(worker, [(claimed.job_id, claimed.token, b"")]) == [
            False
        ]


async def test_a_job_retried_by_hand_outlives_its_old_expiry(world: StoreWorld) -> None:
    worker, claimed = await world.running(expires_at_ms=world.now_ms + 1_000)
    await world.fail(worker, claimed)
    await world.operator_actions.retry(await world.get(claimed.job_id))
    world.pass_ms(1_000)
    assert await world.due.expire(world.epoch) == (0, -1)
    (again,) = await world.claim(worker)
    assert again.job_id == claimed.job_id


@pytest.mark.req("M9")
@pytest.mark.parametrize("state", [JobState.SCHEDULED, JobState.RETRYING])
async def test_run_now_ends_the_wait(world: StoreWorld, state: JobState) -> None:
    job = await job_in(world, state, priority=8)
    async with world.published(world.shard.keys.wake_channel, "ready"):
        await world.operator_actions.run_now(job.id)
    assert await world.get(job.id) == replace(job, state=JobState.READY, due_at_ms=0)
    assert await world.score(world.ready(), job.id) == 8
    async with world.unchanged():
        await world.operator_actions.run_now(job.id)


@pytest.mark.parametrize("state", [JobState.RUNNING, *FINISHED])
async def test_run_now_and_patch_refuse_what_does_not_wait(world: StoreWorld, state: JobState) -> None:
    job = await job_in(world, state)
    async with world.unchanged():
        with pytest.raises(StateConflict) as conflict:
            await world.operator_actions.run_now(job.id)
        assert conflict.value.state is state
        with pytest.raises(StateConflict):
            await patch(world, job.id, priority=1)


async def patch(world: StoreWorld, job_id: str, **changes: int) -> None:
    await world.operator_actions.patch(await world.get(job_id), Changes(**changes))


@pytest.mark.req("M9")
@pytest.mark.parametrize("state", WAITING)
async def test_patch_changes_what_it_is_given_and_nothing_else(world: StoreWorld, state: JobState) -> None:
    job = await job_in(world, state, expires_at_ms=world.now_ms + 900_000, headers={"a": "b"})
    async with world.unchanged():
        await patch(world, job.id)
    for field, value in (("priority", -(2**31)), ("max_retry", 2**31), ("timeout_ms", 86_400_000)):
        await patch(world, job.id, **{field: value})
        changed: dict[str, Any] = {field: value}
        job = replace(job, **changed)
        assert await world.get(job.id) == job


@pytest.mark.parametrize("state", WAITING)
async def test_patch_of_the_time_moves_the_job(world: StoreWorld, state: JobState) -> None:
    job = await job_in(world, state)
    later = world.now_ms + 5_000
    async with world.published(world.shard.keys.wake_channel, "due"):
        await patch(world, job.id, run_at_ms=later)
    waits = JobState.RETRYING if state is JobState.RETRYING else JobState.SCHEDULED
    assert await world.get(job.id) == replace(job, state=waits, due_at_ms=later)
    assert await world.score(world.shard.keys.index(waits), job.id) == later
    async with world.published(world.shard.keys.wake_channel, "ready"):
        await patch(world, job.id, run_at_ms=world.now_ms)
    assert await world.get(job.id) == replace(job, state=JobState.READY, due_at_ms=world.now_ms)
    await world.assert_sound()


async def test_patch_of_the_priority_changes_the_order(world: StoreWorld) -> None:
    first, second = await world.enqueue(), await world.enqueue()
    await patch(world, second, priority=-1)
    worker = await world.worker()
    assert [c.job_id for c in await world.claim(worker)] == [second, first]


@pytest.mark.req("M9")
@pytest.mark.parametrize("state", [*WAITING, *FINISHED])
async def test_delete_leaves_nothing_of_the_job(world: StoreWorld, state: JobState) -> None:
    before = set(await world.dump())
    job = await job_in(world, state, keep_result=True, expires_at_ms=world.now_ms + 90_000)
    await world.operator_actions.delete(job.id)
    await world.prune()
    k = world.shard.keys
    left = set(await world.dump()) - before - {k.fence, k.workers, k.worker_urls}
    assert {key for key in left if not key.startswith(k.worker_prefix)} == set()
    async with world.unchanged():
        with pytest.raises(KeyError):
            await world.operator_actions.delete(job.id)


async def test_a_running_job_is_not_deleted(world: StoreWorld) -> None:
    job = await job_in(world, JobState.RUNNING)
    async with world.unchanged():
        with pytest.raises(StateConflict) as conflict:
            await world.operator_actions.delete(job.id)
    assert conflict.value.state is JobState.RUNNING


@pytest.mark.parametrize("record", [None, b"\x01\x02", b"\x01" * 136 + b"\xc8cut"])
async def test_nothing_can_be_done_to_what_is_no_job(world: StoreWorld, record: bytes | None) -> None:
    job = replace(await job_in(world, JobState.READY), id=world.spec().id)
    if record:
        await world.redis.set(world.shard.keys.job(job.id), record)
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: world.operator_actions.cancel(job.id), lambda: world.operator_actions.retry(job),
        lambda: world.operator_actions.run_now(job.id),
        lambda: world.operator_actions.patch(job, Changes(priority=1)), lambda: world.operator_actions.delete(job.id),
    ]  # fmt: skip
    async with world.unchanged():
        for call in calls:
            with pytest.raises(KeyError):
                await call()
    await world.redis.delete(world.shard.keys.job(job.id))


async def test_the_leader_in_this_process_is_woken_without_a_message(world: StoreWorld) -> None:
    job = await job_in(world, JobState.SCHEDULED)
    running = await job_in(world, JobState.RUNNING)
    with world.leading_here() as words:
        async with world.published(world.shard.keys.wake_channel):
            await patch(world, job.id, run_at_ms=world.now_ms + 1)
            await world.operator_actions.run_now(job.id)
            await world.operator_actions.cancel(running.id)
            await world.operator_actions.retry(await world.get(running.id))
    assert words == ["ready", "due"] * 2 + [f"freed:{running.worker_id}:1"] + ["ready", "due"]


async def test_a_deferred_job_is_scheduled_and_can_be_run_now(world: StoreWorld) -> None:
    worker, claimed = await world.running()
    await world.fail(worker, claimed, Decision(JobState.SCHEDULED, "deferred", delay_ms=60_000))
    await world.operator_actions.run_now(claimed.job_id)
    (again,) = await world.claim(worker)
    assert (again.record.attempt, (await world.get(again.job_id)).failures) == (2, 0)


@pytest.mark.req("M9")
async def test_a_job_that_ran_again_since_it_was_read_is_not_retried(world: StoreWorld) -> None:
    job = await job_in(world, JobState.FAILED)
    await world.operator_actions.retry(job)
    (claimed,) = await world.claim(await world.worker(job.name), job.name)
    world.pass_ms(1)
    again = await world.get(claimed.job_id)
    await world.fail(again.worker_id, claimed)
    async with world.unchanged():
        with pytest.raises(StateConflict):
            await world.operator_actions.retry(job)


async def test_each_of_many_is_canceled_or_told_why_not(world: StoreWorld) -> None:
    over = (await job_in(world, JobState.SUCCEEDED)).id
    worker_id, job = await world.running()
    waiting = await world.enqueue()
    assert await world.operator_actions.cancel_each([waiting, job.job_id, over, "unknown"]) == [
        None, (worker_id, job.token), Refusal("state", JobState.SUCCEEDED), Refusal("unknown"),
    ]  # fmt: skip


async def test_a_job_is_not_retried_by_rules_that_changed_meanwhile(world: StoreWorld) -> None:
    job = await job_in(world, JobState.FAILED)
    limited = ConstrainedWorld(world)
    await limited.limit(paused=True)
    async with world.unchanged():
        with pytest.raises(StaleConstraints):
            await world.operator_actions.retry(job, NO_CONSTRAINTS)


@pytest.mark.req("M9", "D32")
async def test_an_action_on_many_jobs_changes_no_more_than_its_bound(world: StoreWorld) -> None:
    ids = [await world.enqueue(delay_ms=60_000) for _ in range(3)]
    action = BulkAction(
        id=new_id(),
        kind=ActionKind.CANCEL,
        filter=None,
        ids=tuple(ids),
        by="me",
        created_at_ms=world.now_ms,
        at_most=2,
    )
    entry = encode_entry(who="me", action="jobs.cancel", target=action.id, before=None, after=None)
    assert await ActionStore(world.shard).put(action, ActionProgress(), entry)
    counted_by = CountedBy(action.id)
    assert await world.operator_actions.cancel_all(ids[:1], counted_by) == [None]
    assert await world.operator_actions.run_all_now(ids[1:2], counted_by) == [None]
    left = await world.get(ids[2])
    used_up = [Refusal("used_up")]
    async with world.unchanged():
        assert await world.operator_actions.cancel_all(ids[2:], counted_by) == used_up
        assert await world.operator_actions.run_all_now(ids[2:], counted_by) == used_up
        assert await world.operator_actions.delete_all(ids[2:], counted_by) == used_up
        assert (
            await world.operator_actions.patch_all([left], Changes(priority=3), counted_by=counted_by)
            == used_up
        )
        canceled = await world.get(ids[0])
        assert await world.operator_actions.retry_all([canceled], counted_by=counted_by) == used_up
    # Without the action, the job may be changed.
    assert await world.operator_actions.cancel_all(ids[2:]) == [None]
