"""An HTTP endpoint for targets: a real server, on which a test decides what each request gets."""

import asyncio
import base64
import contextlib
import hmac
import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from tests.support.waiting import wait_until


@dataclass(frozen=True, slots=True)
class Request:
    """One request. `fields`: by lower-case name."""

    method: str
    path: str
    fields: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def is_signed_with(self, secret: str) -> bool:
        """Return whether one of the signatures was made with `secret`, as a receiver checks it."""
        key = base64.b64decode(secret.removeprefix("whsec_"))
        signed = f"{self.fields['webhook-id']}.{self.fields['webhook-timestamp']}.".encode() + self.body
        expected = "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
        return expected in self.fields["webhook-signature"].split(" ")


def reply(status: int = 200, body: Any = None, **fields: str) -> bytes:
    """Return an answer with a JSON body. `fields`: with `_` for `-`."""
    content = b"" if body is None else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} x", f"Content-Length: {len(content)}", "Content-Type: application/json"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + content


class Hang(Exception):
    """The endpoint answers nothing, and keeps the connection."""


class HangUp(Exception):
    """The endpoint closes the connection without an answer."""


Answer = Callable[[Request], bytes | Awaitable[bytes]]


@dataclass
class Endpoint:
    """The endpoint. `answer` returns the bytes of the answer; see `reply`."""

    answer: Answer
    requests: list[Request] = field(default_factory=list)
    open: int = 0
    most_open: int = 0
    connections: int = 0
    port: int = 0
    writers: set[asyncio.StreamWriter] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def until(self, count: int) -> list[Request]:
        """Return the requests once there are enough."""
        await wait_until(lambda: len(self.requests) >= count, what=f"{count} requests")
        return self.requests

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.add(writer)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, HangUp):
                while True:
                    await self._exchange(reader, writer)
        finally:
            self.writers.discard(writer)
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, path, _ = head[0].split(" ")
        fields = {line.split(": ", 1)[0].lower(): line.split(": ", 1)[1] for line in head[1:] if line}
        body = await reader.readexactly(int(fields.get("content-length", "0")))
        request = Request(method, path, fields, body)
        self.requests.append(request)
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            answer = self.answer(request)
            content = await answer if inspect.isawaitable(answer) else answer
            assert isinstance(content, bytes)
            writer.write(content)
            await writer.drain()
        except Hang:
            await reader.read()
            raise HangUp from None
        finally:
            self.open -= 1


@contextlib.asynccontextmanager
async def endpoint(answer: Answer = lambda _: reply(), *, port: int = 0) -> AsyncIterator[Endpoint]:
    """Serve an endpoint on this machine."""
    one = Endpoint(answer)
    server = await asyncio.start_server(one.serve, "127.0.0.1", port)
    one.port = server.sockets[0].getsockname()[1]
    try:
        yield one
    finally:
        server.close()
        for writer in list(one.writers):
            writer.transport.abort()
        await server.wait_closed()
