"""The Service of some pods: each new connection goes to a ready pod, as far as the nodes know by then."""

import asyncio
import contextlib
import random
import ssl
from collections.abc import Sequence
from typing import Final, TypeAlias

# An address and a port, or the path of a Unix socket.
Endpoint: TypeAlias = tuple[str, int] | str
_CHUNK: Final = 64 * 1024


class ServiceProxy:
    """Forwards bytes. A change of the endpoints has its effect after `lag_s`, and never on open connections. `tls`: its
    clients speak TLS, which ends here."""

    def __init__(self, address: str, port: int, *, lag_s: float, tls: ssl.SSLContext | None = None) -> None:
        self.address, self.port = address, port
        self._lag_s, self._tls = lag_s, tls
        self._known: Sequence[Endpoint] = ()
        # The changes that nodes do not know yet, each with the instant from which on they do.
        self._coming: list[tuple[float, Sequence[Endpoint]]] = []
        self._open: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, self.address, self.port, ssl=self._tls)

    async def stop(self) -> None:
        assert self._server
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        await self._server.wait_closed()

    def tell(self, endpoints: Sequence[Endpoint]) -> None:
        """Use these endpoints from `lag_s` on."""
        if endpoints != (self._coming[-1][1] if self._coming else self._known):
            self._coming.append((asyncio.get_running_loop().time() + self._lag_s, endpoints))

    def _endpoints(self) -> Sequence[Endpoint]:
        """Return the endpoints of this instant. A timer would come late on a busy machine, and pods do not wait."""
        now_s = asyncio.get_running_loop().time()
        while self._coming and self._coming[0][0] <= now_s:
            self._known = self._coming.pop(0)[1]
        return self._known

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._open.add(task)
        try:
            # No endpoint, or a closed port: the client sees a reset where it would see a refusal.
            with contextlib.suppress(OSError, IndexError):
                to_pod = await _connected(random.choice(self._endpoints()))
                await _forward((reader, writer), to_pod)
        finally:
            self._open.discard(task)
            writer.transport.abort()


async def _connected(endpoint: Endpoint) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if isinstance(endpoint, str):
        return await asyncio.open_unix_connection(endpoint)
    return await asyncio.open_connection(*endpoint)


async def _forward(
    client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    pod: tuple[asyncio.StreamReader, asyncio.StreamWriter],
) -> None:
    async def one_way(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(_CHUNK):
            target.write(data)
            await target.drain()
        with contextlib.suppress(OSError, NotImplementedError):  # TLS has no half of a connection
            target.write_eof()

    try:
        async with asyncio.TaskGroup() as both:
            both.create_task(one_way(client[0], pod[1]))
            both.create_task(one_way(pod[0], client[1]))
    except* OSError:
        pass
    finally:
        pod[1].transport.abort()
