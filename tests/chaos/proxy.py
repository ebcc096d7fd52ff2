"""A TCP proxy between any two parts, which loses, holds, delays, doubles and cuts what passes: the network's bad days.

`HttpLink` knows where a request ends, so that what it does to one is a whole fault; `RawLink` is for the store's
protocol. Each decision is drawn from the seeded source of its link, and what it really hit is counted.
"""

import asyncio
import contextlib
import random
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from weakref import WeakSet

MAX_HEAD_BYTES = 64 * 1024
CHUNK_BYTES = 256 * 1024
# A late copy must not arrive first, and must find its connection refused or its answer unread.
COPY_TIMEOUT_S = 5.0


@dataclass(slots=True)
class Weather:
    """The harm that a link does to its traffic. All zero means no harm. Shares are of requests (of chunks on a raw
    link).

    `holds_requests`, `holds_answers`: nothing passes in that direction until it clears (both: the link is cut).
    """

    drop_requests: float = 0.0  # the connection ends before the request was passed on
    cut_requests: float = 0.0  # it ends in the middle of it
    drop_answers: float = 0.0  # it is done, and the connection ends without an answer
    cut_answers: float = 0.0  # it is done, and half an answer comes
    delay_requests: float = 0.0
    delay_answers: float = 0.0
    delay_s: float = 0.0
    double: float = 0.0  # delivered twice, at once
    copy_later: float = 0.0  # delivered again `delay_s` after its answer
    holds_requests: bool = False
    holds_answers: bool = False


@dataclass(slots=True)
class Message:
    """One request or answer as received, head and body."""

    data: bytes
    first_line: str = ""
    ends_connection: bool = False


class Broken(Exception):
    """The connection ends here, in either direction."""


class _Reader(asyncio.StreamReader):
    """Reports at once when the other side has ended."""

    on_end: Callable[[], None] | None = None

    def feed_eof(self) -> None:
        super().feed_eof()
        if self.on_end is not None:
            self.on_end()


@dataclass(slots=True)
class Bites:
    """Counts of effects on messages since the weather last changed."""

    counts: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        return sum(self.counts.values())


class Link:
    """Listens on a free port of 127.0.0.1 (unix sockets do not support a reset), and forwards to `upstream`: host and
    port, or a unix socket path."""

    def __init__(self, name: str, upstream: tuple[str, int] | str, *, seed: int) -> None:
        self.name = name
        self.upstream = upstream
        # The stranger temporarily at this address.
        self.stranger: tuple[str, int] | None = None
        self.met = 0  # connections to strangers
        self.weather = Weather()
        self.bites = Bites()
        self._rng = random.Random(f"{seed}:{name}")
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        # The callers' connections among these. The busy ones have an unanswered request.
        self._accepted: set[asyncio.StreamWriter] = set()
        self._busy: WeakSet[asyncio.StreamWriter] = WeakSet()
        self._forgotten: WeakSet[asyncio.StreamWriter] = WeakSet()
        self._tasks: set[asyncio.Task[None]] = set()
        self._cleared = asyncio.Event()
        self.port = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        self.clear()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.reset()

    def change(self, weather: Weather) -> None:
        """Set the weather from now on, and forget the counts for the previous weather."""
        self.weather = weather
        self.bites = Bites()
        self._cleared.set()
        self._cleared = asyncio.Event()

    def clear(self) -> None:
        """Set good weather, so that held traffic passes on."""
        self.weather = Weather()
        self._cleared.set()
        self._cleared = asyncio.Event()

    def reset(self) -> int:
        """Reset all connections now, and return how many there were."""
        writers = [writer for writer in self._writers if not writer.transport.is_closing()]
        for writer in writers:
            _reset(writer)
        self.bites.counts["reset"] += len(writers)
        return len(writers)

    def reset_idle(self) -> int:
        """Reset idle connections, like a firewall that has forgotten them, and return how many there were."""
        idle = [
            writer
            for writer in self._accepted
            if writer not in self._busy and not writer.transport.is_closing()
        ]
        for writer in idle:
            _reset(writer)
        self.bites.counts["idle reset"] += len(idle)
        return len(idle)

    def forget_all(self) -> int:
        """Stop passing data on open connections without telling either side, and return how many there were. New ones
        pass."""
        self._forgotten.update(self._accepted)
        self.bites.counts["forgotten"] += len(self._accepted)
        return len(self._accepted)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer), name=f"link {self.name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        self._accepted.add(writer)
        is_broken = False
        try:
            await self._pass(reader, writer)
        except Broken:
            is_broken = True
        except (OSError, EOFError, asyncio.IncompleteReadError):
            is_broken = True
        finally:
            self._writers.discard(writer)
            self._accepted.discard(writer)
            _reset(writer) if is_broken else writer.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise NotImplementedError

    @contextlib.asynccontextmanager
    async def _connected(self) -> AsyncIterator[tuple[_Reader, asyncio.StreamWriter]]:
        loop = asyncio.get_running_loop()
        reader = _Reader(limit=CHUNK_BYTES)
        protocol = asyncio.StreamReaderProtocol(reader)
        upstream = self.stranger or self.upstream
        self.met += self.stranger is not None
        if isinstance(upstream, str):
            transport, _ = await loop.create_unix_connection(lambda: protocol, upstream)
        else:
            transport, _ = await loop.create_connection(lambda: protocol, *upstream)
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        self._writers.add(writer)
        try:
            yield reader, writer
        finally:
            self._writers.discard(writer)
            writer.close()

    def _hits(self, share: float, what: str) -> bool:
        if share and self._rng.random() < share:
            self.bites.counts[what] += 1
            return True
        return False

    async def _hold(self, held: Callable[[], bool], what: str) -> None:
        if held():
            self.bites.counts[what] += 1
        while held():
            await self._cleared.wait()

    async def _requests_pass(self) -> None:
        await self._hold(lambda: self.weather.holds_requests, "request held")
        if self._hits(self.weather.delay_requests, "request delayed"):
            await asyncio.sleep(self._rng.uniform(0.2, 1.0) * self.weather.delay_s)

    async def _answers_pass(self) -> None:
        await self._hold(lambda: self.weather.holds_answers, "answer held")
        if self._hits(self.weather.delay_answers, "answer delayed"):
            await asyncio.sleep(self._rng.uniform(0.2, 1.0) * self.weather.delay_s)


