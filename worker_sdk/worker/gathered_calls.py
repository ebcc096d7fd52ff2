"""Call handlers that run many jobs at once. Each job keeps its own claim, timeout and outcome."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from worker_sdk import tracing
from worker_sdk.worker.context import Context, pushers_of
from worker_sdk.worker.endings import Endings
from worker_sdk.worker.gather import GatherContext, GatheredLog, ends_of
from worker_sdk.worker.job_log import running_log
from worker_sdk.worker.lease import now_s
from worker_sdk.worker.run import JobRun, Stop
from worker_sdk.worker.threads import HandlerThreads


class CallContext(GatherContext):
    """The context of a call in a worker. It makes the contexts of its jobs only when the function reads them. Most
    functions never read them, and making them would take a fifth of the time that a job takes here."""

    __slots__ = ("_context_of", "_given", "_runs")

    def __init__(self, runs: list[JobRun], context_of: Callable[[JobRun], Context], log: GatheredLog) -> None:
        first = context_of(runs[0])
        Context.__init__(
            self,
            first.job_id,
            first.name,
            first.attempt,
            first.fence,
            first.headers,
            min([run.deadline_s for run in runs]),
            pushers_of(first),
            first._reports,
            first._token,
            batch=first.batch,
            log=log,
        )
        self._runs = runs
        self._context_of = context_of
        self._given: list[Context] | None = None

    @property
    def jobs(self) -> list[Context]:
        """The contexts of the jobs."""
        if self._given is None:
            # If two threads call this at once, both get the same contexts from `context_of`.
            self._given = [self._context_of(run) for run in self._runs]
        return self._given

    @jobs.setter
    def jobs(self, jobs: list[Context]) -> None:
        self._given = jobs


class GatheredCall:
    """One call, and the runs that it serves. `task`: the asyncio task of an `async def` handler."""

    def __init__(self, runs: list[JobRun], context_of: Callable[[JobRun], Context]) -> None:
        self.runs = runs
        self.log = GatheredLog(runs)
        self.ctx = CallContext(runs, context_of, self.log)
        self.task: asyncio.Task[None] | None = None


class GatheredCalls:
    """The calls that run many jobs at once. Use it only in the event loop.

    * `context_of`: returns the context of a run, the same object each time; any thread may call it.
    * `has_room`: returns whether the worker could get another job.
    """

    def __init__(
        self,
        *,
        endings: Endings,
        threads: HandlerThreads,
        context_of: Callable[[JobRun], Context],
        has_room: Callable[[], bool],
        keeps_logs: bool,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._endings = endings
        self._threads = threads
        self._context_of = context_of
        self._has_room = has_room
        self._keeps_logs = keeps_logs
        # The runs that wait for other runs with the same name, and the timers that end the wait, by name.
        self._waiting: dict[str, list[JobRun]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._is_to_look = False
        # The call that each run is part of, by the token of the run.
        self._calls: dict[str, GatheredCall] = {}

    def add(self, run: JobRun) -> None:
        """Let a run wait for other runs with the same name, or call the handler."""
        gather = run.handler.gather
        assert gather is not None
        if run.attempt > 1:
            # Run a retried job alone: in the earlier call, another job may have made this job fail, or this job may
            # have made the call fail.
            self._call([run])
            return
        waiting = self._waiting.get(run.name)
        if waiting is None:
            waiting = self._waiting[run.name] = []
            self._timers[run.name] = self._loop.call_later(gather.within_s, self._flush, run.name)
        waiting.append(run)
        if len(waiting) >= gather.max:
            self._flush(run.name)
        elif not self._is_to_look:
            # Check once after all jobs of a push have been added, because they arrive one after another.
            self._is_to_look = True
            self._loop.call_soon(self._look)

    def note_stop(self, run: JobRun) -> None:
        """Stop the call once all of its runs are to stop, because a single run of a call cannot be stopped."""
        call = self._calls.get(run.token)
        if call is None or any(one.stopping is None for one in call.runs):
            return
        call.ctx.cancelled.set()
        if call.task is not None:
            call.task.cancel()

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()

    def _look(self) -> None:
        """Begin the calls that wait for more jobs, if the worker cannot get any more."""
        self._is_to_look = False
        if not self._has_room():
            for name in list(self._waiting):
                self._flush(name)

    def _flush(self, name: str) -> None:
        if (timer := self._timers.pop(name, None)) is not None:
            timer.cancel()
        if runs := self._waiting.pop(name, None):
            self._call(runs)

    def _call(self, runs: list[JobRun]) -> None:
        handler = runs[0].handler
        if handler.is_coroutine:
            # Runs that are stopped before this task begins are settled when they are stopped.
            self._loop.create_task(self._run_async(runs), name=handler.name)
        elif (call := self._begin(runs)) is not None:
            self._threads.submit(
                lambda: self._run_sync(call), lambda value, exc: self._ended(call, value, exc)
            )

    def _begin(self, runs: Iterable[JobRun]) -> GatheredCall | None:
        """Return a call for the runs that may still begin, or None if there are no such runs."""
        able = []
        now = now_s()
        for run in runs:
            if run.stopping is not None:
                continue  # its end was reported when it was stopped
            if now >= run.lease_end_s:
                run.stopping = Stop.LOST
                self._endings.end(run, None, None)
                continue
            run.has_begun = True
            able.append(run)
        if not able:
            return None
        call = GatheredCall(able, self._context_of)
        self._calls |= {run.token: call for run in able}
        return call

    async def _run_async(self, runs: list[JobRun]) -> None:
        call = self._begin(runs)
        if call is None:
            return
        call.task = asyncio.current_task()
        running_log.set(call.log if self._keeps_logs else None)
        arguments, first = [run.argument for run in call.runs], call.runs[0]
        try:
            with tracing.processing(first.name, first.job_id, first.attempt, first.headers):
                value = await first.handler.call(arguments, call.ctx)
        except asyncio.CancelledError as exc:
            self._ended(call, None, exc)
            raise
        except BaseException as exc:
            # Continue the worker whatever the handler raises, as in HandlerCalls.
            self._ended(call, None, exc)
        else:
            self._ended(call, value, None)

    def _run_sync(self, call: GatheredCall) -> Any:
        arguments, first = [run.argument for run in call.runs], call.runs[0]
        mark = running_log.set(call.log if self._keeps_logs else None)
        try:
            with tracing.processing(first.name, first.job_id, first.attempt, first.headers):
                return first.handler.call(arguments, call.ctx)
        finally:
            running_log.reset(mark)

    def _ended(self, call: GatheredCall, value: Any, exc: BaseException | None) -> None:
        for run in call.runs:
            self._calls.pop(run.token, None)
        ends: list[Any] = []
        if exc is None:
            try:
                ends = ends_of(call.runs[0].name, value, len(call.runs))
            except TypeError as wrong:
                exc = wrong
        if exc is not None:
            self._endings.end_together(call.runs, exc, call.log if self._keeps_logs else None)
            return
        self._endings.end_each(call.runs, ends)
