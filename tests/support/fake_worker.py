"""A scripted worker endpoint that accepts, refuses, lies, hangs or breaks off. It records every push.

It writes HTTP by hand so that it can also break the protocol, and shares no code with worker_sdk.
"""

import asyncio
import contextlib
import hashlib
import hmac
import secrets
import socket
import struct
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgpack

from jqmaster.domain.ids import new_id
from jqmaster.domain.workers.worker import WorkerSpec
from jqmaster.store.jobs.settlements import SettlementStore
from jqmaster.store.workers.workers import WorkerStore


@dataclass
class Push:
    """One `POST /jobs` as received."""

    path: str
    headers: dict[str, str]
    body: bytes
    is_signed: bool
    at_s: float = field(default_factory=time.monotonic)

    @property
    def fields(self) -> dict[str, Any]:
        return msgpack.unpackb(self.body, timestamp=3)

    @property
    def jobs(self) -> list[dict[str, Any]]:
        return self.fields["jobs"]

    @property
    def tokens(self) -> list[str]:
        return [job["token"] for job in self.jobs]

    @property
    def job_ids(self) -> list[str]:
        return [job["job_id"] for job in self.jobs]


class Exchange:
    """One request and the means to answer it. `push`: None if the body was not read."""

    def __init__(
        self, worker: "FakeWorker", reader: asyncio.StreamReader, writer: asyncio.StreamWriter, length: int
    ) -> None:
        self.worker = worker
        self.reader = reader
        self.writer = writer
        self.length = length
        self.push: Push | None = None

    async def send(self, status: int, body: bytes = b"", **headers: str) -> None:
        head = {"Content-Type": "application/msgpack", "Content-Length": str(len(body)), **headers}
        lines = [f"HTTP/1.1 {status} X", *(f"{k.replace('_', '-')}: {v}" for k, v in head.items()), "", ""]
        self.writer.write("\r\n".join(lines).encode() + body)
        await self.writer.drain()

    async def answer(self, accepted: Sequence[str], rejected: Sequence[dict[str, Any]] = ()) -> None:
        await self.send(200, msgpack.packb({"accepted": list(accepted), "rejected": list(rejected)}))

    def reset(self) -> None:
        """Reset the connection instead of closing it cleanly."""
        self.writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
        self.writer.transport.abort()


Behaviour = Callable[[Exchange], Awaitable[None]]


class Unread:
    """Mark a behaviour that acts before the body is read."""

    def __init__(self, act: Callable[[Exchange], Awaitable[None]]) -> None:
        self.act = act

    async def __call__(self, exchange: Exchange) -> None:
        await self.act(exchange)


async def accept(exchange: Exchange) -> None:
    """Take new jobs and accept all. A token seen before is accepted again but not started again."""
    assert exchange.push
    exchange.worker.start_jobs(exchange.push)
    await exchange.answer(exchange.push.job_ids)


def reject(reason: str, retry_after: float | None = None, *, names: Sequence[str] = ()) -> Behaviour:
    """Refuse every job, or only those of `names`, and accept the others."""

    async def act(exchange: Exchange) -> None:
        assert exchange.push
        refused = [j["job_id"] for j in exchange.push.jobs if not names or j["name"] in names]
        taken = [job_id for job_id in exchange.push.job_ids if job_id not in refused]
        exchange.worker.start_jobs(exchange.push, only=taken)
        await exchange.answer(
            taken, [{"job_id": job_id, "reason": reason, "retry_after": retry_after} for job_id in refused]
        )

    return act


def status(code: int, body: bytes = b"", *, takes: bool = False, **headers: str) -> Behaviour:
    """Answer any status. With `takes`, the jobs start anyway."""

    async def act(exchange: Exchange) -> None:
        if takes:
            assert exchange.push
            exchange.worker.start_jobs(exchange.push)
        await exchange.send(code, body, **headers)

    return act


def garbage(body: bytes = b"\xc1\xc1\xc1") -> Behaviour:
    return status(200, body, takes=True)


