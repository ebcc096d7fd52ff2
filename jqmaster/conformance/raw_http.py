"""HTTP/1.1 over bare sockets. The kit itself writes every byte that it sends, and checks received bytes
unchanged."""

import asyncio
import functools
import os
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

_MAX_HEAD: Final = 64 * 1024
_MAX_BODY: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RawMessage:
    """A request or an answer: the first line in three parts, fields by lower-case name, the body."""

    first: tuple[str, str, str]
    fields: Mapping[str, str]
    body: bytes

    @property
    def status(self) -> int:
        """Return the status of an answer."""
        return int(self.first[1])


@dataclass(frozen=True, slots=True)
class RawReply:
    """The answer of a server."""

    status: int
    body: bytes = b""
    content_type: str = ""
    fields: Mapping[str, str] | None = None


# A function that answers a request. If it returns None, the server closes the connection without an answer.
Serve = Callable[[RawMessage], Awaitable[RawReply | None]]


class Connection:
    """One connection to `url`, for bytes of any kind."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
        self._reader = reader
        self._writer = writer
        self._host = host

    @classmethod
    async def open(cls, url: str) -> "Connection":
        parts = urlsplit(url)
        is_tls = parts.scheme == "https"
        reader, writer = await asyncio.open_connection(
            parts.hostname,
            parts.port or (443 if is_tls else 80),
            ssl=_tls_context() if is_tls else None,
            limit=_MAX_HEAD,
        )
        return cls(reader, writer, parts.netloc)

    def head(self, method: str, target: str, fields: Mapping[str, str], length: int | None) -> bytes:
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self._host}"]
        lines += [f"{name}: {value}" for name, value in fields.items()]
        if length is not None:
            lines.append(f"Content-Length: {length}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def answer(self, *, has_body: bool = True) -> RawMessage:
        """Return the next final answer. Raises EOFError if the connection ends before it."""
        while True:
            message = await _read_message(self._reader, is_answer=True, has_body=has_body)
            if message is None:
                raise EOFError("the connection was closed without an answer")
            if message.status >= 200:
                return message

    async def close(self) -> None:
        self._writer.close()
        # best effort: the other side may have closed the connection first.
        await asyncio.gather(self._writer.wait_closed(), return_exceptions=True)


@functools.cache
def _tls_context() -> ssl.SSLContext:
    """Return the context of calls by https, with the files in JQMASTER_CLIENT_…, which all commands use."""
    cafile, certfile, keyfile = (
        os.environ.get(f"JQMASTER_CLIENT_{name}") or None for name in ("CAFILE", "CERTFILE", "KEYFILE")
    )
    try:
        context = ssl.create_default_context(cafile=cafile)
        if certfile is not None:
            context.load_cert_chain(certfile, keyfile)
    except OSError as exc:
        raise OSError(
            exc.errno, f"JQMASTER_CLIENT_CAFILE, …_CERTFILE or …_KEYFILE cannot be used: {exc}"
        ) from exc
    return context


async def call(
    method: str,
    url: str,
    *,
    fields: Mapping[str, str] | None = None,
    body: bytes | None = None,
    timeout_s: float = 15.0,
) -> RawMessage:
    """Send one request on a new connection."""
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    async with asyncio.timeout(timeout_s):
        connection = await Connection.open(url)
        try:
            length = None if body is None and method in ("GET", "HEAD", "DELETE") else len(body or b"")
            head = connection.head(method, target, {"Connection": "close", **(fields or {})}, length)
            await connection.send(head + (body or b""))
            return await connection.answer(has_body=method != "HEAD")
        finally:
            await connection.close()


class Server:
    """Serves HTTP/1.1 with persistent connections, by default on loopback."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    async def start(self, host: str, port: int) -> int:
        """Start to listen, and return the port."""
        self._server = await asyncio.start_server(self._connected, host, port, limit=_MAX_HEAD)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            for writer in list(self._open):
                writer.transport.abort()
            await self._server.wait_closed()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            while (request := await _read_message(reader, is_answer=False, writer=writer)) is not None:
                reply = await self._serve(request)
                if reply is None:
                    writer.transport.abort()
                    return
                writer.write(_encoded(reply))
                await writer.drain()
                if request.fields.get("connection", "").lower() == "close":
                    return
        except (OSError, EOFError, ValueError):
            pass  # best effort: ignore a client that goes away or does not speak HTTP
        finally:
            self._open.discard(writer)
            writer.close()


def _encoded(reply: RawReply) -> bytes:
    lines = [f"HTTP/1.1 {reply.status} {HTTPStatus(reply.status).phrase}"]
    if reply.content_type:
        lines.append(f"Content-Type: {reply.content_type}")
    if reply.status != HTTPStatus.NO_CONTENT:
        lines.append(f"Content-Length: {len(reply.body)}")
    lines += [f"{name}: {value}" for name, value in (reply.fields or {}).items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + reply.body


async def _read_message(
    reader: asyncio.StreamReader,
    *,
    is_answer: bool,
    has_body: bool = True,
    writer: asyncio.StreamWriter | None = None,
) -> RawMessage | None:
    """Read one message. Return None if the connection ended between two messages. Raise EOFError if it ended
    within a message, and ValueError if the bytes are not HTTP."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as exc:
        if exc.partial:
            raise EOFError("the connection was closed within a head") from None
        return None
    except asyncio.LimitOverrunError:
        raise ValueError("the head is too long") from None
    lines = head.decode("latin-1").split("\r\n")[:-2]
    first, *more = lines[0].split(" ", 2)
    if len(more) < 1 or not (
        first.startswith("HTTP/1.") if is_answer else lines[0].endswith(("/1.1", "/1.0"))
    ):
        raise ValueError(f"not HTTP/1.1: {lines[0][:80]!r}")
    fields: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon:
            raise ValueError(f"not a header field: {line[:80]!r}")
        fields[name.lower()] = value.strip()
    if writer is not None and fields.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    status = int(more[0]) if is_answer else 0
    may_have_body = has_body and not (is_answer and (status < 200 or status in (204, 304)))
    body = await _read_body(reader, fields, is_answer=is_answer) if may_have_body else b""
    return RawMessage((first, more[0], more[1] if len(more) > 1 else ""), fields, body)


async def _read_body(reader: asyncio.StreamReader, fields: Mapping[str, str], *, is_answer: bool) -> bytes:
    if "chunked" in fields.get("transfer-encoding", "").lower():
        chunks = b""
        while True:
            size = int((await _line(reader)).split(b";")[0], 16)
            if len(chunks) + size > _MAX_BODY:
                raise ValueError("the body is too long")
            chunks += await _exactly(reader, size)
            await _line(reader)
            if size == 0:
                return chunks
    if "content-length" in fields:
        length = int(fields["content-length"])
        if length > _MAX_BODY:
            raise ValueError("the body is too long")
        return await _exactly(reader, length)
    return await reader.read() if is_answer else b""


async def _line(reader: asyncio.StreamReader) -> bytes:
    try:
        return (await reader.readuntil(b"\r\n"))[:-2]
    except asyncio.IncompleteReadError:
        raise EOFError("the connection was closed within a body") from None


async def _exactly(reader: asyncio.StreamReader, length: int) -> bytes:
    try:
        return await reader.readexactly(length)
    except asyncio.IncompleteReadError:
        raise EOFError("the connection was closed within a body") from None
