"""Events over HTTP."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from jqmaster.api.encoding.envelopes import read_list, read_map
from jqmaster.api.encoding.fast_path import usual_event, usual_events
from jqmaster.api.encoding.validator import ScanLimits, map_header
from jqmaster.api.events import cloud_events, views
from jqmaster.api.events.cloud_events import ContentMode
from jqmaster.api.events.schemas import EventRequest
from jqmaster.api.http.endpoint import Call, Reply, check
from jqmaster.api.http.query import query_error, whole_number
from jqmaster.api.http.searches import search
from jqmaster.domain.events.event import Event
from jqmaster.domain.ids import new_id
from jqmaster.domain.matching.glob import compile_glob
from jqmaster.errors import FieldError, InvalidError, TooLargeError, invalid
from jqmaster.store.events.documents import StoredEvent
from jqmaster.store.events.events import EventPosition
from jqmaster.store.identity.audit import encode_entry

MAX_PAGE: Final = 500
# Maximum number of errors in an answer. Further errors would tell the caller nothing new.
MAX_ERRORS: Final = 50
PAYLOAD: Final = frozenset({"payload"})
_CURSOR: Final = re.compile(r"[0-9]{1,15}\.[0-9]{1,9}")
_LIST_KEY: Final = b"\xa6events"

_Usual = Callable[[msgspec.Raw, ScanLimits], Event | None]
_Parse = Callable[[Mapping[str, Any], tuple[str | int, ...]], Event]


async def send(call: Call) -> Reply:
    mode, limits = cloud_events.mode_of(call.fields), call.limits.scan
    if mode is ContentMode.BINARY:
        return await _one(call, await cloud_events.read_binary(call, limits))
    if mode is ContentMode.STRUCTURED:
        body = await cloud_events.read_json(call)
        return await _one(call, cloud_events.structured(read_map(body, cloud_events.DATA, limits=limits)))
    if mode is ContentMode.BATCHED:
        body = cloud_events.as_list(await cloud_events.read_json(call))
        return await _many(call, _parsed(call, body, cloud_events.DATA, cloud_events.structured))
    body = await call.body()
    header = map_header(body, 0)
    if header is not None and body.startswith(_LIST_KEY, header.pos):
        return await _many(
            call, _parsed(call, body, PAYLOAD, _plain, usual=usual_event, all_usual=usual_events)
        )
    event = usual_event(body, limits) or _plain(read_map(body, PAYLOAD, limits=limits), ())
    return await _one(call, event)


@search
async def list_events(call: Call) -> Reply:
    query = call.query("type", "source", "definition", "limit", "cursor")
    limit = whole_number(query, "limit", default=100, least=1, most=MAX_PAGE)
    cursor = query.get("cursor")
    if cursor is not None and not _CURSOR.fullmatch(cursor):
        raise query_error("cursor", "the next_cursor of the previous page")
    position = None if cursor is None else EventPosition(*map(int, cursor.split(".")))
    page = await call.services.events.page(position, limit, _filter(query))
    return Reply(
        200,
        {
            "events": [views.event_view(event, call.content) for event in page.events],
            "next_cursor": None if page.next_position is None else "{}.{}".format(*page.next_position),
        },
    )


async def get(call: Call) -> Reply:
    call.query()
    return Reply(200, views.event_view(await call.services.events.get(call.path["event_id"]), call.content))


async def replay(call: Call) -> Reply:
    event_id = call.path["event_id"]
    stored, received = await call.services.event_intake.replay(event_id)
    after = {"event_id": received.event_id, "event_type": stored.event.event_type}
    await call.services.audit_writer.write(
        encode_entry(who=call.who, action="event.replay", target=event_id, before=None, after=after)
    )
    return Reply(202, views.received_view(received))


async def _one(call: Call, event: Event) -> Reply:
    _check(call, event, ())
    return Reply(202, views.received_view(await call.services.event_intake.one(event, caller=call.principal)))


async def _many(call: Call, events: Sequence[Event]) -> Reply:
    received = await call.services.event_intake.many(events, caller=call.principal)
    return Reply(202, {"events": [views.received_view(one) for one in received]})


def _parsed(
    call: Call,
    body: bytes,
    raw_fields: frozenset[str],
    parse: _Parse,
    *,
    usual: _Usual = lambda data, limits: None,
    all_usual: Callable[[bytes, ScanLimits], list[Event] | None] | None = None,
) -> list[Event]:
    """Check all events of a list, and return them. Raise an InvalidError that names the first invalid events, up
    to a limit."""
    settings = call.services.settings
    found: list[Event] = []
    errors: list[FieldError] = []
    items = read_list(
        body,
        "events",
        raw_fields,
        usual,
        max_items=settings.max_bulk_jobs,
        limits=call.limits.scan,
        all_usual=all_usual,
    )
    for index, item in enumerate(items):
        try:
            event = item if isinstance(item, Event) else parse(item, ("events", index))
        except InvalidError as exc:
            errors += exc.errors
            if len(errors) >= MAX_ERRORS:
                break
            continue
        _check(call, event, ("events", index))
        if not errors:
            found.append(event)
    if errors:
        raise InvalidError(f"no event was accepted; {invalid(errors).detail}", errors=errors)
    return found


def _plain(fields: Mapping[str, Any], loc: tuple[str | int, ...]) -> Event:
    request = check(EventRequest, fields, loc)
    return Event(
        new_id(), request.event_type, request.payload, dedupe_key=request.dedupe_key or "", source=request.source,
        subject=request.subject, occurred_at_ms=request.occurred_at,
    )  # fmt: skip


def _check(call: Call, event: Event, loc: tuple[str | int, ...]) -> None:
    """Raise TooLargeError if the payload is too long."""
    limit = call.services.settings.max_event_bytes
    if len(event.payload) > limit:
        raise TooLargeError(
            f"the payload has more than {limit} bytes; keep the data in your own store and send its ID",
            code="payload_too_large",
            errors=[FieldError((*loc, "payload"), f"at most {limit} bytes")],
        )


def _filter(query: Mapping[str, str]) -> Callable[[StoredEvent], bool]:
    """Return whether an event matches all parts of the query."""
    tests: list[Callable[[StoredEvent], bool]] = []
    if (pattern := query.get("type")) is not None:
        try:
            fits = compile_glob(pattern)
        except ValueError as error:
            raise query_error("type", str(error)) from None
        tests.append(lambda stored: fits(stored.event.event_type))
    if (source := query.get("source")) is not None:
        tests.append(lambda stored: stored.event.source == source)
    if (definition := query.get("definition")) is not None:
        tests.append(lambda stored: any(one.definition == definition for one in stored.started))
    return lambda stored: all(test(stored) for test in tests)
