"""A webhook receiver: a real HTTP server that answers as a test says, and keeps what it receives."""

import asyncio
import base64
import contextlib
import hmac
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.support.waiting import wait_until

SECRET = "whsec_" + base64.b64encode(b"the secret of the tests, 32 byte").decode()
FORMER_SECRET = "whsec_" + base64.b64encode(b"the secret that it has replaced.").decode()


@dataclass(frozen=True, slots=True)
class Received:
    """One request."""

    path: str
    fields: dict[str, str]
    body: bytes

    @property
    def message(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.body)
        return value

    def is_signed_with(self, secret: str) -> bool:
        """Return whether one of the signatures was made with `secret`, as a receiver checks it."""
        key = base64.b64decode(secret.removeprefix("whsec_"))
        signed = f"{self.fields['webhook-id']}.{self.fields['webhook-timestamp']}.".encode() + self.body
        expected = "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
        return expected in self.fields["webhook-signature"].split(" ")


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the receiver. With `hangs`, it does not answer."""

    status: int = 204
    fields: tuple[tuple[str, str], ...] = ()
    hangs: bool = False


class Receiver:
    """`answer` returns the answer to the n-th request, from 0."""

    def __init__(self, answer: Callable[[int], Answer]) -> None:
        self.received: list[Received] = []
        self.open = 0
        self.most_open = 0
        self.let_go = asyncio.Event()
        self._answer = answer
        self._port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/hook?key=k1"

    async def until(self, count: int) -> Sequence[Received]:
        """Return the requests once there are enough."""
        await wait_until(lambda: len(self.received) >= count, what=f"{count} webhooks")
        return self.received

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            fields = dict(line.lower().split(": ", 1) for line in head[1:] if line)
            raw = {line.split(": ", 1)[0].lower(): line.split(": ", 1)[1] for line in head[1:] if line}
            body = await reader.readexactly(int(fields["content-length"]))
            self.open += 1
            self.most_open = max(self.most_open, self.open)
            number = len(self.received)
            self.received.append(Received(head[0].split(" ")[1], raw, body))
            answer = self._answer(number)
            if answer.hangs:
                await self.let_go.wait()
            lines = [f"HTTP/1.1 {answer.status} x", "Content-Length: 0", "Connection: close"]
            lines += [f"{name}: {value}" for name, value in answer.fields]
            self.open -= 1
            writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
            await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def receiver(*answers: Answer) -> AsyncIterator[Receiver]:
    """Yield a receiver that gives these answers in turn, then repeats the last. Without answers, it takes all."""
    given = answers or (Answer(),)
    async with serving(lambda number: given[min(number, len(given) - 1)]) as one:
        yield one


@contextlib.asynccontextmanager
async def serving(answer: Callable[[int], Answer]) -> AsyncIterator[Receiver]:
    """Yield a receiver whose `answer` returns the answer to the n-th request, from 0."""
    one = Receiver(answer)
    server = await asyncio.start_server(one.serve, "127.0.0.1", 0)
    one._port = server.sockets[0].getsockname()[1]
    try:
        yield one
    finally:
        one.let_go.set()
        server.close()
        await server.wait_closed()
