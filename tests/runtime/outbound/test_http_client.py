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
from worker_sdk.transport.http_client import HttpAnswer, HttpClient, NoAnswerError, NotSentError

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


async def test_who_says_that_it_closes_is_not_written_to_again(peer: Peer, client: HttpClient) -> None:
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


async def test_what_nobody_asked_for_ends_the_connection(peer: Peer, client: HttpClient) -> None:
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


async def test_where_nobody_listens_nothing_is_sent(client: HttpClient) -> None:
    with pytest.raises(NotSentError):
        await call(client, f"http://127.0.0.1:{free_port()}")
    with pytest.raises(AddressRefusedError):
        await call(client, "http://192.0.2.1:8080")


async def test_who_speaks_no_tls_is_sent_nothing(peer: Peer, client: HttpClient) -> None:
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


async def test_idle_connections_are_closed_after_a_while(
    peer: Peer, client: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_IDLE_S", 0.05)
    assert (await call(client, peer.address)).body == b"ok"
    await wait_until(lambda: not client.open_connections)
    await wait_until(lambda: not client._idle)
    assert client._sweeper is None


async def test_close_ends_what_is_under_way(peer: Peer, client: HttpClient) -> None:
    peer.script = answering()
    calling = asyncio.create_task(call(client, peer.address))
    await wait_until(lambda: client.open_connections)
    await client.close()
    with pytest.raises(NoAnswerError):
        await calling
