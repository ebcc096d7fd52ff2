"""The edge against malformed, slow and greedy clients, over raw sockets."""

import asyncio
import contextlib
import gc
import logging
import shutil
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import msgpack
import pytest

from jqmaster.api.encoding.bodies import read_body
from jqmaster.api.encoding.negotiation import Encoding, join_fields
from jqmaster.api.http.connection import EdgeProtocol
from jqmaster.api.http.connection_room import PROVE
from jqmaster.api.http.limits import RequestLimits, ServerLimits
from jqmaster.api.http.problems import problem_response
from jqmaster.api.http.server import MasterServer
from jqmaster.app.policies import room_limits
from jqmaster.config import Settings
from jqmaster.errors import JqmasterError
from jqmaster.live_value import LiveValue
from tests.support import real_time
from tests.support.each import for_each
from tests.support.strict_answers import check_headers, headers_of

pytestmark = real_time.SOCKETS

HOST = b"Host: localhost\r\n"
GET = b"GET / HTTP/1.1\r\n" + HOST + b"\r\n"
LARGE_BYTES = 8_000_000


class App:
    """Answers according to the path and remembers what reached it."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, bytes]] = []
        self.release = asyncio.Event()
        self.disconnects = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        path, method = scope["path"], scope["method"]
        body = b""
        if path in ("/proved", "/api/workers/proved") and (prove := scope.get(PROVE)):
            try:
                prove(is_worker=path != "/proved")
            except JqmasterError as error:
                await problem_response(error, Encoding.MSGPACK)(scope, receive, send)
                return
        if path == "/early":
            await self._answer(send, 401, b"no")
            return
        if path == "/wait":
            self.calls.append((method, path, b""))
            await self.release.wait()
        elif path.startswith("/odd/"):
            await self._answer_oddly(send, path.removeprefix("/odd/"))
            return
        elif path == "/large":
            await self._answer(send, 200, b"x" * LARGE_BYTES)
            return
        elif method == "POST":
            try:
                body = await read_body(join_fields(scope["headers"]), receive, max_bytes=100_000)
            except JqmasterError as error:
                self.disconnects += error.code == "truncated"
                await problem_response(error, Encoding.MSGPACK)(scope, receive, send)
                return
        self.calls.append((method, path, body))
        await self._answer(send, 200, msgpack.packb(len(scope["headers"])))

    @staticmethod
    async def _answer_oddly(send: Any, kind: str) -> None:
        length = b"1" if kind == "long" else b"2"
        extra = {
            "injected": [(b"x", b"1\r\ny: 2")],
            "named": [(b"a b", b"1")],
            "closed": [(b"connection", b"close")],
        }
        headers = [(b"content-length", length), *extra.get(kind, [])]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if kind == "pieces":
            await send({"type": "http.response.body", "body": b"o", "more_body": True})
            await send({"type": "http.response.body", "body": b"k"})
        else:
            await send({"type": "http.response.body", "body": b"ok"})

    @staticmethod
    async def _answer(send: Any, status: int, body: bytes) -> None:
        headers = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


class Edge:
    def __init__(self, app: App, server: MasterServer, limits: ServerLimits) -> None:
        self.app = app
        self.server = server
        self.limits = limits

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port, limit=1 << 24)
        try:
            yield reader, writer
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def exchange(self, sent: bytes, *, half_close: bool = False) -> bytes:
        """Return everything that comes back until the server closes."""
        async with self.connection() as (reader, writer):
            writer.write(sent)
            with contextlib.suppress(ConnectionError):
                await writer.drain()
                if half_close:
                    writer.write_eof()
            return await asyncio.wait_for(read_to_end(reader), 10)


async def read_to_end(reader: asyncio.StreamReader) -> bytes:
    received = b""
    with contextlib.suppress(ConnectionError):
        while chunk := await reader.read(65536):
            received += chunk
    return received


async def read_answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.startswith(b"content-length:")
    )
    return int(head.split()[1]), await reader.readexactly(length)


def statuses(received: bytes) -> list[int]:
    return [int(part[:3]) for part in received.split(b"HTTP/1.1 ")[1:]]


Start = Callable[..., Awaitable[Edge]]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    servers = []

    async def start_edge(**settings: Any) -> Edge:
        app = App()
        # Settings allow no deadlines as short as these tests need.
        deadlines = {key: settings.pop(key) for key in list(settings) if key.endswith("_deadline_s")}
        given = Settings(port=0, **settings).model_copy(update=deadlines)
        limits = ServerLimits(LiveValue(room_limits(given)), LiveValue(RequestLimits.of(given)))
        server = MasterServer(app, given, limits)
        await server.start()
        servers.append((app, server))
        return Edge(app, server, limits)

    yield start_edge
    for app, server in servers:
        app.release.set()
        await server.stop()
        assert server.connections == 0


@pytest.fixture
async def edge(start: Start) -> Edge:
    return await start()


async def wait_until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.005)


async def test_requests_on_one_connection_are_answered_in_order(edge: Edge) -> None:
    async with edge.connection() as (reader, writer):
        for body in (b"\x01", b"\x02"):
            length = str(len(body)).encode()
            writer.write(
                b"POST /a HTTP/1.1\r\n" + HOST + b"Content-Type: application/msgpack\r\nContent-Length: " + length
                + b"\r\n\r\n" + body
            )  # fmt: skip
            assert (await read_answer(reader))[0] == 200
    assert [call[2] for call in edge.app.calls] == [b"\x01", b"\x02"]


@pytest.mark.parametrize("kind", ["pieces", "closed", "head", "plain"])
async def test_an_answer_that_is_not_whole_or_not_usual_arrives_too(edge: Edge, kind: str) -> None:
    method = "HEAD" if kind == "head" else "GET"
    async with edge.connection() as (reader, writer):
        request = f"{method} /odd/{kind} HTTP/1.1\r\n".encode() + HOST + b"\r\n"
        for _ in range(1 if kind == "closed" else 2):
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n")
            assert (b"connection: close" in head) is (kind == "closed")
            if kind != "head":
                assert await reader.readexactly(2) == b"ok"
        if kind == "closed":
            assert await reader.read() == b""


@pytest.mark.parametrize("kind", ["injected", "named", "long"])
async def test_an_answer_with_a_broken_head_never_leaves_as_one(
    edge: Edge, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with edge.connection() as (reader, writer):
        writer.write(f"GET /odd/{kind} HTTP/1.1\r\n".encode() + HOST + b"\r\n")
        received = await read_to_end(reader)
    assert b"y: 2" not in received
    assert not received.endswith(b"ok")


async def test_an_answer_names_neither_server_nor_date(edge: Edge) -> None:
    async with edge.connection() as (reader, writer):
        writer.write(GET)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
    assert b"server:" not in head
    assert b"date:" not in head


MALFORMED = {
    "two lengths": (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400),
    "same length twice": (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\na", 400),
    "negative length": (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: -1\r\n\r\n", 400),
    "length 1e3": (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 1e3\r\n\r\n", 400),
    "length abc": (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: abc\r\n\r\n", 400),
    "length 2^64": (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 18446744073709551616\r\n\r\n", 400),
    "chunked and length": (
        b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "length and chunked": (
        b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", 400),
    "gzip, chunked": (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 415),
    "identity": (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: identity\r\n\r\n", 415),
    "no Host": (b"GET / HTTP/1.1\r\n\r\n", 400),
    "two Hosts": (b"GET / HTTP/1.1\r\n" + HOST + HOST + b"\r\n", 400),
    "NUL in path": (b"GET /\0 HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "CR in path": (b"GET /\r HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "DEL in path": (b"GET /\x7f HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "tab in path": (b"GET /\tx HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "raw byte in path": (b"GET /\xc0\xaf HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "NUL in header": (b"GET / HTTP/1.1\r\n" + HOST + b"X: a\0b\r\n\r\n", 400),
    "CR in header": (b"GET / HTTP/1.1\r\n" + HOST + b"X: a\rb\r\n\r\n", 400),
    "LF alone in header": (b"GET / HTTP/1.1\r\n" + HOST + b"X: a\nb: c\r\n\r\n", 400),
    "DEL in header": (b"GET / HTTP/1.1\r\n" + HOST + b"X: a\x7f\r\n\r\n", 400),
    "folded header": (b"GET / HTTP/1.1\r\n" + HOST + b"X: a\r\n b\r\n\r\n", 400),
    "blank before colon": (b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
    "HTTP/1.2": (b"GET / HTTP/1.2\r\n" + HOST + b"\r\n", 400),
    "HTTP/2.0": (b"GET / HTTP/2.0\r\n" + HOST + b"\r\n", 505),
    "HTTP/2 preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04", 400),
    "lower-case method": (b"get / HTTP/1.1\r\n" + HOST + b"\r\n", 501),
    "method of 200 characters": (b"G" * 200 + b" / HTTP/1.1\r\n" + HOST + b"\r\n", 501),
    "RTSP/1.0": (b"GET / RTSP/1.0\r\n" + HOST + b"\r\n", 400),
    "two blanks before the path": (b"GET  / HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "two blanks before the version": (b"GET /  HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "a line end before it": (b"\r\nGET / HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "no version": (b"GET /\r\n\r\n", 505),
    "CONNECT": (b"CONNECT a:80 HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "long path": (b"GET /" + b"a" * 65536 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 414),
    "header of 100 KB": (b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"a" * 100_000 + b"\r\n\r\n", 431),
    "head without end": (b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"a" * 300_000, 431),
    "5,000 headers": (b"GET / HTTP/1.1\r\n" + HOST + b"X: a\r\n" * 5000 + b"\r\n", 431),
    "65 headers": (b"GET / HTTP/1.1\r\n" + HOST + b"X: a\r\n" * 64 + b"\r\n", 431),
}  # fmt: skip


@for_each("name", MALFORMED)
@pytest.mark.row(6, 7, 8, 10, 11, 12, 13, 14, 15, 16, 18)
async def test_a_malformed_head_is_refused_and_the_connection_closed(
    edge: Edge, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    sent, status = MALFORMED[name]
    received = await edge.exchange(sent)
    assert statuses(received) == [status]
    head, _, body = received.partition(b"\r\n\r\n")
    assert b"connection: close" in head
    check_headers(headers_of(head))
    assert msgpack.unpackb(body)["status"] == status
    assert edge.app.calls == []
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize(
    "chunks",
    [
        b"zz\r\nabc\r\n0\r\n\r\n",
        b"3\r\nabcXX0\r\n\r\n",
        b"3\nabc\r\n0\r\n\r\n",
        b"-1\r\n\r\n",
        b"f" * 17 + b"\r\n",
    ],
)
@pytest.mark.row(9)
async def test_a_bad_chunk_is_refused_and_the_application_sees_no_whole_body(
    edge: Edge, chunks: bytes
) -> None:
    head = (
        b"POST / HTTP/1.1\r\n"
        + HOST
        + b"Content-Type: application/msgpack\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    received = await edge.exchange(head + chunks)
    assert statuses(received) == [400]
    assert edge.app.calls == []


async def test_the_request_line_of_a_pipelined_request_is_judged_as_strictly(edge: Edge) -> None:
    for broken in (
        GET.replace(b"HTTP/", b"RTSP/"),
        GET.replace(b"GET /", b"GET  /"),
        b"\r\nGET  / HTTP/1.1\r\n",
    ):
        assert statuses(await edge.exchange(GET + GET + broken + b"\r\n")) == [200, 200, 400]


@pytest.mark.parametrize("size", [1, 7, 40])
async def test_requests_in_pieces_of_any_size_are_answered(edge: Edge, size: int) -> None:
    body = b"Content-Type: application/msgpack\r\nContent-Length: 3\r\n\r\nabc"
    sent = GET + b"POST /p HTTP/1.1\r\n" + HOST + body + POST_CHUNKED + b"1\r\nx\r\n0\r\n\r\n" + GET
    async with edge.connection() as (reader, writer):
        for at in range(0, len(sent), size):
            writer.write(sent[at : at + size])
            await asyncio.sleep(0)
        for _ in range(4):
            assert (await read_answer(reader))[0] == 200


@pytest.mark.row(14)
async def test_a_tls_hello_on_the_plain_port_is_closed_without_a_word(
    edge: Edge, caplog: pytest.LogCaptureFixture
) -> None:
    assert await edge.exchange(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 100) == b""
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.row(14)
async def test_http_1_0_is_served_and_closed(edge: Edge) -> None:
    received = await edge.exchange(b"GET / HTTP/1.0\r\n" + HOST + b"\r\n")
    assert statuses(received) == [200]
    assert statuses(await edge.exchange(b"GET / HTTP/1.0\r\n\r\n")) == [400]


@pytest.mark.row(21)
async def test_an_upgrade_is_ignored_and_nothing_after_it_is_read(edge: Edge) -> None:
    for protocol in (b"websocket", b"h2c"):
        upgrade = b"GET /u HTTP/1.1\r\n" + HOST + b"Connection: Upgrade\r\nUpgrade: " + protocol + b"\r\n\r\n"
        assert statuses(await edge.exchange(upgrade + b"GET /smuggled HTTP/1.1\r\n" + HOST + b"\r\n")) == [
            200
        ]
    assert {path for _, path, _ in edge.app.calls} == {"/u"}


@pytest.mark.row(5)
async def test_garbage_after_a_request_is_refused_after_its_answer(edge: Edge) -> None:
    post = (
        b"POST /first HTTP/1.1\r\n" + HOST + b"Content-Type: application/msgpack\r\nContent-Length: 5\r\n\r\n"
    )
    assert statuses(await edge.exchange(post + b"1234567890")) in ([200, 400], [200, 501])
    assert [path for _, path, _ in edge.app.calls] == ["/first"]


@pytest.mark.row(4)
async def test_a_body_that_ends_early_stores_nothing(edge: Edge) -> None:
    post = (
        b"POST / HTTP/1.1\r\n"
        + HOST
        + b"Content-Type: application/msgpack\r\nContent-Length: 10\r\n\r\n12345"
    )
    await edge.exchange(post, half_close=True)
    await wait_until(lambda: edge.app.disconnects == 1)
    assert edge.app.calls == []


POST_CHUNKED = (
    b"POST / HTTP/1.1\r\n" + HOST + b"Content-Type: application/msgpack\r\nTransfer-Encoding: chunked\r\n\r\n"
)


async def test_trailers_do_not_reach_the_headers(edge: Edge) -> None:
    head = POST_CHUNKED
    async with edge.connection() as (reader, writer):
        writer.write(head + b"1\r\n\x01\r\n0\r\nAuthorization: Bearer x\r\n\r\n")
        assert await read_answer(reader) == (200, b"\x03")
    assert statuses(await edge.exchange(head + b"1\r\n\x01\r\n0\r\n" + b"T: x\r\n" * 100))[-1] == 431


async def test_a_trailer_that_never_ends_is_not_gathered(edge: Edge) -> None:
    head = POST_CHUNKED + b"1\r\n\x01\r\n0\r\nT: "
    async with edge.connection() as (reader, writer):
        writer.write(head)
        with contextlib.suppress(ConnectionError):
            for _ in range(64):
                writer.write(b"x" * 4096)
                await writer.drain()
        assert (await read_answer(reader))[0] == 431


@pytest.mark.row(1)
async def test_silence_after_connecting_is_closed(start: Start) -> None:
    edge = await start(receipt_deadline_s=0.2)
    assert await edge.exchange(b"") == b""
    assert await edge.exchange(b"\r\n") == b""


@pytest.mark.parametrize(
    ("begin", "drop"),
    [
        (b"GET / HTTP/1.1\r\n", b"X: a\r\n"),
        (b"GET /", b"a"),
        (
            b"POST / HTTP/1.1\r\n"
            + HOST
            + b"Content-Type: application/msgpack\r\nContent-Length: 999\r\n\r\n",
            b"a",
        ),
    ],
    ids=["head", "path", "body"],
)
@pytest.mark.row(2, 3)
async def test_a_trickle_ends_with_408(start: Start, begin: bytes, drop: bytes) -> None:
    edge = await start(receipt_deadline_s=0.3)
    async with edge.connection() as (reader, writer):
        writer.write(begin)
        ended = asyncio.create_task(read_to_end(reader))
        async with asyncio.timeout(5):
            while not ended.done():
                writer.write(drop)
                await asyncio.wait([ended], timeout=0.05)
        assert statuses(ended.result()) == [408]
        check_headers(headers_of(ended.result()))
    assert edge.app.calls == []


async def test_a_body_that_arrives_as_fast_as_promised_may_take_longer_than_the_deadline(
    start: Start,
) -> None:
    edge = await start(receipt_deadline_s=0.2)
    async with edge.connection() as (reader, writer):
        head = (
            b"POST / HTTP/1.1\r\n"
            + HOST
            + b"Content-Type: application/msgpack\r\nContent-Length: 90000\r\n\r\n"
        )
        writer.write(head + b"a" * 80_000)
        begun = asyncio.get_running_loop().time()
        answer = asyncio.create_task(read_answer(reader))
        await asyncio.wait([answer], timeout=0.7)
        writer.write(b"a" * 10_000)
        assert (await answer)[0] == 200
        assert asyncio.get_running_loop().time() - begun > 0.5


async def test_a_request_that_takes_long_to_answer_is_not_late(start: Start) -> None:
    edge = await start(receipt_deadline_s=0.1)
    async with edge.connection() as (reader, writer):
        writer.write(b"GET /wait HTTP/1.1\r\n" + HOST + b"\r\n")
        answer = asyncio.create_task(read_answer(reader))
        await asyncio.wait([answer], timeout=0.6)
        edge.app.release.set()
        assert (await answer)[0] == 200


@pytest.mark.row(25)
async def test_a_client_that_reads_nothing_is_cut_off(start: Start) -> None:
    edge = await start(write_deadline_s=0.3)
    async with edge.connection() as (_, writer):
        cast(asyncio.Transport, writer.transport).pause_reading()
        writer.write(b"GET /large HTTP/1.1\r\n" + HOST + b"\r\n")
        await wait_until(lambda: edge.server.connections == 1)
        await wait_until(lambda: edge.server.connections == 0)


@contextlib.asynccontextmanager
async def large_answer(edge: Edge) -> AsyncIterator[tuple[socket.socket, EdgeProtocol]]:
    """Yield a new connection with an unread answer, and the server's side of it. The sweeper is off."""
    assert edge.server._sweeper is not None
    edge.server._sweeper.cancel()
    loop = asyncio.get_running_loop()
    with socket.socket() as client:
        client.setblocking(False)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 100_000)
        await loop.sock_connect(client, ("127.0.0.1", edge.server.port))
        await loop.sock_sendall(client, GET.replace(b"/", b"/large", 1))
        await wait_until(lambda: edge.server.connections == 1)
        (connection,) = edge.server._state.connections
        assert isinstance(connection, EdgeProtocol)
        await wait_until(lambda: connection.transport.get_write_buffer_size() > 0)
        yield client, connection


