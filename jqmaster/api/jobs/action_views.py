"""Actions on many jobs as clients see them."""

from typing import Any

from jqmaster.domain.content.content import ContentAccess
from jqmaster.domain.instant import iso_ms, iso_or_none
from jqmaster.domain.jobs.job_filter import JobFilter
from jqmaster.store.operations.bulk_actions import StoredAction


def action_view(stored: StoredAction, access: ContentAccess) -> dict[str, Any]:
    """Return a `JobActionView`."""
    action, progress = stored.action, stored.progress
    return {
        "id": action.id,
        "action": str(action.kind),
        "filter": None if action.filter is None else _filter_view(action.filter, access),
        "ids_count": stored.ids_count,
        "priority": action.priority,
        "rate_per_s": action.rate_per_s,
        "stop_at_failure_share": action.stop_at_failure_share,
        "at_most": action.at_most,
        "state": str(progress.state),
        "matched": progress.matched,
        "looked_at": progress.looked_at,
        "done": progress.done,
        "refused": progress.refused,
        "failed_again": None if action.stop_at_failure_share is None else progress.failed_again,
        "by": action.by,
        "created_at": iso_ms(action.created_at_ms),
        "finished_at": iso_or_none(progress.finished_at_ms),
        "message": progress.message,
    }


def _filter_view(wanted: JobFilter, access: ContentAccess) -> dict[str, Any]:
    given = access.filter(wanted.document())
    instants = ("created_after", "created_before", "finished_after", "finished_before")
    plain = (
        "state",
        "name",
        "tag",
        "batch",
        "worker",
        "q",
        "cause",
        "text",
        "failure_group",
        "matcher",
        "min_attempt",
    )
    return {
        **{field: given.get(field) for field in plain},
        **{field: iso_ms(given[f"{field}_ms"]) if f"{field}_ms" in given else None for field in instants},
        **{
            field: given[f"{field}_ms"] / 1000 if f"{field}_ms" in given else None
            for field in ("min_duration", "max_duration")
        },
    }
