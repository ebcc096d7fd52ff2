"""The HTTP server of a worker that serves alone: uvicorn's httptools protocol with the limits that uvicorn does not have.

One sweep over all connections enforces every deadline; a request costs no timer.
"""

import asyncio
import functools
import math
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, cast

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from worker_sdk import forked
from worker_sdk.transport.tls import LiveContext

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

# Between the last byte of an answer and the end of a connection with unread input: closing at once would make the
# kernel send a reset, which takes the answer away.
_LINGER_S: Final = 1.0
_BODY_BYTES_PER_S: Final = 64 * 1024
_MAX_TARGET_BYTES: Final = 2048
# Of the first bytes of a request so many are kept until its request line has been judged.
_MAX_LINE_BYTES: Final = _MAX_TARGET_BYTES + 64
_FIELD_OVERHEAD_BYTES: Final = 32
_STOP_GRACE_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Limits:
    """`receipt_s`: for a request to arrive, and a second more for each 64 KiB; also for the first byte of a connection.
    `keep_alive_s`: between requests; longer than a master keeps an idle connection, for the side that sends must be
    the one that closes. `answer_s`: until an answer is made and taken.
    """

    connections: int = 512
    head_bytes: int = 32 * 1024
    receipt_s: float = 10.0
    keep_alive_s: float = 75.0
    answer_s: float = 30.0


