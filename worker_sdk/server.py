"""uvicorn around the endpoint, for a worker that serves alone."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

import uvicorn

from worker_sdk.asgi import App

_MAX_CONNECTIONS: Final = 512
# Longer than a master keeps an idle connection: the side that sends must be the one that closes.
_KEEP_ALIVE_S: Final = 75


class _Uvicorn(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # Signals belong to who runs the worker.
        yield


class WorkerServer:
    """`port` 0: a free one; `bound_port` tells which once it is bound."""

    def __init__(self, app: App, host: str, port: int) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((host, port))
        except OSError:
            self._socket.close()
            raise
        self.bound_port: int = self._socket.getsockname()[1]
        self._server = _Uvicorn(
            uvicorn.Config(
                app,
                lifespan="off",
                access_log=False,
                log_config=None,
                log_level="warning",
                server_header=False,
                date_header=False,
                proxy_headers=False,
                limit_concurrency=_MAX_CONNECTIONS,
                timeout_keep_alive=_KEEP_ALIVE_S,
                timeout_graceful_shutdown=2,
                ws="none",
            )
        )
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._server.serve(sockets=[self._socket]), name="jq-server")
        while not self._server.started:
            if self._task.done():
                self._task.result()
                raise RuntimeError("the server of the worker did not start")
            await asyncio.sleep(0.001)

    async def stop(self) -> None:
        self._server.should_exit = True
        if self._task is not None:
            await self._task
        self._socket.close()


def url_of(host: str, port: int, master: str) -> str:
    """Where masters find this worker; for a wildcard host, the address from which `master` is reached."""
    if host in ("", "0.0.0.0", "::"):  # noqa: S104 - a comparison
        host = _outgoing_address(master)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _outgoing_address(master: str) -> str:
    parts = urlsplit(master)
    infos = socket.getaddrinfo(parts.hostname, parts.port or 80, type=socket.SOCK_DGRAM)
    family, kind, protocol, _, address = infos[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(address)  # sends nothing; the kernel chooses the address
        return str(probe.getsockname()[0])