def huge(size: int = 4 << 20) -> Behaviour:
    async def act(exchange: Exchange) -> None:
        exchange.writer.write(f"HTTP/1.1 200 X\r\nContent-Length: {size}\r\n\r\n".encode())
        # The peer stops reading long before the end.
        with contextlib.suppress(ConnectionError):
            for _ in range(size // 65536):
                exchange.writer.write(bytes(65536))
                exchange.worker.bytes_sent += 65536
                await exchange.writer.drain()

    return act


async def truncated(exchange: Exchange) -> None:
    """Take the jobs and break off in the middle of the answer."""
    assert exchange.push
    exchange.worker.start_jobs(exchange.push)
    exchange.writer.write(b"HTTP/1.1 200 X\r\nContent-Length: 100\r\n\r\n\x82\xa8accep")
    await exchange.writer.drain()
    exchange.writer.close()


async def trickle(exchange: Exchange) -> None:
    """Send a byte now and then, for ever."""
    assert exchange.push
    exchange.worker.start_jobs(exchange.push)
    with contextlib.suppress(ConnectionError):
        exchange.writer.write(b"HTTP/1.1 200 X\r\nContent-Length: 1000\r\n\r\n")
        while not exchange.reader.at_eof():
            exchange.writer.write(b"\x82")
            await exchange.writer.drain()
            await asyncio.sleep(0.05)


async def hang(exchange: Exchange) -> None:
    """Read but do not answer until the peer gives up."""
    await exchange.reader.read()


async def accept_and_hang(exchange: Exchange) -> None:
    assert exchange.push
    exchange.worker.start_jobs(exchange.push)
    await hang(exchange)


async def reset_after_reading(exchange: Exchange) -> None:
    exchange.reset()


async def accept_and_reset(exchange: Exchange) -> None:
    assert exchange.push
    exchange.worker.start_jobs(exchange.push)
    exchange.reset()


async def accept_and_die(exchange: Exchange) -> None:
    """Take the jobs, answer and disappear: no more connections or results."""
    await accept(exchange)
    exchange.worker.die()


async def answer_twice(exchange: Exchange) -> None:
    await accept(exchange)
    await accept(exchange)


async def _reset(exchange: Exchange) -> None:
    exchange.reset()


reset_before_reading = Unread(_reset)


class FakeWorker:
    """Pops one behaviour of `script` for each push, or uses `default` when it is empty.

    `started` lists, in order, each token for which a handler would have started. The contract allows each only once.
    """

    def __init__(self, *script: Behaviour, default: Behaviour = accept, prefix: str = "") -> None:
        self.script = deque(script)
        self.default = default
        self.prefix = prefix
        self.id = ""
        self.secret = secrets.token_hex(32)
        self.url = ""
        self.pushes: list[Push] = []
        self.cancels: list[tuple[str, dict[str, Any]]] = []
        self.challenges: list[tuple[str, dict[str, str]]] = []
        self.proof: Callable[[str], Any] = self.right_proof
        self.started: list[tuple[str, str]] = []
        self.on_start: Callable[[list[dict[str, Any]]], None] = lambda jobs: None
        self.bytes_sent = 0
        self.connections = 0
        self.max_jobs = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    # --- the endpoint

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator["FakeWorker"]:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, limit=1 << 20)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}{self.prefix}"
        try:
            yield self
        finally:
            self.die()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def die(self) -> None:
        """End as if the process were killed: close the listener and reset every connection."""
        if self._server:
            self._server.close()
        for writer in self._writers:
            writer.transport.abort()

    def right_proof(self, nonce: str) -> str:
        return hmac.new(self.secret.encode(), nonce.encode(), hashlib.sha256).hexdigest()

    def start_jobs(self, push: Push, only: Sequence[str] | None = None) -> None:
        seen = {token for _, token in self.started}
        fresh = [
            job for job in push.jobs if job["token"] not in seen and (only is None or job["job_id"] in only)
        ]
        self.started += [(job["job_id"], job["token"]) for job in fresh]
        self.on_start(fresh)

    def spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        task = asyncio.current_task()
        assert task
        self._tasks.add(task)
        try:
            while not writer.transport.is_closing():
                await self._exchange(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the peer is gone
        except asyncio.CancelledError:
            pass  # by `serving` alone; Python 3.11's streams complain about cancelled handlers
        finally:
            writer.close()
            self._writers.discard(writer)
            self._tasks.discard(task)

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request_line, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[:-2]
        method, path, _ = request_line.split(" ")
        headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in lines)}
        exchange = Exchange(self, reader, writer, int(headers.get("content-length", 0)))
        local = path.removeprefix(self.prefix)
        is_push = local == "/jobs"
        behaviour = (self.script.popleft() if self.script else self.default) if is_push else None
        if isinstance(behaviour, Unread):
            await behaviour(exchange)
            return
        body = await reader.readexactly(exchange.length)
        if behaviour:
            exchange.push = Push(path, headers, body, self.is_signed(method, path, headers, body))
            self.pushes.append(exchange.push)
            await behaviour(exchange)
        elif local == "/challenge":
            nonce = msgpack.unpackb(body)["nonce"]
            self.challenges.append((nonce, headers))
            await exchange.send(200, msgpack.packb({"proof": self.proof(nonce)}))
        elif local.endswith("/cancel") and self.is_signed(method, path, headers, body):
            self.cancels.append((local.split("/")[2], msgpack.unpackb(body)))
            await exchange.send(200, msgpack.packb({}))
        else:
            await exchange.send(404)

    def is_signed(self, method: str, path: str, headers: dict[str, str], body: bytes) -> bool:
        """Return whether a request is signed by the contract's formula, which is implemented independently here."""
        parts = (method, path, headers["x-jq-worker"], headers["x-jq-timestamp"], headers["x-jq-nonce"])
        message = "\n".join((*parts, hashlib.sha256(body).hexdigest()))
        expected = "v1=" + hmac.new(self.secret.encode(), message.encode(), hashlib.sha256).hexdigest()
        is_mine = not self.id or parts[2] == self.id
        return is_mine and hmac.compare_digest(expected, headers["x-jq-signature"])

    # --- what a worker does through a master, done directly on the store

    async def join(
        self,
        workers: WorkerStore,
        *names: str,
        max_jobs: int = 10,
        url: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> str:
        """Register without proof of address and return the ID."""
        self.id, self.max_jobs = new_id(), max_jobs
        spec = WorkerSpec(
            url or self.url, names or ("work",), max_jobs, "node", 1, labels or {}, "1", self.secret
        )
        await workers.register(self.id, spec)
        return self.id

    async def succeed(
        self, settlements: SettlementStore, *claims: tuple[str, str], result: bytes = b"\xc0"
    ) -> list[bool]:
        """Report success for (job ID, token) pairs, or for all started jobs if none are given."""
        ended = [(job_id, token, result) for job_id, token in claims or self.started]
        return await settlements.settle_success(self.id, ended)

    def works(self, settlements: SettlementStore, *, run_s: float = 0.0) -> None:
        """From now on, report success for each started job, `run_s` after its start."""

        async def run(claims: list[tuple[str, str]]) -> None:
            await asyncio.sleep(run_s)
            await self.succeed(settlements, *claims)

        def start(started: list[dict[str, Any]]) -> None:
            if started:
                self.spawn(run([(job["job_id"], job["token"]) for job in started]))

        self.on_start = start
