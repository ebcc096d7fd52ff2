"""The audit log over HTTP."""

from typing import Final

from jqmaster.api import views
from jqmaster.api.endpoint import Call, Reply
from jqmaster.api.jobs import whole_number

MAX_PAGE: Final = 500


async def list_entries(call: Call) -> Reply:
    query = call.query("limit", "cursor", "target")
    entries, next_cursor = await call.services.audit.page(
        limit=whole_number(query, "limit", default=50, least=1, most=MAX_PAGE),
        cursor=query.get("cursor"),
        target=query.get("target"),
    )
    return Reply(200, {"entries": [views.audit_view(entry) for entry in entries], "next_cursor": next_cursor})
