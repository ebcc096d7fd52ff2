"""Call handlers in separate processes, and pass on their reports."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from worker_sdk import tracing
from worker_sdk.worker.isolated import IsolatedProcess
from worker_sdk.worker.lease import now_s
from worker_sdk.worker.observations import ObservedRoom
from worker_sdk.worker.outcomes import Fields
from worker_sdk.worker.progress import RunReports
from worker_sdk.worker.run import JobRun, Stop

if TYPE_CHECKING:
    from worker_sdk.worker.challenges import Challenges


class IsolatedCalls:
    """Calls isolated handlers. Use it only from the threads that wait for the processes. `child_access`: masters and
    token for pushes of the handler."""

    def __init__(
        self, *, reports: RunReports, challenges: "Challenges", child_access: tuple[Sequence[str], str | None]
    ) -> None:
        self._reports = reports
        self._challenges = challenges
        self._child_access = child_access

    def call(self, run: JobRun) -> Fields:
        """Run the handler to its end. Return the report, which is empty if the run was stopped. Raise ProcessDiedError
        if the process ended without a report."""
        with tracing.processing(run.name, run.job_id, run.attempt, run.headers) as headers:
            if run.handler.around is None:
                return self._await_process(run, headers)
            assert run.ctx is not None
            fields: Fields = run.handler.around(run.ctx, lambda: self._await_process(run, headers))
            return fields

    def _await_process(self, run: JobRun, headers: Mapping[str, str]) -> Fields:
        """Wait for the process in this thread, and kill the process at its timeout, even if the event loop is
        blocked."""
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
        if "used" in report:
            self._reports.add_used(run.token, report["used"])
            return
        if "observed" in report:
            self._reports.observe(run.token, ObservedRoom(**report["observed"]))
            return
        if "part" in report:

            def report_saved(done: "Future[None]") -> None:
                error = done.exception()
                process.saved(report["number"], None if error is None else str(error))

            self._reports.emit(run.job_id, run.token, report["part"], run.deadline_s).add_done_callback(
                report_saved
            )
            return
        if "checkpoint" not in report:
            self._reports.add_progress(run.token, report["fraction"], report["message"])
            return

        def checkpoint_saved(saved: "Future[None]") -> None:
            error = saved.exception()
            process.saved(report["number"], None if error is None else str(error))

        self._reports.save(run.token, report["checkpoint"]).add_done_callback(checkpoint_saved)
