"""The audit log over HTTP."""

from typing import Any, Final

from jqmaster.api.http.endpoint import Call, Reply
from jqmaster.api.http.query import whole_number
from jqmaster.api.http.searches import search
from jqmaster.api.schemas import query_instant
from jqmaster.domain.content.content import ContentAccess
from jqmaster.domain.instant import iso_ms
from jqmaster.errors import FieldError, InvalidError
from jqmaster.service.identity.audit_sight import audit_sight
from jqmaster.store.identity.audit import LOGS, AuditEntry

MAX_PAGE: Final = 500


@search
async def list_entries(call: Call) -> Reply:
    query = call.query("limit", "cursor", "target", "log", "who", "since", "until", "after")
    limit = whole_number(query, "limit", default=50, least=1, most=MAX_PAGE)
    audit, is_shown = call.services.audit, audit_sight(call.known)
    if (after := query.get("after")) is not None:
        if others := query.keys() & {"cursor", "target", "log", "who", "since", "until"}:
            raise InvalidError(
                "the query is not valid",
                errors=[
                    FieldError(("query", name), "cannot be combined with after") for name in sorted(others)
                ],
            )
        page = await audit.after(after, limit=limit, is_shown=is_shown)
    else:
        log = query.get("log")
        if log is not None and log not in LOGS:
            rule = f"must be one of {', '.join(LOGS)}"
            raise InvalidError("the query is not valid", errors=[FieldError(("query", "log"), rule)])
        page = await audit.page(
            limit=limit,
            cursor=query.get("cursor"),
            target=query.get("target"),
            log=log,
            who=query.get("who"),
            since_ms=query_instant(query, "since"),
            until_ms=query_instant(query, "until"),
            is_shown=is_shown,
        )
    return Reply(
        200,
        {
            "entries": [_audit_view(entry, call.content) for entry in page.entries],
            "next_cursor": page.next_cursor,
            "follow_from": page.follow_from,
        },
    )


def _audit_view(entry: AuditEntry, access: ContentAccess) -> dict[str, Any]:
    """Return an `AuditEntryView`."""
    return {
        "id": entry.id,
        "log": entry.log,
        "at": iso_ms(entry.at_ms),
        "times": entry.times,
        "since": iso_ms(entry.since_ms or entry.at_ms),
        "who": entry.who,
        "action": entry.action,
        "target": entry.target,
        "before": access.audited(entry.action, entry.before),
        "after": access.audited(entry.action, entry.after),
    }
