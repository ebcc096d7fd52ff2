"""The HTTP server of a master: the guarded protocol, with pipelining, room for workers, and answers in one write.

One sweep over all connections, a few times a second, enforces every deadline; a request costs no timer.
"""

import asyncio
import contextlib
import fcntl
import functools
import logging
import math
import socket
import sys
import termios
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import httptools
from uvicorn._types import ASGISendEvent, HTTPResponseBodyEvent, HTTPResponseStartEvent
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import (
    HEADER_RE,
    HEADER_VALUE_RE,
    STATUS_LINE,
    RequestResponseCycle,
)
from uvicorn.server import ServerState

from jqmaster.api.encoding.negotiation import join_fields, negotiate
from jqmaster.api.http.connection_room import PROVE, ConnectionRoom, RoomLimits
from jqmaster.api.http.problems import edge_problem, problem_response
from jqmaster.clock import until_tick_s
from jqmaster.config import Settings
from jqmaster.domain.caller import TrustedProxies
from jqmaster.errors import OverloadedError
from jqmaster.live_value import LiveValue
from worker_sdk.transport.guarded import (
    LINGER_S,
    App,
    GuardedProtocol,
    ParsingEndsError,
    Receive,
    Scope,
    Send,
    config_of,
)
from worker_sdk.transport.own_address import url_of
from worker_sdk.transport.tls import LiveContext, server_context

logger = logging.getLogger(__name__)

KEEP_ALIVE_S: Final = 75.0
STOP_GRACE_S: Final = 5.0
MAX_PIPELINE: Final = 100
# A connection on which nobody has proved anything is served these when all others are taken.
RESERVED_PATHS: Final = (b"/api/workers", b"/healthz", b"/readyz")
# So many refused callers at once are given the time to read why; the connections of further ones are closed at once.
_MAX_LINGERING: Final = 256
# They change how an answer is written.
_UNUSUAL_FIELDS: Final = frozenset({b"connection", b"transfer-encoding"})


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """What a client may send as a head, and how long it may take to send a request and to read an answer."""

    head_bytes: int
    header_count: int
    receipt_s: float
    write_s: float

    @classmethod
    def of(cls, settings: Settings) -> "RequestLimits":
        return cls(
            settings.max_header_bytes,
            settings.max_header_count,
            settings.receipt_deadline_s,
            settings.write_deadline_s,
        )


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """They apply to all connections at once, also to those that are open."""

    room: LiveValue[RoomLimits]
    request: LiveValue[RequestLimits]