class WorkerServer:
    """Serves `app` on `host`. Port 0 picks a free one; `bound_port` tells which. `tls` makes it serve HTTPS.

    The constructor binds the port, and raises OSError if it cannot.
    """

    def __init__(
        self, app: App, host: str, port: int, limits: Limits | None = None, *, tls: LiveContext | None = None
    ) -> None:
        self._limits = limits or Limits()
        self._tls = tls
        self._config = Config(
            app,
            interface="asgi3",
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
        )
        self._state = ServerState()
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        # Named as TCP, or asyncio leaves Nagle's algorithm on (`base_events._set_nodelay`): an answer in two writes would
        # then wait 40 ms for the peer's delayed ACK.
        self._socket = socket.socket(
            socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP
        )
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((host, port))
        except OSError:
            self._socket.close()
            raise
        self.bound_port: int = self._socket.getsockname()[1]
        forked.renew_in_child(self)

    def renew(self) -> None:
        # Otherwise a process that a handler forked would hold the port, and the masters' connections, when the worker dies:
        # masters would wait for answers instead of being refused.
        forked.let_go(self._socket.fileno())
        for connection in self._state.connections:
            if not connection.transport.is_closing() and (
                sock := connection.transport.get_extra_info("socket")
            ):
                forked.let_go(sock.fileno())

    @property
    def scheme(self) -> str:
        """http, or https where it has a certificate."""
        return "https" if self._tls else "http"

    @property
    def connections(self) -> int:
        """Connections open now."""
        return len(self._state.connections)

    async def start(self) -> None:
        self._config.load()
        loop = asyncio.get_running_loop()
        connected = functools.partial(EdgeProtocol, self._config, self._state, self._limits)
        self._server = await loop.create_server(
            connected,
            sock=self._socket,
            backlog=self._config.backlog,
            ssl=self._tls.context if self._tls else None,
            ssl_handshake_timeout=self._limits.receipt_s if self._tls else None,
        )
        limits = self._limits
        self._sweep(min(0.5, limits.receipt_s / 4, limits.keep_alive_s / 4, limits.answer_s / 4))

    async def stop(self) -> None:
        """Accept nothing more, let requests end for a grace time, close the rest. Harmless before `start`."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._server is None:
            self._socket.close()
            return
        self._server.close()
        for connection in list(self._state.connections):
            connection.shutdown()
        if tasks := list(self._state.tasks):
            _, late = await asyncio.wait(tasks, timeout=_STOP_GRACE_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        # The last answers are on their way, and a client that does not take its own must not hold the stop up.
        end_s = asyncio.get_running_loop().time() + _LINGER_S
        while self._state.connections and asyncio.get_running_loop().time() < end_s:  # noqa: ASYNC110  uvicorn's set
            await asyncio.sleep(0.01)
        for connection in list(self._state.connections):
            connection.transport.abort()
        await self._server.wait_closed()
        self._socket.close()

    def _sweep(self, interval_s: float) -> None:
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        for connection in list(self._state.connections):
            assert isinstance(connection, EdgeProtocol)
            connection.check_deadline(now_s)
        if self._tls:
            self._tls.refresh()
        self._sweeper = loop.call_later(interval_s, self._sweep, interval_s)


class EdgeProtocol(HttpToolsProtocol):
    """One connection, one request at a time. What it refuses never reaches the application."""

    def __init__(self, config: Config, state: ServerState, limits: Limits) -> None:
        super().__init__(config, state, {})
        self._limits = limits
        self._deadline_s = math.inf
        self._since_s = 0.0  # when it began to wait for a request, or the request to arrive
        self._is_arriving = False
        self._is_deaf = False  # input is thrown away
        self._close_after = False
        self._received = 0  # bytes of the request, its first chunk left out
        self._unused = 0  # of these, since the application got something
        self._head_bytes = 0
        self._line = b""  # the beginning of the request, until its head is here
        self._refusal = HTTPStatus.BAD_REQUEST
        self._answer: _Answer

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_request(self._limits.receipt_s)
        if len(self.connections) > self._limits.connections:
            self._make_room()

    def _make_room(self) -> None:
        """The longest idle connection goes, or the one whose request has been arriving for the longest."""
        others = [
            one
            for one in self.connections
            if isinstance(one, EdgeProtocol) and one is not self and not one.transport.is_closing()
        ]
        if len(others) < self._limits.connections:
            return
        if waiting := [one for one in others if not one.is_answering]:
            min(waiting, key=lambda one: (one._is_arriving, one._since_s)).transport.abort()
        else:
            self._is_deaf = True
            self.transport.write(_refusal(HTTPStatus.SERVICE_UNAVAILABLE))
            self.transport.close()

    @property
    def is_answering(self) -> bool:
        """A whole request is here, and its answer is not complete."""
        cycle = self.cycle
        return cycle is not None and not cycle.response_complete and not cycle.more_body

    def data_received(self, data: bytes) -> None:
        if self._is_deaf:
            return
        if not self._is_arriving:
            self._line = data
        elif len(self._line) < _MAX_LINE_BYTES:
            self._line += data
        self._received += len(data)
        self._unused += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # Ignored: the request itself is answered. What follows it is in a protocol that nobody agreed to.
            self._is_deaf = True
            return
        except httptools.HttpParserInvalidMethodError:
            self._refuse(HTTPStatus.NOT_IMPLEMENTED)
            return
        except httptools.HttpParserError:
            self._refuse(self._refusal)
            return
        if not self._is_arriving:
            return
        self._deadline_s = self._since_s + self._limits.receipt_s + self._received / _BODY_BYTES_PER_S
        # The parser holds back a field that is not complete, in the head and in trailers, so its size shows only here.
        if self._unused > self._limits.head_bytes:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    # --- what the parser calls

    def on_message_begin(self) -> None:
        if self.is_answering:
            raise _ParsingEndsError  # nobody who may call here asks before the answer has come
        super().on_message_begin()
        self._is_arriving = True
        self._since_s = self.loop.time()
        self._received = self._unused = self._head_bytes = 0

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > _MAX_TARGET_BYTES:
            self._stop_parsing(HTTPStatus.REQUEST_URI_TOO_LONG)

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._head_bytes += len(name) + len(value) + _FIELD_OVERHEAD_BYTES
        if self._head_bytes > self._limits.head_bytes:
            self._stop_parsing(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def on_headers_complete(self) -> None:
        self._check_head()
        super().on_headers_complete()
        if not self.cycle.keep_alive:
            # Until the body is here uvicorn must not close by itself: see _LINGER_S.
            self._close_after = self.cycle.keep_alive = True
        self._answer = _Answer(self.cycle, self.transport)
        self.cycle.transport = cast(asyncio.Transport, self._answer)
        # The scope keeps its list; trailers must not slip fields into a request that is already being judged.
        self.headers = []

    def _check_head(self) -> None:
        """Refuse what the parser reads generously and no master sends."""
        version = self.parser.get_http_version()
        if version not in ("1.1", "1.0"):
            self._stop_parsing(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED)
        line = b"%b %b HTTP/%b\r\n" % (self.parser.get_method(), self.url, version.encode())
        hosts = sum(name == b"host" for name, _ in self.headers)
        if not self._line.startswith(line) or hosts > 1 or (hosts < 1 and version == "1.1"):
            self._stop_parsing(HTTPStatus.BAD_REQUEST)
        if any(name == b"transfer-encoding" and value.lower() != b"chunked" for name, value in self.headers):
            self._stop_parsing(HTTPStatus.UNSUPPORTED_MEDIA_TYPE)

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        self._unused = 0

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._is_arriving = False
        self._deadline_s = self.loop.time() + self._limits.answer_s
        if self._close_after:
            self.cycle.keep_alive = False

    # --- ends

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        self._answer.flush()
        if self.transport.is_closing():
            return
        if self._is_deaf or self.cycle.more_body:
            # The answer came before the end of the body (401, 413): the rest is not wanted.
            self._linger()
        else:
            self._await_request(self._limits.keep_alive_s)
            self.flow.resume_reading()

    def check_deadline(self, now_s: float) -> None:
        """Called by the sweep."""
        has_unsent = self.transport.get_write_buffer_size() > 0
        if has_unsent and now_s > self._since_s + self._limits.answer_s:
            self.transport.abort()  # nobody takes them
        elif now_s > self._deadline_s:
            if self._is_arriving and not self.transport.is_closing():
                self._refuse(HTTPStatus.REQUEST_TIMEOUT)
            else:
                self.transport.abort()

    def _await_request(self, within_s: float) -> None:
        self._since_s = self.loop.time()
        self._deadline_s = self._since_s + within_s

    def _stop_parsing(self, status: HTTPStatus) -> None:
        self._refusal = status
        raise _ParsingEndsError

    def _refuse(self, status: HTTPStatus) -> None:
        """What is arriving. What arrived whole before it is answered first."""
        cycle = self.cycle
        if self.is_answering:
            self._is_deaf = True
            self._is_arriving = cycle.keep_alive = False
            return
        if cycle is not None and not cycle.response_complete:
            # Its own body is broken or late: the application is told that the client has gone.
            cycle.disconnected = True
            cycle.message_event.set()
        self.transport.write(_refusal(status))
        self._linger()

    def _linger(self) -> None:
        self._is_deaf = True
        self._is_arriving = False
        self._deadline_s = self.loop.time() + _LINGER_S
        self.transport.write_eof()
        self.flow.resume_reading()


class _Answer:
    """The transport as a cycle sees it: head and body of the answer leave in one write, and wake the master once."""

    def __init__(self, cycle: RequestResponseCycle, transport: asyncio.Transport) -> None:
        self._cycle = cycle
        self._transport = transport
        self._held: list[bytes] = []

    def write(self, data: bytes) -> None:
        if self._cycle.response_started:
            self._held.append(data)
        else:
            self._transport.write(data)  # 100 Continue

    def flush(self) -> None:
        if self._held:
            self._transport.write(b"".join(self._held))
            self._held.clear()

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def is_closing(self) -> bool:
        return self._transport.is_closing()


def _refusal(status: HTTPStatus) -> bytes:
    return f"HTTP/1.1 {status} {status.phrase}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode()


class _ParsingEndsError(Exception):
    """Raised in a parser callback; the parser turns it into its own error."""
