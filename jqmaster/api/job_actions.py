"""Actions on many jobs over HTTP."""

from typing import Any

from jqmaster.api import views
from jqmaster.api.endpoint import Call, Reply
from jqmaster.api.job_action_schemas import JobActionRequest
from jqmaster.domain.instant import iso_ms
from jqmaster.domain.job_filter import JobFilter
from jqmaster.store.actions import StoredAction


async def begin(call: Call) -> Reply:
    request = await call.read(JobActionRequest)
    wish = request.to_wish()
    if request.dry_run:
        counted = await call.services.actions.preview(wish)
        examples = [views.job_summary(job) for job in counted.examples]
        return Reply(200, {"count": counted.count, "is_exact": counted.is_exact, "examples": examples})
    return Reply(202, action_view(await call.services.actions.begin(wish, call.who)))


async def list_actions(call: Call) -> Reply:
    call.query()
    return Reply(200, {"actions": [action_view(stored) for stored in await call.services.actions.all()]})


async def get(call: Call) -> Reply:
    return Reply(200, action_view(await call.services.actions.get(call.path["action_id"])))


async def cancel(call: Call) -> Reply:
    return Reply(202, action_view(await call.services.actions.cancel(call.path["action_id"], call.who)))


def action_view(stored: StoredAction) -> dict[str, Any]:
    """`JobActionView`."""
    action, progress = stored.action, stored.progress
    return {
        "id": action.id,
        "action": str(action.kind),
        "filter": None if action.filter is None else _filter_view(action.filter),
        "ids_count": stored.ids_count,
        "priority": action.priority,
        "rate_per_s": action.rate_per_s,
        "stop_at_failure_share": action.stop_at_failure_share,
        "state": str(progress.state),
        "matched": progress.matched,
        "looked_at": progress.looked_at,
        "done": progress.done,
        "refused": progress.refused,
        "failed_again": None if action.stop_at_failure_share is None else progress.failed_again,
        "by": action.by,
        "created_at": iso_ms(action.created_at_ms),
        "finished_at": iso_ms(progress.finished_at_ms) if progress.finished_at_ms else None,
        "message": progress.message,
    }


def _filter_view(wanted: JobFilter) -> dict[str, Any]:
    given = wanted.document()
    instants = ("created_after", "created_before", "finished_after", "finished_before")
    plain = ("state", "name", "tag", "worker", "q", "cause", "text", "failure_group")
    return {
        **{field: given.get(field) for field in plain},
        **{field: iso_ms(given[f"{field}_ms"]) if f"{field}_ms" in given else None for field in instants},
    }
