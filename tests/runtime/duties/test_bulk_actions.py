"""Actions on many jobs over time: rates, passes, changes of the leader, and ends without an order."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from jqmaster.domain.jobs.bulk_action import MAX_WATCHED, STOP_LEAST
from jqmaster.domain.jobs.job import ActionKind, Cause, JobState
from jqmaster.domain.jobs.job_filter import JobFilter
from jqmaster.domain.jobs.outcome import Decision
from jqmaster.errors import ConflictError
from jqmaster.runtime.duties import bulk_actions
from jqmaster.runtime.duties.bulk_actions import BulkActions
from jqmaster.service.jobs.bulk_actions import BulkActionService, RequestedAction
from jqmaster.service.jobs.operator_actions import JobActions
from jqmaster.store.jobs.operator_actions import Changes, CountedBy, Refusal
from jqmaster.store.leadership.leadership import Leadership
from jqmaster.store.operations.bulk_actions import ActionStore, StoredAction
from jqmaster.store.operations.history import HistoryStore
from tests.support import real_time
from tests.support.clock import ManualClock
from tests.support.store import StoreWorld
from tests.support.waiting import wait_until

pytestmark = real_time.LOOPS


class Acting:
    """The store's time and the clock move together."""

    def __init__(self, world: StoreWorld) -> None:
        self.world = world
        self.clock = ManualClock(lambda seconds: world.pass_ms(round(seconds * 1000)))
        self.store = ActionStore(world.shard)
        self.stale = 0
        self.is_trusted = True
        self.service = BulkActionService(self.store, world.records, world.inspector, self.clock, self.now_ms)
        self.jobs = JobActions(
            world.operator_actions, world.records, world.constraints, tell_worker=self.tell
        )

    async def now_ms(self) -> int:
        return self.world.now_ms

    async def tell(self, worker_id: str, job_id: str, token: str) -> None:
        """There is no worker to tell."""

    def on_stale(self) -> None:
        self.stale += 1

    @contextlib.asynccontextmanager
    async def leading(self, epoch: str | None = None) -> AsyncIterator[BulkActions]:
        one = BulkActions(
            Leadership(epoch or self.world.epoch, "m"),
            self.store,
            self.clock,
            records=self.world.records,
            inspector=self.world.inspector,
            job_actions=self.jobs,
            history=HistoryStore(self.world.shard, master_id="m"),
            store_time_ms=self.now_ms,
            is_trusted=lambda: self.is_trusted,
            on_stale=self.on_stale,
        )
        self.world.leader.connect(lambda message: one.wake())
        await one.start()
        try:
            yield one
        finally:
            self.world.leader.disconnect()
            await one.stop()

    async def begin(self, kind: ActionKind, wanted: JobFilter | None = None, **options: Any) -> str:
        requested = RequestedAction(kind, wanted if wanted is not None else JobFilter(), None, **options)
        stored = await self.service.begin(requested, "me")
        # Jobs that are enqueued from now on are newer.
        self.world.pass_ms(1)
        return stored.action.id

    async def until_over(self, action_id: str) -> StoredAction:
        async def over() -> StoredAction | None:
            await self.clock.step(1)
            stored = await self.service.get(action_id)
            return stored if stored.progress.is_over else None

        found: StoredAction = await wait_until(over, what="the action is over")
        return found


async def failed(world: StoreWorld, count: int) -> list[str]:
    await world.enqueue_many(count)
    worker = await world.worker(max_jobs=count)
    jobs = await world.claim(worker, limit=count)
    for job in jobs:
        await world.fail(worker, job)
    return [job.job_id for job in jobs]


@pytest.mark.req("M9")
async def test_a_rate_is_kept_by_the_clock(world: StoreWorld) -> None:
    acting = Acting(world)
    await world.enqueue_many(30)
    action_id = await acting.begin(ActionKind.CANCEL, rate_per_s=8.0)
    async with acting.leading():
        await acting.clock.pass_s(1)
        done = (await acting.service.get(action_id)).progress.done
        assert 8 <= done <= 12
        await acting.clock.pass_s(1)
        assert 6 <= (await acting.service.get(action_id)).progress.done - done <= 10
        stored = await acting.until_over(action_id)
    assert (stored.progress.done, stored.progress.looked_at) == (30, 30)


