"""Batches over HTTP."""

import re
from collections.abc import Mapping
from typing import Any, Final

from jqmaster.api.batches.schemas import BatchRequest
from jqmaster.api.batches.views import batch_view, why_view
from jqmaster.api.http.endpoint import Call, Reply
from jqmaster.api.http.query import query_error, whole_number
from jqmaster.api.http.searches import search
from jqmaster.api.jobs.handlers import check_callbacks
from jqmaster.api.jobs.views import job_summary
from jqmaster.domain.batches.batch import BatchState
from jqmaster.domain.identity.access import Scope
from jqmaster.domain.ids import ID_LENGTH, is_id, new_id
from jqmaster.domain.jobs.job import JobState
from jqmaster.errors import after_it_was_done
from jqmaster.store.identity.audit import encode_entry

MAX_PAGE: Final = 500
MAX_EXAMPLES: Final = 10
_CURSOR: Final = re.compile(rf"[0-9]{{1,15}}\.[0-9a-f-]{{{ID_LENGTH}}}")


async def create(call: Call) -> Reply:
    request = await call.read(BatchRequest)
    spec = request.to_spec(request.id or new_id(), call.known.identity)
    check_callbacks(call, spec)
    is_new = await call.services.batches.create(spec, caller=call.principal)
    return Reply(201 if is_new else 200, {"id": spec.id})


@search
async def list_batches(call: Call) -> Reply:
    query = call.query("state", "tag", "q", "limit", "cursor")
    limit = whole_number(query, "limit", default=50, least=1, most=MAX_PAGE)
    state, cursor = query.get("state"), query.get("cursor")
    if state is not None and state not in set(BatchState):
        raise query_error("state", f"one of {', '.join(BatchState)}")
    if cursor is not None and not _CURSOR.fullmatch(cursor):
        raise query_error("cursor", "the next_cursor of the previous page")
    before = None
    if cursor is not None:
        created, _, batch_id = cursor.partition(".")
        before = int(created), batch_id
    page = await call.services.batches.page(
        before,
        limit,
        state=None if state is None else BatchState(state),
        tag=query.get("tag"),
        search=query.get("q", ""),
    )
    return Reply(
        200,
        {
            "batches": [batch_view(batch, None) for batch in page.batches],
            "next_cursor": None if page.next_at is None else "{}.{}".format(*page.next_at),
        },
    )


async def get(call: Call) -> Reply:
    call.query()
    return await _shown(call)


@search
async def jobs(call: Call) -> Reply:
    query = call.query("state", "limit", "cursor")
    limit = whole_number(query, "limit", default=50, least=1, most=MAX_PAGE)
    state, cursor = query.get("state"), query.get("cursor", "")
    if state is not None and state not in set(JobState):
        raise query_error("state", f"one of {', '.join(JobState)}")
    if cursor and not is_id(cursor):
        raise query_error("cursor", "the next_cursor of the previous page")
    page = await call.services.batches.members(
        call.path["batch_id"], cursor, limit, states=None if state is None else frozenset({JobState(state)})
    )
    return Reply(200, {"jobs": [job_summary(job) for job in page.jobs], "next_cursor": page.next_after})


async def why(call: Call) -> Reply:
    call.query()
    batch = (await call.services.batches.get(call.path["batch_id"])).batch
    return Reply(200, why_view(batch, await call.services.batches.examples(batch, MAX_EXAMPLES)))


async def seal(call: Call) -> Reply:
    await call.services.batches.seal(call.path["batch_id"], caller=call.principal)
    with after_it_was_done():
        await _write_down(call, "batch.seal")
        return await _shown(call)


async def cancel(call: Call) -> Reply:
    await call.services.batches.cancel(call.path["batch_id"], caller=call.principal)
    with after_it_was_done():
        await _write_down(call, "batch.cancel")
        return await _shown(call, 202)


async def retry(call: Call) -> Reply:
    failed = await call.services.batches.retry(call.path["batch_id"])
    with after_it_was_done():
        await _write_down(call, "batch.retry", {"failed": failed})
        return await _shown(call, 202)


async def _shown(call: Call, status: int = 200) -> Reply:
    shown = await call.services.batches.get(call.path["batch_id"])
    return Reply(status, batch_view(shown.batch, shown.unfinished))


async def _write_down(call: Call, action: str, after: Mapping[str, Any] | None = None) -> None:
    if call.may(Scope.OPERATE):
        entry = encode_entry(
            who=call.who, action=action, target=call.path["batch_id"], before=None, after=after
        )
        await call.services.audit_writer.write(entry)
