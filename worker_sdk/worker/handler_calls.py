"""Call the handlers of jobs: in the event loop, in threads, or in separate processes."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from worker_sdk import tracing
from worker_sdk.pusher.by_process import Pushers
from worker_sdk.worker.context import Context
from worker_sdk.worker.endings import Endings
from worker_sdk.worker.isolated_calls import IsolatedCalls
from worker_sdk.worker.job_log import RunLog, running_log
from worker_sdk.worker.lease import now_s
from worker_sdk.worker.progress import RunReports
from worker_sdk.worker.registry import HandlerKind
from worker_sdk.worker.run import JobRun, Stop
from worker_sdk.worker.threads import HandlerThreads

if TYPE_CHECKING:
    from worker_sdk.worker.challenges import Challenges
    from worker_sdk.worker.gathered_calls import GatheredCalls


class HandlerCalls:
    """The calls of handlers. Create the object and call `launch` in the event loop. `log_of`: returns the log for a job
    ID and a token. None: no logs are kept."""

    def __init__(
        self,
        *,
        threads: HandlerThreads,
        pushers: Pushers,
        reports: RunReports,
        challenges: "Challenges",
        child_access: tuple[Sequence[str], str | None],
        log_of: "Callable[[str, str], RunLog] | None",
        endings: Endings,
        has_room: Callable[[], bool],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._pushers = pushers
        self._reports = reports
        self._challenges = challenges
        self._log_of = log_of
        self._endings = endings
        self._isolated = IsolatedCalls(reports=reports, challenges=challenges, child_access=child_access)
        self._threads = threads
        self._has_room = has_room
        self._gathered: GatheredCalls | None = None

    def resize(self, max_jobs: int) -> None:
        """Run at most `max_jobs` handlers in threads at a time."""
        self._threads.resize(max_jobs)

    @property
    def thread_ids(self) -> list[int]:
        """Return the system's IDs of the threads of handlers."""
        return self._threads.native_ids

    @property
    def gathered(self) -> "GatheredCalls":
        """The calls that run many jobs at once. They are made at their first use."""
        if self._gathered is None:
            from worker_sdk.worker.gathered_calls import GatheredCalls

            self._gathered = GatheredCalls(
                endings=self._endings,
                threads=self._threads,
                context_of=self._context_of,
                has_room=self._has_room,
                keeps_logs=self._log_of is not None,
            )
        return self._gathered

    def close(self) -> None:
        if self._gathered is not None:
            self._gathered.close()
        self._threads.close()

    def launch(self, run: JobRun) -> None:
        """Start the handler of an accepted run. Its outcome goes to the `Endings`."""
        handler = run.handler
        run.open_log = self._log_of
        if handler.kind is HandlerKind.GATHERED:
            self.gathered.add(run)
            return
        if handler.takes_context:
            run.ctx = self._new_context(run)
        match handler.kind:
            case HandlerKind.ASYNC if self._loop.get_task_factory() is None:
                # Create the task without create_task, which does the same at a third more cost.
                run.task = asyncio.Task(self._run_async(run), loop=self._loop, name=handler.name)
            case HandlerKind.ASYNC:
                run.task = self._loop.create_task(self._run_async(run), name=handler.name)
            case HandlerKind.SYNC:
                run.has_begun = True
                self._threads.submit(
                    lambda: self._run_sync(run), lambda value, exc: self._endings.end(run, value, exc)
                )
            case HandlerKind.ISOLATED:
                run.has_begun = True
                self._threads.submit(
                    lambda: self._isolated.call(run),
                    lambda value, exc: self._endings.end_isolated(run, value, exc),
                )

    def _new_context(self, run: JobRun) -> Context:
        return Context(
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

    def _context_of(self, run: JobRun) -> Context:
        """Return the context of a gathered run, from any thread."""
        ctx: Context = run.__dict__.get("ctx") or run.__dict__.setdefault("ctx", self._new_context(run))
        # If the run is being stopped, tell the handler. A stop sets `stopping` before it reads the context, so at least
        # one of the two threads notices the other.
        if run.stopping is not None:
            ctx.cancelled.set()
        return ctx

    async def _run_async(self, run: JobRun) -> None:
        if self._is_too_late(run):
            self._endings.end(run, None, None)
            return
        run.has_begun = True
        # Do not reset this variable: this asyncio task runs no other job.
        running_log.set(run if self._log_of is not None else None)
        try:
            if tracing.is_on:
                with tracing.processing(run.name, run.job_id, run.attempt, run.headers):
                    value = await run.handler.call(run.argument, run.ctx)
            elif run.ctx is None:
                value = await run.handler.function(run.argument)
            else:
                value = await run.handler.function(run.argument, run.ctx)
        except asyncio.CancelledError as exc:
            self._endings.end(run, None, exc)
            raise
        except BaseException as exc:
            # Whatever a handler raises, its job has failed and the worker continues. sys.exit and KeyboardInterrupt
            # would otherwise end the loop.
            self._endings.end(run, None, exc)
        else:
            self._endings.end(run, value, None)

    @staticmethod
    def _is_too_late(run: JobRun) -> bool:
        """Return whether the run must not begin any more. If the event loop was blocked, the lease may have ended, and
        another worker may already run the job."""
        if run.stopping is None and now_s() >= run.lease_end_s:
            run.stopping = Stop.LOST
        return run.stopping is not None

    def _run_sync(self, run: JobRun) -> Any:
        if self._is_too_late(run):
            raise RuntimeError("stopped before it began")
        mark = running_log.set(run if self._log_of is not None else None)
        try:
            if tracing.is_on:
                with tracing.processing(run.name, run.job_id, run.attempt, run.headers):
                    return run.handler.call(run.argument, run.ctx)
            return run.handler.call(run.argument, run.ctx)
        finally:
            running_log.reset(mark)
