"""Definitions over HTTP."""

import contextlib
import re
from datetime import datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

from jqmaster.api.definitions import views
from jqmaster.api.definitions.event_preview import newest_events
from jqmaster.api.definitions.schemas import (
    BackfillRequest,
    DefinitionPreviewRequest,
    DefinitionRequest,
    PauseDefinitionRequest,
)
from jqmaster.api.http.endpoint import Call, Reply
from jqmaster.api.http.preconditions import check_name, etag_header, precondition
from jqmaster.api.http.query import query_error, whole_number
from jqmaster.api.http.searches import search
from jqmaster.api.jobs.handlers import check_argument
from jqmaster.domain.definitions.definition import Kind, TimeTrigger
from jqmaster.domain.definitions.run import RunOutcome
from jqmaster.domain.definitions.schedule import Occurrence
from jqmaster.domain.definitions.time_zone import GapOrFold
from jqmaster.domain.instant import iso_ms, iso_or_none
from jqmaster.domain.jobs.job import JobState
from jqmaster.errors import NotFoundError
from jqmaster.service.definitions.documents import draft_of
from jqmaster.service.definitions.reader import DefinitionFilter, coming
from jqmaster.store.definitions.definitions import RunPosition

MAX_PAGE: Final = 500
MAX_LISTED_RUNS: Final = 100
_CURSOR: Final = re.compile(r"[0-9]{1,15}\.[0-9]{1,9}")


@search
async def list_definitions(call: Call) -> Reply:
    query = call.query("q", "state", "kind", "runs", "limit", "cursor")
    limit = whole_number(query, "limit", default=100, least=1, most=MAX_PAGE)
    state, kind = query.get("state"), query.get("kind")
    if state is not None and state not in set(DefinitionFilter):
        raise query_error("state", f"one of {', '.join(DefinitionFilter)}")
    if kind is not None and kind not in set(Kind):
        raise query_error("kind", f"one of {', '.join(Kind)}")
    page = await call.services.definitions.page(
        query.get("cursor", ""),
        limit,
        search=query.get("q", ""),
        condition=None if state is None else DefinitionFilter(state),
        kind=None if kind is None else Kind(kind),
        runs=whole_number(query, "runs", default=0, least=0, most=MAX_LISTED_RUNS),
    )
    return Reply(
        200,
        {
            "definitions": [views.definition_view(shown, call.content) for shown in page.definitions],
            "next_cursor": page.next_cursor,
        },
    )


async def get(call: Call) -> Reply:
    call.query()
    return await _shown(call, 200)


@search
async def why(call: Call) -> Reply:
    call.query()
    found = await call.services.definitions.skips(call.path["name"])
    job_why = None
    if found.unfinished and found.unfinished.job_state is not JobState.RUNNING:
        # The job may have been removed in the meantime.
        with contextlib.suppress(NotFoundError):
            answer = await call.services.why.why(found.unfinished.run.job_id, call.content)
            job_why = answer.verdicts[0].text if answer.verdicts else None
    return Reply(200, views.why_view(found, job_why))


async def put(call: Call) -> Reply:
    name = call.path["name"]
    demands = precondition(call)
    request = await call.read(DefinitionRequest)
    check_name(request.name, name)
    job = request.job.to_spec()
    check_argument(call, job, ("job",))
    _, is_new = await call.services.definition_editor.put(
        name,
        request.model_dump(),
        job,
        who=call.who,
        access=call.content,
        most=call.services.settings.max_definitions,
        demands=demands,
    )
    return await _shown(call, 201 if is_new else 200)


async def delete(call: Call) -> Reply:
    await call.services.definition_editor.delete(call.path["name"], call.who, precondition(call))
    return Reply(204)


async def pause(call: Call) -> Reply:
    request = await call.read(PauseDefinitionRequest)
    return await _enable(call, is_enabled=False, reason=request.reason)


async def resume(call: Call) -> Reply:
    return await _enable(call, is_enabled=True, reason="")