async def read_some(client: socket.socket) -> bytes:
    async with asyncio.timeout(5):
        return await asyncio.get_running_loop().sock_recv(client, 250_000)


async def test_a_new_connection_has_the_whole_deadline_for_its_first_answer(start: Start) -> None:
    edge = await start(write_deadline_s=30)
    async with large_answer(edge) as (client, connection):
        connection.check_deadlines(asyncio.get_running_loop().time())
        received = 0
        while received < LARGE_BYTES:
            piece = await read_some(client)
            assert piece, f"cut off after {received} bytes"
            received += len(piece)


async def test_a_slow_reader_that_goes_on_reading_gets_all(start: Start) -> None:
    edge = await start(write_deadline_s=30)
    async with large_answer(edge) as (client, connection):
        now_s = asyncio.get_running_loop().time()

        def is_seen_to_read() -> bool:
            connection.check_deadlines(now_s)
            return connection._stalled_since_s == now_s

        received = 0
        while received < LARGE_BYTES:
            piece = await read_some(client)
            assert piece, f"cut off after {received} bytes"
            received += len(piece)
            now_s += 29
            await wait_until(is_seen_to_read)


@pytest.mark.parametrize(
    "framing", [b"Content-Length: 100001\r\n", b"Content-Length: 3000000\r\nExpect: 100-continue\r\n"]
)
@pytest.mark.row(20, 59)
async def test_an_honest_length_over_the_cap_is_refused_before_the_body(edge: Edge, framing: bytes) -> None:
    received = await edge.exchange(
        b"POST / HTTP/1.1\r\n" + HOST + b"Content-Type: application/msgpack\r\n" + framing + b"\r\n"
    )
    assert statuses(received) == [413]


