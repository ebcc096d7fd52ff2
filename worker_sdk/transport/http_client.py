"""An HTTP/1.1 client for small requests and answers over kept connections.

A general-purpose client needs over three times the CPU time for a call, which delays each job that arrives alone.
"""

import asyncio
import contextlib
import functools
import http.client
import ssl
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar, cast
from urllib.parse import urlsplit

import httptools

from worker_sdk import forked
from worker_sdk.transport.answer_bodies import SMALL_BODY_BYTES, BodyLimit, BodyRoom, ReceivedBody
from worker_sdk.transport.call_faults import fault_text

# How long a kept connection may have been idle when it is used again. After a longer time, a proxy may have forgotten
# it.
MAX_IDLE_S: Final = 15.0
_MAX_HEAD_BYTES: Final = 64 * 1024
# A body is written in pieces of this size, because encrypting a large body at once would block the event loop.
_PIECE_BYTES: Final = 256 * 1024
_NEVER_WITH_BODY: Final = frozenset({204, 304})

ProtocolT = TypeVar("ProtocolT", bound=asyncio.BaseProtocol)


class NotSentError(Exception):
    """No connection could be opened, so nothing of the request was sent."""


class NoAnswerError(Exception):
    """A part of the request may have been sent, and no valid answer was received."""


class TooLargeAnswerError(NoAnswerError):
    """The answer has more bytes than the client accepts. `status` is its status."""

    def __init__(self, status: int) -> None:
        super().__init__("the answer is too large")
        self.status = status


class ClosedError(NoAnswerError):
    """The connection ended before the answer was complete."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer. `fields`: the header fields that the client keeps, by lower-case name."""

    status: int
    body: bytes
    fields: Mapping[bytes, str] = field(default_factory=dict)

    @property
    def retry_after(self) -> str | None:
        """The field Retry-After."""
        return self.fields.get(b"retry-after")


class Route(Protocol):
    """How a client reaches an address."""

    async def connect(
        self, address: str, protocol: Callable[[], ProtocolT], *, timeout_s: float
    ) -> ProtocolT:
        """Open a connection to `address`, such as http://host:port. Raise OSError or TimeoutError if no connection can
        be opened, and ValueError if `address` is not an address."""
        ...


class DirectRoute:
    """The route to any address. `context` is for calls by https."""

    def __init__(self, context: Callable[[], ssl.SSLContext]) -> None:
        self._context = context

    async def connect(
        self, address: str, protocol: Callable[[], ProtocolT], *, timeout_s: float
    ) -> ProtocolT:
        """See `Route`."""
        parts = urlsplit(address)
        if not parts.hostname:
            raise ValueError(f"no address: {address!r}")
        is_tls = parts.scheme == "https"
        port = parts.port or (443 if is_tls else 80)
        async with asyncio.timeout(timeout_s):
            _, made = await asyncio.get_running_loop().create_connection(
                protocol, parts.hostname, port, ssl=self._context() if is_tls else None
            )
        return made


