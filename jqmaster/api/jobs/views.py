"""Jobs and their attempts as clients see them."""

from collections.abc import Sequence
from typing import Any, Final

from jqmaster.api.encoding.answers import RawMsgpack
from jqmaster.api.encoding.shown_values import MAX_SHOWN_BYTES, shown_value
from jqmaster.domain.content.content import ContentAccess
from jqmaster.domain.content.job_content import JobContent, shown_error_type
from jqmaster.domain.content.readable import decode_as_clients, readable, readable_members
from jqmaster.domain.instant import iso_ms, iso_or_none
from jqmaster.domain.jobs.job import Attempt, Cause, Job
from jqmaster.domain.jobs.predecessors import Links
from jqmaster.domain.jobs.progress import Progress
from jqmaster.domain.jobs.steps import JobStep
from jqmaster.domain.notices.webhook import shown_url
from jqmaster.net.link_template import links_of
from jqmaster.service.jobs.enqueue import Enqueued, EnqueuedBulk
from jqmaster.service.jobs.excerpts import Excerpt
from jqmaster.service.jobs.reader import JobDetail
from jqmaster.store.jobs.enqueue_outcomes import Conflict

_CONFLICT_FIELDS: Final = {Conflict.EXISTING: "duplicate", Conflict.REPLACED: "replaced"}


def enqueue_answer(answer: Enqueued) -> dict[str, Any]:
    """Return an `EnqueueAnswer`. It usually contains only the ID."""
    if answer.conflict is None:
        return {"id": answer.job_id}
    return {"id": answer.job_id, _CONFLICT_FIELDS[answer.conflict]: True}


def bulk_answer(answer: EnqueuedBulk) -> dict[str, Any]:
    """Return a `BulkAnswer`."""
    if not answer.conflicts:
        return {"ids": answer.ids}
    lists: dict[str, list[int]] = {"duplicates": [], "replaced": []}
    for index, conflict in answer.conflicts.items():
        lists["replaced" if conflict is Conflict.REPLACED else "duplicates"].append(index)
    return {"ids": answer.ids} | {field: indexes for field, indexes in lists.items() if indexes}


def job_summary(job: Job) -> dict[str, Any]:
    """Return a `JobSummary`."""
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
        "run_at": iso_or_none(job.due_at_ms),
        "started_at": iso_or_none(job.started_at_ms),
        "finished_at": iso_or_none(job.finished_at_ms),
        "expires_at": iso_or_none(job.expires_at_ms),
        "cause": None if job.cause is Cause.NONE else job.cause.name.lower(),
        "worker_id": job.worker_id or None,
        "tags": list(job.tags),
    }


def listed_job(job: Job, excerpt: Excerpt | None) -> dict[str, Any]:
    """Return a `ListedJob`."""
    shown = excerpt or Excerpt()
    return job_summary(job) | {
        "error": shown.error,
        "argument_excerpt": shown.argument,
        "worker_name": shown.worker_name,
        "progress": _progress_fields(shown.progress, shown.progress.message or None)
        if shown.progress
        else None,
    }


def job_view(
    detail: JobDetail,
    constraints: Sequence[str],
    access: ContentAccess,
    *,
    has_course: bool,
    link_templates: Sequence[str] = (),
) -> dict[str, Any]:
    """Return a `JobView`. `has_course`: whether the caller may see the history of the job, not only its state."""
    job, result = detail.job, detail.result
    content = JobContent(access, job)
    argument, headers = content.argument(), content.headers()
    return job_summary(job) | {
        "attempts": [attempt_view(attempt, content, access) for attempt in detail.attempts if has_course],
        "events": [_event_view(event) for event in detail.events if has_course],
        "links": _outside_links(job, link_templates) if has_course else [],
        "headers": headers,
        "requires": dict(job.requires) if job.requires else None,
        "headers_redacted": content.is_shown and headers != job.headers,
        "argument": shown_value(argument),
        "argument_bytes": len(job.argument),
        "argument_hidden": not content.is_shown,
        "erased": list(job.erased),
        "argument_redacted": content.is_shown and argument != job.argument,
        "has_result": result is not None,
        "result": _shown_result(content.result(result)) if result is not None else None,
        "result_hidden": result is not None and not content.is_shown,
        "constraints": list(constraints),
        "unique": _unique_view(job, content),
        "progress": _progress_view(detail.progress, content) if has_course else None,
        "steps": [_step_view(step, content) for step in detail.steps if has_course],
        "definition": {"name": job.origin.definition, "due_at": iso_ms(job.origin.due_at_ms)}
        if job.origin
        else None,
        "batch": job.batch,
        "callback_of": job.callback_of._asdict() if job.callback_of else None,
        "notify": {
            "url": shown_url(job.notify.url),
            "on": [str(state) for state in job.notify.on],
            "with_result": job.notify.with_result,
        }
        if job.notify and content.is_shown
        else None,
        **_links_view(job, detail.links if has_course else None),
    }