async def test_a_body_is_continued_when_it_fits(edge: Edge) -> None:
    async with edge.connection() as (reader, writer):
        writer.write(
            b"POST / HTTP/1.1\r\n" + HOST
            + b"Content-Type: application/msgpack\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n"
        )  # fmt: skip
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"\x01")
        assert (await read_answer(reader))[0] == 200


@pytest.mark.parametrize("extra", [b"", b"Connection: close\r\n"])
@pytest.mark.row(59)
async def test_a_chunked_body_is_cut_at_the_cap_and_the_client_can_read_why(edge: Edge, extra: bytes) -> None:
    head = (
        b"POST / HTTP/1.1\r\n"
        + HOST
        + extra
        + b"Content-Type: application/msgpack\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    chunk = b"4000\r\n" + b"a" * 0x4000 + b"\r\n"
    assert statuses(await edge.exchange(head + chunk * 60)) == [413]


async def test_a_client_may_send_a_large_body_to_an_answer_that_comes_early(edge: Edge) -> None:
    head = b"POST /early HTTP/1.1\r\n" + HOST + b"Connection: close\r\nContent-Length: 2000000\r\n\r\n"
    assert statuses(await edge.exchange(head + b"a" * 1_000_000)) == [401]


@pytest.mark.row(24)
async def test_pipelined_requests_are_answered_in_order_up_to_a_bound(edge: Edge) -> None:
    async with edge.connection() as (reader, writer):
        writer.write(b"".join(b"GET /%d HTTP/1.1\r\n" % n + HOST + b"\r\n" for n in range(100)))
        for _ in range(100):
            assert (await read_answer(reader))[0] == 200
    assert [path for _, path, _ in edge.app.calls] == [f"/{n}" for n in range(100)]

    gc.collect()
    await edge.exchange(GET * 1000)
    assert len(edge.app.calls) < 202


PROVED = GET.replace(b"/", b"/proved", 1)


@contextlib.asynccontextmanager
async def held(
    edge: Edge, count: int, request: bytes = GET
) -> AsyncIterator[list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]:
    """Yield this many connections, each idle after an answered request; without `request`, idle from the start."""
    async with contextlib.AsyncExitStack() as stack:
        connections = []
        for _ in range(count):
            connection = await stack.enter_async_context(edge.connection())
            connections.append(connection)
            if request:
                connection[1].write(request)
                assert (await read_answer(connection[0]))[0] == 200
        yield connections


async def ask(edge: Edge, request: bytes) -> int:
    (status,) = statuses(await edge.exchange(request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")))
    return status


@pytest.mark.row(26)
async def test_connections_above_the_cap_get_503_and_the_others_go_on(start: Start) -> None:
    edge = await start(max_connections=16, address_share=1)
    async with held(edge, 16, PROVED) as connections:
        received = await edge.exchange(PROVED)
        assert statuses(received) == [503]
        assert headers_of(received)["retry-after"] == "1"
        check_headers(headers_of(received))
        reader, writer = connections[0]
        writer.write(GET)
        assert (await read_answer(reader))[0] == 200
    await wait_until(lambda: edge.server.connections == 0)
    assert await ask(edge, PROVED) == 200


@pytest.mark.row(26)
@pytest.mark.parametrize("request_first", [b"", GET], ids=["silent", "idle"])
async def test_callers_that_prove_nothing_hold_no_connection_against_others(
    start: Start, request_first: bytes
) -> None:
    edge = await start(max_connections=64, unproven_share=0.25)
    flood = edge.connection
    async with held(edge, 12, PROVED) as callers, contextlib.AsyncExitStack() as stack:
        for _ in range(100):
            _, writer = await stack.enter_async_context(flood())
            writer.write(request_first)
        await wait_until(lambda: edge.server.connections < 40)
        assert await ask(edge, GET.replace(b"/", b"/healthz", 1)) == 200
        assert await ask(edge, PROVED) == 200
        for reader, writer in callers:
            writer.write(GET)
            assert (await read_answer(reader))[0] == 200


async def test_the_reserve_is_for_workers_who_prove_it(start: Start) -> None:
    edge = await start(max_connections=64, address_share=1)
    async with held(edge, 64, PROVED):
        worker = GET.replace(b"/", b"/api/workers/proved", 1)
        # Other callers get none of this room, whatever path they request, and do not keep workers out.
        assert await ask(edge, PROVED) == 503
        async with held(edge, 10, GET.replace(b"/", b"/api/workers", 1)), held(edge, 2, worker):
            assert await ask(edge, GET.replace(b"/", b"/healthz", 1)) == 200
            assert await ask(edge, GET) == 503


async def test_one_address_holds_no_more_than_its_share(start: Start) -> None:
    edge = await start(max_connections=64, address_share=0.25)
    async with held(edge, 16, PROVED):
        assert await ask(edge, PROVED) == 503
        edge.limits.room.current = room_limits(Settings(max_connections=64, address_share=0.5))
        assert await ask(edge, PROVED) == 200


async def test_behind_a_trusted_proxy_one_address_may_have_all(start: Start) -> None:
    edge = await start(max_connections=64, address_share=0.25, trusted_proxies=["127.0.0.0/8"])
    async with held(edge, 50, PROVED):
        assert await ask(edge, PROVED) == 200


async def test_a_caller_that_is_sending_a_body_reads_that_there_is_no_room(start: Start) -> None:
    edge = await start(max_connections=16, address_share=1)
    async with held(edge, 16, PROVED):
        head = b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 2000000\r\n\r\n"
        assert statuses(await edge.exchange(head + b"a" * 1_000_000)) == [503]


async def test_requests_pipelined_before_a_broken_one_cause_no_traceback(
    edge: Edge, caplog: pytest.LogCaptureFixture
) -> None:
    """The older of two requests also learns that its client has gone."""
    sent = GET.replace(b"/", b"/wait", 1) + POST_CHUNKED + b"zz\r\n"
    async with edge.connection() as (reader, writer):
        writer.write(sent)
        assert await read_to_end(reader) == b""
        await wait_until(lambda: edge.server.connections == 0)
    edge.app.release.set()
    await wait_until(lambda: not edge.server._state.tasks)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_an_upgrade_of_transport_security_is_asked_of_browsers_only_with_tls(
    start: Start, certified: dict[str, Path]
) -> None:
    context = ssl.create_default_context(cafile=str(certified["tls_certfile"]))
    for settings, name in (({"hsts_s": 60}, None), ({**certified, "hsts_s": 60}, "localhost")):
        edge = await start(**settings)
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", edge.server.port, ssl=context if name else None, server_hostname=name
        )
        writer.write(GET)
        head = await reader.readuntil(b"\r\n\r\n")
        assert (b"strict-transport-security: max-age=60\r\n" in head) is (name is not None)
        await reader.readexactly(int(headers_of(head)["content-length"]))
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        refused = await read_to_end(reader)
        assert statuses(refused) == [400]
        assert headers_of(refused).get("strict-transport-security") == ("max-age=60" if name else None)
        check_headers(headers_of(refused))
        writer.transport.abort()


@pytest.mark.row(23)
async def test_forwarding_headers_change_nothing(edge: Edge) -> None:
    seen = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append((scope["client"][0], scope["scheme"]))
        await App._answer(send, 200, b"")

    edge.server._app = app
    async with edge.connection() as (reader, writer):
        writer.write(
            b"GET / HTTP/1.1\r\n" + HOST + b"X-Forwarded-For: 10.9.9.9\r\nX-Forwarded-Proto: https\r\n\r\n"
        )
        await read_answer(reader)
    assert seen == [("127.0.0.1", "http")]


async def test_stop_answers_what_is_under_way_and_then_closes(
    monkeypatch: pytest.MonkeyPatch, start: Start
) -> None:
    monkeypatch.setattr("jqmaster.api.http.server.STOP_GRACE_S", 0.2)
    edge = await start()
    async with edge.connection() as (reader, writer), edge.connection() as (idle, _):
        writer.write(b"GET /wait HTTP/1.1\r\n" + HOST + b"Accept: application/msgpack\r\n\r\n")
        await wait_until(lambda: len(edge.app.calls) == 1)
        await edge.server.stop()
        head, _, body = (await read_to_end(reader)).partition(b"\r\n\r\n")
        assert (statuses(head), msgpack.unpackb(body)["code"]) == ([503], "outcome_unknown")
        check_headers(headers_of(head))
        assert await read_to_end(idle) == b""


@pytest.fixture
async def certified(tmp_path: Path) -> dict[str, Path]:
    """The settings of a server with TLS."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate")
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    command: list[str | Path] = [
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
        "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate,
    ]  # fmt: skip
    await asyncio.to_thread(lambda: subprocess.run(command, check=True, capture_output=True))
    return {"tls_certfile": certificate, "tls_keyfile": key}


@pytest.mark.row(25)
async def test_a_client_that_reads_nothing_is_cut_off_with_tls_too(
    start: Start, certified: dict[str, Path]
) -> None:
    edge = await start(write_deadline_s=0.3, **certified)
    context = ssl.create_default_context(cafile=str(certified["tls_certfile"]))
    _, writer = await asyncio.open_connection(
        "127.0.0.1", edge.server.port, ssl=context, server_hostname="localhost"
    )
    cast(asyncio.Transport, writer.transport).pause_reading()
    writer.write(GET.replace(b"/", b"/large", 1))
    await wait_until(lambda: edge.server.connections == 1)
    await wait_until(lambda: edge.server.connections == 0)
    writer.transport.abort()


@pytest.mark.parametrize("tls", [False, True])
async def test_the_sweep_comes_upon_a_connection_that_is_being_closed(
    start: Start, certified: dict[str, Path], tls: bool
) -> None:
    edge = await start(**certified if tls else {})
    context = ssl.create_default_context(cafile=str(certified["tls_certfile"])) if tls else None
    _, writer = await asyncio.open_connection(
        "127.0.0.1", edge.server.port, ssl=context, server_hostname="localhost" if tls else None, limit=1
    )
    writer.write(GET.replace(b"/", b"/large", 1))
    await wait_until(lambda: any(map(_has_unread_answer, edge.server._state.connections)))
    (connection,) = edge.server._state.connections
    assert isinstance(connection, EdgeProtocol)
    connection.transport.abort()
    turns = 0
    while connection in edge.server._state.connections:
        connection.check_deadlines(asyncio.get_running_loop().time())
        await asyncio.sleep(0)
        turns += 1
    assert turns
    writer.transport.abort()


def _has_unread_answer(connection: object) -> bool:
    return isinstance(connection, EdgeProtocol) and connection._untaken_bytes() > 0


async def test_tls_is_served_and_plain_text_on_its_port_is_not(
    start: Start, certified: dict[str, Path]
) -> None:
    edge = await start(**certified)
    assert edge.server.url.startswith("https://")
    context = ssl.create_default_context(cafile=str(certified["tls_certfile"]))
    head = (
        b"POST / HTTP/1.1\r\n"
        + HOST
        + b"Content-Type: application/msgpack\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    chunk = b"4000\r\n" + b"a" * 0x4000 + b"\r\n"
    for sent, status in ((GET, 200), (head + chunk * 60, 413)):
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", edge.server.port, ssl=context, server_hostname="localhost"
        )
        writer.write(sent)
        assert (await asyncio.wait_for(read_answer(reader), 10))[0] == status
        writer.transport.abort()
    assert b"HTTP/" not in await edge.exchange(GET)
    assert len(edge.app.calls) == 1