class HttpClient:
    """The client of one event loop. It follows no redirects, reads no proxy settings, and keeps no cookies.

    Any number of calls may be in progress, each on its own connection. If a call waited for the connection of another
    call, it would look as if the server did not answer.

    * `route`: opens connections.
    * `kept_fields`: lower-case names of the fields that are read from answers.
    * `is_end_an_answer`: accept answers without a length, which end when the connection closes. Such an answer may be
      incomplete.
    * `max_idle_s`: a kept connection that has been idle for longer is not used again.
    * `max_bodies_bytes`: maximum total of bytes in the bodies of all calls with a `body_limit`, not counting the first
      SMALL_BODY_BYTES of each. One body may exceed this maximum, so that the calls can end.
    """

    def __init__(
        self,
        route: Route,
        *,
        max_answer_bytes: int,
        kept_fields: frozenset[bytes] = frozenset({b"retry-after"}),
        keeps_connections: bool = True,
        is_end_an_answer: bool = False,
        max_idle_s: float = MAX_IDLE_S,
        max_bodies_bytes: int | None = None,
    ) -> None:
        self._route = route
        self._room = None if max_bodies_bytes is None else BodyRoom(max_bodies_bytes)
        self._kind: Callable[..., _Connection] = (
            _PlainReads
            if max_bodies_bytes is None
            else functools.partial(_SmallReads, buffer=memoryview(bytearray(SMALL_BODY_BYTES)))
        )
        self._max_idle_s = max_idle_s
        self._keeps_connections = keeps_connections
        self._policy = _Policy(max_answer_bytes + _MAX_HEAD_BYTES, kept_fields, is_end_an_answer)
        self._idle: defaultdict[str, list[_Connection]] = defaultdict(list)
        self._open: set[_Connection] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._is_closed = False

    async def call(
        self,
        method: str,
        address: str,
        path: str,
        body: bytes | None,
        fields: str,
        *,
        timeout_s: float,
        connect_timeout_s: float,
        is_repeatable: bool = False,
        body_limit: Callable[[int], BodyLimit] | None = None,
    ) -> HttpAnswer:
        """Send one request and return its answer.

        * `address`: such as http://host:port, with a prefix of all paths if there is one.
        * `fields`: further header fields, as `field_lines` writes them.
        * `is_repeatable`: send the request once more, over a new connection, if a kept connection ends before any byte
          of the answer has arrived. Servers close idle connections without notice.
        * `body_limit`: a function that returns the limit of the body for a status. None: no limit.

        Raise NotSentError or NoAnswerError, at the latest `timeout_s` after the call began. Raise ValueError for a path
        that cannot be sent, and the other errors of the route. While the answer waits because of `max_bodies_bytes`,
        `timeout_s` does not count down.
        """
        loop = asyncio.get_running_loop()
        end_s = loop.time() + timeout_s
        head = _head(method, address, path, body, fields)
        connection = self._kept(address, loop.time())
        if connection is not None:
            try:
                return await self._exchange(address, connection, head, body, timeout_s, body_limit=body_limit)
            except ClosedError:
                if not is_repeatable or connection.has_response_begun or self._is_closed:
                    raise
        connection = await self._connect(address, end_s - loop.time(), connect_timeout_s)
        return await self._exchange(
            address, connection, head, body, end_s - loop.time(), body_limit=body_limit
        )

    async def close(self) -> None:
        """End the calls in progress with ClosedError, and close all connections."""
        self.abort()
        await asyncio.sleep(0)  # if the loop ended now, the transports would stay open

    def abort(self) -> None:
        """Do what `close` does, without waiting for the transports. Call it in the client's event loop."""
        self._is_closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for connection in list(self._open):
            connection.abort()
        self._idle.clear()

    def drop_idle(self) -> None:
        """Close idle connections, so that the next calls open new ones."""
        for connections in list(self._idle.values()):
            for connection in list(connections):
                connection.abort()
        self._idle.clear()

    def abandon(self) -> None:
        """In a forked process, leave the connections to the parent."""
        for connection in self._open:
            connection.abandon()

    @property
    def waiting_bodies(self) -> int:
        """Number of answers with a body that waits for memory, until other bodies have ended."""
        return 0 if self._room is None else self._room.waiting

    @property
    def open_connections(self) -> int:
        """Number of connections that are open now, idle or in use."""
        return len(self._open)

    async def _exchange(
        self,
        address: str,
        connection: "_Connection",
        head: bytes,
        body: bytes | None,
        timeout_s: float,
        *,
        body_limit: Callable[[int], BodyLimit] | None,
    ) -> HttpAnswer:
        try:
            if body_limit is None:
                return await connection.exchange(head, body or b"", timeout_s)
            with connection.receiving(body_limit, self._room):
                return await connection.exchange(head, body or b"", timeout_s)
        finally:
            if connection.may_be_used and self._keeps_connections:
                self._keep(address, connection)
            else:
                connection.abort()

    async def _connect(self, address: str, timeout_s: float, connect_timeout_s: float) -> "_Connection":
        loop = asyncio.get_running_loop()
        on_lost = functools.partial(self._lost, address)
        try:
            async with asyncio.timeout(timeout_s):
                return await self._route.connect(
                    address,
                    lambda: self._kind(loop, self._policy, on_made=self._open.add, on_lost=on_lost),
                    timeout_s=connect_timeout_s,
                )
        except (OSError, TimeoutError) as exc:
            raise NotSentError(fault_text(exc)) from exc

    def _kept(self, address: str, now_s: float) -> "_Connection | None":
        idle = self._idle.get(address)
        while idle:
            connection = idle.pop()
            if connection.may_be_used and now_s - connection.idle_since_s < self._max_idle_s:
                return connection
            connection.abort()
        return None

    def _keep(self, address: str, connection: "_Connection") -> None:
        self._idle[address].append(connection)
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().call_later(self._max_idle_s, self._sweep)

    def _sweep(self) -> None:
        """Close connections that have been idle for long. Forget addresses that are no longer called."""
        loop = asyncio.get_running_loop()
        self._sweeper = None
        for address in list(self._idle):
            for connection in list(self._idle[address]):
                if loop.time() - connection.idle_since_s >= self._max_idle_s:
                    self._idle[address].remove(connection)
                    connection.abort()
            if not self._idle[address]:
                del self._idle[address]
        if self._idle:
            self._sweeper = loop.call_later(self._max_idle_s / 2, self._sweep)

    def _lost(self, address: str, connection: "_Connection") -> None:
        self._open.discard(connection)
        idle = self._idle.get(address, [])
        if connection in idle:
            idle.remove(connection)


