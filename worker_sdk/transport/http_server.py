"""The HTTP server of a worker that is not mounted in another application."""

import asyncio
import functools
import socket
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, NamedTuple, cast

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from worker_sdk import forked
from worker_sdk.transport.asgi_types import App
from worker_sdk.transport.guarded import LINGER_S, GuardedProtocol, ParsingEndsError, config_of
from worker_sdk.transport.tls import LiveContext

_STOP_GRACE_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class TransportLimits:
    """Limits of the server.

    * `receipt_s`: seconds for a request to arrive, plus one second for each 64 KiB. The first byte of a connection must
      also arrive within this time.
    * `keep_alive_s`: maximum seconds between two requests. A master closes an idle connection earlier, because the side
      that sends requests must close first.
    * `answer_s`: seconds until an answer is made and the client has read it.
    """

    connections: int = 512
    head_bytes: int = 32 * 1024
    header_count: int = 500
    receipt_s: float = 10.0
    keep_alive_s: float = 75.0
    answer_s: float = 30.0


class WorkerServer:
    """Serves `app` on `host`. Port 0 chooses a free port, and `bound_port` is its number. With `tls`, it serves HTTPS.

    The constructor binds the port, and raises OSError if it cannot.
    """

    def __init__(
        self,
        app: App,
        host: str,
        port: int,
        limits: TransportLimits | None = None,
        *,
        tls: LiveContext | None = None,
    ) -> None:
        self._limits = limits or TransportLimits()
        self._tls = tls
        self._app = app
        self._state = ServerState()
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        # Name the protocol TCP. Without the name, asyncio leaves Nagle's algorithm on (`base_events._set_nodelay`). An
        # answer in two writes then waits 40 ms for the peer's delayed ACK.
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
        # Close the copies in a process that a handler forked. Otherwise, this process would keep the port and the
        # masters' connections open after the worker has died. Masters would then wait for answers instead of being
        # refused.
        forked.replace_with_devnull(self._socket.fileno())
        for connection in self._state.connections:
            if not connection.transport.is_closing() and (
                sock := connection.transport.get_extra_info("socket")
            ):
                forked.replace_with_devnull(sock.fileno())

    @property
    def scheme(self) -> str:
        """Return `http`, or `https` if the server has a certificate."""
        return "https" if self._tls else "http"

    @property
    def connections(self) -> int:
        """Number of open connections."""
        return len(self._state.connections)

    async def start(self) -> None:
        config = config_of(self._app)
        loop = asyncio.get_running_loop()
        connected = functools.partial(WorkerProtocol, config, self._state, self._limits)
        self._server = await loop.create_server(
            connected,
            sock=self._socket,
            backlog=config.backlog,
            ssl=self._tls.context if self._tls else None,
            ssl_handshake_timeout=self._limits.receipt_s if self._tls else None,
        )
        limits = self._limits
        self._sweep(min(limits.receipt_s, limits.keep_alive_s, limits.answer_s) / 4)

    async def stop(self) -> None:
        """Accept no more connections, let requests end for a grace time, and close the remaining connections. Do
        nothing before `start`."""
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
        # Wait for clients to receive the last answers, but at most for LINGER_S, because a client may never read its
        # answer.
        end_s = asyncio.get_running_loop().time() + LINGER_S
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
            assert isinstance(connection, WorkerProtocol)
            connection.check_deadline(now_s)
        if self._tls:
            self._tls.refresh()
        self._sweeper = loop.call_later(interval_s, self._sweep, interval_s)


class _FixedLimits(NamedTuple):
    current: TransportLimits


