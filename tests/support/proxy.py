"""A store proxy that loses, holds and forges answers."""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path


class StoreProxy:
    """Listens on a unix socket. Each order applies to the next request on any connection."""

    def __init__(self, upstream: str, path: Path) -> None:
        self._upstream = upstream
        self.url = f"unix://{path}"
        self.held = 0
        # The latency of the next answer. On each connection, answers stay in order.
        self.latency_s: Callable[[], float] = lambda: 0.0
        self._forged: tuple[bytes, int] | None = None
        self._drops = False
        self._cuts = False
        self._writers: list[asyncio.StreamWriter] = []
        self._open = asyncio.Event()
        self._open.set()

    @classmethod
    @contextlib.asynccontextmanager
    async def before(cls, upstream: str) -> AsyncIterator["StoreProxy"]:
        with tempfile.TemporaryDirectory(prefix="jq-", dir="/tmp") as directory:
            path = Path(directory) / "p"
            proxy = cls(upstream, path)
            tasks: set[asyncio.Task[None]] = set()

            def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                proxy._writers.append(writer)
                tasks.add(asyncio.create_task(proxy._serve(reader, writer)))

            server = await asyncio.start_unix_server(accept, str(path))
            try:
                yield proxy
            finally:
                server.close()
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                for writer in proxy._writers:
                    writer.transport.abort()
                for writer in proxy._writers:
                    with contextlib.suppress(OSError):
                        await writer.wait_closed()

    def answer_next(self, answer: bytes, *, after: int = 0) -> None:
        """Answer the next request, or the one `after` that many. The store does not see it."""
        self._forged = (answer, after)

    def drop_next_answer(self) -> None:
        """Let the store handle the next request, and end the connection before its answer arrives."""
        self._drops = True

    def cut_next_request(self) -> None:
        """End the connection in the middle of the next request."""
        self._cuts = True

    def hold_answers(self) -> None:
        self.held = 0
        self._open.clear()

    def release_answers(self) -> None:
        self._open.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        store_reader, store_writer = await asyncio.open_unix_connection(self._upstream)
        self._writers.append(store_writer)
        answers = asyncio.create_task(self._pass_answers(store_reader, writer))
        try:
            while request := await reader.read(1 << 20):
                if self._cuts:
                    self._cuts = False
                    store_writer.write(request[: len(request) // 2])
                    return
                if self._drops:
                    self._drops = False
                    answers.cancel()
                    await asyncio.gather(answers, return_exceptions=True)
                    store_writer.write(request)
                    await store_reader.read(1)
                    return
                if self._forged:
                    answer, after = self._forged
                    self._forged = (answer, after - 1) if after else None
                    if not after:
                        writer.write(answer)
                        continue
                store_writer.write(request)
                await store_writer.drain()
        except ConnectionError:
            pass
        finally:
            answers.cancel()
            store_writer.close()
            writer.close()

    async def _pass_answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while answer := await reader.read(1 << 20):
            if not self._open.is_set():
                self.held += 1
                await self._open.wait()
            if latency_s := self.latency_s():
                await asyncio.sleep(latency_s)
            writer.write(answer)
