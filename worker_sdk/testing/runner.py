"""Run jobs in a test as a worker would, by a virtual clock."""

import asyncio
import contextvars
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, cast

from worker_sdk.errors import InvalidArgument
from worker_sdk.testing.lazy_worker import LazyWorker
from worker_sdk.testing.records import Run
from worker_sdk.wire import decode, encode
from worker_sdk.worker import outcomes
from worker_sdk.worker.context import Context, running_job
from worker_sdk.worker.gather import Gather, GatherContext, GatheredLog, ends_of
from worker_sdk.worker.lease import now_s
from worker_sdk.worker.registry import Handler

if TYPE_CHECKING:
    from worker_sdk.protocol import JobInput
    from worker_sdk.pusher.by_process import Pushers
    from worker_sdk.tasks.collection import Tasks
    from worker_sdk.worker.worker import Worker

MAX_DEFERRALS: Final = 1_000
MAX_DEPTH: Final = 50
_MAX_RETRY: Final = 5
_RETRY: Final = {"base_s": 1.0, "factor": 2.0, "max_s": 3600.0}

_depth: contextvars.ContextVar[int] = contextvars.ContextVar("depth", default=0)


class TooDeepError(RecursionError):
    """Tasks that run inline enqueue each other too deeply."""


class Runner:
    """Runs attempts of jobs.

    * `pushers`: the clients with which jobs enqueue other jobs.
    * `inputs_of`: returns the data about predecessors that a job gets.
    * `worker`: has the handlers of jobs that no task made.
    """

    def __init__(
        self,
        pushers: Any,
        inputs_of: "Callable[[Run], list[JobInput]]",
        worker: "Worker | Tasks | None" = None,
    ) -> None:
        self._inputs_of = inputs_of
        self._pushers = cast("Pushers", pushers)
        self.worker = LazyWorker(worker)

    def gather_of(self, run: Run) -> Gather | None:
        """Return the `Gather` of the jobs with this name, if they are gathered."""
        return self.worker.handler_of(run.job).gather

    def attempt_at(self, clock_s: float, runs: Sequence[Run]) -> None:
        """Run one attempt at a virtual time, of a single job or of several gathered jobs together."""
        for run in runs:
            run.at_s = clock_s
        self.attempt(*runs)

    def attempt(self, *runs: Run) -> None:
        """Run one attempt of a job, or of several gathered jobs together, from any thread."""
        handler = self.worker.handler_of(runs[0].job)
        self.worker.start()
        argument, ctx = self._begin_all(runs, handler)
        try:
            value = self._call(handler, argument, ctx)
            ends = [value] if handler.gather is None else ends_of(handler.name, value, len(runs))
        except TooDeepError:  # do not retry, which would take forever
            raise
        except (Exception, SystemExit) as exc:
            ends = [exc] * len(runs)
        self._end_all(runs, handler, ends)

    async def attempt_async(self, run: Run) -> None:
        """Run one attempt in the running event loop; a `def` runs in a thread, as in a worker."""
        handler = self.worker.handler_of(run.job)
        await self.worker.astart()
        argument, ctx = self._begin_all([run], handler)
        # Reset the variable after the job: this asyncio task belongs to the test, which continues.
        mark = running_job.set(ctx)
        try:
            if handler.is_coroutine:
                value = await handler.call(argument, ctx)
            else:
                value = await asyncio.to_thread(handler.call, argument, ctx)
            ends = [value] if handler.gather is None else ends_of(handler.name, value, 1)
        except TooDeepError:  # do not retry, which would take forever
            raise
        except (Exception, SystemExit) as exc:
            ends = [exc]
        finally:
            running_job.reset(mark)
        self._end_all([run], handler, ends)

    def _begin_all(self, runs: Sequence[Run], handler: Handler) -> tuple[Any, Context]:
        for run in runs:
            run.seal = handler.seal
        begun = [self._begin(run) for run in runs]
        if handler.gather is None:
            return begun[0]
        log = GatheredLog([run.log for run in runs])
        return [argument for argument, _ in begun], GatherContext([ctx for _, ctx in begun], log)

    def _end_all(self, runs: Sequence[Run], handler: Handler, ends: Sequence[Any]) -> None:
        for run, end in zip(runs, ends, strict=True):
            if isinstance(end, BaseException):
                self._failed(run, handler, end)
            else:
                self._succeeded(run, end)

    def _begin(self, run: Run) -> tuple[Any, Context]:
        job = run.job
        # Do not count a callback as an attempt: it continues the attempt.
        run.attempts += not run.callbacks
        if not run.callbacks:
            run.reports.parts.clear()
            run.reports.used.clear()
            run.reports.observed.clear()
            run.log.clear()
        timeout = job.get("timeout")
        ctx = Context(
            job_id=job["id"],
            name=job["name"],
            attempt=run.attempts,
            fence=run.attempts,
            headers=dict(job.get("headers") or {}),
            deadline_s=now_s() + (30.0 if timeout is None else float(timeout)),
            pushers=self._pushers,
            reports=run.reports,
            token="",
            checkpoint=run.reports.checkpoint,
            batch=job.get("batch"),
            callbacks=run.callbacks,
            challenges=run.challenges,
            inputs=self._inputs_of(run) if job.get("after") else (),
            log=run.log,
        )
        # Encode and decode the argument, as if it came from a master.
        return decode(encode(job.get("argument"))), ctx

    def _call(self, handler: Handler, argument: Any, ctx: Context) -> Any:
        if _has_loop():
            # Call the handler in a thread without an event loop, so that it does not take the test's loop for its
            # worker's.
            context, ending = contextvars.copy_context(), _Ending()
            thread = threading.Thread(
                target=context.run, args=(ending.of, lambda: self._call(handler, argument, ctx))
            )
            thread.start()
            thread.join()
            return ending.get()
        called = handler.call(argument, ctx)
        return self.worker.run_async(called) if handler.is_coroutine else called

    def _succeeded(self, run: Run, value: Any) -> None:
        run.result, run.exception, run.state = run.known_value(value, "result"), None, "succeeded"
        run.fields = outcomes.success(decode(encode(value)))

    def _failed(self, run: Run, handler: Handler, exc: BaseException) -> None:
        run.exception = exc
        run.fields = fields = outcomes.of_exception(handler, exc, run.attempts)
        if handler.seal is not None:
            run.fields = fields = handler.seal.sealed_failure(fields, run.job.id)
        match fields["type"]:
            case "discarded":
                run.state = "discarded"
            case "challenged":
                run.state = "awaiting_callback"
            case "deferred":
                run.attempts -= 1
                run.state = "scheduled"
                run.at_s += fields["retry_after"]
            case _ if fields["should_retry"] and run.attempts <= _max_retry(run.job):
                run.state = "retrying"
                run.at_s += max(_backoff_s(run.job, run.attempts), fields.get("retry_after") or 0.0)
            case _:
                run.state = "failed"