class WorkerProtocol(GuardedProtocol):
    """One connection, which handles one request at a time."""

    is_host_required_in_1_0 = False

    def __init__(self, config: Config, state: ServerState, limits: TransportLimits) -> None:
        super().__init__(config, state, _FixedLimits(limits))
        self._limits = limits
        # When this connection began to wait for a request, or when the request began to arrive.
        self._since_s = 0.0
        self._answer: _Answer

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_request(self._limits.receipt_s)
        if len(self.connections) > self._limits.connections:
            self._make_room()

    def _make_room(self) -> None:
        """Close the connection that has been idle longest. If no connection is idle, close the connection with the
        request that has been arriving longest."""
        others = [
            one
            for one in self.connections
            if isinstance(one, WorkerProtocol) and one is not self and not one.transport.is_closing()
        ]
        if len(others) < self._limits.connections:
            return
        if waiting := [one for one in others if not one.is_answering]:
            min(waiting, key=lambda one: (one._is_arriving, one._since_s)).transport.abort()
        else:
            self._is_deaf = True
            self.transport.write(self.refusal_bytes(HTTPStatus.SERVICE_UNAVAILABLE, "overloaded"))
            self.transport.close()

    # --- called by the parser

    def on_message_begin(self) -> None:
        if self.is_answering:
            raise ParsingEndsError  # no legitimate client sends a request before it has the previous answer
        super().on_message_begin()
        self._since_s = self.loop.time()

    def begin_cycle(self, version: str) -> None:
        """See `GuardedProtocol`. Do what uvicorn does at the end of a head."""
        HttpToolsProtocol.on_headers_complete(self)
        self._answer = _Answer(self.cycle, self.transport)
        self.cycle.transport = cast(asyncio.Transport, self._answer)

    def on_message_complete(self) -> None:
        if len(self.headers) > self._limits.header_count:  # the trailers have added fields
            self.stop_parsing(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "too_many_headers")
        super().on_message_complete()
        self._deadline_s = self.loop.time() + self._limits.answer_s

    # --- ends

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        self._answer.flush()
        if self.transport.is_closing():
            return
        if self._is_deaf or self.cycle.more_body:
            # The request was answered before its body had arrived (401, 413). Ignore the rest of the body.
            self.linger()
        else:
            self._await_request(self._limits.keep_alive_s)
            self.flow.resume_reading()

    def check_deadline(self, now_s: float) -> None:
        """End requests that take too long to arrive, and answers that take too long to be read. The sweep over all
        connections calls this."""
        has_unsent = self.transport.get_write_buffer_size() > 0
        if has_unsent and now_s > self._since_s + self._limits.answer_s:
            self.transport.abort()  # the client does not read its answer
        elif now_s > self._deadline_s:
            if self._is_arriving and not self.transport.is_closing():
                self.refuse_arriving(HTTPStatus.REQUEST_TIMEOUT, "receipt_deadline")
            else:
                self.transport.abort()

    def _await_request(self, within_s: float) -> None:
        self._since_s = self.loop.time()
        self._deadline_s = self._since_s + within_s

    def refuse_arriving(self, status: HTTPStatus, code: str) -> None:
        """See `GuardedProtocol`. After the answer to a complete request, the connection closes without another
        answer."""
        cycle = self.cycle
        if self.is_answering:
            self._is_deaf = True
            self._is_arriving = cycle.keep_alive = False
            return
        if cycle is not None and not cycle.response_complete:
            # The body of this request is broken or late. The application treats this as if the client had closed the
            # connection.
            cycle.disconnected = True
            cycle.message_event.set()
        self.refuse(status, code)

    def refusal_bytes(self, status: HTTPStatus, code: str) -> bytes:
        """See `GuardedProtocol`. A master needs only the status."""
        return f"HTTP/1.1 {status} {status.phrase}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode()


class _Answer:
    """Wraps the transport for uvicorn's request cycle: it sends head and body in one write, so that the master wakes
    once."""

    def __init__(self, cycle: RequestResponseCycle, transport: asyncio.Transport) -> None:
        self._cycle = cycle
        self._transport = transport
        self._held: list[bytes] = []

    def write(self, data: bytes) -> None:
        if self._cycle.response_started:
            self._held.append(data)
        else:
            self._transport.write(data)  # send a 100 Continue at once

    def flush(self) -> None:
        if self._held:
            self._transport.write(b"".join(self._held))
            self._held.clear()

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def is_closing(self) -> bool:
        return self._transport.is_closing()
