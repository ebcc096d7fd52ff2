"""Actions on many jobs over HTTP."""

from dataclasses import replace

from jqmaster.api.http.endpoint import Call, Reply
from jqmaster.api.jobs.action_schemas import JobActionRequest
from jqmaster.api.jobs.action_views import action_view
from jqmaster.api.jobs.views import job_summary


async def begin(call: Call) -> Reply:
    request = await call.read(JobActionRequest)
    requested = request.to_requested_action()
    if requested.filter is not None and requested.filter.text is not None:
        call.content.check_error_text(("filter", "text"))
    if requested.filter is not None and requested.filter.matcher is not None:
        call.content.check_matcher(requested.filter.matcher.document, ("filter", "matcher"))
    if requested.filter is not None:
        wanted = await call.services.failures.reader.of_group(requested.filter)
        requested = replace(requested, filter=wanted)
    if request.dry_run:
        counted = await call.services.bulk_actions.preview(requested)
        examples = [job_summary(job) for job in counted.examples]
        return Reply(200, {"count": counted.count, "is_exact": counted.is_exact, "examples": examples})
    return Reply(202, action_view(await call.services.bulk_actions.begin(requested, call.who), call.content))


async def list_actions(call: Call) -> Reply:
    call.query()
    return Reply(
        200,
        {"actions": [action_view(stored, call.content) for stored in await call.services.bulk_actions.all()]},
    )


async def get(call: Call) -> Reply:
    return Reply(200, action_view(await call.services.bulk_actions.get(call.path["action_id"]), call.content))


async def cancel(call: Call) -> Reply:
    return Reply(
        202,
        action_view(await call.services.bulk_actions.cancel(call.path["action_id"], call.who), call.content),
    )
