"""Incidents and marks for charts over HTTP."""

from typing import Any, Final

from jqmaster.api.http.endpoint import Call, Reply
from jqmaster.api.http.query import query_error, whole_number
from jqmaster.api.http.searches import search
from jqmaster.api.operations.timeline_schemas import AcknowledgeIncidentRequest
from jqmaster.api.schemas import query_instant
from jqmaster.domain.identity.access import Scope
from jqmaster.domain.instant import iso_ms, iso_or_none
from jqmaster.domain.operations.incidents import TimelineIncident, entry_text, title_of
from jqmaster.domain.operations.timeline import TimelineEntry
from jqmaster.errors import after_it_was_done
from jqmaster.service.operations.timeline import IncidentStory, Mark

MAX_PAGE: Final = 200
PAGE: Final = 50
_DAY_MS: Final = 86_400_000


@search
async def list_incidents(call: Call) -> Reply:
    limit = whole_number(call.query("limit"), "limit", default=PAGE, least=1, most=MAX_PAGE)
    incidents, kept_since_ms = await call.services.timeline.incidents(
        limit, sees_acts=call.may(Scope.OPERATE)
    )
    return Reply(
        200,
        {"incidents": [_incident_view(one) for one in incidents], "kept_since": iso_or_none(kept_since_ms)},
    )


@search
async def get_incident(call: Call) -> Reply:
    call.query()
    return Reply(200, _detail(await _story(call)))


async def acknowledge(call: Call) -> Reply:
    request = await call.read(AcknowledgeIncidentRequest)
    incident_id, timeline = call.path["incident_id"], call.services.timeline
    await timeline.acknowledge(incident_id, request.note, who=call.who)
    with after_it_was_done():
        return Reply(200, _detail(await _story(call)))


@search
async def list_marks(call: Call) -> Reply:
    query = call.query("since", "until")
    until_ms = query_instant(query, "until")
    since_ms = query_instant(query, "since")
    if since_ms is None:
        since_ms = (until_ms or await call.services.store_time_ms()) - _DAY_MS
    if until_ms is not None and until_ms < since_ms:
        raise query_error("until", "an instant that is not before since")
    found = await call.services.timeline.marks(
        since_ms, until_ms, call.content, sees_acts=call.may(Scope.OPERATE)
    )
    return Reply(200, {"marks": [_mark_view(mark) for mark in found.marks], "is_whole": found.is_whole})


async def _story(call: Call) -> IncidentStory:
    return await call.services.timeline.incident(
        call.path["incident_id"], call.content, sees_acts=call.may(Scope.OPERATE)
    )


def _detail(story: IncidentStory) -> dict[str, Any]:
    """Return a `TimelineIncidentDetail`."""
    peaks = story.peaks
    return _incident_view(story.incident) | {
        "nearby": [_mark_view(mark) for mark in story.nearby.marks],
        "nearby_is_whole": story.nearby.is_whole,
        "peaks": None
        if peaks is None
        else {
            "failed": peaks.failed,
            "retried": peaks.retried,
            "backlog": peaks.backlog,
            "oldest_wait_ms": peaks.oldest_wait_ms,
        },
    }


def _incident_view(incident: TimelineIncident) -> dict[str, Any]:
    """Return a `TimelineIncidentView`."""
    return {
        "id": incident.id,
        "title": title_of(incident.entries),
        "began_at": iso_ms(incident.began_ms),
        "ended_at": iso_or_none(incident.ended_ms),
        "entries": [_entry_view(one) for one in incident.entries],
        "acknowledged": [_entry_view(one) for one in incident.acknowledged],
    }


def _entry_view(entry: TimelineEntry) -> dict[str, Any]:
    """Return an `IncidentEntryView`."""
    return {
        "id": entry.id,
        "kind": str(entry.kind),
        "at": iso_ms(entry.at_ms),
        "since": iso_ms(entry.began_ms),
        "text": entry_text(entry),
        "subject": entry.subject,
        "label": entry.label,
        "before": entry.before,
        "by": entry.by,
        "count": entry.count,
        "cause": entry.cause,
    }


def _mark_view(mark: Mark) -> dict[str, Any]:
    """Return a `MarkView`."""
    return {
        "at": iso_ms(mark.at_ms),
        "until": iso_or_none(mark.until_ms),
        "kind": mark.kind,
        "action": mark.action or None,
        "is_new": mark.is_new,
        "changed": mark.changed,
        "name": mark.name or None,
        "text": mark.text,
        "subject": mark.subject,
        "by": mark.by,
        "reason": mark.reason,
        "matcher": mark.matcher,
        "incident_id": mark.incident_id or None,
        "entry": _entry_view(mark.entry) if mark.entry else None,
    }
