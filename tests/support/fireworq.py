"""A client of Fireworq, which knows nothing of jqmaster, and an endpoint that its jobs call."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from jqmaster.app import Master
from tests.support.master import NO_TLS, master_on
from tests.support.waiting import wait_until

PREFIX: Final = "/fireworq"
SUCCESS: Final = (200, b'{"status": "success", "message": "done"}')
Answers = Callable[[int, bytes], tuple[int, bytes]]


@dataclass
class Asked:
    """A request to the endpoint."""

    path: str
    fields: dict[str, str]
    body: bytes


@dataclass
class JobEndpoint:
    """An endpoint that answers as a test says: `answers` gets the number of the request, from 0, and its body."""

    answers: Answers
    asked: list[Asked] = field(default_factory=list)
    port: int = 0
    held: asyncio.Event = field(default_factory=asyncio.Event)
    open: int = 0
    most_open: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/work"

    async def until(self, count: int) -> list[Asked]:
        await wait_until(lambda: len(self.asked) >= count, what=f"{count} requests to the endpoint")
        return self.asked

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                fields = {
                    name.lower(): value for name, value in (line.split(": ", 1) for line in head[1:] if line)
                }
                body = await reader.readexactly(int(fields.get("content-length", 0)))
                number = len(self.asked)
                self.asked.append(Asked(head[0].split(" ")[1], fields, body))
                self.open += 1
                self.most_open = max(self.open, self.most_open)
                await self.held.wait()
                self.open -= 1
                status, answer = self.answers(number, body)
                writer.write(
                    f"HTTP/1.1 {status} X\r\ncontent-length: {len(answer)}\r\n\r\n".encode() + answer
                )
                await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def endpoint(answers: Answers = lambda number, body: SUCCESS) -> AsyncIterator[JobEndpoint]:
    one = JobEndpoint(answers)
    one.held.set()
    server = await asyncio.start_server(one.serve, "127.0.0.1", 0)
    one.port = server.sockets[0].getsockname()[1]
    try:
        yield one
    finally:
        one.held.set()
        server.close()
        await server.wait_closed()


class FireworqClient:
    """Sends what clients of Fireworq send: no token, no Accept, and any type of body."""

    def __init__(self, master: Master, **options: Any) -> None:
        base_url = master.server.url
        self.store = master.shard.services.link
        self.http = httpx.AsyncClient(base_url=base_url + PREFIX, trust_env=False, verify=NO_TLS, **options)

    async def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Return the status, and the decoded JSON of an answer."""
        content = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/x-www-form-urlencoded"} if content is not None else {}
        response = await self.http.request(method, path, content=content, headers=headers)
        is_json = response.headers["content-type"].startswith("application/json")
        return response.status_code, response.json() if is_json else response.text

    async def get(self, path: str) -> Any:
        status, answer = await self.call("GET", path)
        assert status == 200, answer
        return answer

    async def until(self, path: str, holds: Callable[[Any], bool], *, timeout_s: float = 30) -> Any:
        """Return the answer once it is as expected."""
        answers = []

        async def look() -> bool:
            answers.append(await self.get(path))
            return holds(answers[-1])

        await wait_until(look, timeout_s=timeout_s, what=f"{path} answers as expected")
        return answers[-1]

    async def put(self, path: str, body: Any) -> Any:
        status, answer = await self.call("PUT", path, body)
        assert status == 200, answer
        return answer

    async def push(self, category: str, url: str, **fields: Any) -> int:
        status, answer = await self.call("POST", f"/job/{category}", {"url": url, **fields})
        assert status == 200, answer
        return int(answer["id"])


@contextlib.asynccontextmanager
async def gateway_on(store_url: str, **settings: Any) -> AsyncIterator[FireworqClient]:
    """Yield a client of a master with the gateway, whose jobs may call this machine."""
    own = {"fireworq_prefix": PREFIX, "allowed_webhook_networks": "127.0.0.0/8"}
    async with master_on(store_url, **{**own, **settings}) as (master, _):
        client = FireworqClient(master)
        try:
            yield client
        finally:
            await client.http.aclose()
