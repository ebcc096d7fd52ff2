"""Order jobs in the test kit by their option `after`, as a master does."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from worker_sdk.errors import RefusedError
from worker_sdk.pusher.after import in_order, predecessors_of
from worker_sdk.tasks.task import TaskJob
from worker_sdk.testing.records import Run
from worker_sdk.wire import encode

if TYPE_CHECKING:
    from worker_sdk.protocol import JobInput

FINISHED_AT: Final = "2000-01-01T00:00:00.000Z"
# Maximum total size, in bytes, of the results of predecessors that a job receives.
MAX_INPUT_BYTES: Final = 1024 * 1024
_WITH_RESULT: Final = ("succeeded", "failed")


class KeptPredecessors:
    """The predecessors of the jobs in one recording. `runs`: all jobs of the recording, by ID."""

    def __init__(self, runs: Mapping[str, Run]) -> None:
        self._runs = runs
        # By predecessor, the jobs that wait for it or have waited for it.
        self._dependents: dict[str, list[Run]] = {}
        self._known_as: dict[str, str] = {}

    def checked(self, jobs: Sequence[TaskJob[Any]]) -> list[int]:
        """Return the positions of the jobs of one push, each after its predecessors. Raise RefusedError as a master
        does, for jobs that would wait for each other, and for predecessors that are unknown or did not succeed."""
        ordered, cyclic = in_order(jobs)
        if cyclic:
            rule = "the job would wait for itself, directly or through other jobs of this push"
            detail = f"{len(cyclic)} jobs would wait for each other forever; no job was accepted"
            raise _refused(422, "invalid", detail, [(n, rule) for n in cyclic])
        inside = {job.id for job in jobs}
        for n, job in enumerate(jobs):
            for job_id in predecessors_of(job) if job.id not in self._runs else ():
                if job_id not in inside and job_id not in self._runs:
                    rule = f"no job has the ID {job_id}"
                    raise _refused(422, "unknown_predecessor", rule, [(n, rule)])
                one = self._runs.get(job_id)
                if one is not None and one.is_over and not _is_met(job, one):
                    rule = f"job {job_id} is over and did not succeed"
                    raise _refused(409, "predecessor_over", rule, [(n, rule)])
        return ordered

    def join(self, run: Run) -> None:
        """Let a new job wait for its predecessors."""
        for predecessor in self._predecessors(run):
            self._dependents.setdefault(predecessor.job.id, []).append(run)
            if not predecessor.is_over:
                predecessor.is_awaited = True
                run.state = "awaiting_jobs"

    def _predecessors(self, run: Run) -> list[Run]:
        return [self._known(job_id) for job_id in predecessors_of(run.job)]

    def _known(self, job_id: str) -> Run:
        """Return a job. Raise RefusedError if the job was not recorded because another job holds its uniqueness key."""
        known_id = self._known_as.get(job_id, job_id)
        if known_id not in self._runs:
            rule = f"no job has the ID {job_id}"
            raise _refused(422, "unknown_predecessor", rule, [])
        return self._runs[known_id]

    def note_same(self, job_id: str, known_id: str) -> None:
        """Record that an idempotency key led to an earlier job, which replaces the new job in the rest of the push."""
        self._known_as[job_id] = known_id

    def ended(self, run: Run) -> list[Run]:
        """Release or skip the dependents of a job that has ended. Return them, including indirect ones."""
        changed: list[Run] = []
        # The loop appends the dependents that it skips, so that it handles their dependents as well.
        over = [run]
        for one in over:
            for dependent in self._dependents.get(one.job.id, ()):
                if dependent.state != "awaiting_jobs":
                    continue
                if not _is_met(dependent.job, one):
                    dependent.state, dependent.skipped_by = (
                        "skipped",
                        one.skipped_by or (one.job.id, one.state),
                    )
                    changed.append(dependent)
                    over.append(dependent)
                elif all(other.is_over for other in self._predecessors(dependent)):
                    dependent.state = dependent.first_state
                    changed.append(dependent)
        return changed

    def revive(self, run: Run) -> list[Run]:
        """Let the jobs that were skipped because of a retried job wait again. Return them."""
        # The loop appends the dependents that wait again, so that it handles their dependents as well.
        again = [run]
        for one in again:
            for dependent in self._dependents.get(one.job.id, ()):
                if dependent.state == "skipped" and dependent.skipped_by and self._may_wait(dependent):
                    dependent.state, dependent.skipped_by = "awaiting_jobs", None
                    one.is_awaited = True
                    again.append(dependent)
        return again[1:]

    def _may_wait(self, run: Run) -> bool:
        return all(not one.is_over or _is_met(run.job, one) for one in self._predecessors(run))

    def inputs_of(self, run: Run) -> "list[JobInput]":
        """Return the data about the predecessors of a job that a worker gets."""
        left = MAX_INPUT_BYTES
        inputs: list[JobInput] = []
        for job_id, one in zip(predecessors_of(run.job), self._predecessors(run), strict=True):
            result = _result_of(one)
            size = 0 if result is None else len(encode(result))
            is_given = 0 < size <= left
            left -= size if is_given else 0
            inputs.append(
                {
                    "job_id": job_id,
                    "state": one.state,
                    "result": result if is_given else None,
                    "omitted": None if is_given else "too_large" if size else "not_kept",
                }
            )
        return inputs

    def view(self, run: Run) -> dict[str, Any]:
        """Return the fields of a job that show its predecessors and its dependents."""
        after = run.job.get("after")
        return {
            "after": after
            and {
                "when": after["when"],
                "jobs": [
                    {"id": one.job.id, "state": one.state, "pending": not one.is_over}
                    for one in self._predecessors(run)
                ],
            },
            "dependents": [
                {"id": one.job.id, "state": one.state} for one in self._dependents.get(run.job.id, ())
            ],
            "skipped_by": run.skipped_by and {"id": run.skipped_by[0], "state": run.skipped_by[1]},
        }


def _refused(status: int, code: str, detail: str, faults: Sequence[tuple[int, str]]) -> RefusedError:
    errors = [{"loc": ["jobs", n, "after"], "msg": rule} for n, rule in faults]
    return RefusedError(status, {"code": code, "detail": detail, "errors": errors})


def _is_met(job: Mapping[str, Any], predecessor: Run) -> bool:
    """Return whether a predecessor that is over lets a job run."""
    return predecessor.state == "succeeded" or job["after"]["when"] == "finished"


def _result_of(run: Run) -> Mapping[str, Any] | None:
    if run.fields is None or run.state not in _WITH_RESULT or not run.keeps_result:
        return None
    return {"finished_at": FINISHED_AT, **run.fields}
