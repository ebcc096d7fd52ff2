"""A worker's own server against malformed, slow and greedy clients, over raw sockets."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests.sdk.fake_master import FakeMaster
from tests.support import real_time
from tests.support.waiting import wait_until
from worker_sdk import Worker
from worker_sdk.transport.http_server import TransportLimits, WorkerServer
from worker_sdk.worker.bodies import Bodies

pytestmark = real_time.SOCKETS

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: x\r\n"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class App:
    """Echo the body. `/early` answers before the body, `/hold` on release, `/large` with a large body."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.paths: list[str] = []
        self.release = asyncio.Event()
        self.lost = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        path = scope["path"]
        self.paths.append(path)
        body, has_more = b"", path != "/early"
        while has_more:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.lost += 1
                return
            body += message.get("body", b"")
            has_more = message.get("more_body", False)
        if path == "/hold":
            await self.release.wait()
        self.bodies.append(body)
        answer = bytes(8_000_000) if path == "/large" else b"%d" % len(scope["headers"])
        headers = [(b"content-length", str(len(answer)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})


class Edge:
    def __init__(self, app: App, server: WorkerServer) -> None:
        self.app = app
        self.server = server

    async def connect(self) -> Streams:
        return await asyncio.open_connection("127.0.0.1", self.server.bound_port)

    async def exchange(self, *sent: bytes) -> bytes:
        """Return everything that arrives until the server closes."""
        reader, writer = await self.connect()
        try:
            for piece in sent:
                writer.write(piece)
                await writer.drain()
            return await to_end(reader)
        finally:
            writer.close()


async def to_end(reader: asyncio.StreamReader) -> bytes:
    received = b""
    with contextlib.suppress(ConnectionError):
        async with asyncio.timeout(10):
            while chunk := await reader.read(65536):
                received += chunk
    return received


async def answer_on(streams: Streams, request: bytes = GET) -> int:
    """Return the status of the answer on a connection that stays open."""
    reader, writer = streams
    writer.write(request)
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
    [length] = [int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"content-length:")]
    await reader.readexactly(length)
    return int(head.split()[1])


def statuses(received: bytes) -> list[int]:
    return [int(part[:3]) for part in received.split(b"HTTP/1.1 ")[1:]]


Start = Callable[..., Awaitable[Edge]]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    started: list[Edge] = []

    async def start_edge(**limits: Any) -> Edge:
        app = App()
        server = WorkerServer(app, "127.0.0.1", 0, TransportLimits(**limits))
        await server.start()
        started.append(Edge(app, server))
        return started[-1]

    yield start_edge
    for edge in started:
        edge.app.release.set()
        await edge.server.stop()
        assert edge.server.connections == 0


# --- too many


@pytest.mark.row(1, 26)
async def test_a_worker_with_512_silent_connections_still_takes_jobs(master: FakeMaster) -> None:
    worker = Worker(master.url, token=master.token, grace_s=0.1)
    worker.handler("note")(lambda argument: argument)
    silent: list[Streams] = []
    async with worker.running():
        await wait_until(lambda: worker.worker_id)
        assert worker.address
        port = int(worker.address.rsplit(":", 1)[1])
        try:
            silent += [await asyncio.open_connection("127.0.0.1", port) for _ in range(600)]
            job = await master.run("note", 1)
            await wait_until(lambda: master.result(job["job_id"]))
        finally:
            for _, writer in silent:
                writer.close()


async def test_the_longest_idle_connection_makes_room(start: Start) -> None:
    edge = await start(connections=3)
    kept = [await edge.connect() for _ in range(3)]
    for streams in kept:
        assert await answer_on(streams) == 200
    kept[1][1].write(POST)  # a starting request makes the connection busy
    assert await answer_on(kept[0]) == 200  # the third has now been idle longest
    newcomer = await edge.connect()
    assert await answer_on(newcomer) == 200
    assert await to_end(kept[2][0]) == b""
    assert await answer_on(kept[0]) == 200
    assert await answer_on(kept[1], b"Content-Length: 1\r\n\r\nx") == 200
    for _, writer in (*kept, newcomer):
        writer.close()


async def test_an_answer_does_not_wait_for_the_peers_delayed_ack(start: Start) -> None:
    edge = await start()
    _, writer = await edge.connect()
    await wait_until(lambda: edge.server._state.connections)
    (connection,) = edge.server._state.connections
    accepted = connection.transport.get_extra_info("socket")
    assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    writer.close()


