"""The HTTP server of a master.

A few times a second, one sweep over all connections enforces every deadline, so a request needs no timer.
"""

import asyncio
import contextlib
import functools
import socket
from collections.abc import Sequence
from typing import Final

from uvicorn.server import ServerState

from jqmaster.api.encoding.negotiation import join_fields, negotiate
from jqmaster.api.http.connection import ConnectionContext, EdgeProtocol
from jqmaster.api.http.connection_room import ConnectionRoom
from jqmaster.api.http.limits import ServerLimits
from jqmaster.api.http.problems import problem_response
from jqmaster.clock import until_tick_s
from jqmaster.config import Settings
from jqmaster.domain.identity.caller import TrustedProxies
from jqmaster.errors import OutcomeUnknownError
from jqmaster.live_value import LiveValue
from worker_sdk.transport.asgi_types import App, Receive, Scope, Send
from worker_sdk.transport.guarded import LINGER_S, config_of
from worker_sdk.transport.own_address import url_of
from worker_sdk.transport.tls import LiveContext, server_context

STOP_GRACE_S: Final = 5.0


class MasterServer:
    """Serves one ASGI application (lifecycle component). Signals, logging and lifespan belong to the caller."""

    def __init__(
        self,
        app: App,
        settings: Settings,
        limits: ServerLimits,
        *,
        sockets: Sequence[socket.socket] = (),
        is_leaving: LiveValue[bool] | None = None,
    ) -> None:
        """A process that shares its port with others also listens on a port of its own.

        * `sockets`: bound sockets to serve instead of the host and port of the settings.
        * `is_leaving`: while it returns true, each answer ends its connection.
        """
        self._app = app
        self._settings = settings
        self._sockets = sockets
        self._shared = ConnectionContext(
            ConnectionRoom(TrustedProxies(settings.trusted_proxies), limits.room),
            limits.request,
            _hsts_of(settings),
            is_leaving or LiveValue(False),
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
        """The port that only this process serves. If `port` is not shared, both are the same."""
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
            # Let each process have its own listener. The kernel spreads connections over the listeners. When a
            # process dies, the kernel stops using its listener at once.
            self._own = await listen(host=settings.host, port=0)
            shared = await listen(host=settings.host, port=settings.port, reuse_port=True)
            self._servers = [shared, self._own]
        else:
            self._servers = [await listen(host=settings.host, port=settings.port)]
        self._stopping = False
        self._sweep()

    async def stop(self) -> None:
        """Stop accepting connections, wait for running requests for a limited time, answer the remaining requests
        with 503, and close."""
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
        # Limit the wait, because a client that does not read its answer would delay the stop.
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
            # Only `stop` cancels this task, which belongs to the protocol. Answer here with the reason.
            # Otherwise, uvicorn would log the cancellation as an error of the application.
            if not self._stopping:
                raise
            response = problem_response(
                OutcomeUnknownError("the master stopped before the request had ended", retry_after_s=1),
                negotiate(join_fields(scope["headers"]), strict=False),
            )
            with contextlib.suppress(RuntimeError):  # the answer had already begun
                await response(scope, receive, send)


def _hsts_of(settings: Settings) -> tuple[tuple[bytes, bytes], ...]:
    if not settings.tls_certfile or not settings.hsts_s:
        return ()
    return ((b"strict-transport-security", b"max-age=%d" % settings.hsts_s),)
