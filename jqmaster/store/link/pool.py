"""A pool of connections to the store. A connection is taken, used for one exchange, and then returned or closed."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Final

import hiredis
import redis.asyncio as redis_asyncio
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import (
    AskError,
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from redis.exceptions import ConnectionError as RedisConnectionError

from jqmaster.errors import (
    OutcomeUnknownError,
    StoreUnavailableError,
)
from jqmaster.store.link.access import StoreAccess, pool_of
from jqmaster.store.link.refusals import RETRY_AFTER_S, told
from jqmaster.store.link.scripts import Arg
from jqmaster.store.link.store_faults import explained

# Servers that are no longer the primary may return these errors.
_DOUBTS = (ReadOnlyError, ClusterDownError, AskError)
# A lost connection raises one of these errors. RuntimeError comes from uvloop after it has closed its transport.
_LOST: Final = (RedisError, OSError, TimeoutError, RuntimeError)


class PackedCommands(list[tuple[Arg, ...]]):
    """Commands that are sent repeatedly. `packed`: their bytes on the wire."""

    def __init__(self, commands: Iterable[tuple[Arg, ...]]) -> None:
        super().__init__(commands)
        self.packed = b"".join(map(hiredis.pack_command, self))  # type: ignore[arg-type]


class StorePool:
    """A pool of connections, each for one exchange at a time. `timeout_s` applies to each reply."""

    def __init__(self, url: str, access: StoreAccess, *, timeout_s: float, connections: int) -> None:
        """`url`: see `store_url`. Raise ValueError if it is malformed."""
        self._timeout_s = timeout_s
        self._has_answered = False
        self._is_tls = "rediss" in url.partition("://")[0]
        self._pool, self.locator = pool_of(url, access, timeout_s=timeout_s, connections=connections)
        self.redis: redis_asyncio.Redis = redis_asyncio.Redis(connection_pool=self._pool)
        # By transport of a connection in use: the commands that were sent on it.
        self._busy: dict[asyncio.WriteTransport, Sequence[tuple[Arg, ...]]] = {}
        # Idle connections that were taken from the pool, for quick reuse. Empty if the primary may move, because only
        # the pool checks to which server a connection leads.
        self._at_hand: list[AbstractConnection] = []
        self._most_at_hand = connections // 4 if self.locator is None else 0
        self._asking_the_pool = 0

    async def close(self) -> None:
        if self.locator:
            await self.locator.close()
        await self.redis.aclose()
        await self.reset()

    async def reset(self) -> None:
        """Close every connection. Callers that are using one get OutcomeUnknownError."""
        for transport in self._busy:
            transport.abort()
        # Best effort: the caller can do nothing about a peer that closes slowly.
        with contextlib.suppress(*_LOST):
            await self._pool.disconnect(inuse_connections=True)

    def reset_those_of(self, tag: str) -> None:
        """Close every connection on which only commands for keys of this tag (`{jq}:`) are under way. The callers get
        OutcomeUnknownError. Check idle connections before their next use.
        """
        for transport, commands in list(self._busy.items()):
            if all(any(isinstance(arg, str) and arg.startswith(tag) for arg in one) for one in commands):
                transport.abort()
        self._recheck_idle()

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[AbstractConnection]:
        """Hold a connection while the context lasts. Raise StoreUnavailableError."""
        connection = await self._take_idle()
        if connection is None:
            cancels = _cancels()
            self._asking_the_pool += 1
            try:
                connection = await self._pool.get_connection()  # type: ignore[no-untyped-call]
            except _LOST as exc:
                # BlockingConnectionPool raises this text if it has waited in vain for a free connection.
                if str(exc).startswith("No connection available"):
                    kind = f"all connections to the store have been in use for {self._timeout_s:g} s"
                else:
                    text = explained(exc, is_tls=self._is_tls, has_answered=self._has_answered)
                    kind = f"the store cannot be reached: {text}"
                raise StoreUnavailableError(kind, retry_after_s=RETRY_AFTER_S) from exc
            finally:
                self._asking_the_pool -= 1
            try:
                _pass_on_since(cancels)
            except asyncio.CancelledError:
                await self._pool.release(connection)
                raise
        try:
            yield connection
        finally:
            if not self._keep_at_hand(connection):
                await self._pool.release(connection)

    async def ask(self, commands: Sequence[tuple[Arg, ...]], *, writes: bool) -> list[Any]:
        """Call `exchange` on any connection. Also raise what `connection` raises."""
        if not (self._at_hand and _is_idle(self._at_hand[-1])):
            async with self.connection() as other:
                return await self.exchange(other, commands, writes=writes)
        connection = self._at_hand.pop()
        try:
            return await self.exchange(connection, commands, writes=writes)
        finally:
            if not self._keep_at_hand(connection):
                await self._pool.release(connection)

    def _keep_at_hand(self, connection: AbstractConnection) -> bool:
        """Keep a connection for the next caller if it is open and no caller of the pool waits for a connection."""
        if len(self._at_hand) < self._most_at_hand and not self._asking_the_pool and connection.is_connected:
            self._at_hand.append(connection)
            return True
        return False

    async def exchange(
        self, connection: AbstractConnection, commands: Sequence[tuple[Arg, ...]], *, writes: bool
    ) -> list[Any]:
        """Send commands together, and return their replies, which may be ResponseErrors.

        Raises StoreUnavailableError if nothing was done, OutcomeUnknownError if `writes` is set and some commands may
        have been done.
        """
        # Pack with hiredis, in C. redis-py's asyncio connection would pack each argument in Python.
        packed = (
            commands.packed
            if isinstance(commands, PackedCommands)
            else b"".join(map(hiredis.pack_command, commands))  # type: ignore[arg-type]
        )
        # Keep a reference to the transport: if the connection fails, redis-py drops its own reference before the caller
        # gets the error.
        transport: asyncio.WriteTransport | None = getattr(
            getattr(connection, "_writer", None), "transport", None
        )
        if transport:
            self._busy[transport] = commands
        try:
            # Write to the transport directly: redis-py's methods to send and read start a timeout or a task for each
            # command.
            if not connection.is_connected:
                raise RedisConnectionError("the connection was closed")
            link: Any = connection
            loop, parser, replies = asyncio.get_running_loop(), link._parser, list[Any]()
            async with asyncio.timeout(self._timeout_s) as limit:
                link._writer.write(packed)
                await link._writer.drain()
                while True:
                    reply = await parser.read_response()
                    if isinstance(reply, ResponseError):
                        self._doubt_after(reply)
                    replies.append(reply)
                    if len(replies) == len(commands):
                        break
                    limit.reschedule(loop.time() + self._timeout_s)
            self._has_answered = True
            return replies
        except BaseException as exc:
            # Close the connection: answers may still arrive on it, so no other caller may use it.
            await self._abandon(connection, transport)
            if isinstance(exc, (BusyLoadingError, AuthenticationError)):
                # The store sent these errors as answers, although redis-py raises them as lost connections.
                raise StoreUnavailableError(
                    f"the store refuses: {told(exc)}", retry_after_s=RETRY_AFTER_S
                ) from exc
            if not isinstance(exc, _LOST):
                raise
            if isinstance(exc, TimeoutError):
                self._recheck_idle()
            if writes:
                raise OutcomeUnknownError(
                    "the store did not answer, so the change may have been made; repeat with the same ID",
                    retry_after_s=RETRY_AFTER_S,
                ) from exc
            raise StoreUnavailableError(self._unanswered(exc), retry_after_s=RETRY_AFTER_S) from exc
        finally:
            if transport:
                self._busy.pop(transport, None)

    async def _take_idle(self) -> AbstractConnection | None:
        """Return an open idle connection, at a tenth of the cost of the pool's own method."""
        while self._at_hand:
            connection = self._at_hand.pop()
            if _is_idle(connection):
                return connection
            # Return a closed connection to the pool, which connects it again.
            with contextlib.suppress(*_LOST):
                await connection.disconnect(nowait=True)
            await self._pool.release(connection)
        return None

    def _doubt_after(self, error: ResponseError) -> None:
        if self.locator and (isinstance(error, _DOUBTS) or str(error).startswith("NOREPLICAS")):
            self.locator.doubt()

    def _unanswered(self, exc: BaseException) -> str:
        """Return why there was no answer. A server that requires TLS or a certificate may close the connection only at
        the first command."""
        if self._has_answered or isinstance(exc, TimeoutError):
            return "the store did not answer"
        lost = ConnectionError(str(exc) or "the connection was lost")
        return f"the store did not answer: {explained(lost, is_tls=self._is_tls)}"

    async def _abandon(
        self, connection: AbstractConnection, transport: asyncio.WriteTransport | None
    ) -> None:
        """Close the connection at once. Unsent data is dropped. Otherwise the transport would wait until the store is
        back, and could outlive its event loop.
        """
        if self.locator:
            self.locator.doubt()
        if transport:
            transport.abort()
        await connection.disconnect(nowait=True)

    def _recheck_idle(self) -> None:
        """Check idle connections before their next use. If one connection gives no answer in time, the others may be
        lost as well, for example because a firewall drops their packets."""
        for connection in (*self._at_hand, *self._pool._available_connections):
            connection.mark_for_reconnect()  # type: ignore[no-untyped-call]


def _is_idle(connection: Any) -> bool:
    """Return whether the connection is open and has no unread bytes, which would belong to no caller."""
    if not connection.is_connected or connection.should_reconnect():
        return False
    reader = connection._reader
    return not (
        connection._writer.transport.is_closing()
        or reader._buffer
        or reader.at_eof()
        or reader.exception() is not None
    )


def _cancels() -> int:
    task = asyncio.current_task()
    return task.cancelling() if task else 0


def _pass_on_since(cancels: int) -> None:
    """Raise CancelledError if a cancellation was lost after `cancels` had been counted. redis-py sends under
    asyncio.wait_for. Before Python 3.12, asyncio.wait_for loses a cancellation that arrives just as the awaited call
    ends (cpython issue 86296).
    """
    if _cancels() > cancels:
        raise asyncio.CancelledError