def _outside_links(job: Job, templates: Sequence[str]) -> list[dict[str, str]]:
    """Return the links of a job to other systems."""
    fields = {
        "job_id": job.id,
        "name": job.name,
        "attempt": job.attempt,
        "created_ms": job.created_at_ms,
        "finished_ms": job.finished_at_ms or "",
    }
    return [{"label": label, "url": url} for label, url in links_of(templates, fields)]


def _links_view(job: Job, links: Links | None) -> dict[str, Any]:
    """Return the fields of `JobView` about predecessors and dependents. `links`: None if the caller may see only
    the fields that were pushed."""
    after = job.after
    if links is None:
        after_view = after and {
            "when": str(after.when),
            "jobs": [{"id": one, "state": None, "pending": False} for one in after.jobs],
        }
        return {
            "after": after_view,
            "dependents": [],
            "dependents_count": 0,
            "revives": None,
            "skipped_by": None,
        }
    pending = set(links.pending)
    root = links.skipped_by
    return {
        "after": after
        and {
            "when": str(after.when),
            "jobs": [
                {"id": one, "state": state, "pending": one in pending}
                for one, state in links.predecessors.items()
            ],
        },
        "dependents": [{"id": one, "state": state} for one, state in links.dependents.items()],
        "dependents_count": links.dependents_count,
        # The handler sets this field if a retry may revive skipped jobs.
        "revives": None,
        "skipped_by": root and {"id": root.job_id, "state": root.state or None},
    }


def _progress_view(progress: Progress | None, content: JobContent) -> dict[str, Any] | None:
    """Return a `ProgressView`."""
    return None if progress is None else _progress_fields(progress, content.text(progress.message))


def _step_view(step: JobStep, content: JobContent) -> dict[str, Any]:
    """Return a `StepView`."""
    return {"name": content.text(step.name), "at": iso_ms(step.at_ms), "took_s": step.took_ms / 1000}


def _progress_fields(progress: Progress, message: str | None) -> dict[str, Any]:
    return {"fraction": progress.fraction, "message": message, "at": iso_ms(progress.at_ms)}


def _unique_view(job: Job, content: JobContent) -> dict[str, Any] | None:
    """Return a `UniqueView`."""
    unique = job.unique
    if unique is None:
        return None
    return {
        "key": content.unique_key(),
        "scope": str(unique.scope),
        "until": iso_or_none(unique.until_ms(job.created_at_ms)),
        "on_conflict": str(unique.on_conflict),
        "debounce": {
            "wait_s": unique.wait_ms / 1000,
            "max_s": unique.max_ms / 1000 if unique.max_ms else None,
        }
        if unique.is_debounce
        else None,
    }


def _shown_result(result: bytes | None) -> RawMsgpack | None:
    return result_view(result) if result is not None and len(result) <= MAX_SHOWN_BYTES else None


def result_view(result: bytes) -> RawMsgpack:
    """Return the result of the job in the form that the pusher gets."""
    try:
        decode_as_clients(result)
    except Exception:  # for broken bytes, each decoder raises different exceptions
        return RawMsgpack(readable_members(result))
    return RawMsgpack(result)


def attempt_view(attempt: Attempt, content: JobContent, access: ContentAccess) -> dict[str, Any]:
    """Return an `AttemptView`."""
    error = content.error(attempt)
    return {
        "attempt": attempt.attempt,
        "worker_id": attempt.worker_id,
        "started_at": iso_ms(attempt.started_at_ms),
        "finished_at": iso_or_none(attempt.finished_at_ms),
        "outcome": attempt.outcome,
        "message": content.message(attempt),
        "code": attempt.code,
        "error_type": shown_error_type(access, attempt),
        "error": None if error is None else RawMsgpack(readable(error)),
    }


def _event_view(event: Attempt) -> dict[str, Any]:
    return {
        "at": iso_ms(event.finished_at_ms),
        "event": event.outcome,
        "attempt": event.attempt,
        "worker_id": event.worker_id,
        "message": event.message,
    }