def original(run: Run, name: str) -> BaseException:
    """Return the exception that a failed job ended with, with its traceback."""
    exc = run.exception
    if isinstance(exc, outcomes.UnfitArgumentError):
        return InvalidArgument(name, exc.problems)
    assert exc is not None
    return exc


def count_nesting() -> Callable[[], None]:
    """Count a job that runs inside another job, and return a function that undoes the count."""
    depth = _depth.get() + 1
    if depth > MAX_DEPTH:
        raise TooDeepError(
            f"tasks enqueue one another more than {MAX_DEPTH} deep; record them, and run them with drain()"
        )
    mark = _depth.set(depth)
    return lambda: _depth.reset(mark)


def max_wait_s(job: Mapping[str, Any]) -> float:
    """Return the longest delay of a debounced job in seconds, counted from its first call."""
    most = (job.get("debounce") or {}).get("max_s")
    return math.inf if most is None else float(most)


def due_s(job: Mapping[str, Any]) -> float:
    """Return the seconds until the first attempt may start."""
    if (debounce := job.get("debounce")) is not None:
        return float(debounce["wait_s"])
    if (delay := job.get("delay")) is not None:
        return float(delay)
    if (run_at := job.get("run_at")) is not None:
        return max(0.0, seconds_until(run_at))
    return 0.0


def seconds_until(instant: str) -> float:
    return (datetime.fromisoformat(instant) - datetime.now(UTC)).total_seconds()


class _Ending:
    value: Any = None
    exception: BaseException | None = None

    def of(self, call: Callable[[], Any]) -> None:
        try:
            self.value = call()
        except BaseException as exc:
            self.exception = exc

    def get(self) -> Any:
        if self.exception is not None:
            raise self.exception
        return self.value


def _has_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _max_retry(job: Mapping[str, Any]) -> int:
    given = job.get("max_retry")
    return _MAX_RETRY if given is None else int(given)


def _backoff_s(job: Mapping[str, Any], retry: int) -> float:
    terms = {**_RETRY, **(job.get("retry") or {})}
    return float(min(terms["max_s"], terms["base_s"] * terms["factor"] ** (retry - 1)))
