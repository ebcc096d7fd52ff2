"""Decide what to report about each run that ends, and when."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, Protocol

from worker_sdk import forked
from worker_sdk.worker import outcomes
from worker_sdk.worker.descriptors import is_for_want_of_descriptors
from worker_sdk.worker.isolated import ProcessDiedError
from worker_sdk.worker.job_log import LogLines, running_log
from worker_sdk.worker.lease import now_s
from worker_sdk.worker.progress import RunReports
from worker_sdk.worker.registry import HandlerKind
from worker_sdk.worker.run import JobRun, Stop

logger = logging.getLogger(__name__)

# How long the report of a failed attempt is delayed until a master has accepted lines of its log.
LOG_PATIENCE_S: Final = 1.0
# If an attempt finds no free file descriptor, it is handed back without counting as a failure, up to this attempt
# number.
HAND_BACKS: Final = 3


class Settlements(Protocol):
    """The receiver of reports on jobs that ended."""

    @property
    def is_full(self) -> bool:
        """Return whether no more jobs should be started until some reports are delivered."""
        ...

    def put(self, job_id: str, token: str, fields: outcomes.Fields) -> None: ...

    def put_successes(self, ends: Iterable[tuple[str, str, Any]]) -> None:
        """Add reports of jobs that succeeded: tuples of ID, token and result."""
        ...


class Endings:
    """Ends runs. Use it only in the event loop.

    * `owed`: by token, the runs with an end that no master has confirmed yet.
    * `release`: frees the slots of runs without a running handler.
    * `on_no_descriptor`: called when a handler found no free descriptor.
    """

    def __init__(
        self,
        *,
        settlements: Settlements,
        reports: RunReports,
        owed: dict[str, JobRun],
        release: Callable[..., None],
        stop_grace_s: float,
        on_no_descriptor: Callable[[], None] = lambda: None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._settlements = settlements
        self._reports = reports
        self._owed = owed
        self._release = release
        self._stop_grace_s = stop_grace_s
        self._on_no_descriptor = on_no_descriptor
        # Whether this process is a fork of the worker, which must not continue any of its jobs.
        self.is_copy = False

    def end(self, run: JobRun, value: Any, exc: BaseException | None) -> None:
        """Report the end of a run, and free its slot. The handler has returned `value` or raised `exc`."""
        if self.is_copy:
            forked.end_copy()
        if exc is not None and self._saves_first(run, value, exc):
            return
        if exc is not None and self._fails_first(run, lambda: self.end(run, value, exc), exc):
            return
        if run.token in self._reports.told and self._tells_first(run, lambda: self.end(run, value, exc)):
            return
        self._release(run)
        if exc is None and run.stopping is None and not run.is_settled:
            run.is_settled = True
            if logger.isEnabledFor(logging.DEBUG):
                _log_end(run, "success")
            fields = outcomes.success(value)
            if self._reports.answered_s:
                fields = self._with_used(run, fields)
            self._settlements.put(run.job_id, run.token, fields)
            return
        if run.is_settled:
            if run.stopping in (Stop.TIMEOUT, Stop.CANCELED):
                logger.warning(
                    "%s (job %s) has ended after all; its slot is free again", run.name, run.job_id
                )
            return
        if run.stopping is Stop.HANDED_BACK and exc is None and run.handler.kind is not HandlerKind.ISOLATED:
            # The handler has finished although it was told to stop.
            self.settle(run, outcomes.success(value))
        elif run.stopping is not None:
            self.settle_stopped(run)
        elif run.failure is not None:
            self.settle(run, run.failure)

    def end_together(self, runs: Sequence[JobRun], exc: BaseException, log: LogLines | None) -> None:
        """Report the end of runs, and free their slots. Their common call has raised `exc`. The exception is judged and
        logged once."""
        failing = [run for run in runs if run.stopping is None and not run.is_settled]
        if failing and not is_for_want_of_descriptors(exc):
            first = failing[0]
            fields = self._of_exception(first, exc)
            if first.handler.seal is not None:
                log = None
            if level := outcomes.log_level(first.handler, exc, fields):
                mark = running_log.set(log)
                logger.log(level, "%s failed, for %d jobs together", first.name, len(failing), exc_info=exc)
                running_log.reset(mark)
            for run in failing:
                # A sealed error belongs to one job, so seal it again for each further job.
                is_own = run is not first and run.handler.seal is not None
                run.failure = self._of_exception(run, exc) if is_own else dict(fields)
        for run in runs:
            end = partial(self.end, run, None, exc)
            if run.failure is None or not self._logs_first(run, end):
                end()

    def end_each(self, runs: Sequence[JobRun], ends: Sequence[Any]) -> None:
        """Report the ends of runs that one call executed together, and free their slots. `ends`: a result or an
        exception for each run."""
        if self.is_copy:
            forked.end_copy()
        told, answered_s = self._reports.told, self._reports.answered_s
        succeeded: list[JobRun] = []
        results: list[tuple[str, str, Any]] = []
        for run, end in zip(runs, ends, strict=True):
            if isinstance(end, BaseException):
                self.end(run, None, end)
            elif run.stopping is not None or run.is_settled or run.token in told or run.token in answered_s:
                self.end(run, end, None)
            else:
                run.is_settled = True
                succeeded.append(run)
                results.append((run.job_id, run.token, end))
        if logger.isEnabledFor(logging.DEBUG):
            for run in succeeded:
                _log_end(run, "success")
        self._release(*succeeded)
        self._settlements.put_successes(results)

    def _saves_first(self, run: JobRun, value: Any, exc: BaseException) -> bool:
        """Return whether the end must wait until a checkpoint is saved: the position of an iteration, or the result of
        a step. The next attempt continues from there."""
        if run.ctx is None or run.is_settled or run.stopping not in (None, Stop.HANDED_BACK):
            return False
        if run.is_last_saved or (checkpoint := run.ctx.take_unsaved()) is None:
            return False
        run.is_last_saved = True
        saved = self._reports.save(run.token, checkpoint)
        # Continue even if no master saves the checkpoint: the next attempt then starts from the previous checkpoint.
        self._go_on_after(saved, self._stop_grace_s, lambda: self.end(run, value, exc))
        return True

    def _fails_first(self, run: JobRun, end: Callable[[], None], exc: BaseException) -> bool:
        """Judge and log the failure of a handler once. Return whether the end must wait until a master has log lines of
        this run. If so, `end` is called later."""
        if run.stopping is not None or run.is_settled or run.failure is not None:
            return False
        if is_for_want_of_descriptors(exc):
            self._on_no_descriptor()
            if run.attempt <= HAND_BACKS:
                # Hand the job back, because this process may be the cause. If the job itself opens too many files, its
                # later attempts fail.
                logger.warning(
                    "%s (job %s, attempt %d) is handed back: %s", run.name, run.job_id, run.attempt, exc
                )
                run.failure = dict(outcomes.HANDED_BACK)
                return False
        run.failure = fields = self._of_exception(run, exc)
        if level := outcomes.log_level(run.handler, exc, fields):
            log_failure(run, level, exc, ending=fields["type"])
        return self._logs_first(run, end)

    def _logs_first(self, run: JobRun, end: Callable[[], None]) -> bool:
        """Return whether the end must wait until a master has log lines of this run. In this case, `end` is called
        later.

        Masters accept lines of a run that has ended, even while the next attempt runs, if they know the run from
        earlier lines. An attempt that fails at once has sent no lines, and the next attempt may begin before they are
        sent.
        """
        patience_s = min(LOG_PATIENCE_S, self._stop_grace_s, (run.due_s - now_s()) / 2)
        if run.log is None or patience_s <= 0 or (sent := run.log.flush()) is None:
            return False
        self._go_on_after(sent, patience_s, end)
        return True

    def _tells_first(self, run: JobRun, end: Callable[[], None]) -> bool:
        """Return whether the end must wait until masters have the last progress of the job, because they ignore
        progress after the end. If so, `end` is called later."""
        if run.stopping is not None or run.is_settled or run.token not in self._reports.told:
            return False
        # Progress only informs people: waiting for it must not exceed the job's timeout or lease.
        patience_s = min(self._stop_grace_s, (run.due_s - now_s()) / 2)
        if patience_s <= 0 or (told := self._reports.flush(run.token)) is None:
            return False
        self._go_on_after(told, patience_s, end)
        return True

    def _go_on_after(self, reported: "Future[None]", patience_s: float, go_on: Callable[[], None]) -> None:
        """Call `go_on` once, when the report is answered or `patience_s` is over."""
        has_gone_on = False
        if self._loop.is_closed():
            go_on()
            return

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
            fields = outcomes.of_exception(run.handler, exc, run.attempt)
            return fields if run.handler.seal is None else run.handler.seal.sealed_failure(fields, run.job_id)
        except Exception:
            # The retry policy is code of the user. If it raises, report the end of the job anyway.
            logger.exception("the retry policy of %s failed", run.name)
            return outcomes.failure(f"{type(exc).__name__}, and its retry policy failed", should_retry=True)

    def end_isolated(self, run: JobRun, fields: Any, exc: BaseException | None) -> None:
        """Report the end of a run, and free its slot. Its process has reported `fields` or ended with `exc`."""
        if run.stopping is not None or (exc is not None and not isinstance(exc, ProcessDiedError)):
            self.end(run, None, exc)
            return
        if exc is not None:
            fields = outcomes.failure(str(exc), should_retry=True)
        # For an exception, the process has chosen the level at which to log it. All other failures are logged as
        # errors.
        level = fields.pop("log_level", logging.ERROR)
        has_failed = fields["type"] in ("failure", "discarded")
        if has_failed and level:
            error = fields["error"]
            text = (error and error.get("traceback")) or fields["message"]
            log_failure(run, level, text=text, ending=fields["type"])

        def settle() -> None:
            if not self._tells_first(run, lambda: self._isolated_settled(run, fields)):
                self._isolated_settled(run, fields)

        if not (has_failed and self._logs_first(run, settle)):
            settle()

    def _isolated_settled(self, run: JobRun, fields: outcomes.Fields) -> None:
        self.settle(run, fields)
        self.end(run, None, None)

    def settle(self, run: JobRun, fields: outcomes.Fields) -> None:
        """Report this end if no end was reported before. The slot stays occupied."""
        if not run.is_settled:
            run.is_settled = True
            if logger.isEnabledFor(logging.DEBUG):
                _log_end(run, fields["type"])
            if self._reports.answered_s:
                fields = self._with_used(run, fields)
            self._settlements.put(run.job_id, run.token, fields)
            self._reports.end(run.token, "the job has ended")

    def _with_used(self, run: JobRun, fields: outcomes.Fields) -> outcomes.Fields:
        """Return the report with the units that the attempt has used. An attempt that opened a challenge continues, so
        its estimate stays until it ends."""
        used = self._reports.take_used(run.token, run.deadline_s - run.timeout_s)
        return fields if fields["type"] == "challenged" else {**fields, **used}

    def settle_stopped(self, run: JobRun) -> None:
        """Report the end of a run that is stopped, according to the reason of the stop."""
        if (fields := fields_of_stop(run)) is not None:
            self.settle(run, fields)
        else:
            self.forget(run)

    def forget(self, run: JobRun) -> None:
        """Report nothing, because the job belongs to another worker now. But name a run that has begun in one more
        heartbeat. Otherwise, the masters would treat it as an offer that was never accepted, and start it again without
        counting the attempt."""
        run.is_settled = True
        self._reports.end(run.token, "the job is not this worker's any more")
        if run.is_named or not run.has_begun:
            self._owed.pop(run.token, None)


def fields_of_stop(run: JobRun) -> outcomes.Fields | None:
    """Return the report for the reason of the stop, or None if there is nothing to report."""
    match run.stopping:
        case Stop.TIMEOUT:
            return outcomes.timeout(run.timeout_s)
        case Stop.CANCELED:
            return outcomes.CANCELED
        case Stop.HANDED_BACK:
            return outcomes.HANDED_BACK
        case _:
            return None


def log_failure(
    run: JobRun, level: int, exc: BaseException | None = None, *, text: str = "", ending: str = "failure"
) -> None:
    # Write this to the log of the job, which masters keep. But they must not see the texts of a sealed job.
    mark = running_log.set(run.log if run.handler.seal is None else None)
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


def _log_end(run: JobRun, ending: str) -> None:
    # Keep this line out of the log of the job: this code may run in the asyncio task of its handler.
    mark = running_log.set(None)
    logger.debug("job %s (%s): attempt %d has ended: %s", run.job_id, run.name, run.attempt, ending)
    running_log.reset(mark)
