"""The links do what they are told to do to whole messages, and count it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web

from tests.chaos.proxy import HttpLink, RawLink, Weather
from tests.support import real_time
from tests.support.waiting import wait_until

pytestmark = real_time.SOCKETS


class Echo:
    """A server that remembers what it receives."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.port = 0

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator["Echo"]:
        application = web.Application()
        application.router.add_post("/{path:.*}", self._answer)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        assert site._server is not None
        self.port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.bodies.append(body)
        if request.path == "/chunked":
            response = web.StreamResponse()
            response.enable_chunked_encoding()
            await response.prepare(request)
            await response.write(body)
            await response.write(body)
            return response
        return web.Response(body=body)


@pytest.fixture
async def echo() -> AsyncIterator[Echo]:
    async with Echo().serving() as one:
        yield one


@pytest.fixture
async def link(echo: Echo) -> AsyncIterator[HttpLink]:
    one = HttpLink("a>b", ("127.0.0.1", echo.port), seed=1, spare=lambda line: " /spared" in line)
    await one.start()
    try:
        yield one
    finally:
        await one.stop()


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=2)) as one:
        yield one


async def post(session: aiohttp.ClientSession, link: HttpLink, body: bytes = b"x", path: str = "") -> bytes:
    async with session.post(f"http://127.0.0.1:{link.port}/{path}", data=body) as response:
        return await response.read()


async def test_in_good_weather_everything_passes(
    echo: Echo, link: HttpLink, session: aiohttp.ClientSession
) -> None:
    assert await post(session, link, b"one") == b"one"
    assert await post(session, link, b"two" * 100_000) == b"two" * 100_000
    assert await post(session, link, b"three", "chunked") == b"threethree"
    assert await post(session, link, b"") == b""
    assert link.bites.total == 0


@pytest.mark.parametrize(
    ("weather", "arrives", "bite"),
    [
        (Weather(drop_requests=1), False, "request dropped"),
        (Weather(cut_requests=1), False, "request cut"),
        (Weather(drop_answers=1), True, "answer dropped"),
        (Weather(cut_answers=1), True, "answer cut"),
    ],
)
async def test_a_lost_message_is_lost_whole(
    echo: Echo, link: HttpLink, session: aiohttp.ClientSession, weather: Weather, arrives: bool, bite: str
) -> None:
    link.change(weather)
    with pytest.raises(aiohttp.ClientError):
        await post(session, link, b"12345678" * 100)
    assert bool(echo.bodies) is arrives
    assert link.bites.counts[bite] >= 1
    link.clear()
    assert await post(session, link, b"again") == b"again"


async def test_a_doubled_request_arrives_twice_and_is_answered_once(
    echo: Echo, link: HttpLink, session: aiohttp.ClientSession
) -> None:
    link.change(Weather(double=1))
    assert await post(session, link, b"one") == b"one"
    await wait_until(lambda: echo.bodies == [b"one", b"one"])
    assert await post(session, link, b"two", "spared") == b"two"
    assert link.bites.counts == {"request doubled": 1}


async def test_a_late_copy_arrives_after_the_answer(
    echo: Echo, link: HttpLink, session: aiohttp.ClientSession
) -> None:
    link.change(Weather(copy_later=1, delay_s=0.05))
    assert await post(session, link, b"one") == b"one"
    link.clear()
    assert echo.bodies == [b"one"]
    await wait_until(lambda: echo.bodies == [b"one", b"one"])


@pytest.mark.parametrize(("weather", "arrives"), [
    (Weather(holds_answers=True), True),
    (Weather(holds_requests=True), False),
])  # fmt: skip
async def test_held_messages_pass_when_the_weather_clears(
    echo: Echo, link: HttpLink, session: aiohttp.ClientSession, weather: Weather, arrives: bool
) -> None:
    link.change(weather)
    waiting = asyncio.create_task(post(session, link, b"one"))
    await wait_until(lambda: link.bites.total == 1)
    if arrives:
        await wait_until(lambda: echo.bodies)
    assert bool(echo.bodies) is arrives
    assert not waiting.done()
    link.clear()
    assert await waiting == b"one"


async def test_a_reset_ends_what_is_under_way(link: HttpLink, session: aiohttp.ClientSession) -> None:
    link.change(Weather(holds_answers=True))
    waiting = asyncio.create_task(post(session, link))
    await wait_until(lambda: link.bites.total == 1)
    assert link.reset() >= 1
    with pytest.raises(aiohttp.ClientError):
        await waiting


async def test_an_idle_connection_ends_with_the_server_behind_it() -> None:
    """A connection ends as it would without a proxy: the next call must not be sent to a dead one."""
    closed = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        await writer.drain()
        await closed.wait()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    link = HttpLink("a>b", ("127.0.0.1", server.sockets[0].getsockname()[1]), seed=1)
    await link.start()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", link.port)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        assert b"204" in await reader.readuntil(b"\r\n\r\n")
        closed.set()
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()
    finally:
        await link.stop()
        server.close()


async def test_a_raw_link_drops_the_connection_with_the_answer() -> None:
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            heard.append(data)
            writer.write(b"+" + data)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    link = RawLink("a>store", ("127.0.0.1", server.sockets[0].getsockname()[1]), seed=1)
    await link.start()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", link.port)
        writer.write(b"one")
        assert await reader.readexactly(4) == b"+one"
        link.change(Weather(drop_answers=1))
        writer.write(b"two")
        with pytest.raises(ConnectionResetError):
            await reader.readexactly(4)
        assert heard == [b"one", b"two"]
        assert link.bites.counts == {"answer dropped": 1}
        writer.close()
    finally:
        await link.stop()
        server.close()


async def test_the_same_seed_draws_the_same_fates(echo: Echo, session: aiohttp.ClientSession) -> None:
    fates = []
    for _ in range(2):
        link = HttpLink("a>b", ("127.0.0.1", echo.port), seed=7)
        await link.start()
        link.change(Weather(double=0.5))
        counts = []
        for _ in range(20):
            await post(session, link)
            counts.append(link.bites.total)
        fates.append(counts)
        await link.stop()
    assert fates[0] == fates[1]
    assert 0 < fates[0][-1] < 20


async def test_connections_that_lie_idle_are_reset_and_those_in_use_are_not(echo: Echo) -> None:
    link = RawLink("a>b", ("127.0.0.1", echo.port), seed=1)
    await link.start()
    idle_reader, idle_writer = await asyncio.open_connection("127.0.0.1", link.port)
    busy_reader, busy_writer = await asyncio.open_connection("127.0.0.1", link.port)
    try:
        for reader, writer in ((idle_reader, idle_writer), (busy_reader, busy_writer)):
            writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx")
            await reader.readuntil(b"\r\n\r\nx")
        busy_writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nx")
        await wait_until(lambda: len(link._busy) == 1)
        assert link.reset_idle() == 1
        with pytest.raises(ConnectionResetError):
            await idle_reader.read()
        busy_writer.write(b"y")
        assert await busy_reader.readuntil(b"\r\n\r\nxy")
    finally:
        for writer in (idle_writer, busy_writer):
            writer.close()
        await link.stop()


async def test_a_forgotten_connection_passes_nothing_and_says_nothing_and_a_new_one_works(
    echo: Echo, link: HttpLink, session: aiohttp.ClientSession
) -> None:
    await post(session, link)
    assert link.forget_all() == 1
    with pytest.raises(TimeoutError):
        await post(session, link)
    assert await post(session, link, b"y") == b"y"
    assert echo.bodies == [b"x", b"y"]
