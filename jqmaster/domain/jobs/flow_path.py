"""The jobs of a flow that decide how it ends: where it failed, and which chain of jobs took the time."""

from collections.abc import Mapping, Sequence

from jqmaster.domain.jobs.job import FINISHED, Cause, Job, JobState

_STOPPED = (JobState.FAILED, JobState.CANCELED, JobState.SKIPPED)


def failures(jobs: Mapping[str, Job], before: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the IDs of the jobs at which a flow broke, in the order of their ends. `before`: the predecessors of each
    job. Jobs that were skipped because of another one are left out; a discarded job is among them if it skipped one."""
    needed = {
        other for one, job in jobs.items() if _is_skipped_for_another(job) for other in before.get(one, ())
    }
    found = [
        one
        for one, job in jobs.items()
        if (job.state in _STOPPED and not _is_skipped_for_another(job))
        or (job.state is JobState.DISCARDED and one in needed)
    ]
    return sorted(found, key=lambda one: (jobs[one].finished_at_ms, one))


def critical_path(jobs: Mapping[str, Job], before: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the chain of jobs that determined when the flow ended, or what it still waits for, the first job first:
    each job is the last of those for which the next one waited. Empty if no job has started."""
    started = {one: job for one, job in jobs.items() if job.started_at_ms}
    if not started:
        return []
    at = max(started, key=lambda one: (_end_ms(started[one]), -started[one].started_at_ms, one))
    path = [at]
    while near := [other for other in before.get(at, ()) if other in started and other not in path]:
        at = max(near, key=lambda one: (_end_ms(started[one]), one))
        path.append(at)
    return path[::-1]


def _end_ms(job: Job) -> float:
    return job.finished_at_ms if job.state in FINISHED else float("inf")


def _is_skipped_for_another(job: Job) -> bool:
    return job.state is JobState.SKIPPED and job.cause is Cause.DEPENDENCY
