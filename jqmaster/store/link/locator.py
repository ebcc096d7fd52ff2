"""Locators of the current primary, for stores whose primary may move, and connections that follow it."""

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar
from weakref import WeakSet

from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from jqmaster.net.store_url import Endpoint
from jqmaster.store.link.connection import TcpConnection, TlsConnection

logger = logging.getLogger(__name__)

# How long to wait for the first server that answers, and then for the answers of all others.
ASK_S: Final = 1.0
ASK_OTHERS_S: Final = 0.2
# How often to ask the other servers for the primary. A primary that hangs, or does not know that it was replaced, sends
# no error.
WATCH_S: Final = 1.0

_T = TypeVar("_T")


class Locator(ABC):
    """Keeps the primary's address until `doubt` is called, and checks once a second whether the primary has moved."""

    def __init__(self) -> None:
        self._told: list[Callable[[str, int], None]] = []
        self._is_closed = False
        self._address: Endpoint | None = None
        self._last: Endpoint | None = None
        self._search: asyncio.Task[Endpoint] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._connections: WeakSet[LocatedConnection] = WeakSet()

    @abstractmethod
    async def _find(self) -> Endpoint:
        """Find the primary. Raise redis.exceptions.ConnectionError if nobody knows it."""

    @abstractmethod
    async def _disconnect(self) -> None: ...

    async def address(self) -> Endpoint:
        """Return the address of the primary. Raise redis.exceptions.ConnectionError if nobody knows it."""
        if self._is_closed:
            raise RedisConnectionError("the client is closed")
        if self._watch is None:
            self._watch = asyncio.create_task(self._keep_watching())
        return self._address or await self._located()

    def doubt(self) -> None:
        """Look for the primary again before the next use, because a failure may mean that it has moved."""
        self._address = None

    def on_located(self, tell: Callable[[str, int], None]) -> None:
        """Call `tell` with the present primary, and with each new one from now on."""
        self._told.append(tell)
        if self._last:
            tell(*self._last)

    def join(self, connection: "LocatedConnection") -> None:
        self._connections.add(connection)

    async def close(self) -> None:
        self._is_closed = True
        tasks = [task for task in (self._watch, self._search) if task]
        self._watch = self._search = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with contextlib.suppress(RedisError, OSError):
            await self._disconnect()

    async def _located(self) -> Endpoint:
        # Share one search among all callers, because all connections of the pool may need the primary at once.
        if self._search is None or self._search.done():
            self._search = asyncio.create_task(self._find())
            self._search.add_done_callback(_look_at_failure)
        found = await asyncio.shield(self._search)
        self._settle(found)
        return found

    def _settle(self, found: Endpoint) -> None:
        self._address = found
        if found == self._last:
            return
        self._take(found)
        # Close connections to the former primary, because it may never answer the calls that wait for it.
        for connection in self._connections:
            connection.close_unless_at(found)

    def _take(self, found: Endpoint) -> None:
        """Remember and announce a new primary."""
        logger.info("the store's primary is %s:%d", *found)
        self._last = found
        for tell in self._told:
            tell(*found)

    async def _keep_watching(self) -> None:
        while True:
            await asyncio.sleep(WATCH_S)
            with contextlib.suppress(RedisError, OSError):
                await self._located()


class LocatedConnection(TcpConnection):
    """A connection to the server that is the primary when the connection is made or taken from the pool; never to a
    replica."""

    def __init__(self, *, locator: Locator, **options: Any) -> None:
        super().__init__(**options)
        self._locator = locator
        locator.join(self)

    async def connect(self) -> None:
        host, port = await self._locator.address()
        if (self.host, self.port) != (host, port):
            await self.disconnect(nowait=True)
            self.host, self.port = host, port
        try:
            await super().connect()
        except (RedisError, OSError):
            self._locator.doubt()
            raise

    async def on_connect_check_health(self, check_health: bool = True) -> None:
        await super().on_connect_check_health(check_health)
        # Check the role of the server. It may not know that it was replaced, or the replica that named it may be
        # outdated.
        await self.send_command("ROLE", check_health=False)
        role = await self.read_response(disable_decoding=True)
        if role[0] != b"master":
            raise RedisConnectionError(f"{self.host}:{self.port} is a replica")

    def close_unless_at(self, primary: Endpoint) -> None:
        """Close the connection at once unless it leads to this primary. A caller that is using the connection gets the
        error of a lost connection.
        """
        if (self.host, self.port) != primary and (writer := self._writer):
            writer.transport.abort()


class LocatedTlsConnection(LocatedConnection, TlsConnection):
    pass


def _look_at_failure(search: "asyncio.Task[Endpoint]") -> None:
    # Retrieve the error of the search here, in case its caller was canceled. Otherwise asyncio logs that the exception
    # was never retrieved.
    if not search.cancelled():
        search.exception()


async def ask_all(nodes: Sequence[Redis], ask: Callable[[Redis], Awaitable[_T | None]]) -> list[_T]:
    """Ask all nodes. Return the answers that arrive in time, and leave out None."""
    loop = asyncio.get_running_loop()
    pending = {asyncio.ensure_future(_answer(node, ask)) for node in nodes}
    found: list[_T] = []
    deadline_s = loop.time() + ASK_S
    try:
        while pending and (left_s := deadline_s - loop.time()) > 0:
            done, pending = await asyncio.wait(pending, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
            said = [answer for task in done if (answer := task.result()) is not None]
            if said and not found:
                deadline_s = min(deadline_s, loop.time() + ASK_OTHERS_S)
            found += said
    finally:
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
    return found


async def _answer(node: Redis, ask: Callable[[Redis], Awaitable[_T | None]]) -> _T | None:
    try:
        return await ask(node)
    except (RedisError, OSError, LookupError, ValueError, RuntimeError):
        return None  # ignore an invalid answer, as if the server had not answered
