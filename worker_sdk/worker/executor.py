"""Run accepted jobs in slots, and stop them: at their timeout, at the end of their lease, or on command."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from worker_sdk import forked
from worker_sdk.pusher.by_process import Pushers
from worker_sdk.wire import Undecodable
from worker_sdk.worker import outcomes
from worker_sdk.worker.descriptors import Descriptors
from worker_sdk.worker.endings import Endings, Settlements, log_failure
from worker_sdk.worker.handler_calls import HandlerCalls
from worker_sdk.worker.job_log import RunLog
from worker_sdk.worker.lease import now_s
from worker_sdk.worker.progress import RunReports
from worker_sdk.worker.registry import HandlerKind
from worker_sdk.worker.run import JobRun, Stop
from worker_sdk.worker.threads import HandlerThreads

if TYPE_CHECKING:
    from worker_sdk.worker.challenges import Challenges

logger = logging.getLogger(__name__)

# How long a stopped handler may clean up before its end is reported while it still runs. Masters wait longer.
STOP_GRACE_S: Final = 2.0
MAX_OWED: Final = 1_000  # the number of tokens that one heartbeat may name
# How many seconds a newer claim of a job waits for the end of the earlier run, but at most this fraction of its own
# timeout. After that, the claim is handed back, because another worker may run the job at once.
FOLLOW_S: Final = 10.0
FOLLOW_SHARE: Final = 0.5
# A newer claim that has waited for more than this fraction of its timeout is handed back, even if the earlier run then
# ends. The masters offer the job again at once, with its whole timeout.
LATE_SHARE: Final = 0.1

_NEVER: Final = float("inf")
# Kinds of handlers that can only be asked to stop: handlers in a thread, and calls that run several jobs together.
_UNSTOPPABLE: Final = (HandlerKind.SYNC, HandlerKind.GATHERED)


class Starts(Protocol):
    async def may_start(self, job_id: str, token: str) -> bool: ...


class Executor:
    """Runs accepted jobs in slots. Only `free` and `owed_runs` may be used outside the event loop.

    Each run in `occupying`, by job ID, holds a slot, even after its end was reported: a thread cannot be killed.

    * `owed`: by token, the runs with an end that no master has confirmed yet.
    * `_followers`: newer claims, by job ID. Each waits for the end of the earlier run of its job, and takes over its
      slot.
    * `threads`: number of threads for sync handlers. None: as many as slots.
    """

    def __init__(
        self,
        *,
        max_jobs: int,
        settlements: Settlements,
        starts: Starts,
        pushers: Pushers,
        reports: RunReports,
        challenges: "Challenges",
        child_access: tuple[Sequence[str], str | None],
        log_of: "Callable[[str, str], RunLog] | None" = None,
        threads: HandlerThreads | None = None,
        stop_grace_s: float = STOP_GRACE_S,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._max_jobs = max_jobs
        self._settlements = settlements
        self._starts = starts
        self._reports = reports
        self._stop_grace_s = stop_grace_s
        # Held while offers are judged and accepted. Heartbeats must wait for this lock: masters treat an offer that a
        # heartbeat does not name as not accepted.
        self.taking_up = threading.Lock()
        self.occupying: dict[str, JobRun] = {}
        self.owed: dict[str, JobRun] = {}
        self._followers: dict[str, JobRun] = {}
        self._watch: asyncio.TimerHandle | None = None
        self._watch_due_s = _NEVER
        self._idle: asyncio.Future[None] | None = None
        # Called when a slot may have become free.
        self.on_room: Callable[[], object] | None = None
        self.descriptors = Descriptors(on_change=self._look_for_room)
        self._endings = Endings(
            settlements=settlements,
            reports=reports,
            owed=self.owed,
            release=self._release,
            stop_grace_s=stop_grace_s,
            on_no_descriptor=self.descriptors.note_failure,
        )
        self._calls = HandlerCalls(
            threads=threads or HandlerThreads(max_jobs, self._loop),
            pushers=pushers,
            reports=reports,
            challenges=challenges,
            child_access=child_access,
            log_of=log_of,
            endings=self._endings,
            has_room=lambda: self.free > 0,
        )
        forked.renew_in_child(self)

    def renew(self) -> None:
        self._endings.is_copy = True
        # End the child when it reaches the event loop. Otherwise, the child would continue all other handlers there.
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon(forked.end_copy)

    # --- for the heartbeat thread

    @property
    def free(self) -> int:
        if self._settlements.is_full or self.descriptors.is_short:
            return 0
        return max(0, min(self._max_jobs - len(self.occupying), MAX_OWED - len(self.owed)))

    @property
    def max_jobs(self) -> int:
        return self._max_jobs

    def owed_runs(self) -> list[JobRun]:
        with self.taking_up:
            for run in list(self.owed.values()):
                if run.is_named and run.stopping is Stop.LOST and run.is_settled:
                    self.owed.pop(run.token, None)
            return list(self.owed.values())

    def _look_for_room(self) -> None:
        if self.on_room is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self.on_room)

    # --- running

    def resize(self, max_jobs: int) -> None:
        """Run at most `max_jobs` at a time from now on. If more jobs are running, they continue to their end."""
        if max_jobs == self._max_jobs:
            return
        logger.info("the masters set %d slots instead of %d", max_jobs, self._max_jobs)
        self._max_jobs = max_jobs
        self._calls.resize(max_jobs)
        if self.on_room is not None:
            self.on_room()

    def start(self, run: JobRun, now: float) -> None:
        """Start a run. `now`: the time at which the job was accepted, by the clock `now_s`."""
        self.occupying[run.job_id] = run
        self.owed[run.token] = run
        # Count the timeout from now, including the wait for a confirmation: the master's clock for the attempt has
        # started.
        run.deadline_s = now + run.timeout_s
        self._begin(run)
        if not run.is_settled and (run.deadline_s < self._watch_due_s or run.lease_end_s < self._watch_due_s):
            self._watch_at(run.due_s)

    def may_follow(self, job_id: str, fence: int) -> bool:
        """Return whether a claim with this fence may wait for the earlier run of its job, because the claim is
        newer."""
        earlier = self._followers.get(job_id) or self.occupying[job_id]
        return fence > earlier.fence

    def follow(self, run: JobRun, now: float) -> bool:
        """Accept a newer claim of a job that still runs here. The claim starts when the earlier run has ended. Return
        whether the earlier run was told to stop."""
        if (waiting := self._followers.get(run.job_id)) is not None:
            self.stop(waiting, Stop.LOST)
        self.owed[run.token] = run
        self._followers[run.job_id] = run
        run.deadline_s = now + run.timeout_s
        run.begin_by_s = now + min(FOLLOW_S, run.timeout_s * FOLLOW_SHARE)
        if run.due_s < self._watch_due_s:
            self._watch_at(run.due_s)
        return self.occupying[run.job_id].stopping is not None

    def _begin(self, run: JobRun) -> None:
        if type(run.argument) is Undecodable:
            self._fail_undecodable(run, run.argument)
            return
        if run.handler.confirm_start:
            run.task = self._loop.create_task(self._confirm_and_launch(run))
        else:
            self._calls.launch(run)

    def _fail_undecodable(self, run: JobRun, fault: Undecodable) -> None:
        fields = outcomes.undecodable(fault.why)
        self._endings.settle(run, fields)
        self._release(run)
        log_failure(run, logging.ERROR, text=fields["message"])

    async def _confirm_and_launch(self, run: JobRun) -> None:
        may_start = await self._starts.may_start(run.job_id, run.token)
        if run.stopping is not None:
            return
        if not may_start:
            self.stop(run, Stop.LOST)
        elif (now := now_s()) >= run.due_s:
            # A master has confirmed the start, but the answer arrived after the end of the lease or of the timeout.
            self._stop_overdue(run, now)
        else:
            self._calls.launch(run)

    def _release(self, *runs: JobRun) -> None:
        for run in runs:
            follower = self._followers.pop(run.job_id, None) if self._followers else None
            if follower is not run:  # a follower that is released has never had the slot
                self.occupying.pop(run.job_id, None)
                if follower is not None:
                    self._take_over(follower)
            run.argument = run.task = None
        if self.on_room is not None:
            self.on_room()
        if self._idle is not None and not self.occupying and not self._idle.done():
            self._idle.set_result(None)

    def _take_over(self, follower: JobRun) -> None:
        """Start a newer claim after the earlier run of its job has ended. If the claim has waited for too long, do not
        start it."""
        begun_s = follower.deadline_s - follower.timeout_s
        if now_s() - begun_s > LATE_SHARE * follower.timeout_s:
            self.stop(follower, Stop.HANDED_BACK)
            return
        follower.begin_by_s = _NEVER
        self.occupying[follower.job_id] = follower
        self._begin(follower)

    # --- stopping

    def stop(self, run: JobRun, why: Stop) -> None:
        if why is Stop.LOST and not run.is_settled:
            self._endings.forget(run)
        elif run.is_settled:
            return
        if run.stopping is not None:
            run.stopping = Stop.LOST if why is Stop.LOST else run.stopping
            return
        run.stopping = why
        if why is not Stop.HANDED_BACK:
            self._reports.end(run.token, f"the job is stopped: {why.value}")
        if why in (Stop.TIMEOUT, Stop.LOST):
            logger.warning(
                "%s (job %s, attempt %d) is stopped: %s", run.name, run.job_id, run.attempt, why.value
            )
        run.stop_due_s = self._patience_end_s(run, why)
        if not run.has_begun:
            if run.task is not None and run.task is not asyncio.current_task():
                run.task.cancel()
            self._endings.settle_stopped(run)
            self._release(run)
            return
        self._interrupt(run, why)
        if run.stop_due_s < self._watch_due_s:
            self._watch_at(run.stop_due_s)

    def _interrupt(self, run: JobRun, why: Stop) -> None:
        """Tell a running handler to stop, or end it by force where that is possible."""
        if run.ctx is not None:
            run.ctx.cancelled.set()
        if run.handler.kind is HandlerKind.ASYNC:
            assert run.task is not None
            run.task.cancel()
        elif (process := run.process) is not None:
            process.kill()
        elif why is Stop.TIMEOUT and run.handler.kind in _UNSTOPPABLE:
            # The handler cannot be stopped by force, so report the end of the job now. The slot stays occupied until
            # the handler returns.
            self._report_without_end(run)
        if run.handler.kind is HandlerKind.GATHERED:
            self._calls.gathered.note_stop(run)

    def _patience_end_s(self, run: JobRun, why: Stop) -> float:
        """Return the time at which the end is reported even if the handler still runs."""
        if why in (Stop.HANDED_BACK, Stop.LOST):
            # Report nothing before the handler ends: another worker could start the job while this run continues.
            return _NEVER
        end_s = now_s() + self._stop_grace_s
        # After a cancellation, a handler that cannot be stopped may continue until the job's timeout before its end is
        # reported.
        return max(end_s, run.deadline_s) if run.handler.kind in _UNSTOPPABLE else end_s

    def stop_all(self, why: Stop) -> None:
        for run in self._taken_up():
            self.stop(run, why)

    def cancel(self, job_id: str, token: str) -> bool:
        """Cancel the job; return False if no job runs here under this token."""
        run = self.owed.get(token)
        if run is None or run.job_id != job_id or run.is_settled:
            return False
        self.stop(run, Stop.CANCELED)
        return True

    def lost(self, tokens: Iterable[str]) -> None:
        """Stop the jobs that, according to masters, no longer belong to this worker. Reports of jobs that are over stay
        in the queue."""
        for token in tokens:
            run = self.owed.get(token)
            if run is not None and not run.is_settled:
                self.stop(run, Stop.LOST)

    def answered(self, tokens: Iterable[str]) -> None:
        """Forget these runs, because a master has confirmed their end."""
        for token in tokens:
            self.owed.pop(token, None)
        if self.on_room is not None:
            self.on_room()

    def _taken_up(self) -> list[JobRun]:
        """Return all accepted runs. Followers come first, so that stopping the earlier run does not start a
        follower."""
        return [*self._followers.values(), *self.occupying.values()]

    def _report_without_end(self, run: JobRun) -> None:
        self._endings.settle_stopped(run)
        logger.error(
            "%s (job %s) was told to stop, but its thread is still running: the job has ended for the masters, and its "
            "slot stays taken until the thread returns. Check ctx.cancelled in the handler, or run it with "
            "isolated=True, so that it can be killed.",
            run.name,
            run.job_id,
        )

    # --- one timer for all runs, set to the earliest time that matters

    def _watch_at(self, due_s: float) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self._watch_due_s = due_s
        self._watch = self._loop.call_later(max(0.0, due_s - now_s()) + 0.001, self._look)

    def _look(self) -> None:
        self._watch = None
        self._watch_due_s = _NEVER
        now = now_s()
        for run in self._taken_up():
            if run.due_s > now:
                continue
            self._stop_overdue(run, now)
        # Set the timer again: leases may have been renewed since it was set.
        next_due_s = min((run.due_s for run in self._taken_up()), default=_NEVER)
        if next_due_s < self._watch_due_s:
            self._watch_at(next_due_s)

    def _stop_overdue(self, run: JobRun, now: float) -> None:
        if run.lease_end_s <= now:
            self.stop(run, Stop.LOST)
        elif run.stopping is not None:
            self._report_without_end(run)
        else:
            # A job that has not begun cannot time out, so hand it back.
            self.stop(run, Stop.TIMEOUT if run.has_begun else Stop.HANDED_BACK)

    # --- ending

    async def idle(self, timeout_s: float) -> bool:
        """Wait until no job runs. Return False if the time runs out first."""
        if not self.occupying:
            return True
        self._idle = self._loop.create_future()
        try:
            async with asyncio.timeout(timeout_s):
                await self._idle
        except TimeoutError:
            return False
        finally:
            self._idle = None
        return True

    @property
    def thread_ids(self) -> list[int]:
        return self._calls.thread_ids

    def may_stop(self) -> bool:
        """Return whether a running handler can notice a stop, or be stopped by force."""
        return any(
            run.handler.kind is not HandlerKind.SYNC or run.ctx is not None for run in self.occupying.values()
        )

    def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self._calls.close()
        forked.leave(self)
