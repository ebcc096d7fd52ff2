"""Jobs, failures and figures as Fireworq shows them."""

from collections.abc import Mapping
from typing import Any

import msgspec

from jqmaster.domain.content.content import ContentAccess
from jqmaster.domain.content.job_content import JobContent
from jqmaster.domain.fireworq.answer import kept_verdict
from jqmaster.domain.fireworq.numbers import number_of
from jqmaster.domain.fireworq.queue import FireworqQueue
from jqmaster.domain.instant import iso_ms
from jqmaster.domain.jobs.job import HOLDS_SLOTS, Attempt, Job
from jqmaster.service.fireworq.pushes import parts_of, timeout_s_of


def job_view(job: Job, access: ContentAccess) -> dict[str, Any]:
    """Return an unfinished job. Content that the caller may not see is left out."""
    return {
        **_head(job, access),
        "status": "grabbed" if job.state in HOLDS_SLOTS else "claimed",
        "created_at": iso_ms(job.created_at_ms),
        "next_try": iso_ms(job.due_at_ms or job.created_at_ms),
        "timeout": timeout_s_of(job),
        "fail_count": job.failures + job.losses,
        "max_retries": job.max_retry,
        "retry_delay": int(job.retry.base_s),
    }


def failure_view(job: Job, last: Attempt | None, access: ContentAccess) -> dict[str, Any]:
    """Return a failed job. A job fails for good at most once, so the failure has the number of the job."""
    head = _head(job, access)
    return {
        "id": head["id"],
        "job_id": head["id"],
        **{part: value for part, value in head.items() if part != "id"},
        "result": _result(job, last, access),
        "fail_count": job.failures + job.losses,
        "failed_at": iso_ms(job.finished_at_ms),
        "created_at": iso_ms(job.created_at_ms),
    }


def _head(job: Job, access: ContentAccess) -> dict[str, Any]:
    parts = parts_of(JobContent(access, job).argument())
    head: dict[str, Any] = {
        "id": number_of(job.id) or 0,
        "category": parts["category"] or next(iter(job.tags), ""),
        "url": parts["url"],
    }
    if parts["payload"]:
        head["payload"] = payload_shown(parts["payload"])
    return head


def payload_shown(text: str) -> Any:
    """Return a payload as JSON: the text itself if it is JSON, otherwise a JSON string of it."""
    try:
        msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return text
    return msgspec.Raw(text.encode())


def _result(job: Job, last: Attempt | None, access: ContentAccess) -> dict[str, Any]:
    message = None if last is None else JobContent(access, job).message(last)
    verdict, code = kept_verdict((last.code if last else None) or "", message or "")
    return {"status": verdict.status, "code": code, "message": verdict.message}


def stats_view(
    queue: FireworqQueue, counts: Mapping[str, Any], rates: Mapping[str, float], *, running: int, is_led: bool
) -> dict[str, Any]:
    """Return the figures of a queue.
    * `counts`: the counts of its jobs in the history.
    * `rates`: its rates in the last minute.
    """
    successes = counts["succeeded"] + counts["discarded"]
    completes = successes + counts["failed"]
    return {
        "total_pushes": counts["pushed"],
        "total_pops": completes + counts["retried"] + running,
        "total_successes": successes,
        "total_failures": counts["failed"] + counts["retried"],
        "total_permanent_failures": counts["failed"],
        "total_completes": completes,
        "total_elapsed": counts["elapsed_ms"],
        "pushes_per_second": round(rates["pushed"]),
        "pops_per_second": round(
            sum(rates[word] for word in ("succeeded", "discarded", "failed", "retried"))
        ),
        "outstanding_jobs": 0,
        "total_workers": queue.workers,
        "idle_workers": max(0, queue.workers - running),
        "active_nodes": int(is_led),
    }
