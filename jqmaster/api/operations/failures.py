"""Decisions about failure groups over HTTP, and the values in the jobs of a group."""

from jqmaster.api.http.endpoint import Call, Reply
from jqmaster.api.http.query import query_error
from jqmaster.api.http.searches import search
from jqmaster.api.operations.stats_schemas import AssignRequest, MergeRequest, ResolveRequest
from jqmaster.domain.matching.checks import MatcherError
from jqmaster.domain.matching.paths import Path, parse_path
from jqmaster.errors import after_it_was_done
from jqmaster.service.jobs.failures import ShownFailures
from jqmaster.service.operations.stats import failure_group_view

VALUE_FIELDS = ("argument", "headers")


async def assign(call: Call) -> Reply:
    request = await call.read(AssignRequest)
    return await _group(call, await _decide(call, request.assignee))


async def unassign(call: Call) -> Reply:
    return await _group(call, await _decide(call, None))


async def resolve(call: Call) -> Reply:
    request = await call.read(ResolveRequest)
    shown = await call.services.failures.triage.resolve(
        call.path["group_id"], request.version, who=call.who, access=call.content
    )
    return await _group(call, shown)


async def reopen(call: Call) -> Reply:
    shown = await call.services.failures.triage.reopen(
        call.path["group_id"], who=call.who, access=call.content
    )
    return await _group(call, shown)


async def merge(call: Call) -> Reply:
    request = await call.read(MergeRequest)
    shown = await call.services.failures.triage.merge(
        call.path["group_id"], request.into, who=call.who, access=call.content
    )
    return await _group(call, shown)


async def split(call: Call) -> Reply:
    shown = await call.services.failures.triage.split(
        call.path["group_id"], who=call.who, access=call.content
    )
    return await _group(call, shown)


@search
async def list_values(call: Call) -> Reply:
    found = await call.services.failures.values.of(call.path["group_id"], _path(call), call.content)
    return Reply(
        200,
        {
            "values": [{"value": value, "count": count} for value, count in found.values],
            "examined": found.examined,
            "without": found.without,
            "is_complete": found.is_complete,
            "distinct": found.distinct,
            "paths": list(found.paths),
        },
    )


async def _decide(call: Call, assignee: str | None) -> ShownFailures:
    return await call.services.failures.triage.assign(
        call.path["group_id"], assignee, who=call.who, access=call.content
    )


async def _group(call: Call, shown: ShownFailures) -> Reply:
    with after_it_was_done():
        return Reply(200, failure_group_view(shown, await call.services.store_time_ms()))


def _path(call: Call) -> Path:
    text = call.query("path").get("path")
    try:
        return parse_path(text, fields=VALUE_FIELDS)
    except MatcherError as error:
        raise query_error("path", f"the path of a value, such as argument.tenant ({error.msg})") from None
