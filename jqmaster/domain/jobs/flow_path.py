"""The jobs of a flow that decide how it ends: where it failed, and which chain of jobs took the time."""

from collections.abc import Mapping, Sequence
from graphlib import TopologicalSorter

from jqmaster.domain.jobs.job import FINISHED, Cause, Job, JobState

_STOPPED = (JobState.FAILED, JobState.CANCELED, JobState.SKIPPED)


def failures(jobs: Mapping[str, Job], before: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the IDs of the jobs at which a flow broke, in the order of their ends. `before`: the predecessors of each
    job. Jobs that were skipped because of another job are left out. A discarded job is included if another job was
    skipped because of it."""
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
    """Return the chain of jobs that determines when the flow ends, the first job first. Each job is the last to end
    among those for which the next job waited. If jobs still wait for the end of this chain, their longest chain is
    appended. Empty if no job has started."""
    started = {one: job for one, job in jobs.items() if job.started_at_ms}
    if not started:
        return []
    at = max(started, key=lambda one: (_end_ms(started[one]), -started[one].started_at_ms, one))
    path = [at]
    while near := [other for other in before.get(at, ()) if other in started and other not in path]:
        at = max(near, key=lambda one: (_end_ms(started[one]), one))
        path.append(at)
    return [*path[::-1], *_waiting_behind(path[0], jobs, before)]


def _waiting_behind(first: str, jobs: Mapping[str, Job], before: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the longest chain of jobs that have not started and wait for `first`."""
    waiting = {one for one, job in jobs.items() if not job.started_at_ms and job.state not in FINISHED}
    known = waiting | {first}
    links = {one: [other for other in before.get(one, ()) if other in known] for one in waiting}
    lengths, back = {first: 0}, dict[str, str]()
    for one in TopologicalSorter(links).static_order():
        if near := [other for other in links.get(one, ()) if other in lengths]:
            back[one] = max(near, key=lambda other: (lengths[other], other))
            lengths[one] = lengths[back[one]] + 1
    at = max(lengths, key=lambda one: (lengths[one], one))
    chain = []
    while at != first:
        chain.append(at)
        at = back[at]
    return chain[::-1]


def _end_ms(job: Job) -> float:
    return job.finished_at_ms if job.state in FINISHED else float("inf")


def _is_skipped_for_another(job: Job) -> bool:
    return job.state is JobState.SKIPPED and job.cause is Cause.DEPENDENCY
