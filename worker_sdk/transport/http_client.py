"""HTTP/1.1 as calls to masters need it: bytes there, bytes back, over kept connections.

A general client takes over three times the CPU for a call (71 µs, not 20), which was a fifth of what a lone job cost its
worker.
"""

import asyncio
import ssl
from collections import defaultdict
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Final, cast
from urllib.parse import urlsplit

import httptools

from worker_sdk import forked
from worker_sdk.transport.loops import PerLoop

# A kept connection that is older than this is not used again: what lies between may have forgotten it.
MAX_IDLE_S: Final = 15.0
_MAX_HEAD_BYTES: Final = 64 * 1024
# More than this is written in pieces, so that the loop is not held, by encryption least of all.
_PIECE_BYTES: Final = 256 * 1024


class HttpError(Exception):
    """What came is no answer."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """`retry_after`, `job_id`: the fields of the head, or None; `store`: that of the master, "" where it names none."""

    status: int
    content_type: str
    retry_after: str | None
    body: bytes
    job_id: str | None = None
    store: str = ""


class HttpClient:
    """Follows no redirects, reads no proxy settings, keeps no cookies. Any number of calls may be under way: one that waited
    for another's connection would look like a master that does not answer.

    Each event loop has connections of its own, which end with it. A forked process begins with none.

    `headers` go with every call. Raises ValueError for those that are none.
    """

    def __init__(
        self, headers: dict[str, str], *, max_answer_bytes: int, context: ssl.SSLContext | None = None
    ) -> None:
        self.send_always(headers)
        self._max_answer_bytes = max_answer_bytes
        self._context = context
        self._origins: dict[str, _Origin] = {}
        self._pools = PerLoop(_Pool, let_go=_Pool.let_go)
        self._is_closed = False

    def send_always(self, headers: dict[str, str]) -> None:
        """These go with every call from now on, instead of those before. Raises ValueError for those that are none."""
        if not all(text.isprintable() for field in headers.items() for text in field):
            raise ValueError("a header, such as the token, has characters that cannot be sent")
        self._headers = "".join(f"{name}: {value}\r\n" for name, value in headers.items())

    async def call(
        self,
        method: str,
        address: str,
        path: str,
        body: bytes | None,
        *,
        timeout_s: float,
        connect_timeout_s: float,
    ) -> HttpAnswer:
        """`address`: as http://host:port, with the beginning of all paths if there is one.

        Raises RuntimeError after `close`, OSError, TimeoutError (after `timeout_s` in all) or HttpError when there is no answer, ValueError for a path
        that cannot be sent.
        """
        if self._is_closed:
            raise RuntimeError("this client is closed")
        forked.check()
        pool = self._pools.get()
        if pool.keeper is None:
            await pool.open_until_loop_ends()
        loop = asyncio.get_running_loop()
        end_s = loop.time() + timeout_s
        origin = self._origins.get(address) or self._origin(address)
        head = self._head(method, origin, path, body)
        connection = pool.kept(address, loop.time())
        if connection is not None:
            try:
                return await pool.exchange(address, connection, head, body, timeout_s)
            except ConnectionError:
                # That the master closed a kept connection meanwhile says nothing about the master.
                if connection.has_heard or self._is_closed:
                    raise
        async with asyncio.timeout(min(connect_timeout_s, end_s - loop.time())):
            connection = await self._connect(loop, origin, pool)
        return await pool.exchange(address, connection, head, body, end_s - loop.time())

    async def close(self) -> None:
        """Calls that are under way end with an OSError."""
        self._is_closed = True
        for loop, pool in self._pools.all():
            if loop is asyncio.get_running_loop():
                await pool.close()
            elif not loop.is_closed():
                loop.call_soon_threadsafe(pool.abort)

    def disown(self) -> None:
        """Refuse all calls, as after `close`; in a forked process, which has no connections."""
        self._is_closed = True

    def drop_idle(self) -> None:
        """Make the next calls of this event loop open connections of their own."""
        self._pools.get().drop_idle()

    def _origin(self, address: str) -> "_Origin":
        parts = urlsplit(address)
        if not parts.hostname:
            raise ValueError(f"no address: {address!r}")
        is_tls = parts.scheme == "https"
        port = parts.port or (443 if is_tls else 80)
        origin = _Origin(
            parts.hostname, port, is_tls, parts.netloc.encode("idna").decode(), parts.path.rstrip("/")
        )
        self._origins[address] = origin
        return origin

    def _head(self, method: str, origin: "_Origin", path: str, body: bytes | None) -> bytes:
        target = origin.prefix + path
        if not target.isascii() or not target.isprintable() or " " in target:
            raise ValueError(f"no path: {target!r}")
        length = "" if body is None and method == "GET" else f"Content-Length: {len(body or b'')}\r\n"
        return (
            f"{method} {target} HTTP/1.1\r\nHost: {origin.host_field}\r\n{self._headers}{length}\r\n".encode()
        )

    async def _connect(
        self, loop: asyncio.AbstractEventLoop, origin: "_Origin", pool: "_Pool"
    ) -> "_Connection":
        context: ssl.SSLContext | None = None
        if origin.is_tls:
            if self._context is None:
                self._context = ssl.create_default_context()
            context = self._context
        _, connection = await loop.create_connection(
            lambda: _Connection(loop, pool.connections, self._max_answer_bytes + _MAX_HEAD_BYTES),
            origin.host,
            origin.port,
            ssl=context,
        )
        return connection


class _Pool:
    """The connections of one event loop."""

    def __init__(self) -> None:
        self.connections: set[_Connection] = set()
        self.keeper: AsyncGenerator[None, None] | None = None
        self._idle: defaultdict[str, list[_Connection]] = defaultdict(list)

    async def open_until_loop_ends(self) -> None:
        # asyncio.run and servers close a loop's async generators before they close the loop. It is the only notice that
        # a loop ends, and the last moment to close connections in order.
        self.keeper = _abort_at_end(self.connections)
        await anext(self.keeper)

    def kept(self, address: str, now_s: float) -> "_Connection | None":
        idle = self._idle[address]
        while idle:
            connection = idle.pop()
            if connection.may_be_used and now_s - connection.idle_since_s < MAX_IDLE_S:
                return connection
            connection.abort()
        return None

    async def exchange(
        self, address: str, connection: "_Connection", head: bytes, body: bytes | None, timeout_s: float
    ) -> HttpAnswer:
        try:
            return await connection.exchange(head, body or b"", timeout_s)
        finally:
            if connection.may_be_used:
                self._idle[address].append(connection)
            else:
                connection.abort()

    def drop_idle(self) -> None:
        for connections in self._idle.values():
            for connection in connections:
                connection.abort()
        self._idle.clear()

    def abort(self) -> None:
        for connection in list(self.connections):
            connection.abort()
        self._idle.clear()

    async def close(self) -> None:
        self.abort()
        if self.keeper is not None:
            await self.keeper.aclose()

    def let_go(self) -> None:
        """In a forked process: these are the parent's."""
        for connection in self.connections:
            connection.let_go()