async def test_a_request_that_is_being_answered_is_not_shed(start: Start) -> None:
    edge = await start(connections=2)
    busy = [await edge.connect() for _ in range(2)]
    for _, writer in busy:
        writer.write(b"GET /hold HTTP/1.1\r\nHost: x\r\n\r\n")
    await wait_until(lambda: len(edge.app.paths) == 2)
    assert statuses(await edge.exchange(GET)) == [503]
    edge.app.release.set()
    for streams in busy:
        assert await answer_on(streams, b"") == 200
        streams[1].close()


# --- too slow


@pytest.mark.row(1, 2, 3)
@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"", []),
        (b"GET / HT", [408]),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: ", [408]),
        (POST + b"Content-Length: 100\r\n\r\nxx", [408]),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n5\r\nxx", [408]),
    ],
)
async def test_a_request_must_arrive_in_time(start: Start, sent: bytes, expected: list[int]) -> None:
    edge = await start(receipt_s=0.2)
    assert statuses(await edge.exchange(sent)) == expected
    assert edge.app.bodies == []
    await wait_until(lambda: edge.app.lost == len(edge.app.paths))


@pytest.mark.row(2)
async def test_a_trickle_does_not_put_the_deadline_off(start: Start) -> None:
    edge = await start(receipt_s=0.3)
    reader, writer = await edge.connect()
    writer.write(GET[:-2])
    ended = asyncio.ensure_future(to_end(reader))
    fields = 0
    while not ended.done():
        assert fields < 200
        fields += 1
        writer.write(b"X: y\r\n")
        await asyncio.sleep(0.02)
    assert statuses(await ended) == [408]
    writer.close()


async def test_an_idle_connection_is_closed_after_a_while(start: Start) -> None:
    edge = await start(keep_alive_s=0.1)
    streams = await edge.connect()
    assert await answer_on(streams) == 200
    assert await answer_on(streams) == 200
    assert await to_end(streams[0]) == b""
    streams[1].close()


