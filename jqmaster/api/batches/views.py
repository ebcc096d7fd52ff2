"""Views of batches."""

from collections.abc import Mapping, Sequence
from typing import Any

from jqmaster.api.jobs.views import job_summary
from jqmaster.domain.batches.batch import (
    ENDED,
    Batch,
    BatchCallback,
    BatchState,
    CallbackState,
    callback_job_id,
)
from jqmaster.domain.instant import iso_ms, iso_or_none
from jqmaster.domain.jobs.job import FINISHED, Job, JobState


def batch_view(batch: Batch, unfinished: Mapping[JobState, int] | None) -> dict[str, Any]:
    """Return a `BatchView`. `unfinished`: the number of unfinished jobs of the batch by state. None: nobody
    counted them."""
    known = unfinished or {}
    return {
        "id": batch.id,
        "state": str(batch.state),
        "counts": {
            "total": batch.total,
            "unfinished": batch.unfinished,
            **{str(state): known.get(state) for state in JobState if state not in FINISHED},
            **{str(state): batch.ended_as(state) for state in ENDED},
            "deleted": batch.deleted,
            "gone": batch.gone,
        },
        "batches": {
            "total": batch.children,
            "succeeded": batch.children_succeeded,
            "failed": batch.children_failed,
        },
        "description": batch.spec.description,
        "tags": list(batch.spec.tags),
        "callbacks": {str(callback): _callback_view(batch, callback) for callback in BatchCallback},
        "batch": batch.spec.parent,
        "created_at": iso_ms(batch.created_at_ms),
        "completed_at": iso_or_none(batch.completed_at_ms),
        "canceled_at": iso_or_none(batch.canceled_at_ms),
        "expires_at": None if batch.state is BatchState.COMPLETE else iso_or_none(batch.expires_at_ms),
    }


def why_view(batch: Batch, unfinished: Sequence[Job]) -> dict[str, Any]:
    """Return a `BatchWhy`. `unfinished`: the oldest jobs for which the batch waits."""
    return {
        "state": str(batch.state),
        "reasons": [{"code": code, "text": text} for code, text in _reasons(batch)],
        "jobs": [job_summary(job) for job in unfinished],
    }


def _reasons(batch: Batch) -> list[tuple[str, str]]:
    found = []
    if batch.state is BatchState.OPEN:
        found.append(("open", "It is not sealed: its pusher may add further jobs."))
    if batch.unfinished:
        found.append(("jobs", f"{batch.unfinished} of its {batch.total} jobs are not over."))
    if batch.children_unfinished:
        found.append(
            (
                "batches",
                f"{batch.children_unfinished} of the {batch.children} batches inside are not complete.",
            )
        )
    found += [
        ("callback", f"The job of {callback} is about to be enqueued by the leader.")
        for callback, state in batch.callbacks.items()
        if state is CallbackState.DUE
    ]
    waits = batch.callbacks.get(BatchCallback.SUCCESS) is CallbackState.WAITING
    if batch.state is BatchState.COMPLETE and waits:
        counts = {
            str(state): batch.ended_as(state)
            for state in (JobState.FAILED, JobState.CANCELED, JobState.SKIPPED)
        }
        counts |= {"deleted": batch.deleted, "in failed batches": batch.children_failed}
        bad = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
        found.append(
            ("failed", f"on_success waits until all members have succeeded: {bad or 'it was canceled'}.")
        )
    return found


def _callback_view(batch: Batch, callback: BatchCallback) -> dict[str, Any] | None:
    state = batch.callbacks.get(callback)
    if state is None:
        return None
    return {
        "name": batch.spec.callbacks[callback].name,
        "state": str(state),
        "job_id": callback_job_id(batch.id, callback),
    }
