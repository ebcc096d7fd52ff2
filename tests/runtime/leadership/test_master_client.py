"""Ask whether another master lives: only its own word, in time, proves it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from jqmaster.app import Master
from jqmaster.domain.operations.master import MasterRecord
from jqmaster.runtime.leadership.master_client import ANSWER_WITHIN_S, PeerClient
from tests.support import real_time
from tests.support.ports import free_port

pytestmark = [pytest.mark.req("D3"), real_time.SOCKETS]


def at(url: str, master_id: str = "m1") -> MasterRecord:
    return MasterRecord(master_id, "node", 1, url, "1", 1)


@pytest.fixture
async def client() -> AsyncIterator[PeerClient]:
    one = PeerClient()
    await one.start()
    yield one
    await one.stop()


@contextlib.asynccontextmanager
async def serving(answer: Callable[[asyncio.StreamWriter], Awaitable[None]]) -> AsyncIterator[str]:
    ended = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ended.append(asyncio.Event())
        mine = ended[-1]
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            await answer(writer)
            await reader.read()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        mine.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for one in ended:
            await one.wait()


async def test_a_living_master_answers(client: PeerClient, master: Master) -> None:
    assert await client.answers(at(master.server.url, master.id))


async def test_another_one_at_its_address_does_not_answer_for_it(client: PeerClient, master: Master) -> None:
    assert not await client.answers(at(master.server.url, "its predecessor"))


async def test_nobody_at_its_address(client: PeerClient) -> None:
    assert not await client.answers(at(f"http://127.0.0.1:{free_port()}"))
    assert not await client.answers(at("not an address"))


async def test_one_that_stands_still_is_not_waited_for(client: PeerClient) -> None:
    async def silent(writer: asyncio.StreamWriter) -> None:
        pass

    async with serving(silent) as url:
        began_s = asyncio.get_running_loop().time()
        assert not await client.answers(at(url))
        assert asyncio.get_running_loop().time() - began_s < ANSWER_WITHIN_S + 1


@pytest.mark.parametrize(
    "text",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n\xc1",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n\x90",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n\x80",
        b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 302 There\r\nLocation: /\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b"\x80" * 100_000,
        b"garbage\r\n\r\n",
    ],
)
async def test_whatever_else_is_there_is_not_it(client: PeerClient, text: bytes) -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(text)
        await writer.drain()

    async with serving(answer) as url:
        assert not await client.answers(at(url))


async def test_hundreds_of_shards_that_lost_their_leader_ask_it_once(client: PeerClient) -> None:
    asked = 0

    async def answer(writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        writer.write(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")

    async with serving(answer) as url:
        assert set(await asyncio.gather(*(client.answers(at(url)) for _ in range(300)))) == {False}
        assert not await client.answers(at(url))
        assert asked == 1
        await asyncio.sleep(ANSWER_WITHIN_S)
        assert not await client.answers(at(url))
        assert asked == 2