@pytest.mark.row(25)
async def test_an_answer_that_nobody_takes_is_given_up(start: Start) -> None:
    edge = await start(answer_s=0.2)
    _, writer = await edge.connect()
    writer.write(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    await wait_until(lambda: edge.app.paths and not edge.server.connections)
    writer.close()


# --- too large, or broken


@pytest.mark.row(6, 7, 8, 11, 12, 14, 15, 16, 18)
@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /" + b"x" * 9_000 + b" HTTP/1.1\r\n\r\n", 414),
        (GET[:-2] + b"X: " + b"x" * 40_000 + b"\r\n\r\n", 431),
        (GET[:-2] + b"X: y\r\n" * 2_000 + b"\r\n", 431),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (b"x" * 200 + b" / HTTP/1.1\r\n\r\n", 501),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n", 400),
        (b"GET / HTTP/1.0\r\nHost: x\r\nHost: x\r\n\r\n", 400),
        (POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 415),
        (b"GET /\r\n\r\n", 505),
        (b"GET / RTSP/1.0\r\nHost: x\r\n\r\n", 400),
        (b"GET  / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"\r\n" + GET, 400),
        (b"GET /\x00 HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX\x00: y\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n", 400),
        (POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ],
)
async def test_a_bad_head_is_refused(start: Start, sent: bytes, status: int) -> None:
    edge = await start()
    received = await edge.exchange(sent)
    assert statuses(received) == [status]
    assert received.endswith(b"\r\n\r\n"), "empty"
    assert edge.app.paths == []


@pytest.mark.row(11)
@pytest.mark.parametrize("before", [GET[:-2] + b"X: ", POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: "])
async def test_a_field_that_does_not_end_is_not_gathered(start: Start, before: bytes) -> None:
    edge = await start()
    reader, writer = await edge.connect()
    writer.write(before)
    ended = asyncio.ensure_future(to_end(reader))
    sent = 0
    with contextlib.suppress(ConnectionError):
        while not ended.done() and sent < 64 << 20:
            writer.write(b"x" * 65_536)
            sent += 65_536
            await writer.drain()
    assert statuses(await ended) in ([431], [])  # [] where the reset overtook it
    assert sent < 16 << 20
    assert edge.app.bodies == []
    writer.close()


async def test_trailers_are_bounded_and_change_no_request(start: Start) -> None:
    edge = await start()
    chunked = POST + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n"
    streams = await edge.connect()
    assert await answer_on(streams, chunked + b"X-JQ-Worker: y\r\n\r\n") == 200
    streams[1].write(chunked)
    assert statuses(await edge.exchange(chunked + b"A: b\r\n" * 2_000 + b"\r\n")) == [431]
    assert edge.app.bodies == [b"x"]
    streams[1].close()


@pytest.mark.row(5, 24)
async def test_nobody_asks_before_the_answer_has_come(start: Start) -> None:
    edge = await start()
    assert statuses(await edge.exchange(GET * 3)) == [200]
    # Garbage after a request does not affect its answer.
    assert statuses(await edge.exchange(POST + b"Content-Length: 5\r\n\r\n0123456789")) == [200]
    assert edge.app.paths == ["/", "/"]


@pytest.mark.row(21)
async def test_an_upgrade_is_ignored(start: Start) -> None:
    edge = await start()
    upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    assert statuses(await edge.exchange(GET[:-2] + upgrade + b"\x81\x00")) == [200]
    assert statuses(await edge.exchange(b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n")) in ([200], [400])


@pytest.mark.parametrize("fields", [b"", b"Connection: close\r\n"])
async def test_an_answer_before_the_end_of_the_body_arrives(start: Start, fields: bytes) -> None:
    edge = await start()
    head = b"POST /early HTTP/1.1\r\nHost: x\r\n" + fields + b"Content-Length: 4000000\r\n\r\n"
    assert statuses(await edge.exchange(head, bytes(1_000_000))) == [200]


async def test_a_client_that_asks_for_it_is_closed_after_the_answer(start: Start) -> None:
    edge = await start()
    assert statuses(await edge.exchange(POST + b"Connection: close\r\nContent-Length: 1\r\n\r\nx")) == [200]
    assert statuses(await edge.exchange(b"GET / HTTP/1.0\r\n\r\n")) == [200]
    assert edge.app.bodies == [b"x", b""]


async def test_the_end_waits_for_answers_and_not_for_the_idle(start: Start) -> None:
    edge = await start()
    idle, busy = await edge.connect(), await edge.connect()
    busy[1].write(b"GET /hold HTTP/1.1\r\nHost: x\r\n\r\n")
    await wait_until(lambda: edge.app.paths)
    stopping = asyncio.ensure_future(edge.server.stop())
    assert await to_end(idle[0]) == b""
    edge.app.release.set()
    assert statuses(await to_end(busy[0])) == [200]
    await asyncio.wait_for(stopping, 5)
    with pytest.raises(ConnectionError):
        await edge.connect()
    for _, writer in (idle, busy):
        writer.close()


# --- bodies that nobody has vouched for


class Sender:
    """A body that arrives under the test's control."""

    def __init__(self, bodies: Bodies, max_bytes: int = 1_000) -> None:
        self._pieces: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.answer = asyncio.ensure_future(bodies.read({}, self._pieces.get, max_bytes))

    def send(self, piece: bytes, *, is_last: bool = False) -> None:
        self._pieces.put_nowait({"type": "http.request", "body": piece, "more_body": not is_last})

    @property
    def is_taken(self) -> bool:
        return self._pieces.empty()


@pytest.mark.row(125)
async def test_bodies_are_bounded_together_and_the_largest_gives_way() -> None:
    bodies = Bodies(max_total_bytes=1_000)
    large, larger, small = (Sender(bodies) for _ in range(3))
    large.send(bytes(400))
    larger.send(bytes(500))
    await wait_until(lambda: large.is_taken and larger.is_taken)
    small.send(b"x" * 200)
    assert await larger.answer == (503, b"")
    small.send(b"y", is_last=True)
    assert await small.answer == (0, b"x" * 200 + b"y")
    # There is room again, so the other one continues.
    large.send(bytes(500))
    large.send(b"", is_last=True)
    assert await large.answer == (0, bytes(900))
    alone = Sender(bodies, max_bytes=2_000)
    alone.send(bytes(1_001))
    assert await alone.answer == (503, b"")


async def test_a_body_that_stops_arriving_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker_sdk.worker.bodies._DEADLINE_S", 0.05)
    bodies = Bodies()
    silent, slow = Sender(bodies), Sender(bodies)
    slow.send(b"x")
    assert [await silent.answer, await slow.answer] == [(408, b""), (408, b"")]
