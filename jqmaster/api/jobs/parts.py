"""Partial results over HTTP: sent by workers, fetched by pushers, and streamed to people."""

import contextlib
from collections.abc import AsyncGenerator
from typing import Any, Final

import msgspec
from sse_starlette import ServerSentEvent

from jqmaster.api.encoding.answers import RawMsgpack, encode
from jqmaster.api.encoding.negotiation import Encoding
from jqmaster.api.http.endpoint import Call, Reply, Streamed
from jqmaster.api.http.event_stream import streamed
from jqmaster.api.http.query import query_error
from jqmaster.api.jobs.handlers import COME_AGAIN, MAX_WAIT_S, may_touch, wait_of
from jqmaster.api.jobs.part_schemas import PartsRequest
from jqmaster.domain.job_content import JobContent
from jqmaster.domain.parts import Part, PartPlace
from jqmaster.domain.readable import readable
from jqmaster.errors import FieldError, TooLargeError, invalid
from jqmaster.service.jobs.reader import unknown_job

VALUES: Final = frozenset({"parts"})
# As in the stream of dashboards: see `live.PING_S`.
PING_S: Final = 15
RETRY_MS: Final = 2_000
# A stream looks this often whether it has to end: because its caller is let in no more, or the master stops.
CHECK_EVERY_S: Final = 3.0
# The ID of the last event: a browser that connects again with it is told that there is no more.
END: Final = "end"
_SPLITTER: Final = msgspec.msgpack.Decoder(list[msgspec.Raw])


async def save(call: Call) -> Reply:
    request = await call.read(PartsRequest, VALUES)
    worker_id = call.path["worker_id"]
    await call.services.owners.check(worker_id, call.known)
    values = _values(request.parts)
    limit = call.services.settings.max_parts
    if len(values) > limit:
        raise TooLargeError(f"more than {limit} parts", code="too_many_parts")
    await call.services.job_parts.save(
        worker_id, request.job_id, request.token, first=request.first, values=values
    )
    return Reply(200, {"accepted": len(values)})


async def page(call: Call) -> Reply:
    query = call.query("after", "wait")
    after, wait_s = _place(query.get("after", "0-0")), wait_of(query)
    job_id = call.path["job_id"]
    if not await may_touch(call, job_id):
        raise unknown_job(job_id)
    with call.services.waiting.take() if wait_s > 0 else contextlib.nullcontext(True) as has_place:
        found = await call.services.job_parts.page(
            job_id, after, wait_s=min(wait_s, MAX_WAIT_S) if has_place else 0.0
        )
    return Reply(
        200,
        {
            "state": str(found.state),
            "attempt": found.attempt,
            "parts": [_view(part, RawMsgpack(readable(part.value))) for part in found.parts],
            "next": str(found.end(after)),
            "is_last": found.is_last,
        },
        () if has_place else COME_AGAIN,
    )


async def stream(call: Call) -> Reply | Streamed:
    query = call.query("after")
    last_id = call.fields.get(b"last-event-id", b"").decode("latin-1")
    if last_id == END:
        return Reply(204)
    after = _place(last_id or query.get("after", "0-0"))
    return await streamed(_events(call, after), ping_s=PING_S)


async def _events(call: Call, after: PartPlace) -> AsyncGenerator[bytes]:
    """Yield events as bytes until the job is over, the caller is let in no more, or the master stops."""
    services, job_id = call.services, call.path["job_id"]
    with services.feed.place():
        content = JobContent(call.content, (await services.jobs.view(job_id)).job)
        yield f"retry: {RETRY_MS}\n\n".encode()
        told = after.attempt
        while not services.feed.is_ending:
            found = await services.job_parts.page(job_id, after, wait_s=CHECK_EVERY_S)
            events = []
            if found.attempt > told:
                told = found.attempt
                events.append(_event("attempt", f"{told}-0", {"attempt": told}))
            events += [
                _event("part", str(part.place), _view(part, _shown(part, content))) for part in found.parts
            ]
            after = found.end(after)
            if found.is_last:
                events.append(_event("end", END, {"state": str(found.state), "attempt": found.attempt}))
            if events:
                yield b"".join(events)
            if found.is_last or not await call.is_admitted():
                return


def _shown(part: Part, content: JobContent) -> RawMsgpack | None:
    value = content.part(part.value)
    return None if value is None else RawMsgpack(readable(value))


def _view(part: Part, value: RawMsgpack | None) -> dict[str, Any]:
    return {"attempt": part.place.attempt, "number": part.place.number, "value": value}


def _event(name: str, event_id: str, data: dict[str, Any]) -> bytes:
    text = encode(data, Encoding.JSON).decode()
    return ServerSentEvent(text, event=name, id=event_id, sep="\n").encode()


def _values(data: bytes) -> list[bytes]:
    """Return the members of an encoded list as they came. Raise InvalidError."""
    try:
        values = [bytes(value) for value in _SPLITTER.decode(data)]
    except (msgspec.MsgspecError, RecursionError):
        values = []
    if not values:
        raise invalid([FieldError(("parts",), "must be a list that is not empty")])
    return values


def _place(text: str) -> PartPlace:
    place = PartPlace.parse(text)
    if place is None:
        raise query_error("after", "an ID of the stream, or `next` of an answer")
    return place
