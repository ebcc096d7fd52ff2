"""A proxy that shows a master under its own path, as people place it beside other services under one name."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from urllib.parse import urlsplit


@contextlib.asynccontextmanager
async def behind_prefix(
    upstream: str, prefix: str, *, flows: asyncio.Event | None = None
) -> AsyncIterator[str]:
    """Yield an address below which the master at `upstream` is found under `prefix`, such as `/some/prefix`; all other
    paths are 404. Each connection carries one request, so the proxy parses only the head. Streams pass as they come.
    While `flows` is not set, answers do not pass and connections do not end.
    """
    tasks: set[asyncio.Task[None]] = set()
    at = urlsplit(upstream)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError), contextlib.closing(writer):
            head = await reader.readuntil(b"\r\n\r\n")
            method, path, rest = head.split(b" ", 2)
            if not path.startswith(prefix.encode() + b"/"):
                writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                await writer.drain()
                return
            rest = re.sub(rb"(?i)\r\nconnection:[^\r]*", b"", rest).replace(
                b"\r\n", b"\r\nConnection: close\r\n", 1
            )
            answers, requests = await asyncio.open_connection(at.hostname, at.port)
            with contextlib.closing(requests):
                requests.write(b" ".join((method, path[len(prefix) :], rest)))
                body = asyncio.create_task(_pipe(reader, requests))
                try:
                    await _pipe(answers, writer, flows)
                finally:
                    body.cancel()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _pipe(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flows: asyncio.Event | None = None
) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            if flows:
                await flows.wait()
            writer.write(data)
            await writer.drain()
