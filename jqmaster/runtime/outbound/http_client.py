"""HTTP/1.1 as calls to workers and to other masters need it: one request, one small answer, over kept connections.

A general client takes over three times the CPU for a call, and a job that comes alone waits for it.
"""

import asyncio
import functools
import ssl
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar, cast
from urllib.parse import urlsplit

import httptools

# A kept connection that is older is not used again: what lies between may have forgotten it.
MAX_IDLE_S: Final = 15.0
_MAX_HEAD_BYTES: Final = 64 * 1024
# More than this is written in pieces: at once it would hold the event loop, by encryption most of all.
_PIECE_BYTES: Final = 256 * 1024
_NEVER_WITH_BODY: Final = frozenset({204, 304})

ProtocolT = TypeVar("ProtocolT", bound=asyncio.BaseProtocol)


class NotSentError(Exception):
    """There is no connection: nothing of the request was sent."""


class NoAnswerError(Exception):
    """Something of the request may have been sent, and no answer that makes sense came back."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """`retry_after`: the field, or None."""

    status: int
    retry_after: str | None
    body: bytes


class Route(Protocol):
    """How a client reaches an address."""

    async def connect(
        self, address: str, protocol: Callable[[], ProtocolT], *, timeout_s: float
    ) -> ProtocolT:
        """Open a connection to `address`, such as http://host:port. Raises OSError, TimeoutError, or ValueError for what
        is no address."""
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
    """For one event loop. Connects by `route`. Follows no redirects, reads no proxy settings, keeps no cookies, repeats
    nothing."""

    def __init__(self, route: Route, *, max_answer_bytes: int, keeps_connections: bool = True) -> None:
        self._route = route
        self._keeps_connections = keeps_connections
        self._max_received = max_answer_bytes + _MAX_HEAD_BYTES
        self._idle: defaultdict[str, list[_Connection]] = defaultdict(list)
        self._open: set[_Connection] = set()
        self._sweeper: asyncio.TimerHandle | None = None

    async def call(
        self,
        method: str,
        address: str,
        path: str,
        body: bytes,
        fields: Mapping[str, str],
        *,
        timeout_s: float,
        connect_timeout_s: float,
    ) -> HttpAnswer:
        """`address`: as http://host:port, with the beginning of all paths if there is one.

        Raises NotSentError or NoAnswerError, after `timeout_s` in all at the latest, and what else the route raises.
        """
        loop = asyncio.get_running_loop()
        end_s = loop.time() + timeout_s
        connection = self._kept(address)
        if connection is None:
            connection = await self._connect(address, timeout_s, connect_timeout_s)
        host, prefix = split_address(address)
        head = [f"{method} {prefix}{path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n"]
        head += [f"{name}: {value}\r\n" for name, value in fields.items()]
        head.append("\r\n")
        try:
            return await connection.exchange("".join(head).encode(), body, end_s - loop.time())
        finally:
            if connection.may_be_used and self._keeps_connections:
                self._keep(address, connection)
            else:
                connection.abort()

    async def close(self) -> None:
        """Calls that are under way end with NoAnswerError."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in list(self._open):
            connection.abort()
        self._idle.clear()
        await asyncio.sleep(0)  # or a loop that ends now would leave the transports open

    async def _connect(self, address: str, timeout_s: float, connect_timeout_s: float) -> "_Connection":
        try:
            async with asyncio.timeout(timeout_s):
                connection = await self._route.connect(
                    address,
                    lambda: _Connection(asyncio.get_running_loop(), self._max_received),
                    timeout_s=connect_timeout_s,
                )
        except (OSError, TimeoutError) as exc:
            raise NotSentError(type(exc).__name__) from exc
        self._open.add(connection)
        connection.on_lost = functools.partial(self._lost, address)
        return connection

    def _kept(self, address: str) -> "_Connection | None":
        idle = self._idle.get(address)
        while idle:
            connection = idle.pop()
            if connection.may_be_used:
                return connection
        return None

    def _keep(self, address: str, connection: "_Connection") -> None:
        self._idle[address].append(connection)
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().call_later(MAX_IDLE_S, self._sweep)

    def _sweep(self) -> None:
        """Closes those that nobody has used for long; of a worker that is gone nothing is kept."""
        loop = asyncio.get_running_loop()
        self._sweeper = None
        for address in list(self._idle):
            for connection in list(self._idle[address]):
                if loop.time() - connection.idle_since_s >= MAX_IDLE_S:
                    self._idle[address].remove(connection)
                    connection.abort()
            if not self._idle[address]:
                del self._idle[address]
        if self._idle:
            self._sweeper = loop.call_later(MAX_IDLE_S / 2, self._sweep)

    def _lost(self, address: str, connection: "_Connection") -> None:
        self._open.discard(connection)
        idle = self._idle.get(address, [])
        if connection in idle:
            idle.remove(connection)