@functools.lru_cache(maxsize=4096)
def split_address(address: str) -> tuple[str, str]:
    """Return the host with its port, and the prefix of all paths."""
    parts = urlsplit(address)
    host = parts.netloc if parts.netloc.isascii() else parts.netloc.encode("idna").decode()
    return host, parts.path.rstrip("/")


def field_lines(fields: Mapping[str, str]) -> str:
    """Return header fields in the form that is sent. Callers that send the same fields with every call do this once."""
    return "".join([f"{name}: {value}\r\n" for name, value in fields.items()])


def _head(method: str, address: str, path: str, body: bytes | None, fields: str) -> bytes:
    host, prefix = split_address(address)
    target = prefix + path
    if not target.isascii() or not target.isprintable() or " " in target:
        raise ValueError(f"no path: {target!r}")
    length = "" if body is None and method == "GET" else f"Content-Length: {len(body or b'')}\r\n"
    return f"{method} {target} HTTP/1.1\r\nHost: {host}\r\n{length}{fields}\r\n".encode()


@dataclass(frozen=True, slots=True)
class _Policy:
    max_received: int
    kept_fields: frozenset[bytes]
    is_end_an_answer: bool


class _Connection(asyncio.BaseProtocol):
    """One connection, for one call at a time. `may_be_used`: the connection may be used for another call."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        policy: _Policy,
        *,
        on_made: "Callable[[_Connection], None]",
        on_lost: "Callable[[_Connection], None]",
    ) -> None:
        self._loop = loop
        self._policy = policy
        self._on_made, self._on_lost = on_made, on_lost
        self._transport: asyncio.Transport
        # The fields of the head that is arriving, as the server wrote them. The parser calls `on_header` for each.
        self._head_fields: dict[bytes, bytes] = {}
        self.on_header = self._head_fields.__setitem__
        self._parser = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[HttpAnswer] | None = None
        self._writable: asyncio.Future[None] | None = None
        self._received = 0
        self._fields: dict[bytes, str] = {}
        self._timer: asyncio.TimerHandle | None = None
        # The time that was left for the call when its body began to wait for the bodies of other calls.
        self._left_s = 0.0
        self._ends_with_connection = False
        self._body: list[bytes] = []
        self._limited: ReceivedBody | None = None
        self.may_be_used = False
        self.idle_since_s = 0.0

    @property
    def has_response_begun(self) -> bool:
        """Return whether any byte of the answer to the last request has arrived."""
        return self._received > 0

    async def exchange(self, head: bytes, body: bytes, timeout_s: float) -> HttpAnswer:
        """Send a request and return its answer. Raise NoAnswerError."""
        self.may_be_used = False
        self._received = 0
        waiter: asyncio.Future[HttpAnswer] = self._loop.create_future()
        self._waiter = waiter
        self._timer = self._loop.call_later(timeout_s, self._fail, NoAnswerError("timed out"))
        try:
            if self._transport.is_closing():
                raise ClosedError("the connection was closed meanwhile")
            if len(body) <= _PIECE_BYTES:
                self._transport.write(head + body)
                return await waiter
            is_sent = await self._write_in_pieces(head, body, waiter)
            answer = await waiter
            self.may_be_used = self.may_be_used and is_sent
            return answer
        finally:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._waiter = None

    def _stop_time(self) -> None:
        if self._timer is not None:
            self._left_s = max(0.0, self._timer.when() - self._loop.time())
            self._timer.cancel()
            self._timer = None

    async def _write_in_pieces(self, head: bytes, body: bytes, waiter: "asyncio.Future[HttpAnswer]") -> bool:
        """Write the request. Return False if the answer came before the whole request was written."""
        self._transport.write(head)
        view = memoryview(body)
        for start in range(0, len(body), _PIECE_BYTES):
            if waiter.done():
                return False
            self._transport.write(view[start : start + _PIECE_BYTES])
            if self._writable is not None:
                await asyncio.wait((self._writable, waiter), return_when=asyncio.FIRST_COMPLETED)
            else:
                await asyncio.sleep(0)
        return True

    @contextlib.contextmanager
    def receiving(self, limit: Callable[[int], BodyLimit], room: BodyRoom | None) -> Iterator[None]:
        """Apply the limit of a call, and the total of all calls, while the answer arrives."""
        self._limited = body = ReceivedBody(limit, room)
        try:
            yield
        finally:
            self._limited = None
            if room is not None and (body.reserved or body.is_waiting):
                room.leave(body.reserved, self)
                if body.is_waiting and not self._transport.is_closing():
                    self._transport.resume_reading()

    def enter(self, reserved: int) -> None:
        """Continue to read, because the part of the body that has arrived is reserved now. The timeout of the call
        continues, too."""
        if self._limited is not None:
            self._limited.is_waiting = False
            self._limited.reserved += reserved
            self._timer = self._loop.call_later(self._left_s, self._fail, NoAnswerError("timed out"))
            if not self._transport.is_closing():
                self._transport.resume_reading()

    def abort(self) -> None:
        """Close the connection at once."""
        self.may_be_used = False
        self._transport.abort()

    def abandon(self) -> None:
        """Leave the connection to the parent. Do not call the transport, because its event loop belongs to another
        process."""
        self.may_be_used = False
        if not self._transport.is_closing() and (sock := self._transport.get_extra_info("socket")):
            forked.replace_with_devnull(sock.fileno())

    def _fail(self, exc: NoAnswerError) -> None:
        self.may_be_used = False
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(exc)
        self._transport.abort()

    # --- called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._on_made(self)

    def eof_received(self) -> None:
        if self._ends_with_connection:
            self._answer()

    def connection_lost(self, exc: Exception | None) -> None:
        closed = ClosedError(fault_text(exc) if exc else "the connection was closed before the answer")
        closed.__cause__ = exc or EOFError()
        self._fail(closed)
        self.resume_writing()
        self._on_lost(self)

    def pause_writing(self) -> None:
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        if self._waiter is None:
            self._fail(NoAnswerError("more than an answer"))
            return
        if self._received > self._policy.max_received:
            self._fail(TooLargeAnswerError(self._parser.get_status_code()))
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as exc:
            unreadable = NoAnswerError(f"the answer is not HTTP ({type(exc).__name__})")
            unreadable.__cause__ = http.client.BadStatusLine("")
            self._fail(unreadable)

    # --- called by the parser

    def on_message_begin(self) -> None:
        self._fields, self._body = {}, []
        self._head_fields.clear()
        self._ends_with_connection = False
        self.may_be_used = False  # until this answer, too, is complete

    def on_headers_complete(self) -> None:
        has_length = False
        for name, value in self._head_fields.items():
            known = name.lower()
            if known in self._policy.kept_fields:
                self._fields[known] = value.decode("latin-1")
            elif known in (b"content-length", b"transfer-encoding"):
                has_length = True
        status = self._parser.get_status_code()
        self._ends_with_connection = self._policy.is_end_an_answer and not (
            has_length or status < 200 or status in _NEVER_WITH_BODY
        )

    def on_body(self, piece: bytes) -> None:
        if self._limited is None:
            self._body.append(piece)
        else:
            self._receive(self._limited, piece)

    def _receive(self, body: ReceivedBody, piece: bytes) -> None:
        """Process a piece of a body that has a limit."""
        if body.received == 0:
            body.limit = body.limit_of(self._parser.get_status_code())
        before = body.received
        body.received += len(piece)
        most = body.limit.max_bytes
        if body.received <= most or body.limit.is_cut:
            if before < most:
                self._body.append(piece[: most - before])
            if body.received > max(most, SMALL_BODY_BYTES) and body.limit.is_cut:
                # Ignore the rest of the body, which may be endless.
                self._answer()
                self._transport.abort()
            elif body.received > SMALL_BODY_BYTES and body.room is not None and not body.is_waiting:
                wanted = body.received - SMALL_BODY_BYTES - body.reserved
                if body.room.take(wanted, self):
                    body.reserved += wanted
                else:
                    # Stop the timeout while this body waits for the bodies of other calls: the endpoint has answered in
                    # time.
                    body.is_waiting = True
                    self._transport.pause_reading()
                    self._stop_time()
        else:
            self._fail(TooLargeAnswerError(self._parser.get_status_code()))

    def on_message_complete(self) -> None:
        if self._parser.get_status_code() < 200 or self._waiter is None or self._waiter.done():
            return
        self.may_be_used = bool(self._parser.should_keep_alive())
        self.idle_since_s = self._loop.time()
        self._answer()

    def _answer(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            status = self._parser.get_status_code()
            body = b"".join(self._body)
            # Drop the references to the body and the answer, which a kept connection would hold until its next answer.
            self._body = []
            self._waiter.set_result(HttpAnswer(status, body, self._fields))


class _PlainReads(_Connection, asyncio.Protocol):
    """A connection that reads as much as has arrived."""


class _SmallReads(_Connection, asyncio.BufferedProtocol):
    """A connection that reads little at a time, so that thousands of connections take little memory before they wait.
    All connections of a client share `buffer`: each connection copies its data from the buffer before another
    connection reads."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        policy: _Policy,
        *,
        on_made: Callable[[_Connection], None],
        on_lost: Callable[[_Connection], None],
        buffer: memoryview,
    ) -> None:
        super().__init__(loop, policy, on_made=on_made, on_lost=on_lost)
        self._buffer = buffer

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(bytes(self._buffer[:nbytes]))