@pytest.mark.req("M9", "M4")
async def test_another_leader_goes_on_where_the_old_one_was_and_repeats_nothing(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_actions, "PAGE", 10)
    acting = Acting(world)
    ids = await failed(world, 60)
    action_id = await acting.begin(ActionKind.RETRY, JobFilter(state=JobState.FAILED), rate_per_s=20.0)
    async with acting.leading():
        await acting.clock.pass_s(1)
    before = (await acting.service.get(action_id)).progress
    assert 0 < before.done < 60
    # Retried jobs fail again at once, and must not be retried once more.
    worker = await world.worker(max_jobs=100)
    again = {job.job_id for job in await world.claim(worker, limit=100)}
    assert len(again) == before.done
    for job_id in again:
        job = await world.get(job_id)
        await world.settlements.settle(worker, [world.settlement(job, job.token, _final())])
    stale = await world.reelect()
    async with acting.leading(stale):
        await wait_until(lambda: acting.stale)
    assert (await acting.service.get(action_id)).progress == before
    async with acting.leading():
        stored = await acting.until_over(action_id)
    assert (stored.progress.done, stored.progress.refused) == (60, 0)
    assert {i for i in ids if await world.state(i) == JobState.FAILED} == again


@pytest.mark.req("M9")
@pytest.mark.parametrize("by_ids", [False, True])
@pytest.mark.parametrize("kind", list(ActionKind))
async def test_jobs_of_a_killed_leader_that_it_did_not_write_down_are_counted(
    world: StoreWorld, kind: ActionKind, by_ids: bool
) -> None:
    acting = Acting(world)
    ids = (
        await failed(world, 30) if kind is ActionKind.RETRY else await world.enqueue_many(30, delay_ms=60_000)
    )
    wanted = None if by_ids else JobFilter()
    priority = 7 if kind is ActionKind.SET_PRIORITY else None
    requested = RequestedAction(kind, wanted, ids if by_ids else None, priority=priority)
    action = (await acting.service.begin(requested, "me")).action
    world.pass_ms(1)
    # The killed leader got through this part of its page.
    counted_by = CountedBy(action.id)
    jobs = list((await world.records.get_all(ids[:12])).values())
    match kind:
        case ActionKind.CANCEL:
            await world.operator_actions.cancel_all(ids[:12], counted_by)
        case ActionKind.DELETE:
            await world.operator_actions.delete_all(ids[:12], counted_by)
        case ActionKind.RUN:
            await world.operator_actions.run_all_now(ids[:12], counted_by)
        case ActionKind.RETRY:
            await world.operator_actions.retry_all(jobs, counted_by=counted_by)
        case ActionKind.SET_PRIORITY:
            await world.operator_actions.patch_all(jobs, Changes(priority=7), counted_by=counted_by)
    assert (await acting.service.get(action.id)).progress.done == 12
    async with acting.leading():
        stored = await acting.until_over(action.id)
    assert (stored.progress.done, stored.progress.refused) == (30, 0)


@pytest.mark.req("M9")
async def test_a_job_that_is_as_it_should_be_already_is_not_counted(world: StoreWorld) -> None:
    acting = Acting(world)
    (job_id,) = await world.enqueue_many(1)
    action_id = await acting.begin(ActionKind.CANCEL)
    for _ in range(2):
        await world.operator_actions.cancel_all([job_id], CountedBy(action_id))
        await world.operator_actions.run_all_now([job_id], CountedBy(action_id))
    assert await acting.store.done(action_id) == 1
    # An unknown action stores nothing.
    await world.operator_actions.retry_all(
        [job for job in [await world.get(job_id)] if job], counted_by=CountedBy("gone", is_watched=True)
    )
    assert not [key for key in await world.dump() if "gone" in key]


