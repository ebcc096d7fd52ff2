"""A primary with replicas: real servers, in sync when the test receives them."""

import contextlib
import signal
from collections.abc import AsyncIterator, Iterator

from redis.asyncio import Redis

from tests.support.ports import free_port
from tests.support.server import StoreServer
from tests.support.waiting import wait_until


@contextlib.asynccontextmanager
async def replicated(count: int, *extra: str) -> AsyncIterator[tuple[StoreServer, list[StoreServer]]]:
    """The primary and its replicas. `extra` holds options of the primary."""
    port = free_port()
    with contextlib.ExitStack() as stack:
        primary = StoreServer("--port", str(port), "--repl-diskless-sync-delay", "0", *extra)
        stack.callback(primary.stop)
        primary.start()
        replicas = [StoreServer("--replicaof", f"127.0.0.1 {port}") for _ in range(count)]
        for replica in replicas:
            stack.callback(replica.stop)
            replica.start()
        await in_sync(primary, count)
        yield primary, replicas


async def in_sync(primary: StoreServer, count: int) -> None:
    """Return when `count` replicas confirm writes of the primary. The `online` state alone comes earlier."""
    client = Redis(unix_socket_path=str(primary.socket), protocol=2)

    async def are() -> bool:
        await client.set("in_sync", "1")
        confirmed: int = await client.wait(count, 100)
        return confirmed == count

    try:
        await wait_until(are, timeout_s=20, what=f"{count} replicas are in sync")
    finally:
        await client.aclose()


@contextlib.contextmanager
def paused(server: StoreServer) -> Iterator[None]:
    """Stop the server in this block. It does not read or answer, but its connections stay."""
    server.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        server.signal(signal.SIGCONT)