class MasterServer:
    """Serves one ASGI application (lifecycle component). Signals, logging and lifespan belong to the caller."""

    def __init__(
        self, app: App, settings: Settings, limits: ServerLimits, *, sockets: Sequence[socket.socket] = ()
    ) -> None:
        """`sockets`: bound ones to serve instead of the settings' host and port. One of several processes shares the port
        with the others, and listens at one of its own besides, where it alone answers."""
        self._app = app
        self._settings = settings
        self._sockets = sockets
        self._shared = _Shared(
            ConnectionRoom(TrustedProxies(settings.trusted_proxies), limits.room),
            limits.request,
            _hsts_of(settings),
        )
        self._servers: list[asyncio.Server] = []
        self._own: asyncio.Server | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._state = ServerState()
        self._stopping = False
        self._tls: LiveContext | None = None

    @property
    def port(self) -> int:
        """The port bound by `start`."""
        return int(self._servers[0].sockets[0].getsockname()[1])

    @property
    def url(self) -> str:
        """The address bound by `start`, without a path."""
        return self._url_of(self._servers[0])

    @property
    def own_port(self) -> int:
        """The port where nobody but this process answers; `port`, unless it is shared."""
        return int((self._own or self._servers[0]).sockets[0].getsockname()[1])

    @property
    def own_url(self) -> str:
        """The address with `own_port`."""
        return self._url_of(self._own or self._servers[0])

    def _url_of(self, server: asyncio.Server) -> str:
        host, port = server.sockets[0].getsockname()[:2]
        scheme = "https" if self._settings.tls_certfile else "http"
        return url_of(scheme, host, port)

    @property
    def connections(self) -> int:
        """Connections open now."""
        return len(self._state.connections)

    async def start(self) -> None:
        """Listen. Raises OSError when the address cannot be bound."""
        settings = self._settings
        config = config_of(self._serve)
        if settings.tls_certfile is not None:
            self._tls = server_context(
                settings.tls_certfile, settings.tls_keyfile, settings.tls_client_cafile
            )
        loop = asyncio.get_running_loop()
        listen = functools.partial(
            loop.create_server,
            functools.partial(EdgeProtocol, config, self._state, self._shared),
            ssl=self._tls.context if self._tls else None,
            ssl_handshake_timeout=settings.receipt_deadline_s if self._tls else None,
            backlog=config.backlog,
        )
        if self._sockets:
            self._servers = [await listen(sock=sock) for sock in self._sockets]
        elif settings.processes > 1:
            # A listener each: the kernel spreads connections over them, and stops at once to give any to one that died.
            self._own = await listen(host=settings.host, port=0)
            shared = await listen(host=settings.host, port=settings.port, reuse_port=True)
            self._servers = [shared, self._own]
        else:
            self._servers = [await listen(host=settings.host, port=settings.port)]
        self._stopping = False
        self._sweep()

    async def stop(self) -> None:
        """Accept nothing more, let requests end for a grace time, then answer the rest 503 and close."""
        self._stopping = True
        for server in self._servers:
            server.close()
        for connection in list(self._state.connections):
            connection.shutdown()
        if tasks := list(self._state.tasks):
            await asyncio.wait(tasks, timeout=STOP_GRACE_S)
        if tasks := list(self._state.tasks):
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=STOP_GRACE_S)
        for connection in list(self._state.connections):
            connection.transport.close()
        # A client that does not read its last answer would hold the stop up.
        deadline = asyncio.get_running_loop().time() + LINGER_S
        while self._state.connections and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110  uvicorn's set
            await asyncio.sleep(0.01)
        for connection in list(self._state.connections):
            connection.transport.abort()
        if self._sweeper is not None:
            self._sweeper.cancel()
        for server in self._servers:
            await server.wait_closed()

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        for connection in list(self._state.connections):
            assert isinstance(connection, EdgeProtocol)
            connection.check_deadlines(now_s)
        if self._tls:
            self._tls.refresh()
        limits = self._shared.limits.current
        interval_s = min(0.5, limits.receipt_s / 4, limits.write_s / 4)
        self._sweeper = loop.call_later(until_tick_s(now_s, interval_s), self._sweep)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except asyncio.CancelledError:
            # Ours alone: the task belongs to the protocol, and only `stop` cancels it. The reason must be told here,
            # since uvicorn would log it as a fault of the application.
            if not self._stopping:
                raise
            response = problem_response(
                OverloadedError("the master is stopping"),
                negotiate(join_fields(scope["headers"]), strict=False),
            )
            with contextlib.suppress(RuntimeError):  # the answer had begun
                await response(scope, receive, send)


@dataclass(slots=True)
class _Shared:
    """What all connections share. `hsts`: fields of every answer that goes out by TLS."""

    room: ConnectionRoom
    limits: LiveValue[RequestLimits]
    hsts: tuple[tuple[bytes, bytes], ...] = ()
    lingering: int = 0


class EdgeCycle(RequestResponseCycle):
    """A request and its answer. A head that tells the length of its one piece of body leaves together with it; answers of
    one kind have the same head, which uvicorn would write anew for each, header by header."""

    _start: HTTPResponseStartEvent | None = None
    _head: "_Head | None" = None

    def lose(self) -> None:
        """Have the application told that the client has gone."""
        if not self.response_complete:
            self.disconnected = True
        self.message_event.set()

    async def send(self, message: ASGISendEvent) -> None:
        if self.transport.is_closing():
            # Whatever is written now would end in an exception, and that in the log.
            self.lose()
            return
        start, self._start = self._start, None
        if message["type"] == "http.response.start" and start is None and not self.response_started:
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
        """False, and nothing was done, where uvicorn has to look at it."""
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
    """`text` lacks the empty line at its end."""

    text: bytes
    body_length: int