@pytest.mark.req("M9")
async def test_the_jobs_of_a_page_that_was_not_written_down_are_waited_for(world: StoreWorld) -> None:
    acting = Acting(world)
    ids = await failed(world, 300)
    action_id = await acting.begin(ActionKind.RETRY, stop_at_failure_share=0.25)
    # A leader retried a whole wave and was killed before it recorded anything.
    jobs = list((await world.records.get_all(ids[:MAX_WATCHED])).values())
    await world.operator_actions.retry_all(jobs, counted_by=CountedBy(action_id, is_watched=True))
    async with acting.leading():
        await acting.clock.pass_s(2)
        assert (await acting.service.get(action_id)).progress.done == MAX_WATCHED
        worker = await world.worker(max_jobs=500)
        for job in await world.claim(worker, limit=STOP_LEAST):
            await world.fail(worker, job)
        stored = await acting.until_over(action_id)
    assert (stored.progress.state, stored.progress.done) == ("stopped", MAX_WATCHED)
    assert (stored.progress.ended, stored.progress.failed_again) == (STOP_LEAST, STOP_LEAST)
    assert await acting.store.watched(action_id) == set()


def _final() -> Decision:
    return Decision(JobState.FAILED, "failure", cause=Cause.ERROR, is_counted=True)


@pytest.mark.req("M9")
async def test_jobs_that_move_on_meanwhile_are_met_again_and_younger_ones_are_left(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_actions, "PAGE", 5)
    acting = Acting(world)
    await world.enqueue_many(5, "a")
    moving = await world.enqueue_many(5, "b", delay_ms=60_000)
    action_id = await acting.begin(ActionKind.CANCEL, rate_per_s=4.0)
    younger = await world.enqueue("c")
    scan = world.inspector.scan
    looks = 0

    async def and_then_they_move(*args: Any, **kwargs: Any) -> Any:
        nonlocal looks
        found = await scan(*args, **kwargs)
        looks += 1
        if looks == 1:
            # The action read these jobs as scheduled, but somebody runs them before it can cancel them.
            for job_id in moving[1:]:
                await world.operator_actions.run_now(job_id)
        return found

    monkeypatch.setattr(world.inspector, "scan", and_then_they_move)
    async with acting.leading():
        stored = await acting.until_over(action_id)
    assert stored.progress.done == 10
    assert await world.state(younger) == JobState.READY


@pytest.mark.req("M9")
async def test_a_retry_stops_by_itself_and_keeps_few_under_way_till_then(world: StoreWorld) -> None:
    acting = Acting(world)
    await failed(world, 450)
    action_id = await acting.begin(ActionKind.RETRY, stop_at_failure_share=0.25)
    async with acting.leading():
        await wait_until(lambda: _has_done(acting, action_id, MAX_WATCHED))
        await acting.clock.pass_s(2)
        assert (await acting.service.get(action_id)).progress.done == MAX_WATCHED
        worker = await world.worker(max_jobs=500)
        jobs = await world.claim(worker, limit=100)
        await world.settlements.settle_success(
            worker, [(j.job_id, j.token, b"\xc0") for j in jobs[: STOP_LEAST - 6]]
        )
        for job in jobs[STOP_LEAST - 6 : STOP_LEAST]:
            await world.fail(worker, job)
        stored = await acting.until_over(action_id)
    assert stored.progress.state == "stopped"
    assert (stored.progress.ended, stored.progress.failed_again) == (STOP_LEAST, 6)
    assert stored.progress.message == f"of {STOP_LEAST} retried jobs that ended, 6 failed again"
    assert stored.progress.done < 450


async def _has_done(acting: Acting, action_id: str, count: int) -> bool:
    return (await acting.service.get(action_id)).progress.done == count


