"""The client for calls to workers, against peers that answer in any way, over raw sockets."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from jqmaster.errors import AddressRefusedError
from jqmaster.net.egress import GuardedRoute
from tests.support import real_time
from tests.support.egress import loopback_guard
from tests.support.ports import free_port
from tests.support.waiting import wait_until
from worker_sdk.transport import http_client as module
from worker_sdk.transport.answer_bodies import SMALL_BODY_BYTES, BodyLimit
from worker_sdk.transport.http_client import (
    HttpAnswer,
    HttpClient,
    NoAnswerError,
    NotSentError,
    TooLargeAnswerError,
)

pytestmark = real_time.SOCKETS

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
MAX_ANSWER_BYTES = 100_000
Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Peer:
    """Runs `script` on each connection."""

    def __init__(self) -> None:
        self.script: Script = answering(OK)
        self.connections = 0
        self.address = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await self.script(reader, writer)
        writer.close()


async def request(reader: asyncio.StreamReader) -> bytes:
    """Read head and body of the next request."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    return head + await reader.readexactly(length)


def answering(*answers: bytes) -> Script:
    """Send one answer for each request; then keep the connection open until the client closes it."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            await request(reader)
            writer.write(answer)
        await reader.read()

    return script


def then_closing(answer: bytes) -> Script:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(answer)

    return script


@pytest.fixture
async def peer() -> AsyncIterator[Peer]:
    one = Peer()
    server = await asyncio.start_server(one.serve, "127.0.0.1", 0)
    one.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield one
    server.close()


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    one = HttpClient(
        GuardedRoute(loopback_guard(), ssl.create_default_context),
        max_answer_bytes=MAX_ANSWER_BYTES,
        is_end_an_answer=True,
    )
    yield one
    await one.close()


async def call(client: HttpClient, address: str, body: bytes = b"x", **options: Any) -> HttpAnswer:
    given = {"timeout_s": 10.0, "connect_timeout_s": 5.0} | options
    return await client.call("POST", address, "/jobs", body, "X-Field: 1\r\n", **given)


async def test_a_request_goes_out_whole_and_its_answer_comes_back(peer: Peer, client: HttpClient) -> None:
    seen: list[bytes] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await request(reader))
        writer.write(b"HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\nbusy")

    peer.script = script
    assert await call(client, peer.address + "/a%2Fb", b"body") == HttpAnswer(
        503, b"busy", {b"retry-after": "7"}
    )
    host = peer.address.removeprefix("http://")
    assert seen == [
        f"POST /a%2Fb/jobs HTTP/1.1\r\nHost: {host}\r\nContent-Length: 4\r\nX-Field: 1\r\n\r\nbody".encode()
    ]


@pytest.mark.parametrize(
    "answer",
    [
        OK,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK,
    ],
)
async def test_a_connection_is_used_again(peer: Peer, client: HttpClient, answer: bytes) -> None:
    peer.script = answering(answer, answer, answer)
    for _ in range(3):
        assert (await call(client, peer.address)).body == b"ok"
    assert peer.connections == 1


async def test_an_answer_may_end_with_its_connection(peer: Peer, client: HttpClient) -> None:
    peer.script = then_closing(b"HTTP/1.0 200 OK\r\n\r\nok")
    for _ in range(2):
        assert await call(client, peer.address) == HttpAnswer(200, b"ok")
    assert peer.connections == 2


async def test_a_connection_whose_server_announced_its_close_is_not_used_again(
    peer: Peer, client: HttpClient
) -> None:
    peer.script = answering(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
    for _ in range(2):
        assert await call(client, peer.address) == HttpAnswer(204, b"")
    assert peer.connections == 2


async def test_a_kept_connection_that_the_peer_closed_is_not_used(peer: Peer, client: HttpClient) -> None:
    peer.script = then_closing(OK)
    await call(client, peer.address)
    await wait_until(lambda: not client.open_connections)
    assert (await call(client, peer.address)).body == b"ok"
    assert peer.connections == 2


async def test_an_unrequested_answer_ends_the_connection(peer: Peer, client: HttpClient) -> None:
    peer.script = answering(OK + OK)
    assert (await call(client, peer.address)).body == b"ok"
    # The client closes it at once, not after a long idle time.
    await wait_until(lambda: not client.open_connections, timeout_s=module.MAX_IDLE_S / 2)
    assert (await call(client, peer.address)).body == b"ok"
    assert peer.connections == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"no http at all\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200_000,
        b"HTTP/1.1 200 OK\r\nContent-Length: 500000\r\n\r\n" + b"z" * 200_000,
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    ],
    ids=["none", "garbage", "cut_off", "endless_head", "too_long", "upgrade"],
)
async def test_an_answer_that_is_none(peer: Peer, client: HttpClient, answer: bytes) -> None:
    peer.script = then_closing(answer)
    with pytest.raises(NoAnswerError):
        await call(client, peer.address)
    await wait_until(lambda: not client.open_connections)


async def test_silence_ends_with_the_time_of_the_call(peer: Peer, client: HttpClient) -> None:
    peer.script = answering()
    with pytest.raises(NoAnswerError, match="timed out"):
        await call(client, peer.address, timeout_s=0.05)


async def test_a_large_body_is_sent_whole_and_a_refusal_before_its_end_is_heard(
    peer: Peer, client: HttpClient
) -> None:
    body, received = bytes(8 << 20), []

    async def takes_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(len(await request(reader)))
        writer.write(OK)

    peer.script = takes_all
    assert (await call(client, peer.address, body)).status == 200
    assert received[0] > len(body)

    async def refuses(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        await reader.read()

    peer.script = refuses
    await wait_until(lambda: not client.open_connections)
    assert (await call(client, peer.address, body)).status == 413
    await wait_until(lambda: not client.open_connections)


async def test_nothing_is_sent_if_nobody_listens(client: HttpClient) -> None:
    with pytest.raises(NotSentError):
        await call(client, f"http://127.0.0.1:{free_port()}")
    with pytest.raises(AddressRefusedError):
        await call(client, "http://192.0.2.1:8080")


async def test_a_server_without_tls_is_sent_nothing(peer: Peer, client: HttpClient) -> None:
    peer.script = then_closing(b"what is this?")
    with pytest.raises(NotSentError):
        await call(client, peer.address.replace("http:", "https:"))


async def test_a_call_that_is_given_up_leaves_no_connection(peer: Peer, client: HttpClient) -> None:
    peer.script = answering()
    calling = asyncio.create_task(call(client, peer.address))
    await wait_until(lambda: peer.connections)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    await wait_until(lambda: not client.open_connections)


async def test_idle_connections_are_closed_after_a_while(peer: Peer) -> None:
    route = GuardedRoute(loopback_guard(), ssl.create_default_context)
    client = HttpClient(route, max_answer_bytes=MAX_ANSWER_BYTES, max_idle_s=0.05)
    assert (await call(client, peer.address)).body == b"ok"
    await wait_until(lambda: not client.open_connections)
    await client.close()
    await wait_until(lambda: not client._idle)
    assert client._sweeper is None


async def test_close_ends_what_is_under_way(peer: Peer, client: HttpClient) -> None:
    peer.script = answering()
    calling = asyncio.create_task(call(client, peer.address))
    await wait_until(lambda: client.open_connections)
    await client.close()
    with pytest.raises(NoAnswerError):
        await calling


# --- bodies with a limit

KIB = 1024


def answer_of(body: bytes, status: int = 200, *, is_chunked: bool = False) -> bytes:
    if is_chunked:
        head, body = b"Transfer-Encoding: chunked", b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    else:
        head = b"Content-Length: %d" % len(body)
    return b"HTTP/1.1 %d x\r\n%b\r\n\r\n%b" % (status, head, body)


def result_or_beginning(status: int) -> BodyLimit:
    return BodyLimit(64 * KIB) if status == 200 else BodyLimit(1 * KIB, is_cut=True)


@contextlib.asynccontextmanager
async def bounded(total: int = 128 * KIB) -> AsyncIterator[HttpClient]:
    """Yield a client whose calls share `total` bytes for their bodies."""
    http = HttpClient(
        GuardedRoute(loopback_guard(), ssl.create_default_context),
        max_answer_bytes=1024 * KIB,
        max_bodies_bytes=total,
    )
    try:
        yield http
    finally:
        await http.close()


@pytest.mark.req("M13")
@pytest.mark.parametrize("is_chunked", [False, True])
async def test_the_client_holds_only_the_wanted_part_of_a_body(peer: Peer, is_chunked: bool) -> None:
    async with bounded() as http:
        for size in (0, 1, SMALL_BODY_BYTES, SMALL_BODY_BYTES + 1, 64 * KIB):
            http.drop_idle()
            peer.script = answering(answer_of(b"x" * size, is_chunked=is_chunked))
            assert (await call(http, peer.address, body_limit=result_or_beginning)).body == b"x" * size
        http.drop_idle()
        peer.script = answering(answer_of(b"x" * (64 * KIB + 1), is_chunked=is_chunked))
        with pytest.raises(TooLargeAnswerError):
            await call(http, peer.address, body_limit=result_or_beginning)
        # The status of a failure is enough, however long its body is.
        peer.script = answering(answer_of(b"x" * (900 * KIB), 500, is_chunked=is_chunked))
        found = await call(http, peer.address, body_limit=result_or_beginning)
        assert (found.status, found.body) == (500, b"x" * KIB)


@pytest.mark.req("M13")
async def test_a_connection_is_kept_after_a_short_answer_of_no_use(peer: Peer) -> None:
    short = answer_of(b"x" * 8 * KIB, 500)
    peer.script = answering(short, short)
    async with bounded() as http:
        assert [
            len((await call(http, peer.address, body_limit=result_or_beginning)).body) for _ in range(2)
        ] == [KIB, KIB]
    assert peer.connections == 1


@pytest.mark.req("M13")
async def test_bodies_share_the_room_of_their_client(peer: Peer) -> None:
    """Twenty large bodies arrive at once, and no more of their pieces than there is room for are read at a time."""
    size, calls = 60 * KIB, 20
    begun = asyncio.Event()
    sent = 0

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await request(reader)
        head, _, body = answer_of(b"x" * size).partition(b"\r\n\r\n")
        writer.write(head + b"\r\n\r\n" + body[: 30 * KIB])
        await begun.wait()
        writer.write(body[30 * KIB :])
        await reader.read()

    peer.script = script
    async with bounded() as http:
        answers = [
            asyncio.create_task(call(http, peer.address, body_limit=result_or_beginning))
            for _ in range(calls)
        ]
        await wait_until(lambda: peer.connections == calls, what="all calls are under way")
        # Each of them wants room for 14 KiB.
        await wait_until(lambda: http.waiting_bodies >= calls - 9, what="all but nine wait for room")
        begun.set()
        assert [len((await one).body) for one in answers] == [size] * calls
        assert http.waiting_bodies == 0


def stalling_after(size: int) -> Script:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        head, _, body = answer_of(b"x" * 60 * KIB).partition(b"\r\n\r\n")
        writer.write(head + b"\r\n\r\n" + body[:size])
        await reader.read()

    return script


@pytest.mark.req("M13")
async def test_a_body_that_stalls_holds_only_what_it_sent(peer: Peer) -> None:
    peer.script = stalling_after(20 * KIB)
    async with bounded(64 * KIB) as http:
        stuck = [
            asyncio.create_task(call(http, peer.address, body_limit=result_or_beginning)) for _ in range(2)
        ]
        await wait_until(lambda: peer.connections == 2, what="both calls are under way")
        peer.script = answering(answer_of(b"x" * 60 * KIB))
        good = await call(http, peer.address, body_limit=result_or_beginning, timeout_s=5.0)
        assert (len(good.body), any(one.done() for one in stuck)) == (60 * KIB, False)
        for one in stuck:
            one.cancel()
        await asyncio.gather(*stuck, return_exceptions=True)


@pytest.mark.req("M13")
async def test_the_time_of_a_call_stands_still_while_its_body_waits_for_room(peer: Peer) -> None:
    """Its endpoint has done the job, and may not get it again because of others."""
    peer.script = stalling_after(20 * KIB)
    async with bounded(4 * KIB) as http:
        stuck = [
            asyncio.create_task(call(http, peer.address, body_limit=result_or_beginning, timeout_s=1.5))
            for _ in range(2)
        ]
        await wait_until(lambda: http.waiting_bodies == 1, what="one waits for the room of the other")
        peer.script = answering(answer_of(b"x" * 60 * KIB))
        good = asyncio.create_task(call(http, peer.address, body_limit=result_or_beginning, timeout_s=1.0))
        (over,), _ = await asyncio.wait([*stuck, good], return_when=asyncio.FIRST_COMPLETED)
        with pytest.raises(NoAnswerError, match="timed out"):
            await over
        # The time of the other one goes on now, and so does it.
        assert (http.waiting_bodies, over in stuck) == (1, True)
        for one in stuck:
            one.cancel()
        assert len((await good).body) == 60 * KIB
        await asyncio.gather(*stuck, return_exceptions=True)


@pytest.mark.req("M13")
async def test_calls_that_end_give_their_room_to_others(peer: Peer) -> None:
    is_stuck = True

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        body = b"x" * 60 * KIB
        if is_stuck:
            writer.write(answer_of(body)[: 40 * KIB])
        else:
            writer.write(answer_of(body))
        await reader.read()

    peer.script = script
    async with bounded(64 * KIB) as http:
        stuck = [
            asyncio.create_task(call(http, peer.address, body_limit=result_or_beginning)) for _ in range(3)
        ]
        await wait_until(lambda: peer.connections == 3, what="all calls are under way")
        is_stuck = False
        good = asyncio.create_task(call(http, peer.address, body_limit=result_or_beginning))
        await wait_until(lambda: peer.connections == 4, what="one more call is under way")
        for one in stuck:
            one.cancel()
        assert len((await good).body) == 60 * KIB
        await asyncio.gather(*stuck, return_exceptions=True)