@functools.lru_cache(maxsize=256)
def _usual_head(status: int, headers: tuple[tuple[bytes, bytes], ...]) -> _Head | None:
    """None where uvicorn has to look at it."""
    fields = {name.lower(): value for name, value in headers}
    length = fields.get(b"content-length", b"")
    if len(fields) < len(headers) or not length.isdigit() or not fields.keys().isdisjoint(_UNUSUAL_FIELDS):
        return None
    if any(HEADER_RE.search(name) or HEADER_VALUE_RE.search(value) for name, value in headers):
        return None
    lines = [b"%b: %b\r\n" % field for field in fields.items()]
    return _Head(STATUS_LINE[status] + b"".join(lines), int(length))


class EdgeProtocol(GuardedProtocol):
    """One connection."""

    def __init__(self, config: Config, state: ServerState, shared: _Shared) -> None:
        super().__init__(config, state)
        self._shared = shared
        self._untaken = 0  # bytes of the answer that the client had not taken at the last look
        self._stalled_since_s = 0.0  # of use while there are such bytes
        self._lingers = False
        # The request whose answer is being made, of those that are here.
        self._answering: EdgeCycle | None = None

    @property
    def limits(self) -> RequestLimits:
        """See `GuardedProtocol`."""
        return self._shared.limits.current

    @property
    def peer(self) -> str:
        """See `Guest`."""
        return self.client[0] if self.client else ""

    def give_way(self) -> None:
        """See `Guest`."""
        self._abort()

    def prove(self, *, is_worker: bool) -> None:
        """See `PROVE`."""
        if not self._shared.room.prove(self, is_worker=is_worker):
            raise OverloadedError("all connections are in use", retry_after_s=1)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._deadline_s = self.loop.time() + self.limits.receipt_s
        if not self._shared.room.enter(self):
            self.refuse(HTTPStatus.SERVICE_UNAVAILABLE, "overloaded")

    def connection_lost(self, exc: Exception | None) -> None:
        self._shared.room.leave(self)
        self._shared.lingering -= self._lingers
        self._lingers = False
        self._lose_all()
        super().connection_lost(exc)

    def _lose_all(self) -> None:
        # uvicorn tells the newest request alone.
        for cycle in (self._answering, self.cycle, *(cycle for cycle, _ in self.pipeline)):
            if isinstance(cycle, EdgeCycle):
                cycle.lose()
        self.pipeline.clear()

    def _abort(self) -> None:
        self._is_deaf = True
        self._lose_all()
        self.transport.abort()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        assert isinstance(cycle, EdgeCycle)
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    def on_headers_complete(self) -> None:
        version = self.check_head()
        room = self._shared.room
        is_unproven = room.is_unproven(self)
        if is_unproven and not self.url.startswith(RESERVED_PATHS) and room.is_full_for(self):
            self.stop_parsing(HTTPStatus.SERVICE_UNAVAILABLE, "overloaded")
        if len(self.pipeline) >= MAX_PIPELINE:
            # The client has not waited for a hundred answers; it gets those no more.
            self._abort()
            raise ParsingEndsError
        if is_unproven:
            self.scope[PROVE] = self.prove  # type: ignore[typeddict-unknown-key]
        self._begin_cycle(version)
        self.end_head()

    def _begin_cycle(self, version: str) -> None:
        """What uvicorn does at the end of a head, with a cycle of ours."""
        scope = self.scope
        url = httptools.parse_url(self.url)
        path = url.path.decode("ascii")
        scope["method"] = self.parser.get_method().decode("ascii")
        scope["http_version"] = version
        scope["path"] = urllib.parse.unquote(path) if "%" in path else path
        scope["raw_path"] = url.path
        scope["query_string"] = url.query or b""
        previous = self.cycle
        self.cycle = EdgeCycle(
            scope=scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=list(self._shared.hsts) if self.scheme == "https" else [],
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=version != "1.0" and self.parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )
        if previous is None or previous.response_complete:
            self._start_asgi_task(self.cycle, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, self.app))

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        self._shared.room.rest(self)
        if self.transport.is_closing():
            return
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, app)
            return
        if self._refusal is not None:
            self.refuse(*self._refusal)
        elif self._is_deaf or (self.cycle.response_complete and self.cycle.more_body):
            # The answer came before the end of the body (413 and its like): the rest is not wanted.
            self.linger()
        else:
            if not self._is_arriving:
                self._deadline_s = self.loop.time() + KEEP_ALIVE_S
            self.flow.resume_reading()

    def check_deadlines(self, now_s: float) -> None:
        """Called by the sweep: end what takes too long to arrive, to be read or to come."""
        untaken = self._untaken_bytes()
        if not self._untaken or untaken < self._untaken:
            self._stalled_since_s = now_s
        self._untaken = untaken
        if untaken and now_s - self._stalled_since_s > self.limits.write_s:
            self._abort()
        elif now_s > self._deadline_s:
            if self._is_deaf:
                if not untaken:
                    self._abort()
            elif self.flow.read_paused:
                self._deadline_s = now_s + self.limits.receipt_s  # we do not read: not the client's fault
            elif self._is_arriving:
                self.refuse_arriving(HTTPStatus.REQUEST_TIMEOUT, "receipt_deadline")
            else:
                self.transport.close()

    def _untaken_bytes(self) -> int:
        """Of the answer. Without TLS 0 as soon as the kernel has the rest of it."""
        unsent = self.transport.get_write_buffer_size()
        # With TLS the transport does not count what it has encrypted.
        if not unsent and self.scheme == "http":
            return 0
        endpoint = self.transport.get_extra_info("socket")
        if endpoint is None:
            return unsent  # closed, we are about to be told
        # The kernel takes more of us only when a good part of its own buffer, of megabytes, has gone. Between two such
        # steps a slow reader shows in that buffer alone.
        with contextlib.suppress(OSError, ValueError):  # a system that does not tell, or closed
            queue = fcntl.ioctl(endpoint.fileno(), termios.TIOCOUTQ, bytes(4))
            unsent += int.from_bytes(queue, sys.byteorder)
        return unsent

    def refuse_arriving(self, status: HTTPStatus, code: str) -> None:
        """See `GuardedProtocol`."""
        self._is_deaf = True
        self._is_arriving = False
        self._deadline_s = math.inf
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            self.refuse(status, code)
        elif cycle.more_body:
            # Its own body is broken or late. The application is told that the client has gone.
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started or self.pipeline:
                self._abort()
            else:
                self.refuse(status, code)
        else:
            self._refusal = (status, code)

    def refusal_bytes(self, status: HTTPStatus, code: str) -> bytes:
        """See `GuardedProtocol`. It is a problem, as all errors of the API are."""
        return _refusal_bytes(status, code)

    def linger(self) -> None:
        """See `GuardedProtocol`. Close at once if many refused callers linger."""
        self._is_deaf = True
        self._is_arriving = False
        self._shared.room.leave(self)
        if self._shared.lingering >= _MAX_LINGERING:
            self.transport.close()
            return
        if not self._lingers:
            self._lingers = True
            self._shared.lingering += 1
        super().linger()


def _hsts_of(settings: Settings) -> tuple[tuple[bytes, bytes], ...]:
    if not settings.tls_certfile or not settings.hsts_s:
        return ()
    return ((b"strict-transport-security", b"max-age=%d" % settings.hsts_s),)


@functools.cache
def _refusal_bytes(status: HTTPStatus, code: str) -> bytes:
    body = edge_problem(status, code)
    retry_after = "retry-after: 1\r\n" if status == HTTPStatus.SERVICE_UNAVAILABLE else ""
    head = (
        f"HTTP/1.1 {status} {status.phrase}\r\ncontent-type: application/msgpack\r\n"
        f"content-length: {len(body)}\r\nx-content-type-options: nosniff\r\n"
        "content-security-policy: default-src 'none'; frame-ancestors 'none'\r\n"
        f"{retry_after}connection: close\r\n\r\n"
    )
    return head.encode() + body
