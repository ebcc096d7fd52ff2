"""A variant of uvicorn's request cycle that sends a short answer in one write."""

import functools
from collections.abc import Callable
from typing import Final, NamedTuple

from uvicorn._types import ASGISendEvent, HTTPResponseBodyEvent, HTTPResponseStartEvent
from uvicorn.protocols.http.httptools_impl import (
    HEADER_RE,
    HEADER_VALUE_RE,
    STATUS_LINE,
    RequestResponseCycle,
)

from jqmaster.live_value import LiveValue

# Header fields that change how an answer is written.
_UNUSUAL_FIELDS: Final = frozenset({b"connection", b"transfer-encoding"})


class EdgeCycle(RequestResponseCycle):
    """A request and its answer. If the answer's head contains the length and its body comes in one piece, head
    and body are sent in one write.

    Answers of the same kind share a cached head. uvicorn would build a new head for each answer, header by
    header."""

    # Whether the process is stopping; see `EdgeProtocol`.
    is_leaving = LiveValue(False)
    # Called when an answer begins while the process is stopping. Returns whether the connection must close after
    # this answer.
    is_last: Callable[[], bool] = bool
    _start: HTTPResponseStartEvent | None = None
    _head: "_Head | None" = None

    def note_disconnect(self) -> None:
        """Tell the application that the client has gone."""
        if not self.response_complete:
            self.disconnected = True
        self.message_event.set()

    async def send(self, message: ASGISendEvent) -> None:
        if self.transport.is_closing():
            # Do not write to a closing connection. Writing would raise an exception, and uvicorn would log it.
            self.note_disconnect()
            return
        start, self._start = self._start, None
        if message["type"] == "http.response.start" and start is None and not self.response_started:
            if self.is_leaving.current and self.is_last():
                self.keep_alive = False
            self._head = _usual_head(message["status"], (*self.default_headers, *message.get("headers", ())))
            if self._head is not None:
                self._start = message
                return
        if start is not None:
            if message["type"] == "http.response.body" and self._send_whole(message):
                return
            await super().send(start)
        await super().send(message)

    def _send_whole(self, message: HTTPResponseBodyEvent) -> bool:
        """Send the whole answer. Return False, and send nothing, if uvicorn must send the answer."""
        head, body = self._head, message.get("body", b"")
        if (
            head is None
            or len(body) != head.body_length
            or message.get("more_body", False)
            or self.scope["method"] == "HEAD"
            or self.disconnected
            or self.flow.write_paused
        ):
            return False
        self.response_started = self.response_complete = True
        self.waiting_for_100_continue = False
        end = b"\r\n" if self.keep_alive else b"connection: close\r\n\r\n"
        self.transport.write(b"".join((head.text, end, body)))
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()
        return True


class _Head(NamedTuple):
    """The head of an answer. `text` does not include the final empty line."""

    text: bytes
    body_length: int


@functools.lru_cache(maxsize=256)
def _usual_head(status: int, headers: tuple[tuple[bytes, bytes], ...]) -> _Head | None:
    """Return the head, or None if uvicorn must write the head."""
    names, lines, length = set[bytes](), [STATUS_LINE[status]], b""
    for field in headers:
        line = _usual_line(*field)
        if line is None:
            return None
        name = field[0].lower()
        names.add(name)
        lines.append(line)
        if name == b"content-length":
            length = field[1]
    if len(names) < len(headers) or not length.isdigit():
        return None
    return _Head(b"".join(lines), int(length))


# Cached because most header fields are the same in many answers. Only the ID of a job and the length differ.
@functools.lru_cache(maxsize=1024)
def _usual_line(name: bytes, value: bytes) -> bytes | None:
    """Return the line of a header field, or None if uvicorn must write the head."""
    known = name.lower()
    if known in _UNUSUAL_FIELDS or HEADER_RE.search(known) or HEADER_VALUE_RE.search(value):
        return None
    return b"%b: %b\r\n" % (known, value)
