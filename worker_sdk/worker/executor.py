"""Runs what was accepted, and stops it: at its timeout, at the end of its lease, or when told to."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, Protocol

from worker_sdk import forked, tracing
from worker_sdk.wire import Undecodable, encode
from worker_sdk.worker import outcomes
from worker_sdk.worker.context import Context, Pushers
from worker_sdk.worker.isolated import IsolatedProcess, ProcessDiedError
from worker_sdk.worker.job_log import LogLines, running_log
from worker_sdk.worker.lease import now_s
from worker_sdk.worker.progress import RunReports
from worker_sdk.worker.registry import HandlerKind
from worker_sdk.worker.run import JobRun, Stop
from worker_sdk.worker.threads import HandlerThreads

if TYPE_CHECKING:
    from worker_sdk.worker.challenges import Challenges

logger = logging.getLogger(__name__)

# A stopped handler may clean up for so long before its end is reported without it; less than the master's own grace.
STOP_GRACE_S: Final = 2.0
MAX_OWED: Final = 1_000  # tokens that one heartbeat may name
# A newer claim of a job waits at most this long for the earlier run to end, and at most this share of its own timeout;
# then it is handed back, because another worker could run it at once.
FOLLOW_S: Final = 10.0
FOLLOW_SHARE: Final = 0.5

_NEVER: Final = float("inf")


class Settlements(Protocol):
    """The receiver of reports on jobs that ended."""

    @property
    def is_full(self) -> bool:
        """Return whether no more jobs should be started until some reports are delivered."""
        ...

    def put(self, job_id: str, token: str, fields: outcomes.Fields) -> None: ...


class Starts(Protocol):
    async def may_start(self, job_id: str, token: str) -> bool: ...


class Executor:
    """All from the event loop, but for `free` and `owed_runs`.

    `occupying`, by job ID, holds a slot each, also after its end was reported: a thread cannot be killed. `owed`, by
    token, is what a master has not answered for yet, also after the job has ended. A run in `_followers`, by job ID, is
    a newer claim of a job whose earlier run has not ended: it takes over that slot.
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
        log_of: "Callable[[str, str], LogLines] | None" = None,
        stop_grace_s: float = STOP_GRACE_S,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._max_jobs = max_jobs
        self._settlements = settlements
        self._starts = starts
        self._pushers = pushers
        self._reports = reports
        self._challenges = challenges
        self._child_access = child_access
        self._log_of = log_of
        self._stop_grace_s = stop_grace_s
        self._threads = HandlerThreads(max_jobs, self._loop)
        # Held while offers are judged and taken up: a heartbeat says that what it does not name was not taken up.
        self.taking_up = threading.Lock()
        self.occupying: dict[str, JobRun] = {}
        self.owed: dict[str, JobRun] = {}
        self._followers: dict[str, JobRun] = {}
        self._watch: asyncio.TimerHandle | None = None
        self._watch_due_s = _NEVER
        self._idle: asyncio.Future[None] | None = None
        # Called when a slot may have become free.
        self.on_room: Callable[[], object] | None = None
        self._is_copy = False
        forked.renew_in_child(self)

    def renew(self) -> None:
        self._is_copy = True
        # Should the child go back to the event loop, all other handlers would go on there, too.
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon(forked.end_copy)

    # --- for the heartbeat thread

    @property
    def free(self) -> int:
        if self._settlements.is_full:
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

    # --- running

    def resize(self, max_jobs: int) -> None:
        """Take so many jobs at a time from now on. Jobs beyond that number run to their end."""
        if max_jobs == self._max_jobs:
            return
        logger.info("%d slots instead of %d, as the masters say", max_jobs, self._max_jobs)
        self._max_jobs = max_jobs
        self._threads.resize(max_jobs)
        if self.on_room is not None:
            self.on_room()

    def start(self, run: JobRun, now: float) -> None:
        """`now`: by `now_s`, when it was taken up."""
        self.occupying[run.job_id] = run
        self.owed[run.token] = run
        # From now on also when a confirmation is asked for first: the master's own clock for the attempt runs already.
        run.deadline_s = now + run.timeout_s
        self._begin(run)
        if not run.is_settled and (run.deadline_s < self._watch_due_s or run.lease_end_s < self._watch_due_s):
            self._watch_at(run.due_s)

    def may_follow(self, job_id: str, fence: int) -> bool:
        """Return whether a claim with this fence may wait for the run that occupies its job's slot: it is newer, and
        that run can be expected to end."""
        earlier = self._followers.get(job_id) or self.occupying[job_id]
        occupant = self.occupying[job_id]
        does_not_stop = occupant.is_settled and occupant.stopping is not Stop.LOST
        return fence > earlier.fence and not (does_not_stop or occupant.is_given_up)

    def follow(self, run: JobRun, now: float) -> bool:
        """Take up a newer claim of a job that still runs here; it starts when the earlier run has ended. Return whether
        that run has been told to stop."""
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
            self._launch(run)

    def _fail_undecodable(self, run: JobRun, fault: Undecodable) -> None:
        fields = outcomes.undecodable(fault.why)
        self._settle(run, fields)
        self._release(run)
        _log_failure(run, logging.ERROR, text=fields["message"])

    async def _confirm_and_launch(self, run: JobRun) -> None:
        may_start = await self._starts.may_start(run.job_id, run.token)
        if run.stopping is not None:
            return
        if not may_start:
            self.stop(run, Stop.LOST)
        elif (now := now_s()) >= run.due_s:
            # The word was right when it was given, and came too late.
            self._stop_overdue(run, now)
        else:
            self._launch(run)

    def _launch(self, run: JobRun) -> None:
        handler = run.handler
        if self._log_of is not None:
            run.log = self._log_of(run.job_id, run.token)
        if handler.takes_context:
            run.ctx = Context(
                run.job_id,
                run.name,
                run.attempt,
                run.fence,
                run.headers,
                run.deadline_s,
                self._pushers,
                self._reports,
                run.token,
                run.checkpoint,
                run.batch,
                run.callbacks,
                self._challenges,
                run.inputs,
                run.log,
            )
        match handler.kind:
            case HandlerKind.ASYNC if self._loop.get_task_factory() is None:
                # The same as create_task, at three quarters of its cost.
                run.task = asyncio.Task(self._run_async(run), loop=self._loop, name=handler.name)
            case HandlerKind.ASYNC:
                run.task = self._loop.create_task(self._run_async(run), name=handler.name)
            case HandlerKind.SYNC:
                run.has_begun = True
                self._threads.submit(
                    lambda: self._run_sync(run), lambda value, exc: self._ended(run, value, exc)
                )
            case HandlerKind.ISOLATED:
                run.has_begun = True
                self._threads.submit(
                    lambda: self._run_isolated(run), lambda value, exc: self._isolated_ended(run, value, exc)
                )

    async def _run_async(self, run: JobRun) -> None:
        if self._is_too_late(run):
            self._ended(run, None, None)
            return
        run.has_begun = True
        # This task is of this job alone.
        running_log.set(run.log)
        try:
            if tracing.is_on():
                with tracing.processing(run.name, run.job_id, run.attempt, run.headers):
                    value = await run.handler.call(run.argument, run.ctx)
            elif run.ctx is None:
                value = await run.handler.function(run.argument)
            else:
                value = await run.handler.function(run.argument, run.ctx)
        except (Exception, SystemExit) as exc:
            # A handler that calls sys.exit has failed; the worker goes on.
            self._ended(run, None, exc)
        except BaseException as exc:
            self._ended(run, None, exc)
            raise
        else:
            self._ended(run, value, None)

    @staticmethod
    def _is_too_late(run: JobRun) -> bool:
        """A loop or an interpreter that was blocked comes to a job when its lease is over and others may run it."""
        if run.stopping is None and now_s() >= run.lease_end_s:
            run.stopping = Stop.LOST
        return run.stopping is not None

    def _run_sync(self, run: JobRun) -> Any:
        if self._is_too_late(run):
            raise RuntimeError("stopped before it began")
        mark = running_log.set(run.log)
        try:
            if tracing.is_on():
                with tracing.processing(run.name, run.job_id, run.attempt, run.headers):
                    return run.handler.call(run.argument, run.ctx)
            return run.handler.call(run.argument, run.ctx)
        finally:
            running_log.reset(mark)

    def _run_isolated(self, run: JobRun) -> outcomes.Fields:
        with tracing.processing(run.name, run.job_id, run.attempt, run.headers) as headers:
            if run.handler.around is None:
                return self._attend_isolated(run, headers)
            assert run.ctx is not None
            fields: outcomes.Fields = run.handler.around(run.ctx, lambda: self._attend_isolated(run, headers))
            return fields

    def _attend_isolated(self, run: JobRun, headers: Mapping[str, str]) -> outcomes.Fields:
        """Wait in a thread for the process, and kill it when it is time, whatever the event loop does."""
        assert run.handler.origin is not None
        masters, token = self._child_access
        job = {
            "job_id": run.job_id,
            "name": run.name,
            "attempt": run.attempt,
            "fence": run.fence,
            "headers": dict(headers),
            "argument": run.argument,
            "remaining_s": run.deadline_s - now_s(),
            "masters": list(masters),
            "token": token,
            "checkpoint": run.checkpoint,
            "batch": run.batch,
            "callbacks": run.callbacks,
            "inputs": run.inputs,
            "has_log": run.log is not None,
        }
        process = IsolatedProcess(
            run.handler.origin, job, lambda report: self._report_of_child(run, process, report), run.log
        )
        try:
            run.process = process
            while run.stopping is None:
                left_s = run.due_s - now_s()
                if left_s <= 0:
                    run.stopping = Stop.LOST if now_s() >= run.lease_end_s else Stop.TIMEOUT
                elif (fields := process.wait(min(left_s, 60.0))) is not None:
                    return fields
            return {}
        finally:
            run.process = None
            process.close()

    def _report_of_child(self, run: JobRun, process: IsolatedProcess, report: dict[str, Any]) -> None:
        if "challenge" in report:
            opened = self._challenges.open(run.job_id, run.token, report["challenge"], run.deadline_s)

            def answer(done: "Future[Mapping[str, Any]]") -> None:
                error = done.exception()
                process.saved(
                    report["number"],
                    None if error is None else str(error),
                    done.result() if error is None else None,
                )

            opened.add_done_callback(answer)
            return
        if "line" in report:
            if run.log is not None:
                run.log.write(*report["line"])
            return
        if "part" in report:

            def told(done: "Future[None]") -> None:
                error = done.exception()
                process.saved(report["number"], None if error is None else str(error))

            self._reports.emit(run.job_id, run.token, report["part"], run.deadline_s).add_done_callback(told)
            return
        if "checkpoint" not in report:
            self._reports.tell(run.token, report["fraction"], report["message"])
            return

        def tell(saved: "Future[None]") -> None:
            error = saved.exception()
            process.saved(report["number"], None if error is None else str(error))

        self._reports.save(run.token, report["checkpoint"]).add_done_callback(tell)

    def _isolated_ended(self, run: JobRun, fields: Any, exc: BaseException | None) -> None:
        if run.stopping is not None or (exc is not None and not isinstance(exc, ProcessDiedError)):
            self._ended(run, None, exc)
            return
        if exc is not None:
            fields = outcomes.failure(str(exc), should_retry=True)
        if not self._tells_first(run, lambda: self._isolated_settled(run, fields)):
            self._isolated_settled(run, fields)

    def _isolated_settled(self, run: JobRun, fields: outcomes.Fields) -> None:
        # An attempt that ended there with an exception says how to log it; every other failure is logged as an error.
        level = fields.pop("log_level", logging.ERROR)
        self._settle(run, fields)
        self._ended(run, None, None)
        if fields["type"] in ("failure", "discarded") and level:
            error = fields["error"]
            text = error["traceback"] if error else fields["message"]
            _log_failure(run, level, text=text, ending=fields["type"])

    def _ended(self, run: JobRun, value: Any, exc: BaseException | None) -> None:
        """The handler runs no more."""
        if self._is_copy:
            forked.end_copy()
        if exc is not None and self._saves_first(run, value, exc):
            return
        if run.token in self._reports.told and self._tells_first(run, lambda: self._ended(run, value, exc)):
            return
        self._release(run)
        if exc is None and run.stopping is None and not run.is_settled:
            run.is_settled = True
            self._settlements.put(run.job_id, run.token, outcomes.success(value))
            return
        if run.is_settled:
            if run.stopping in (Stop.TIMEOUT, Stop.CANCELED):
                logger.warning(
                    "%s (job %s) has ended after all; its slot is free again", run.name, run.job_id
                )
            return
        if run.stopping is Stop.HANDED_BACK and exc is None and run.handler.kind is not HandlerKind.ISOLATED:
            # It finished while it was being stopped.
            self._settle(run, outcomes.success(value))
        elif run.stopping is not None:
            self._settle_stopped(run)
        elif exc is not None:
            fields = self._of_exception(run, exc)
            self._settle(run, fields)
            if level := outcomes.log_level(run.handler, exc, fields):
                _log_failure(run, level, exc, ending=fields["type"])

    def _saves_first(self, run: JobRun, value: Any, exc: BaseException) -> bool:
        """Return whether the end has to wait until the position that an iteration has reached is saved. The next
        attempt goes on there."""
        if run.ctx is None or run.ctx.unsaved is None or run.is_settled:
            return False
        if run.stopping not in (None, Stop.HANDED_BACK):
            return False
        position, run.ctx.unsaved = run.ctx.unsaved, None
        saved = self._reports.save(run.token, encode(position))
        # Without a master in reach the former checkpoint has to do.
        self._go_on_after(saved, self._stop_grace_s, lambda: self._ended(run, value, exc))
        return True

    def _tells_first(self, run: JobRun, end: Callable[[], None]) -> bool:
        """Return whether the end has to wait until masters have the last progress of the job: nothing that comes behind
        the end counts. `end` is called then."""
        if run.stopping is not None or run.is_settled or run.token not in self._reports.told:
            return False
        # People's view of it must not cost a job its time, or its lease.
        patience_s = min(self._stop_grace_s, (run.due_s - now_s()) / 2)
        if patience_s <= 0 or (told := self._reports.flush(run.token)) is None:
            return False
        self._go_on_after(told, patience_s, end)
        return True

    def _go_on_after(self, reported: "Future[None]", patience_s: float, go_on: Callable[[], None]) -> None:
        """Call `go_on` once, when the report is answered, or the patience is over."""
        has_gone_on = False

        def once() -> None:
            nonlocal has_gone_on
            if not has_gone_on:
                has_gone_on = True
                timer.cancel()
                go_on()

        def answered(_: "Future[None]") -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(once)

        timer = self._loop.call_later(patience_s, once)
        reported.add_done_callback(answered)

    @staticmethod
    def _of_exception(run: JobRun, exc: BaseException) -> outcomes.Fields:
        try:
            return outcomes.of_exception(run.handler, exc, run.attempt)
        except Exception:
            # A policy is code of the user's too: an ending must not be lost over a wait that cannot be computed.
            logger.exception("the retry policy of %s failed", run.name)
            return outcomes.failure(f"{type(exc).__name__}, and its retry policy failed", should_retry=True)

    def _release(self, run: JobRun) -> None:
        follower = self._followers.pop(run.job_id, None) if self._followers else None
        if follower is not run:  # else it never had the slot
            self.occupying.pop(run.job_id, None)
            if follower is not None:
                follower.begin_by_s = _NEVER
                self.occupying[follower.job_id] = follower
                self._begin(follower)
        if self.on_room is not None:
            self.on_room()
        run.argument = run.task = None
        if self._idle is not None and not self.occupying and not self._idle.done():
            self._idle.set_result(None)

    def _settle(self, run: JobRun, fields: outcomes.Fields) -> None:
        if not run.is_settled:
            run.is_settled = True
            self._reports.end(run.token, "the job has ended")
            self._settlements.put(run.job_id, run.token, fields)

    def _settle_stopped(self, run: JobRun) -> None:
        match run.stopping:
            case Stop.TIMEOUT:
                self._settle(run, outcomes.timeout(run.timeout_s))
            case Stop.CANCELED:
                self._settle(run, outcomes.CANCELED)
            case Stop.HANDED_BACK:
                self._settle(run, outcomes.HANDED_BACK)
            case _:
                self._forget(run)

    def _forget(self, run: JobRun) -> None:
        """Report nothing: the job is another worker's now. But name a run that has begun to the masters once. Otherwise
        they would take it for an offer that was never accepted, and start it again as if it had never begun."""
        run.is_settled = True
        self._reports.end(run.token, "the job is not this worker's any more")
        if run.is_named or not run.has_begun:
            self.owed.pop(run.token, None)

    # --- stopping

    def stop(self, run: JobRun, why: Stop) -> None:
        if why is Stop.LOST and not run.is_settled:
            self._forget(run)
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
            self._settle_stopped(run)
            self._release(run)
            return
        if run.ctx is not None:
            run.ctx.cancelled.set()
        if run.handler.kind is HandlerKind.ASYNC:
            assert run.task is not None
            run.task.cancel()
        elif (process := run.process) is not None:
            process.kill()
        elif why is Stop.TIMEOUT and run.handler.kind is HandlerKind.SYNC:
            # Nobody can end a thread: the job must not wait for it. Its slot does.
            self._report_without_end(run)
        if run.stop_due_s < self._watch_due_s:
            self._watch_at(run.stop_due_s)

    def _patience_end_s(self, run: JobRun, why: Stop) -> float:
        """Return when the end is reported although the handler still runs."""
        if why in (Stop.HANDED_BACK, Stop.LOST):
            # It would be started elsewhere beside this one.
            return _NEVER
        end_s = now_s() + self._stop_grace_s
        # A caller that asked for a cancel can wait for a thread until its timeout.
        return max(end_s, run.deadline_s) if run.handler.kind is HandlerKind.SYNC else end_s

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
        """Stop the jobs that masters say are not ours any more. The outbox handles those that have ended already."""
        for token in tokens:
            run = self.owed.get(token)
            if run is not None and not run.is_settled:
                self.stop(run, Stop.LOST)

    def answered(self, tokens: Iterable[str]) -> None:
        """A master has answered for the ends of these."""
        for token in tokens:
            self.owed.pop(token, None)
        if self.on_room is not None:
            self.on_room()

    def _taken_up(self) -> list[JobRun]:
        """Followers come first: one must not begin because the run before it was stopped a moment earlier."""
        return [*self._followers.values(), *self.occupying.values()]

    def _report_without_end(self, run: JobRun) -> None:
        self._settle_stopped(run)
        logger.error(
            "%s (job %s) does not stop; its end is reported, its slot stays occupied", run.name, run.job_id
        )

    # --- the watch: one timer for all, set to the earliest instant that matters

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
        # A lease that was renewed since moved on; hence the next instant is found anew.
        next_due_s = min((run.due_s for run in self._taken_up()), default=_NEVER)
        if next_due_s < self._watch_due_s:
            self._watch_at(next_due_s)

    def _stop_overdue(self, run: JobRun, now: float) -> None:
        if run.lease_end_s <= now:
            self.stop(run, Stop.LOST)
        elif run.stopping is not None:
            self._report_without_end(run)
        elif self._followers.get(run.job_id) is run:
            self.occupying[run.job_id].is_given_up = True
            self.stop(run, Stop.HANDED_BACK)
        else:
            # A job that never began has not failed.
            self.stop(run, Stop.TIMEOUT if run.has_begun else Stop.HANDED_BACK)

    # --- ending

    async def idle(self, timeout_s: float) -> bool:
        """Wait until nothing runs; return False if the time was over first."""
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

    def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self._threads.close()
        forked.leave(self)


def _log_failure(
    run: JobRun, level: int, exc: BaseException | None = None, *, text: str = "", ending: str = "failure"
) -> None:
    mark = running_log.set(run.log)
    try:
        _write_failure(run, level, exc, text, ending)
    finally:
        running_log.reset(mark)


def _write_failure(run: JobRun, level: int, exc: BaseException | None, text: str, ending: str) -> None:
    logger.log(
        level,
        "%s (job %s, attempt %d) %s%s",
        run.name,
        run.job_id,
        run.attempt,
        "was discarded" if ending == "discarded" else "failed",
        f": {text}" if text else "",
        exc_info=exc,
        extra={"job_id": run.job_id, "job_name": run.name, "attempt": run.attempt},
    )