async def preview(call: Call) -> Reply:
    request = await call.read(DefinitionPreviewRequest)
    name, fields = request.name or "new", request.model_dump()
    definition = draft_of(name, fields, request.job.to_spec()) if request.job else draft_of(name, fields)
    if not isinstance(definition.trigger, TimeTrigger):
        return Reply(200, {"instants": [], "events": await newest_events(call, definition, request.count)})
    after_ms = request.from_ if request.from_ is not None else await call.services.store_time_ms()
    zone = definition.trigger.zone
    delay_ms = definition.delay_ms
    stored = await call.services.definition_editor.calendar_of(definition)
    found = coming(definition, after_ms, request.count, stored.calendar if stored else None)
    return Reply(200, {"instants": [_instant_view(one, zone, delay_ms) for one in found], "events": []})


async def run(call: Call) -> Reply:
    return Reply(201, {"id": await call.services.definition_editor.run(call.path["name"], call.who)})


async def backfill(call: Call) -> Reply:
    request = await call.read(BackfillRequest)
    done = await call.services.definition_editor.backfill(
        call.path["name"],
        request.from_,
        request.to,
        call.who,
        is_dry=request.dry_run,
        also_forgotten=request.also_forgotten,
    )
    view = {
        "due": done.due,
        "fired_before": done.fired_before,
        "forgotten": done.forgotten,
        "forgotten_until": None if done.forgotten_until_ms is None else iso_ms(done.forgotten_until_ms),
        "started": done.started,
    }
    return Reply(200, view)


@search
async def runs(call: Call) -> Reply:
    query = call.query("outcome", "limit", "cursor")
    limit = whole_number(query, "limit", default=100, least=1, most=MAX_PAGE)
    outcome = query.get("outcome")
    if outcome is not None and outcome not in set(RunOutcome):
        raise query_error("outcome", f"one of {', '.join(RunOutcome)}")
    cursor = query.get("cursor")
    if cursor is not None and not _CURSOR.fullmatch(cursor):
        raise query_error("cursor", "the next_cursor of the previous page")
    page = await call.services.definitions.runs(
        call.path["name"],
        None if cursor is None else RunPosition(*map(int, cursor.split("."))),
        limit,
        None if outcome is None else RunOutcome(outcome),
    )
    return Reply(
        200,
        {
            "runs": [views.run_view(one) for one in page.runs],
            "next_cursor": None if page.next_at is None else "{}.{}".format(*page.next_at),
        },
    )


async def _enable(call: Call, *, is_enabled: bool, reason: str) -> Reply:
    await call.services.definition_editor.enable(
        call.path["name"], is_enabled=is_enabled, reason=reason, who=call.who, demands=precondition(call)
    )
    return await _shown(call, 200)


async def _shown(call: Call, status: int) -> Reply:
    shown = await call.services.definitions.get(call.path["name"])
    return Reply(status, views.definition_view(shown, call.content), etag_header(shown.known.etag))


def _instant_view(occurrence: Occurrence, zone: ZoneInfo, delay_ms: int) -> dict[str, Any]:
    notes = []
    if occurrence.local is not None and occurrence.gap_or_fold is GapOrFold.SKIPPED:
        notes.append(f"{occurrence.local:%H:%M} does not exist on this day: the clocks are put forward")
    elif occurrence.local is not None and occurrence.gap_or_fold is GapOrFold.REPEATED:
        notes.append(f"{occurrence.local:%H:%M} occurs twice on this day: this is the first time")
    if delay_ms:
        notes.append(f"with {delay_ms / 1000:g} s of jitter")
    if occurrence.left_out:
        notes.append(f"skipped: calendar: {occurrence.left_out}")
    if occurrence.moved_from_ms is not None:
        origin = datetime.fromtimestamp(occurrence.moved_from_ms / 1000, zone)
        notes.append(f"moved from {origin:%Y-%m-%d}")
    local = datetime.fromtimestamp(occurrence.at_ms / 1000, zone)
    return {
        "due_at": iso_ms(occurrence.at_ms),
        "local": local.isoformat(timespec="seconds"),
        "note": "; ".join(notes) or None,
        "clock_change": str(occurrence.gap_or_fold) or None,
        "left_out": occurrence.left_out or None,
        "moved_from": iso_or_none(occurrence.moved_from_ms),
    }
