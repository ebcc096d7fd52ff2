"""Kept HTTP connections were reset while idle: none is used again, and no caller notices."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

from jqmaster.net.egress import GuardedRoute
from tests.chaos.proxy import RawLink
from tests.support import real_time
from tests.support.egress import loopback_guard
from tests.support.loops import LOOPS, MakeLoop, run_in
from tests.support.waiting import wait_until
from worker_sdk.masters.blocking_client import BlockingClient
from worker_sdk.masters.masters import Masters
from worker_sdk.transport.http_client import DirectRoute, HttpClient
from worker_sdk.transport.loop_clients import LoopClients

pytestmark = real_time.SOCKETS

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/msgpack\r\nContent-Length: 1\r\n\r\n\x80"


class Peer:
    """Answers every request, over a link that resets connections."""

    def __init__(self, link: RawLink) -> None:
        self.link = link
        self.address = f"http://127.0.0.1:{link.port}"

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls) -> AsyncIterator["Peer"]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                while await reader.readuntil(b"\r\n\r\n"):
                    writer.write(OK)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        link = RawLink("http", server.sockets[0].getsockname()[:2], seed=1)
        await link.start()
        try:
            yield cls(link)
        finally:
            await link.stop()
            server.close()
            await asyncio.sleep(0)


async def check(peer: Peer, call: Callable[[], Awaitable[object]], heard: Callable[[], bool]) -> None:
    for _ in range(3):
        await asyncio.gather(*(call() for _ in range(4)))
        assert peer.link.reset()
        await wait_until(heard, what="the resets have arrived")
        await asyncio.gather(*(call() for _ in range(4)))


@LOOPS
def test_calls_to_workers_use_no_reset_connection(make_loop: MakeLoop) -> None:
    async def main() -> None:
        client = HttpClient(GuardedRoute(loopback_guard(), ssl.create_default_context), max_answer_bytes=1000)
        async with Peer.running() as peer:

            async def call() -> None:
                answer = await client.call(
                    "GET", peer.address, "/", b"", "", timeout_s=10, connect_timeout_s=5
                )
                assert answer.status == 200

            await check(peer, call, lambda: not client.open_connections)
            await client.close()

    run_in(make_loop, main())


@LOOPS
def test_calls_to_masters_use_no_reset_connection(make_loop: MakeLoop) -> None:
    async def main() -> None:
        client = LoopClients(
            lambda: HttpClient(DirectRoute(ssl.create_default_context), max_answer_bytes=1000)
        )
        async with Peer.running() as peer:

            async def call() -> None:
                http = await client.get()
                answer = await http.call(
                    "GET", peer.address, "/", None, "", timeout_s=10, connect_timeout_s=5, is_repeatable=True
                )
                assert answer.status == 200

            await check(peer, call, lambda: not client.open_connections())
            await client.close()

    run_in(make_loop, main())


async def test_blocking_calls_to_masters_use_no_reset_connection() -> None:
    async with Peer.running() as peer:
        client = BlockingClient(Masters([peer.address]), None)

        def call() -> None:
            assert client.call("GET", "/", None, timeout_s=10).status == 200

        for _ in range(3):
            await asyncio.to_thread(call)
            assert peer.link.reset()
            await asyncio.to_thread(call)
        client.close()
