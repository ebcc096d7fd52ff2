"""Domain objects as clients see them."""

from typing import Any, Final

from jqmaster.api.wire import RawMsgpack
from jqmaster.domain.instant import iso_ms
from jqmaster.domain.job import Attempt, Cause, Job
from jqmaster.domain.worker import Worker
from jqmaster.service.jobs import JobDetail

MAX_SHOWN_ARGUMENT_BYTES: Final = 64 * 1024


def _time(ms: int) -> str | None:
    return iso_ms(ms) if ms else None


def job_summary(job: Job) -> dict[str, Any]:
    """`JobSummary`."""
    return {
        "id": job.id,
        "name": job.name,
        "state": str(job.state),
        "priority": job.priority,
        "attempt": job.attempt,
        "failures": job.failures,
        "losses": job.losses,
        "max_retry": job.max_retry,
        "timeout": job.timeout_ms / 1000,
        "keep_result": job.keep_result,
        "created_at": iso_ms(job.created_at_ms),
        "run_at": _time(job.due_at_ms),
        "started_at": _time(job.started_at_ms),
        "finished_at": _time(job.finished_at_ms),
        "expires_at": _time(job.expires_at_ms),
        "cause": None if job.cause is Cause.NONE else job.cause.name.lower(),
        "worker_id": job.worker_id or None,
        "tags": list(job.tags),
    }


def job_view(detail: JobDetail, *, for_reader: bool) -> dict[str, Any]:
    """`JobView`. Who may not read learns what became of the job, and nothing of what it carries."""
    job = detail.job
    if not for_reader:
        return job_summary(job) | {
            "attempts": [],
            "headers": {},
            "argument": None,
            "argument_bytes": len(job.argument),
        }
    is_shown = len(job.argument) <= MAX_SHOWN_ARGUMENT_BYTES
    return job_summary(job) | {
        "attempts": [_attempt_view(attempt) for attempt in detail.attempts],
        "headers": dict(job.headers),
        "argument": RawMsgpack(job.argument) if is_shown else None,
        "argument_bytes": len(job.argument),
    }


def _attempt_view(attempt: Attempt) -> dict[str, Any]:
    return {
        "attempt": attempt.attempt,
        "worker_id": attempt.worker_id,
        "started_at": iso_ms(attempt.started_at_ms),
        "finished_at": _time(attempt.finished_at_ms),
        "outcome": attempt.outcome,
        "message": attempt.message,
        "error": None if attempt.error is None else RawMsgpack(attempt.error),
    }


def worker_view(worker: Worker, *, now_ms: int, stale_ms: int, breaker: str | None) -> dict[str, Any]:
    """`WorkerView`."""
    spec = worker.spec
    state = "fresh" if worker.is_fresh(now_ms, stale_ms) else "stale"
    if worker.is_detached:
        state = "detached"
    elif worker.is_draining:
        state = "draining"
    return {
        "id": worker.id,
        "url": spec.url,
        "names": list(spec.names),
        "max_jobs": spec.max_jobs,
        "busy": worker.busy,
        "node_id": spec.node_id,
        "pid": spec.pid,
        "labels": dict(spec.labels),
        "version": spec.version,
        "registered_at": iso_ms(worker.registered_at_ms),
        "last_seen_at": iso_ms(worker.last_seen_ms),
        "state": state,
        "breaker": breaker,
    }