@pytest.mark.req("M9")
async def test_a_job_that_was_run_now_and_waits_for_its_retry_is_not_run_again(world: StoreWorld) -> None:
    acting = Acting(world)
    job_id = await world.enqueue(delay_ms=60_000)
    action_id = await acting.begin(ActionKind.RUN, rate_per_s=0.5)
    await world.operator_actions.run_now(job_id)
    world.pass_ms(5)
    worker = await world.worker()
    (job,) = await world.claim(worker)
    await world.fail(worker, job, Decision(JobState.RETRYING, "failure", delay_ms=9_000, is_counted=True))
    async with acting.leading():
        stored = await acting.until_over(action_id)
    assert stored.progress.done == 0
    assert await world.state(job_id) == JobState.RETRYING


@pytest.mark.req("M9")
async def test_nothing_is_done_while_the_lock_may_be_over(world: StoreWorld) -> None:
    acting = Acting(world)
    await world.enqueue_many(3)
    action_id = await acting.begin(ActionKind.CANCEL)
    acting.is_trusted = False
    async with acting.leading():
        await acting.clock.step(2)
        assert (await acting.service.get(action_id)).progress.done == 0
        acting.is_trusted = True
        assert (await acting.until_over(action_id)).progress.done == 3


@pytest.mark.req("M9", "D32")
@pytest.mark.parametrize("kind", list(ActionKind))
async def test_an_action_with_a_bound_changes_no_more_jobs_whatever_matches_meanwhile(
    world: StoreWorld, kind: ActionKind
) -> None:
    acting = Acting(world)

    async def make(count: int) -> list[str]:
        if kind is ActionKind.RETRY:
            return await failed(world, count)
        return await world.enqueue_many(count, delay_ms=60_000)

    ids = await make(5)
    priority = 7 if kind is ActionKind.SET_PRIORITY else None
    requested = RequestedAction(kind, JobFilter(), None, priority=priority, at_most=5)
    async with world.unchanged():
        with pytest.raises(ConflictError, match="would now change 5 jobs, and at_most is 4"):
            await acting.service.begin(replace(requested, at_most=4), "me")
    action = (await acting.service.begin(requested, "me")).action
    # These come after the count, in the millisecond in which the action begins.
    ids += await make(3)
    world.pass_ms(1)
    async with acting.leading():
        stored = await acting.until_over(action.id)
    progress = stored.progress
    assert (progress.state, progress.done, progress.refused) == ("stopped", 5, 0)
    assert progress.message == "the action changed 5 jobs, the maximum of at_most, and more jobs match"
    # Whatever a former leader still does under this action is refused as well.
    counted_by = CountedBy(action.id)
    jobs = [job for job in (await world.records.get_all(ids)).values() if action.touches(job)]
    assert len(jobs) == 3
    left = [job.id for job in jobs]
    refused: list[Any] = []
    async with world.unchanged():
        match kind:
            case ActionKind.CANCEL:
                refused += await world.operator_actions.cancel_all(left, counted_by)
            case ActionKind.DELETE:
                refused += await world.operator_actions.delete_all(left, counted_by)
            case ActionKind.RUN:
                refused += await world.operator_actions.run_all_now(left, counted_by)
            case ActionKind.RETRY:
                refused += await world.operator_actions.retry_all(jobs, counted_by=counted_by)
            case ActionKind.SET_PRIORITY:
                refused += await world.operator_actions.patch_all(
                    jobs, Changes(priority=7), counted_by=counted_by
                )
    assert refused == [Refusal("used_up")] * 3


@pytest.mark.req("M9", "D32")
async def test_an_action_that_reaches_its_bound_and_finds_no_more_is_done(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_actions, "PAGE", 2)
    acting = Acting(world)
    ids = await world.enqueue_many(6)
    action_id = await acting.begin(ActionKind.CANCEL, at_most=6)
    # Somebody else was faster with one of them: the bound leaves room that nobody needs.
    await world.operator_actions.cancel(ids[5])
    async with acting.leading():
        stored = await acting.until_over(action_id)
    assert (stored.progress.state, stored.progress.done) == ("done", 5)
    assert (await acting.service.get(action_id)).action.at_most == 6