class RawLink(Link):
    """Forwards bytes in both directions, in the chunks in which they come."""

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with self._connected() as (up_reader, up_writer):
            ways = [
                asyncio.create_task(self._way(reader, up_writer, self._request, writer)),
                asyncio.create_task(self._way(up_reader, writer, self._answer, writer)),
            ]
            try:
                done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                for way in done:
                    way.result()
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)

    async def _way(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        judge: Callable[[bytes], Awaitable[bytes]],
        caller: asyncio.StreamWriter,
    ) -> None:
        while data := await reader.read(CHUNK_BYTES):
            if writer is not caller:
                self._busy.add(caller)
            judged = await judge(data)
            if caller not in self._forgotten:
                writer.write(judged)
                await writer.drain()
            if writer is caller:
                self._busy.discard(caller)

    async def _request(self, data: bytes) -> bytes:
        await self._requests_pass()
        if self._hits(self.weather.drop_requests, "request dropped"):
            raise Broken
        return data

    async def _answer(self, data: bytes) -> bytes:
        await self._answers_pass()
        if self._hits(self.weather.drop_answers, "answer dropped"):
            raise Broken
        return data


class HttpLink(Link):
    """Forwards whole requests and answers, one at a time on each connection. `spare` identifies, by the first line,
    requests that are never doubled or copied."""

    def __init__(
        self,
        name: str,
        upstream: tuple[str, int] | str,
        *,
        seed: int,
        spare: Callable[[str], bool] = lambda _: False,
    ) -> None:
        super().__init__(name, upstream, seed=seed)
        self._spare = spare

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with self._connected() as (up_reader, up_writer):
            # An idle connection ends with its other half, as it would without a proxy.
            is_busy = False
            up_reader.on_end = lambda: None if is_busy else writer.close()
            while request := await _read_message(reader, is_answer=False):
                is_busy = True
                self._busy.add(writer)
                await self._requests_pass()
                await self._pass_unless_forgotten(writer)
                weather = self.weather
                if self._hits(weather.drop_requests, "request dropped"):
                    raise Broken
                if self._hits(weather.cut_requests, "request cut"):
                    up_writer.write(request.data[: max(1, len(request.data) * 2 // 3)])
                    await up_writer.drain()
                    raise Broken
                is_spared = self._spare(request.first_line)
                if not is_spared and self._hits(weather.double, "request doubled"):
                    self._copy(request, 0.0)
                up_writer.write(request.data)
                answer = await _read_message(up_reader, is_answer=True)
                if answer is None:
                    raise Broken
                if not is_spared and self._hits(weather.copy_later, "request copied later"):
                    self._copy(request, weather.delay_s)
                await self._answers_pass()
                await self._pass_unless_forgotten(writer)
                weather = self.weather
                if self._hits(weather.drop_answers, "answer dropped"):
                    raise Broken
                if self._hits(weather.cut_answers, "answer cut"):
                    writer.write(answer.data[: len(answer.data) * 2 // 3])
                    await writer.drain()
                    raise Broken
                writer.write(answer.data)
                await writer.drain()
                is_busy = False
                self._busy.discard(writer)
                if request.ends_connection or answer.ends_connection or up_reader.at_eof():
                    return

    async def _pass_unless_forgotten(self, caller: asyncio.StreamWriter) -> None:
        if caller in self._forgotten:
            await asyncio.Event().wait()

    def _copy(self, request: Message, after_s: float) -> None:
        """Deliver the request again, without showing anyone the answer."""

        async def deliver() -> None:
            await asyncio.sleep(after_s)
            with contextlib.suppress(OSError, EOFError, TimeoutError, Broken):
                async with asyncio.timeout(COPY_TIMEOUT_S), self._connected() as (up_reader, up_writer):
                    up_writer.write(request.data)
                    await _read_message(up_reader, is_answer=True)

        task = asyncio.create_task(deliver(), name=f"copy on {self.name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _read_message(reader: asyncio.StreamReader, *, is_answer: bool) -> Message | None:
    """Return None if the connection ended between messages. Raise EOFError if it ended within one."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        return None
    except asyncio.LimitOverrunError:
        raise Broken from None
    lines = head.decode("latin-1").split("\r\n")
    fields = {
        name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])
    }
    ends = fields.get("connection", "").lower() == "close"
    status = int(lines[0].split()[1]) if is_answer else 0
    if "chunked" in fields.get("transfer-encoding", "").lower():
        body = await _read_chunks(reader)
    elif "content-length" in fields:
        body = await reader.readexactly(int(fields["content-length"]))
    elif is_answer and status not in (204, 304):
        body, ends = await reader.read(-1), True
    else:
        body = b""
    return Message(head + body, lines[0], ends)


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    parts = []
    while True:
        size = await reader.readuntil(b"\r\n")
        length = int(size.split(b";")[0], 16)
        parts += [size, await reader.readexactly(length + 2)]
        if length == 0:
            return b"".join(parts)


def _reset(writer: asyncio.StreamWriter) -> None:
    """Send RST instead of FIN: data under way is lost, as when a machine dies."""
    sock = writer.get_extra_info("socket")
    if sock is not None and sock.family == socket.AF_INET:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
