"""HTTP clients for objects that outlive an event loop, or serve several loops at a time."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable

from worker_sdk import forked
from worker_sdk.transport.http_client import HttpClient
from worker_sdk.transport.loops import PerLoop


class LoopClients:
    """An `HttpClient` for each event loop. The connections of a client are closed with its loop. A forked process
    starts without connections."""

    def __init__(self, make: Callable[[], HttpClient]) -> None:
        self._clients = PerLoop(lambda: _LoopClient(make()), abandon=lambda client: client.http.abandon())
        self._is_closed = False

    async def get(self) -> HttpClient:
        """Return the client of the running loop. Raise RuntimeError after `close`, and in a loop that the parent
        process made."""
        if self._is_closed:
            raise RuntimeError("this client is closed")
        if os.getpid() != forked.known_pid:
            forked.check()
        client = self._clients[asyncio.get_running_loop()]
        if client.keeper is None:
            await client.open_until_loop_ends()
        return client.http

    async def close(self) -> None:
        """End the calls in progress with NoAnswerError, and refuse further calls."""
        self._is_closed = True
        for loop, client in self._clients.all():
            if loop is asyncio.get_running_loop():
                await client.close()
            elif not loop.is_closed():
                loop.call_soon_threadsafe(client.http.abort)

    def disown(self) -> None:
        """Refuse all calls, as after `close`. This is for a forked process, which has no connections of its own."""
        self._is_closed = True

    def drop_idle(self) -> None:
        """Close the idle connections of this event loop, so that the next calls open new ones."""
        self._clients[asyncio.get_running_loop()].http.drop_idle()

    def open_connections(self) -> int:
        """Return how many connections of all loops are open."""
        return sum(client.http.open_connections for _, client in self._clients.all())


class _LoopClient:
    """The client of one event loop."""

    def __init__(self, http: HttpClient) -> None:
        self.http = http
        self.keeper: AsyncGenerator[None, None] | None = None

    async def open_until_loop_ends(self) -> None:
        # Close the client when its loop closes. asyncio.run and servers close a loop's async generators just before
        # they close the loop. There is no other sign of its end.
        self.keeper = _close_at_end(self.http)
        await anext(self.keeper)

    async def close(self) -> None:
        await self.http.close()
        if self.keeper is not None:
            await self.keeper.aclose()


async def _close_at_end(http: HttpClient) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        await http.close()
