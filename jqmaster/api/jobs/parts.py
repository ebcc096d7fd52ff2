"""Partial results over HTTP. Workers send them, pushers fetch them, and people see them as a stream."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, Final, Self

import msgspec
from sse_starlette import ServerSentEvent

from jqmaster.api.encoding.answers import RawMsgpack, encode
from jqmaster.api.encoding.negotiation import Encoding
from jqmaster.api.http.endpoint import Call, Reply, StreamedAnswer
from jqmaster.api.http.event_stream import streamed
from jqmaster.api.http.query import query_error
from jqmaster.api.jobs.handlers import COME_AGAIN, MAX_WAIT_S, wait_of
from jqmaster.api.jobs.part_schemas import PartsRequest
from jqmaster.api.logs.handlers import entry_view, filter_of
from jqmaster.api.services import Services
from jqmaster.clock import wait_for_event
from jqmaster.domain.content.job_content import JobContent
from jqmaster.domain.content.readable import readable
from jqmaster.domain.jobs.parts import Part, PartPage, PartPosition
from jqmaster.domain.logs.page import NO_LOG, LinesPage, LogFilter
from jqmaster.errors import FieldError, TooLargeError, invalid
from jqmaster.service.jobs.parts import MIN_PAUSE_S
from jqmaster.service.jobs.reader import unknown_job

VALUES: Final = frozenset({"parts"})
# Seconds between `alive` messages, as in the stream of dashboards; see `live.PING_S`.
PING_S: Final = 15
RETRY_MS: Final = 2_000
# Interval at which a stream checks whether it must end. It ends when its caller is no longer admitted or the
# master stops.
CHECK_EVERY_S: Final = 3.0
# ID of the last event. If a browser reconnects with this ID, it learns that no event follows.
END: Final = "end"
# Maximum number of log lines that a stream reads at once.
MAX_LINES: Final = 1_000
LATE_PAUSE_S: Final = 0.5
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
    after, wait_s = _position(query.get("after", "0-0")), wait_of(query)
    job_id = call.path["job_id"]
    if not await call.services.reach.has_job(call.principal, job_id):
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


async def stream(call: Call) -> Reply | StreamedAnswer:
    query = call.query("after", "logs", "level", "attempt")
    last_id = call.fields.get(b"last-event-id", b"").decode("latin-1")
    if last_id == END:
        return Reply(204)
    after = _StreamPosition.of(last_id or query.get("after", "0-0"))
    logs = query.get("logs", "true")
    if logs not in ("true", "false"):
        raise query_error("logs", "true or false")
    wanted = filter_of(query)
    return await streamed(_events(call, after, wanted if logs == "true" else None), ping_s=PING_S)


@dataclass(slots=True)
class _StreamPosition:
    """The position of a client: the last partial result and the last log line that it has received."""

    parts: PartPosition
    line: int

    @classmethod
    def of(cls, text: str) -> Self:
        """Return the position in an event ID: the position of the partial results, followed by `.` and a line number
        if lines were also read."""
        parts, _, line = text.partition(".")
        if line and not (line.isascii() and line.isdigit() and len(line) < 16):
            parts = ""
        return cls(_position(parts), int(line or 0))

    def __str__(self) -> str:
        return f"{self.parts}.{self.line}" if self.line else str(self.parts)


async def _events(call: Call, position: _StreamPosition, lines: LogFilter | None) -> AsyncGenerator[bytes]:
    """Yield events as bytes until the job is over, the caller is no longer admitted, or the master stops."""
    services, job_id = call.services, call.path["job_id"]
    with services.feed.place(call.who):
        content = JobContent(call.content, (await services.jobs.view(job_id)).job)
        yield f"retry: {RETRY_MS}\n\n".encode()
        told = position.parts.attempt
        while not services.feed.is_ending:
            found, log = await _news(services, job_id, position, lines)
            events = []
            if found.attempt > told:
                told = found.attempt
                position.parts = max(position.parts, PartPosition(told, 0))
                events.append(_event("attempt", str(position), {"attempt": told}))
            for part in found.parts:
                position.parts = part.position
                events.append(_event("part", str(position), _view(part, _shown(part, content))))
            position.parts = found.end(position.parts)
            for entry in log.entries if log else ():
                position.line = entry.seq
                events.append(_event("log", str(position), entry_view(entry, content)))
            if log:
                position.line = log.next
            is_last = found.is_last and _is_complete(log)
            if is_last:
                events.append(_event("end", END, {"state": str(found.state), "attempt": found.attempt}))
            if events:
                yield b"".join(events)
            if is_last or not await call.is_admitted():
                return


async def _news(
    services: Services, job_id: str, position: _StreamPosition, lines: LogFilter | None
) -> tuple[PartPage, LinesPage | None]:
    """Return the partial results and log lines after a position. Wait until there are any, until the job is over,
    or for CHECK_EVERY_S seconds."""
    if lines is None:
        return await services.job_parts.page(job_id, position.parts, wait_s=CHECK_EVERY_S), None
    ends_at_s = time.monotonic() + CHECK_EVERY_S
    with services.job_parts.listening(job_id) as news:
        while True:
            news.clear()
            found = await services.job_parts.page(job_id, position.parts, wait_s=0, watch=True)
            log = await services.job_logs.page(job_id, position.line, limit=MAX_LINES, wanted=lines, wait_s=0)
            left_s = ends_at_s - time.monotonic()
            is_news = found.parts or log.entries or found.attempt > position.parts.attempt
            if is_news or left_s <= 0 or (found.is_last and _is_complete(log)):
                return found, log
            position.line = log.next
            # Wait only briefly after the job has ended. Its last lines may still arrive, but nothing signals
            # which line is the last.
            await wait_for_event(news, min(left_s, LATE_PAUSE_S) if found.is_last else left_s)
            await asyncio.sleep(MIN_PAUSE_S)


def _is_complete(log: LinesPage | None) -> bool:
    """Return whether the stream of a finished job may end. If there are no lines so far, the stream does not wait
    for lines."""
    return log is None or log.is_last or log.facts == NO_LOG


def _shown(part: Part, content: JobContent) -> RawMsgpack | None:
    value = content.part(part.value)
    return None if value is None else RawMsgpack(readable(value))


def _view(part: Part, value: RawMsgpack | None) -> dict[str, Any]:
    return {"attempt": part.position.attempt, "number": part.position.number, "value": value}


def _event(name: str, event_id: str, data: dict[str, Any]) -> bytes:
    text = encode(data, Encoding.JSON).decode()
    return ServerSentEvent(text, event=name, id=event_id, sep="\n").encode()


def _values(data: bytes) -> list[bytes]:
    """Return the encoded members of a list unchanged. Raise InvalidError."""
    try:
        values = [bytes(value) for value in _SPLITTER.decode(data)]
    except (msgspec.MsgspecError, RecursionError):
        values = []
    if not values:
        raise invalid([FieldError(("parts",), "must be a list with at least one member")])
    return values


def _position(text: str) -> PartPosition:
    position = PartPosition.parse(text)
    if position is None:
        raise query_error("after", "the ID of an event of the stream, or the `next` of an answer")
    return position
