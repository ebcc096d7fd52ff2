"""The client below all event-loop calls, with a scripted server that does not understand HTTP."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests.support import real_time
from tests.support.waiting import wait_until
from worker_sdk.masters.client import MasterClient
from worker_sdk.masters.masters import Masters
from worker_sdk.transport.http_client import ClosedError, DirectRoute, HttpAnswer, HttpClient, NoAnswerError
from worker_sdk.transport.loop_clients import LoopClients

pytestmark = real_time.SOCKETS

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/a\r\nContent-Length: 2\r\n\r\nhi"


class Server:
    """Each connection gets the next script, and later ones repeat the last."""

    def __init__(self) -> None:
        self.scripts: list[Script] = []
        self.connections = 0
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []
        self.address = ""
        self._tasks: set[asyncio.Task[Any]] = set()

    async def request(self, reader: asyncio.StreamReader) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        lines = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        self.bodies.append(await reader.readexactly(int(lines[0][15:]) if lines else 0))

    def says(self, *answers: bytes, then_closes: bool = False) -> Script:
        """Give one answer for each request."""

        async def run(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for answer in answers:
                await self.request(reader)
                writer.write(answer)
            if not then_closes:
                await reader.read()

        return run

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        script = self.scripts[min(self.connections, len(self.scripts) - 1)]
        self.connections += 1
        task = asyncio.current_task()
        assert task
        self._tasks.add(task)
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
                await script(reader, writer)
                writer.close()
                await writer.wait_closed()
        finally:
            writer.transport.abort()
            self._tasks.discard(task)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks)
        await asyncio.sleep(0)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    listening = await asyncio.start_server(server.accept, "127.0.0.1", 0)
    server.address = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    yield server
    listening.close()
    await server.stop()


@pytest.fixture
async def client() -> AsyncIterator[LoopClients]:
    fields = frozenset({b"content-type", b"retry-after"})
    route = DirectRoute(ssl.create_default_context)
    client = LoopClients(lambda: HttpClient(route, max_answer_bytes=1_000_000, kept_fields=fields))
    yield client
    await client.close()


async def call(
    client: LoopClients,
    server: Server,
    body: bytes | None = b"b",
    *,
    timeout_s: float = 5.0,
    path: str = "/p",
) -> HttpAnswer:
    limits: dict[str, Any] = {"timeout_s": timeout_s, "connect_timeout_s": 3.0}
    http = await client.get()
    return await http.call(
        "POST", server.address, path, body, "Accept: x/y\r\n", is_repeatable=True, **limits
    )


async def test_one_connection_serves_call_after_call(client: LoopClients, server: Server) -> None:
    chunked = b"HTTP/1.1 503 No\r\nRetry-After: 7\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\n\r\n"
    informed = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK
    server.scripts = [server.says(OK, chunked, b"HTTP/1.1 204 None\r\n\r\n", informed)]
    assert await call(client, server) == HttpAnswer(200, b"hi", {b"content-type": "text/a"})
    assert await call(client, server, None) == HttpAnswer(503, b"abc", {b"retry-after": "7"})
    assert await call(client, server) == HttpAnswer(204, b"")
    assert (await call(client, server)).body == b"hi"
    assert server.connections == 1
    host = server.address.removeprefix("http://").encode()
    assert server.heads[1] == (
        b"POST /p HTTP/1.1\r\nHost: " + host + b"\r\nContent-Length: 0\r\nAccept: x/y\r\n\r\n"
    )


async def test_an_answer_may_come_byte_by_byte(client: LoopClients, server: Server) -> None:
    async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.request(reader)
        for byte in OK:
            writer.write(bytes([byte]))
            await asyncio.sleep(0)
        await reader.read()

    server.scripts = [trickle]
    assert (await call(client, server)).body == b"hi"


async def test_a_connection_on_which_more_came_than_was_asked_for_is_not_used_again(
    client: LoopClients, server: Server
) -> None:
    server.scripts = [server.says(OK + OK), server.says(OK)]
    for _ in range(2):
        assert (await call(client, server)).body == b"hi"
    assert server.connections == 2


async def test_calls_at_a_time_have_a_connection_each(client: LoopClients, server: Server) -> None:
    server.scripts = [server.says(OK, OK)]
    await asyncio.gather(*(call(client, server) for _ in range(5)))
    await asyncio.gather(*(call(client, server) for _ in range(5)))
    assert server.connections == 5


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhi",  # and closes
        b"HTTP/1.1 200 OK\r\n\r\nits end is that of the connection",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2000000\r\n\r\n" + b"x" * 2_000_000,
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 2_000_000,
        b"",
    ],
    ids=["no HTTP", "cut off", "without length", "upgrade", "too long", "endless head", "nothing"],
)
async def test_broken_answers_are_no_answers(client: LoopClients, server: Server, answer: bytes) -> None:
    server.scripts = [server.says(answer, then_closes=True), server.says(OK)]
    with pytest.raises(NoAnswerError):
        await call(client, server)
    assert server.connections == 1  # failure of a new connection does not justify another
    assert (await call(client, server)).body == b"hi"
    assert server.connections == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi",
        OK + b"and more",
        OK + OK,
        OK + b"HTTP/1.1 200 O",
    ],
    ids=["said so", "garbage", "two answers", "half an answer"],
)
async def test_a_connection_that_is_not_clean_is_not_used_again(
    client: LoopClients, server: Server, answer: bytes
) -> None:
    server.scripts = [server.says(answer, OK), server.says(OK)]
    assert (await call(client, server)).body == b"hi"
    assert (await call(client, server)).body == b"hi"
    assert server.connections == 2


async def test_a_kept_connection_that_was_closed_meanwhile_is_made_anew(
    client: LoopClients, server: Server
) -> None:
    async def ends_at_the_second(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.request(reader)
        writer.write(OK)
        await server.request(reader)

    server.scripts = [ends_at_the_second, server.says(OK)]
    await call(client, server)
    assert (await call(client, server, b"again")).body == b"hi"
    assert server.connections == 2
    assert server.bodies == [b"b", b"again", b"again"]


async def test_a_call_whose_answer_began_is_not_repeated(client: LoopClients, server: Server) -> None:
    server.scripts = [server.says(OK, OK[:-1], then_closes=True), server.says(OK)]
    await call(client, server)
    with pytest.raises(ClosedError):
        await call(client, server)
    assert server.connections == 1


async def test_the_time_of_a_call_is_for_all_of_it(client: LoopClients, server: Server) -> None:
    async def forever(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while not writer.is_closing():
            writer.write(b"X: y\r\n")
            await writer.drain()
            await asyncio.sleep(0.01)

    server.scripts = [forever, server.says(OK)]
    with pytest.raises(NoAnswerError, match="timed out"):
        await call(client, server, timeout_s=0.1)
    assert (await call(client, server)).body == b"hi"


async def test_the_connection_of_a_cancelled_call_is_not_used_again(
    client: LoopClients, server: Server
) -> None:
    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.request(reader)
        await reader.read()

    server.scripts = [late, server.says(OK)]
    first = asyncio.ensure_future(call(client, server))
    await wait_until(lambda: server.bodies == [b"b"])
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert (await call(client, server)).body == b"hi"
    assert server.connections == 2


async def test_a_large_body_arrives_whole(client: LoopClients, server: Server) -> None:
    server.scripts = [server.says(OK, OK)]
    body = bytes(range(256)) * 20_000
    assert (await call(client, server, body)).body == b"hi"
    assert (await call(client, server, body)).body == b"hi"
    assert server.connections == 1
    assert server.bodies == [body, body]


async def test_a_refusal_of_a_large_body_is_heard_before_its_end(client: LoopClients, server: Server) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 No\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        await asyncio.Event().wait()

    server.scripts = [refuse, server.says(OK)]
    assert (await call(client, server, bytes(50_000_000))).status == 413
    assert (await call(client, server)).body == b"hi"
    assert server.connections == 2


async def test_values_that_would_break_a_request_are_refused(client: LoopClients, server: Server) -> None:
    for path in ("/a b", "/a\r\nX: y", "/ä"):
        with pytest.raises(ValueError, match="no path"):
            await call(client, server, path=path)
    with pytest.raises(ValueError, match="token"):
        MasterClient(Masters("http://127.0.0.1:1"), "t0ken\n")


async def test_the_end_of_a_client_ends_its_calls(client: LoopClients, server: Server) -> None:
    server.scripts = [server.says(OK, b"")]
    await call(client, server)
    under_way: asyncio.Future[Any] = asyncio.ensure_future(call(client, server))
    await wait_until(lambda: len(server.bodies) == 2)
    await client.close()
    with pytest.raises(ClosedError, match="closed"):
        await under_way
    with pytest.raises(RuntimeError, match="closed"):
        await call(client, server)
