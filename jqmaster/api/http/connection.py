"""One connection to a master. It extends the guarded protocol by pipelining, connections reserved for workers,
and a deadline for every stage."""

import asyncio
import contextlib
import fcntl
import math
import re
import sys
import termios
import urllib.parse
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
from uvicorn.server import ServerState

from jqmaster.api.http.answer_cycle import EdgeCycle
from jqmaster.api.http.connection_room import PROVE, ConnectionRoom
from jqmaster.api.http.limits import RequestLimits
from jqmaster.api.http.problems import refusal_answer
from jqmaster.errors import OverloadedError
from jqmaster.live_value import LiveValue
from worker_sdk.transport.guarded import GuardedProtocol, ParsingEndsError

KEEP_ALIVE_S: Final = 75.0
MAX_PIPELINE: Final = 100
# Paths that an unproven connection may request even when all other connections are taken.
_RESERVED: Final = re.compile(rb"(/ns/[a-z0-9-]+)?(/api/workers|/api/settings|/healthz|/readyz)")
# Maximum number of refused connections that stay open for a moment, so that their callers can read the reason.
# Further refused connections are closed at once.
_MAX_LINGERING: Final = 256


@dataclass(slots=True)
class ConnectionContext:
    """State that all connections share.
    * `hsts`: header fields that are added to every answer over TLS.
    * `is_leaving`: whether the process has been told to stop.
    """

    room: ConnectionRoom
    limits: LiveValue[RequestLimits]
    hsts: tuple[tuple[bytes, bytes], ...] = ()
    is_leaving: LiveValue[bool] = field(default_factory=lambda: LiveValue(False))
    lingering: int = 0


class EdgeProtocol(GuardedProtocol):
    """The protocol of one connection to the master. If the server has no room for the connection, it closes the
    connection or refuses its requests."""

    def __init__(self, config: Config, state: ServerState, shared: ConnectionContext) -> None:
        super().__init__(config, state, shared.limits)
        self._shared = shared
        self._untaken = 0  # bytes of the answer that the client had not read at the last check
        self._stalled_since_s = 0.0  # time of the check of `_untaken`; meaningful only if `_untaken` is not 0
        self._lingers = False
        self._tls_fields: tuple[tuple[bytes, bytes], ...] = ()
        # True from the time at which the connection is accepted until a request on it carries a valid credential.
        self._is_unproven = False
        # The request on this connection that is being answered.
        self._answering: EdgeCycle | None = None

    @property
    def limits(self) -> RequestLimits:
        """Return the limits of requests that arrive now."""
        return self._shared.limits.current

    @property
    def peer(self) -> str:
        """See `CountedConnection`."""
        return self.client[0] if self.client else ""

    def close_now(self) -> None:
        """See `CountedConnection`."""
        self._abort()

    def prove(self, *, is_worker: bool) -> None:
        """See `PROVE`."""
        if not self._shared.room.prove(self, is_worker=is_worker):
            raise OverloadedError("all connections are in use", retry_after_s=1)
        self._is_unproven = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._deadline_s = self.loop.time() + self.limits.receipt_s
        if self.scheme == "https":
            self._tls_fields = self._shared.hsts
        self._is_unproven = self._shared.room.enter(self)
        if not self._is_unproven:
            self.refuse(HTTPStatus.SERVICE_UNAVAILABLE, "overloaded")

    def connection_lost(self, exc: Exception | None) -> None:
        self._shared.room.leave(self)
        self._shared.lingering -= self._lingers
        self._lingers = False
        self._lose_all()
        super().connection_lost(exc)

    def _lose_all(self) -> None:
        # Notify all requests of this connection, because uvicorn notifies only the newest request.
        for cycle in (self._answering, self.cycle, *(cycle for cycle, _ in self.pipeline)):
            if isinstance(cycle, EdgeCycle):
                cycle.note_disconnect()
        self.pipeline.clear()

    def _abort(self) -> None:
        self._is_deaf = True
        self._lose_all()
        self.transport.abort()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        assert isinstance(cycle, EdgeCycle)
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    def begin_cycle(self, version: str) -> None:
        """See `GuardedProtocol`. Do the same as uvicorn does at the end of a request's head, but with our own
        cycle."""
        if self._is_unproven and not _RESERVED.match(self.url) and self._shared.room.is_full_for(self):
            self.stop_parsing(HTTPStatus.SERVICE_UNAVAILABLE, "overloaded")
        if len(self.pipeline) >= MAX_PIPELINE:
            # Close the connection if the client pipelined too many requests. The waiting requests get no answer.
            self._abort()
            raise ParsingEndsError
        if self._is_unproven:
            self.scope[PROVE] = self.prove  # type: ignore[typeddict-unknown-key]
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
            default_headers=list(self._tls_fields),
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=version != "1.0" and self.parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )
        self.cycle.is_leaving, self.cycle.is_last = self._shared.is_leaving, self._is_last
        if previous is None or previous.response_complete:
            self._start_asgi_task(self.cycle, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, self.app))

    def _is_last(self) -> bool:
        """Return whether the connection must end after the answer that begins now, because the process is
        stopping.

        A load balancer sends new connections to other masters, but keeps using an open connection. The master
        first answers requests that have begun to arrive."""
        return not self.pipeline and not self._is_arriving and not self.cycle.more_body

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self._is_unproven:
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
            # If the answer came before the end of the body, as with 413, nobody needs the rest of the body.
            self.linger()
        else:
            if not self._is_arriving:
                self._deadline_s = self.loop.time() + KEEP_ALIVE_S
            self.flow.resume_reading()

    def check_deadlines(self, now_s: float) -> None:
        """End the connection if the client takes too long to send a request, to read an answer, or to begin its
        next request. The sweep calls this method."""
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
                self._deadline_s = (
                    now_s + self.limits.receipt_s
                )  # we have paused reading, so the client is not late
            elif self._is_arriving:
                self.refuse_arriving(HTTPStatus.REQUEST_TIMEOUT, "receipt_deadline")
            else:
                self.transport.close()

    def _untaken_bytes(self) -> int:
        """Return how many bytes of the answer the peer has not read yet. Without TLS, the result is 0 once the
        kernel has the rest of the answer."""
        unsent = self.transport.get_write_buffer_size()
        # Without TLS, an empty buffer of the transport means that nothing is left. With TLS, the transport does
        # not count bytes that are already encrypted.
        if not unsent and self.scheme == "http":
            return 0
        endpoint = self.transport.get_extra_info("socket")
        if endpoint is None:
            return unsent  # the connection is closed; asyncio will call `connection_lost` soon
        # Add the bytes that the kernel has not sent. Its buffer holds megabytes, and takes more bytes only after
        # much of it has been sent. Until then, only the fill level of that buffer shows the progress of a slow
        # reader.
        with contextlib.suppress(OSError, ValueError):  # not supported by the system, or the socket is closed
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
            # Tell the application that the client has disconnected, because the rest of this body is broken or late.
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started or self.pipeline:
                self._abort()
            else:
                self.refuse(status, code)
        else:
            self._refusal = (status, code)

    def refusal_bytes(self, status: HTTPStatus, code: str) -> bytes:
        """See `GuardedProtocol`. The answer is a problem, as for all errors of the API."""
        return refusal_answer(status, code, self._tls_fields)

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
