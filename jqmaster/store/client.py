"""One conversation with the store: scripts and plain commands, sent in one go, answered in order.

The client library's own retries are off (they repeat writes); what may be repeated is decided above, with the same
IDs. Three outcomes are told apart: done, not done (StoreUnavailableError), and unknown (OutcomeUnknownError).
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import hiredis
import redis.asyncio as redis_asyncio
from redis.asyncio.connection import AbstractConnection, BlockingConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    MaxConnectionsError,
    NoScriptError,
    RedisError,
    ResponseError,
)

from jqmaster.errors import DamagedError, OutcomeUnknownError, StoreUnavailableError
from jqmaster.store.scripts import Arg, Script, load

logger = logging.getLogger(__name__)

RETRY_AFTER_S = 1.0

# Answers by which the store says that it did nothing and may do it later.
_REFUSALS = (
    "OOM", "LOADING", "READONLY", "MISCONF", "BUSY", "NOREPLICAS", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK",
    "NOAUTH", "NOPERM", "max number of clients",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Call:
    """One script with what it is given."""

    script: Script
    keys: Sequence[str]
    args: Sequence[Arg]


class StoreClient:
    """A pool of connections to one store. `quorum_replicas` > 0: a write counts once that many replicas have it; it may
    change at any time."""

    def __init__(
        self, url: str, *, timeout_s: float = 5.0, connections: int = 32, quorum_replicas: int = 0
    ) -> None:
        self._timeout_s = timeout_s
        self.quorum_replicas = quorum_replicas
        self._pool: BlockingConnectionPool = BlockingConnectionPool.from_url(
            url,
            max_connections=connections,
            timeout=timeout_s,
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            retry=Retry(NoBackoff(), 0),
            protocol=2,
        )
        self.redis: redis_asyncio.Redis = redis_asyncio.Redis(connection_pool=self._pool)
        self._busy: set[asyncio.WriteTransport] = set()

    async def close(self) -> None:
        await self.redis.aclose()
        await self.reset()

    async def reset(self) -> None:
        """Drops every connection, also those in use; their callers learn that the outcome is unknown."""
        for transport in self._busy:
            transport.abort()
        # Best effort: a peer that is slow to hang up is no error of the caller.
        with contextlib.suppress(RedisError, OSError):
            await self._pool.disconnect(inuse_connections=True)

    async def run(
        self, script: str, keys: Sequence[str], args: Sequence[Arg], *, replicas: int | None = None
    ) -> tuple[str, list[Any]]:
        """Runs one script. Returns its status word and data. `replicas`: as in `run_all`.

        Raises StoreUnavailableError when it certainly did not run, OutcomeUnknownError when it may have,
        DamagedError when a key is not of the type that it must be.
        """
        return (await self.run_all([Call(load(script), keys, args)], replicas=replicas))[0]

    async def run_all(
        self, calls: Sequence[Call], *, replicas: int | None = None
    ) -> list[tuple[str, list[Any]]]:
        """Runs scripts in order, in one round trip. `replicas`: how many must confirm these writes; None: as many as
        every write of this client needs.

        Raises like `run`, on the first one that failed; where others were done, or too few replicas confirmed in time,
        that is OutcomeUnknownError.
        """
        if not calls:
            # An empty write never leaves the buffer of asyncio's own transport (since Python 3.12): the loop spins,
            # and the connection does not close.
            return []
        for call in calls:
            call.script.check_call(call.keys, call.args)
        async with self._connection() as connection:
            commands = [("EVALSHA", c.script.sha, len(c.keys), *c.keys, *c.args) for c in calls]
            writes = any(c.script.writes for c in calls)
            replies = await self._exchange(connection, commands, writes=writes)
            missing = [i for i, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
            if missing:
                # EVAL loads the script too: after a failover or SCRIPT FLUSH it costs one more round trip, once.
                repeats = [("EVAL", calls[i].script.source, *commands[i][2:]) for i in missing]
                again = await self._exchange(connection, repeats, writes=writes)
                for i, reply in zip(missing, again, strict=True):
                    replies[i] = reply
            needed = self.quorum_replicas if replicas is None else replicas
            if needed and writes and not all(isinstance(reply, ResponseError) for reply in replies):
                await self._await_replicas(connection, needed)
        refused = [reply for reply in replies if isinstance(reply, ResponseError)]
        if refused and len(refused) < len(calls) and writes:
            raise OutcomeUnknownError(
                f"the store did a part of it; repeat with the same IDs ({str(refused[0])[:200]})",
                retry_after_s=RETRY_AFTER_S,
            )
        return [self._read(call, reply) for call, reply in zip(calls, replies, strict=True)]

    async def command(self, *parts: Arg) -> Any:
        """One plain read command."""
        async with self._connection() as connection:
            (reply,) = await self._exchange(connection, [parts], writes=False)
        if isinstance(reply, ResponseError):
            raise _told_apart(reply)
        return reply

    async def pipeline(self, commands: Sequence[tuple[Arg, ...]], *, skip_damaged: bool = False) -> list[Any]:
        """Plain read commands in one round trip; `skip_damaged` answers None for keys of a wrong type."""
        if not commands:
            return []
        async with self._connection() as connection:
            replies = await self._exchange(connection, commands, writes=False)
        for n, reply in enumerate(replies):
            if isinstance(reply, ResponseError):
                error = _told_apart(reply)
                if not (skip_damaged and isinstance(error, DamagedError)):
                    raise error
                replies[n] = None
        return replies

    @contextlib.asynccontextmanager
    async def _connection(self) -> AsyncIterator[AbstractConnection]:
        cancels = _cancels()
        try:
            connection = await self._pool.get_connection()  # type: ignore[no-untyped-call]
        except (RedisError, OSError, TimeoutError) as exc:
            kind = (
                "no connection to the store is free"
                if isinstance(exc, MaxConnectionsError)
                else "the store cannot be reached"
            )
            raise StoreUnavailableError(kind, retry_after_s=RETRY_AFTER_S) from exc
        try:
            _pass_on_since(cancels)
            yield connection
        finally:
            await self._pool.release(connection)

    async def _exchange(
        self, connection: AbstractConnection, commands: Sequence[tuple[Arg, ...]], *, writes: bool
    ) -> list[Any]:
        # hiredis packs in C; redis-py's asyncio connection would do it argument by argument in Python.
        packed = b"".join([hiredis.pack_command(command) for command in commands])  # type: ignore[arg-type]
        cancels = _cancels()
        # Remembered: redis-py lets go of a connection that failed before its caller hears of it.
        transport: asyncio.WriteTransport | None = getattr(
            getattr(connection, "_writer", None), "transport", None
        )
        if transport:
            self._busy.add(transport)
        try:
            await connection.send_packed_command(packed, check_health=False)
            _pass_on_since(cancels)
            replies: list[Any] = []
            for _ in commands:
                try:
                    replies.append(await connection.read_response())
                except ResponseError as exc:
                    replies.append(exc)
            return replies
        except asyncio.CancelledError:
            # Answers are still on their way: this connection must not be used by anyone else.
            await _abandon(connection, transport)
            raise
        except (BusyLoadingError, AuthenticationError) as exc:
            # Answers, which redis-py takes for broken connections.
            await _abandon(connection, transport)
            raise StoreUnavailableError(f"the store says: {exc}", retry_after_s=RETRY_AFTER_S) from exc
        except (RedisError, OSError, TimeoutError) as exc:
            await _abandon(connection, transport)
            if writes:
                raise OutcomeUnknownError(
                    "the store did not answer; it may have happened, repeat with the same ID",
                    retry_after_s=RETRY_AFTER_S,
                ) from exc
            raise StoreUnavailableError("the store did not answer", retry_after_s=RETRY_AFTER_S) from exc
        finally:
            if transport:
                self._busy.discard(transport)

    async def _await_replicas(self, connection: AbstractConnection, needed: int) -> None:
        # On the same connection: WAIT counts the writes of its own connection only.
        wait_ms = int(self._timeout_s * 500)
        (confirmed,) = await self._exchange(connection, [("WAIT", needed, wait_ms)], writes=True)
        if isinstance(confirmed, ResponseError) or confirmed < needed:
            raise OutcomeUnknownError(
                f"it is stored, and too few replicas confirmed it in time ({confirmed} of {needed}); repeat with the same ID",
                retry_after_s=RETRY_AFTER_S,
            )

    def _read(self, call: Call, reply: Any) -> tuple[str, list[Any]]:
        if isinstance(reply, ResponseError):
            raise _told_apart(reply)
        return call.script.read_reply(reply)


def _cancels() -> int:
    task = asyncio.current_task()
    return task.cancelling() if task else 0


def _pass_on_since(cancels: int) -> None:
    """Raises the cancellation that came since and was swallowed: redis-py sends under asyncio.wait_for, which before
    Python 3.12 forgets one that arrives together with the end of what it waits for (cpython issue 86296)."""
    if _cancels() > cancels:
        raise asyncio.CancelledError


async def _abandon(connection: AbstractConnection, transport: asyncio.WriteTransport | None) -> None:
    """Hangs up at once. What was not yet sent is dropped: flushing it could take as long as the store is away, and
    a transport that closes that slowly outlives its event loop."""
    if transport:
        transport.abort()
    await connection.disconnect(nowait=True)


def _is_refusal(text: str) -> bool:
    return text.startswith(_REFUSALS)


def _told_apart(error: ResponseError) -> Exception:
    # redis-py strips the error's first word into its classes and keeps it in the text of a plain ResponseError.
    text = str(error)
    name = type(error).__name__
    if _is_refusal(text) or name not in ("ResponseError", "NoScriptError"):
        return StoreUnavailableError(f"the store refuses: {text[:200]}", retry_after_s=RETRY_AFTER_S)
    if "WRONGTYPE" in text:
        return DamagedError("a key of the store is not of its type; `jqmaster fsck` tells which")
    return error