async def _abort_at_end(connections: "set[_Connection]") -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        for connection in list(connections):
            connection.abort()
        await asyncio.sleep(0)  # or a loop that ends now would leave the transports open


@dataclass(frozen=True, slots=True)
class _Origin:
    host: str
    port: int
    is_tls: bool
    host_field: str
    prefix: str


class _Connection(asyncio.Protocol):
    """One call at a time. `may_be_used`: for the next one; `has_heard`: whether anything came in answer to the last."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, all_open: "set[_Connection]", max_received: int
    ) -> None:
        self._loop = loop
        self._all_open = all_open
        self._max_received = max_received
        self._transport: asyncio.Transport
        self._parser = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[HttpAnswer] | None = None
        self._writable: asyncio.Future[None] | None = None
        self._received = 0
        self._content_type = ""
        self._retry_after: str | None = None
        self._job_id: str | None = None
        self._store = ""
        self._body: list[bytes] = []
        self.may_be_used = False
        self.idle_since_s = 0.0

    @property
    def has_heard(self) -> bool:
        return self._received > 0

    async def exchange(self, head: bytes, body: bytes, timeout_s: float) -> HttpAnswer:
        self.may_be_used = False
        self._received = 0
        waiter: asyncio.Future[HttpAnswer] = self._loop.create_future()
        self._waiter = waiter
        timer = self._loop.call_later(timeout_s, self._fail, TimeoutError("no answer in time"))
        try:
            if self._transport.is_closing():
                raise ConnectionResetError("closed meanwhile")
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

    def let_go(self) -> None:
        """Without a call to the transport, whose event loop is another process's."""
        self.may_be_used = False
        if not self._transport.is_closing() and (sock := self._transport.get_extra_info("socket")):
            forked.let_go(sock.fileno())

    def _fail(self, exc: BaseException) -> None:
        self.may_be_used = False
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(exc)
        self._transport.abort()

    # --- what the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._all_open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._all_open.discard(self)
        # An answer whose end is that of the connection is one that may have been cut off.
        self._fail(exc if isinstance(exc, OSError) else ConnectionResetError("closed before the answer"))
        self.resume_writing()

    def pause_writing(self) -> None:
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        if self._waiter is None or self._received > self._max_received:
            self._fail(HttpError("more than an answer"))
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as exc:
            self._fail(HttpError(f"no HTTP: {type(exc).__name__}"))

    # --- what the parser calls

    def on_message_begin(self) -> None:
        self._content_type, self._retry_after, self._job_id, self._store, self._body = "", None, None, "", []
        self.may_be_used = False  # until this one is complete, too

    def on_header(self, name: bytes, value: bytes) -> None:
        field = name.lower()
        if field == b"content-type":
            self._content_type = value.decode("latin-1")
        elif field == b"retry-after":
            self._retry_after = value.decode("latin-1")
        elif field == b"jq-job-id":
            self._job_id = value.decode("latin-1")
        elif field == b"jq-store":
            self._store = value.decode("latin-1")

    def on_body(self, piece: bytes) -> None:
        self._body.append(piece)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200 or self._waiter is None or self._waiter.done():
            return
        self.may_be_used = bool(self._parser.should_keep_alive())
        self.idle_since_s = self._loop.time()
        self._waiter.set_result(
            HttpAnswer(
                status, self._content_type, self._retry_after, b"".join(self._body), self._job_id, self._store
            )
        )