@functools.lru_cache(maxsize=4096)
def split_address(address: str) -> tuple[str, str]:
    """Host with port, and the beginning of all paths."""
    parts = urlsplit(address)
    return parts.netloc, parts.path


class _Connection(asyncio.Protocol):
    """One call at a time. `may_be_used`: for the next one."""

    def __init__(self, loop: asyncio.AbstractEventLoop, max_received: int) -> None:
        self._loop = loop
        self._max_received = max_received
        self._transport: asyncio.Transport
        self._parser = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[HttpAnswer] | None = None
        self._writable: asyncio.Future[None] | None = None
        self._received = 0
        self._retry_after: str | None = None
        self._has_length = False
        self._ends_with_connection = False
        self._body: list[bytes] = []
        self.may_be_used = False
        self.idle_since_s = 0.0
        self.on_lost: Callable[[_Connection], None] = lambda connection: None

    async def exchange(self, head: bytes, body: bytes, timeout_s: float) -> HttpAnswer:
        """Raises NoAnswerError."""
        self.may_be_used = False
        self._received = 0
        waiter: asyncio.Future[HttpAnswer] = self._loop.create_future()
        self._waiter = waiter
        timer = self._loop.call_later(timeout_s, self._fail, "TimeoutError")
        try:
            if self._transport.is_closing():
                raise NoAnswerError("closed meanwhile")
            if len(body) <= _PIECE_BYTES:
                self._transport.write(head + body)
                return await waiter
            is_sent = await self._write_in_pieces(head, body, waiter)
            answer = await waiter
            self.may_be_used = self.may_be_used and is_sent
            return answer
        finally:
            timer.cancel()
            self._waiter = None

    async def _write_in_pieces(self, head: bytes, body: bytes, waiter: "asyncio.Future[HttpAnswer]") -> bool:
        """False: the answer came before the end."""
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

    def abort(self) -> None:
        self.may_be_used = False
        self._transport.abort()

    def _fail(self, why: str) -> None:
        self.may_be_used = False
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(NoAnswerError(why))
        self._transport.abort()

    # --- what the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def eof_received(self) -> None:
        if self._ends_with_connection:
            self._answer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(type(exc).__name__ if exc else "closed before the answer")
        self.resume_writing()
        self.on_lost(self)

    def pause_writing(self) -> None:
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        if self._waiter is None or self._received > self._max_received:
            self._fail("more than an answer")
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as exc:
            self._fail(type(exc).__name__)

    # --- what the parser calls

    def on_message_begin(self) -> None:
        self._retry_after, self._body = None, []
        self._has_length = self._ends_with_connection = False
        self.may_be_used = False  # until this one is complete, too

    def on_header(self, name: bytes, value: bytes) -> None:
        field = name.lower()
        if field == b"retry-after":
            self._retry_after = value.decode("latin-1")
        elif field in (b"content-length", b"transfer-encoding"):
            self._has_length = True

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        self._ends_with_connection = not (self._has_length or status < 200 or status in _NEVER_WITH_BODY)

    def on_body(self, piece: bytes) -> None:
        self._body.append(piece)

    def on_message_complete(self) -> None:
        if self._parser.get_status_code() < 200 or self._waiter is None or self._waiter.done():
            return
        self.may_be_used = bool(self._parser.should_keep_alive())
        self.idle_since_s = self._loop.time()
        self._answer()

    def _answer(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            status = self._parser.get_status_code()
            self._waiter.set_result(HttpAnswer(status, self._retry_after, b"".join(self._body)))
