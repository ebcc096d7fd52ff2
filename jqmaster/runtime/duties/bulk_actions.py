"""Carry out actions on many jobs, page by page, and save their progress."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from jqmaster.clock import TICK_S, Clock, sleep_to_tick
from jqmaster.domain.jobs.bulk_action import MAX_WATCHED, ActionProgress, ActionState, BulkAction
from jqmaster.domain.jobs.job import ActionKind, Job, JobState
from jqmaster.domain.jobs.job_filter import JobFilter
from jqmaster.errors import DamagedError
from jqmaster.lifecycle import EntriesApart
from jqmaster.runtime.periodic_loop import LeaderLoop
from jqmaster.service.jobs.bulk_actions import described
from jqmaster.service.jobs.operator_actions import JobActions
from jqmaster.store.health.inspect import Inspector
from jqmaster.store.identity.audit import encode_entry
from jqmaster.store.jobs.operator_actions import Changes, CountedBy
from jqmaster.store.jobs.records import RecordStore
from jqmaster.store.leadership.leadership import Leadership
from jqmaster.store.operations.bulk_actions import ActionStore
from jqmaster.store.operations.history import HistoryStore

logger = logging.getLogger(__name__)

POLL_S: Final = 1.0
# Maximum number of jobs per step. The store processes each job separately and serves other calls in between.
PAGE: Final = 200
# An action with a rate proceeds in steps of this length, or one job at a time.
RATE_STEP_S: Final = 0.25
# How often an action that has to wait checks again. It waits while the maximum number of retried jobs is watched, or
# until the leader's lock has been renewed.
WATCH_EVERY_S: Final = 0.2
# Before a step, save progress that was last saved longer ago than this. Saving it also checks the epoch.
SAVED_FOR_S: Final = 0.2


@dataclass(slots=True)
class _Work:
    action: BulkAction
    progress: ActionProgress
    due_s: float
    saved_s: float | None = None
    # Watched jobs that ended and were counted since the progress was last saved.
    ended: list[str] = field(default_factory=list)


class BulkActions(LeaderLoop):
    """A duty of one leadership: carries out actions on many jobs, page by page.

    `on_stale` is called when the store has a newer epoch. Nothing is done while `is_trusted` says that the lock may
    have expired. So a suspended leader processes at most one page too many.

    Progress is saved after each page, and another leader continues from there. A page that was processed but not saved
    is processed again. No job is changed twice: by then, the job is in another state, or ended after the action began.
    Each job is counted in the step that changes it. So `done` is exact, whichever process dies.
    """

    is_vital = False
    poll_s = POLL_S

    def __init__(
        self,
        leadership: Leadership,
        actions: ActionStore,
        clock: Clock,
        *,
        records: RecordStore,
        inspector: Inspector,
        job_actions: JobActions,
        history: HistoryStore,
        store_time_ms: Callable[[], Awaitable[int]],
        is_trusted: Callable[[], bool],
        on_stale: Callable[[], None],
    ) -> None:
        super().__init__(
            "bulk_actions",
            clock,
            complaint="cannot go on with actions on many jobs",
            on_stale=on_stale,
            retry_s=POLL_S,
        )
        self._leadership = leadership
        self._actions = actions
        self._records = records
        self._inspector = inspector
        self._job_actions = job_actions
        self._history = history
        self._store_time_ms = store_time_ms
        self._is_trusted = is_trusted
        self._under_way: dict[str, _Work] = {}
        self._apart = EntriesApart("bulk_actions")

    def _failed(self, error: Exception, complaint: str) -> None:
        super()._failed(error, complaint)
        self._under_way.clear()

    async def _sleep(self, seconds: float) -> None:
        tasks = [
            asyncio.ensure_future(sleep_to_tick(self._clock, seconds)),
            asyncio.create_task(self._wake.wait()),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(*tasks, return_exceptions=True)

    def _woken(self) -> None:
        """Do not clear the message here. `_round` clears it, and then steps all actions."""

    async def _round(self) -> float:
        """Do one step of each action that is due, and return the seconds until the next one."""
        # If a message came, step all actions, even those that are not due: one of them may have been canceled.
        is_woken = self._wake.is_set()
        self._wake.clear()
        running = await self._actions.running()
        self._under_way = {key: work for key, work in self._under_way.items() if key in running}
        for action_id in running:
            if action_id not in self._under_way and not await self._load(action_id):
                continue
            work = self._under_way[action_id]
            now_s = self._clock.monotonic_s()
            if (
                is_woken
                or work.due_s <= now_s
                or work.saved_s is None
                or now_s - work.saved_s >= POLL_S - TICK_S
            ):
                with self._apart.alone(action_id):
                    await self._step(work, is_woken)
        now_s = self._clock.monotonic_s()
        waits = [work.due_s - now_s for work in self._under_way.values() if not work.progress.is_over]
        return min(POLL_S, max(0.0, min(waits, default=POLL_S)))

    async def _load(self, action_id: str) -> bool:
        stored = await self._actions.get(action_id, with_ids=True)
        if stored is None:
            return False
        self._under_way[action_id] = _Work(stored.action, stored.progress, self._clock.monotonic_s())
        return True

    async def _step(self, work: _Work, is_woken: bool) -> None:
        action, progress = work.action, work.progress
        if is_woken or work.saved_s is None or self._clock.monotonic_s() - work.saved_s > SAVED_FOR_S:
            await self._save(work)
        if progress.is_over or work.due_s > self._clock.monotonic_s():
            return
        if not self._is_trusted():
            work.due_s = self._clock.monotonic_s() + WATCH_EVERY_S
            return
        try:
            limit = await self._room(work)
            if limit > 0 and not progress.is_over:
                await self._page(work, limit)
        except DamagedError as exc:
            progress.end(ActionState.FAILED, await self._store_time_ms(), exc.detail)
        await self._save(work)
        if action.stop_at_failure_share is not None and not progress.is_over and limit == 0:
            work.due_s = self._clock.monotonic_s() + WATCH_EVERY_S

    async def _room(self, work: _Work) -> int:
        """Return how many jobs may be changed now. End the action if too many have failed again."""
        action, progress = work.action, work.progress
        limit = PAGE
        if action.rate_per_s is not None:
            limit = max(1, min(PAGE, int(action.rate_per_s * RATE_STEP_S)))
        share = action.stop_at_failure_share
        if share is None or action.kind is not ActionKind.RETRY:
            return limit
        # The store also lists jobs of a page that was processed but not saved.
        in_store = await self._actions.watched(action.id) - set(work.ended)
        watched = progress.watched = sorted(in_store.union(progress.watched))
        jobs = await self._records.get_without_argument(watched)
        for job_id in list(watched):
            if progress.note_ended(job_id, jobs.get(job_id)):
                work.ended.append(job_id)
        if progress.fails_too_often(share):
            message = f"of {progress.ended} retried jobs that ended, {progress.failed_again} failed again"
            progress.end(ActionState.STOPPED, await self._store_time_ms(), message)
            return 0
        return min(limit, MAX_WATCHED - len(progress.watched))

    async def _page(self, work: _Work, limit: int) -> None:
        action, progress = work.action, work.progress
        if action.filter is not None:
            found = await self._inspector.scan(
                _bounded(action.filter, action), states=action.states, limit=limit, cursor=progress.cursor
            )
            jobs = [job for job in found.jobs if action.touches(job)]
            progress.looked_at += found.looked_at
            next_cursor = found.cursor
        else:
            if action.ids is None:
                progress.end(ActionState.FAILED, await self._store_time_ms(), "its list of IDs is lost")
                return
            at = int(progress.cursor or 0)
            ids = action.ids[at : at + limit]
            known = await self._records.get_without_argument(ids)
            jobs = [job for job in known.values() if action.touches(job)]
            progress.looked_at += len(ids)
            next_cursor = str(at + limit) if at + limit < len(action.ids) else None
        done = await self._act(action, jobs)
        progress.done = await self._actions.done(action.id)
        progress.done_in_pass += len(done)
        left_out = await self._left_out(work, {job.id for job in jobs}.difference(done))
        if action.filter is not None:
            progress.refused += len(jobs) - len(done) - left_out
        else:
            # A former leader may have changed jobs of a page whose progress it did not save. Do not count these jobs as
            # refused.
            progress.refused = progress.looked_at - progress.done - left_out
        if action.stop_at_failure_share is not None:
            progress.watched += done
        if left_out:
            message = f"the action changed {progress.done} jobs, the maximum of at_most, and more jobs match"
            progress.end(ActionState.STOPPED, await self._store_time_ms(), message)
            return
        progress.cursor = next_cursor
        if action.rate_per_s is not None and jobs:
            work.due_s = (
                max(work.due_s, self._clock.monotonic_s() - RATE_STEP_S) + len(jobs) / action.rate_per_s
            )
        if next_cursor is None:
            if progress.done_in_pass and progress.pass_number < action.passes:
                progress.pass_number += 1
                progress.done_in_pass = 0
            else:
                progress.end(ActionState.DONE, await self._store_time_ms())

    async def _left_out(self, work: _Work, not_done: set[str]) -> int:
        """Return how many of the unchanged jobs the action would have changed if its limit were higher."""
        at_most = work.action.at_most
        if at_most is None or work.progress.done < at_most or not not_done:
            return 0
        jobs = await self._records.get_without_argument(sorted(not_done))
        return sum(work.action.touches(job) for job in jobs.values())

    async def _act(self, action: BulkAction, jobs: Sequence[Job]) -> list[str]:
        """Apply the action, and return the IDs of the changed jobs. Skip jobs that have changed since they were
        read."""
        if not jobs:
            return []
        ids = [job.id for job in jobs]
        counted_by = CountedBy(action.id, is_watched=action.stop_at_failure_share is not None)
        match action.kind:
            case ActionKind.CANCEL:
                ends = await self._job_actions.cancel_all(ids, counted_by)
            case ActionKind.DELETE:
                ends = await self._job_actions.delete_all(ids, counted_by)
                deleted = [job for job, is_done in zip(jobs, ends, strict=True) if is_done]
                if failed := {job.id for job in deleted if job.state is JobState.FAILED or job.failures}:
                    await self._history.forget_failures(failed)
            case ActionKind.RUN:
                ends = await self._job_actions.run_all_now(ids, counted_by)
            case ActionKind.RETRY | ActionKind.SET_PRIORITY:
                # Read whole jobs, because constraints may depend on arguments.
                whole = await self._records.get_all(ids)
                jobs = [job for job in whole.values() if action.touches(job)]
                ids = [job.id for job in jobs]
                if action.kind is ActionKind.RETRY:
                    ends = await self._job_actions.retry_all(jobs, counted_by)
                else:
                    ends = await self._job_actions.patch_all(
                        jobs, Changes(priority=action.priority), counted_by
                    )
        return [job_id for job_id, is_done in zip(ids, ends, strict=True) if is_done]

    async def _save(self, work: _Work) -> None:
        """Save the progress, and learn whether somebody wants the action to end. Raise StaleEpochError."""
        action, progress = work.action, work.progress
        entry = self._end_entry(work, None) if progress.is_over else b""
        word, canceled_by = await self._actions.advance(
            self._leadership.epoch, action, progress, entry, work.ended
        )
        work.ended.clear()
        if word == "ok" and canceled_by and not progress.is_over:
            progress.end(ActionState.CANCELED, await self._store_time_ms(), f"canceled by {canceled_by}")
            entry = self._end_entry(work, canceled_by)
            word, _ = await self._actions.advance(self._leadership.epoch, action, progress, entry)
        work.saved_s = self._clock.monotonic_s()
        if word == "over" or progress.is_over:
            self._under_way.pop(action.id, None)

    def _end_entry(self, work: _Work, canceled_by: str | None) -> bytes:
        progress = work.progress
        counts = {"done": progress.done, "refused": progress.refused, "looked_at": progress.looked_at}
        if work.action.stop_at_failure_share is not None:
            counts["failed_again"] = progress.failed_again
        return encode_entry(
            who=canceled_by or f"master {self._leadership.master_id}",
            action=f"jobs.{work.action.kind}.ended",
            target=work.action.id,
            before=described(work.action),
            after={"state": str(progress.state), **counts, "message": progress.message},
        )


def _bounded(wanted: JobFilter, action: BulkAction) -> JobFilter:
    """Narrow the filter to the time in which jobs of the action can exist. A smaller part of an index is then
    scanned."""
    created = _earlier(wanted.created_before_ms, action.created_at_ms)
    if action.kind is not ActionKind.RETRY:
        return replace(wanted, created_before_ms=created)
    finished = _earlier(wanted.finished_before_ms, action.created_at_ms)
    return replace(wanted, created_before_ms=created, finished_before_ms=finished)


def _earlier(asked_ms: int | None, ms: int) -> int:
    return ms if asked_ms is None else min(asked_ms, ms)
