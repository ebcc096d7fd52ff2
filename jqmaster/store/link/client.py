"""One conversation with the store: scripts and plain commands, sent in one go, answered in order.

The client library's own retries are off (they repeat writes); what may be repeated is decided above, with the same
IDs. Three outcomes are told apart: done, not done (StoreUnavailableError), and unknown (OutcomeUnknownError).
Behind Sentinels and on a Cluster the connections follow the primary (see `locator`); a call that came to the wrong node
of a Cluster, which did nothing, goes to the right one.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import hiredis
import redis.asyncio as redis_asyncio
from redis.asyncio.connection import AbstractConnection, BlockingConnectionPool, ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AskError,
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    MaxConnectionsError,
    MovedError,
    NoScriptError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from redis.exceptions import ConnectionError as RedisConnectionError

from jqmaster.config import Settings
from jqmaster.domain.latency import Latencies
from jqmaster.errors import (
    DamagedError,
    JqmasterError,
    OutcomeUnknownError,
    StaleEpochError,
    StoreUnavailableError,
)
from jqmaster.net.store_url import Endpoint, StoreUrl
from jqmaster.store.link.cluster import ClusterLocator
from jqmaster.store.link.connection import TcpConnection, TlsConnection, is_lost, options_of
from jqmaster.store.link.leader_port import TravellingClaim
from jqmaster.store.link.locator import ASK_S, LocatedConnection, LocatedTlsConnection, Locator
from jqmaster.store.link.scripts import Arg, ScriptCall, load
from jqmaster.store.link.sentinel import SentinelLocator

logger = logging.getLogger(__name__)

RETRY_AFTER_S = 1.0
# The word of every script that refuses a write for the epoch of its leader.
STALE_EPOCH: Final = "stale_epoch"

# Answers by which the store says that it did nothing and may do it later.
_REFUSALS = (
    "OOM", "LOADING", "READONLY", "MISCONF", "BUSY", "NOREPLICAS", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK",
    "NOAUTH", "NOPERM", "max number of clients",
)  # fmt: skip
# Answers of a server that is perhaps the primary no more.
_DOUBTS = (ReadOnlyError, ClusterDownError, AskError)
_MOST_MOVES: Final = 3
# Errors of a lost connection; uvloop raises RuntimeError when it has closed its transport.
_LOST: Final = (RedisError, OSError, TimeoutError, RuntimeError)


@dataclass(frozen=True, slots=True)
class StoreAccess:
    """Options of the connection to the store, besides its address. `ca_file` None: the system's authorities are trusted."""

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    sentinel_username: str | None = None
    sentinel_password: str | None = None

    @classmethod
    def of(cls, settings: Settings) -> "StoreAccess":
        def text(file: Path | None) -> str | None:
            return None if file is None else str(file)

        password = settings.sentinel_password
        return cls(
            ca_file=text(settings.redis_cafile),
            cert_file=text(settings.redis_certfile),
            key_file=text(settings.redis_keyfile),
            sentinel_username=settings.sentinel_username,
            sentinel_password=password.get_secret_value() if password else None,
        )


class StoreClient:
    """A pool of connections to one store. `quorum_replicas` > 0: a write counts once that many replicas have it; it may
    change at any time."""

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float = 5.0,
        connections: int = 32,
        quorum_replicas: int = 0,
        access: StoreAccess | None = None,
    ) -> None:
        """`url`: see `store_url`. Raise ValueError where it is none."""
        self._timeout_s = timeout_s
        self.quorum_replicas = quorum_replicas
        # By script: round trips, calls (several go in one round trip), and those that failed.
        self.round_trips: Latencies[str] = Latencies()
        self.script_calls: dict[str, int] = {}
        self.failed_round_trips: dict[str, int] = {}
        parsed, access = StoreUrl.parse(url), access or StoreAccess()
        pool_options: dict[str, Any] = {"max_connections": connections, "timeout": timeout_s}
        self._locator = _locator(parsed, access)
        if self._locator is None:
            options = {**_tls_options(parsed, access), **_connection_options(timeout_s, timeout_s)}
            self._pool = BlockingConnectionPool(**{**options, **pool_options, **options_of(url)})
        else:
            options = {
                **_credentials(parsed.username, parsed.password),
                **_tls_options(parsed, access),
                # A primary that is gone for good must not hold up those who are to be told of the next one.
                **_connection_options(timeout_s, min(timeout_s, ASK_S)),
            }
            self._pool = BlockingConnectionPool(
                connection_class=LocatedTlsConnection if parsed.is_tls else LocatedConnection,
                locator=self._locator,
                db=parsed.db,
                **options,
                **pool_options,
            )
        self.redis: redis_asyncio.Redis = redis_asyncio.Redis(connection_pool=self._pool)
        self._busy: set[asyncio.WriteTransport] = set()
        # Taken from the pool and kept at hand; the pool has the others, for whoever asks it. Where the primary may move
        # the pool is always asked: it looks where each connection leads.
        self._at_hand: list[AbstractConnection] = []
        self._most_at_hand = connections // 4 if self._locator is None else 0
        self._asking_the_pool = 0

    def bind(self, tag: str) -> None:
        """All keys that are asked for carry this tag: on a Cluster its node is spoken to."""
        if isinstance(self._locator, ClusterLocator):
            self._locator.bind(tag)

    def on_located(self, tell: Callable[[str, int], None]) -> None:
        """Call `tell` with host and port of each server that turns out to be the primary."""
        if self._locator:
            self._locator.on_located(tell)

    async def close(self) -> None:
        if self._locator:
            await self._locator.close()
        await self.redis.aclose()
        await self.reset()

    async def reset(self) -> None:
        """Drop every connection, also those in use; their callers learn that the outcome is unknown."""
        for transport in self._busy:
            transport.abort()
        # Best effort: a peer that is slow to hang up is no error of the caller.
        with contextlib.suppress(*_LOST):
            await self._pool.disconnect(inuse_connections=True)

    @property
    def gives_up_after_s(self) -> float:
        """Nobody waits longer for what was sent: for its connection, and for the answer."""
        return 2 * self._timeout_s

    async def run(
        self, script: str, keys: Sequence[str], args: Sequence[Arg], *, replicas: int | None = None
    ) -> tuple[str, list[Any]]:
        """Run one script. Returns its status word and data. `replicas`: as in `run_all`.

        Raises StoreUnavailableError when it certainly did not run, OutcomeUnknownError when it may have,
        DamagedError when a key is not of the type that it must be, StaleEpochError when it was refused for its epoch.
        """
        return (await self.run_all([ScriptCall(load(script), keys, args)], replicas=replicas))[0]

    async def run_all(
        self,
        calls: Sequence[ScriptCall],
        *,
        claim: TravellingClaim | None = None,
        replicas: int | None = None,
    ) -> list[tuple[str, list[Any]]]:
        """Run scripts in order, in one round trip. `replicas`: how many must confirm these writes; None: as many as
        every write of this client needs. `claim` travels behind them, and hears of its calls before this returns or raises.

        Raises like `run`, on the first one that failed; where others were done, or too few replicas confirmed in time,
        that is OutcomeUnknownError.
        """
        if claim is None:
            replies = await self._replies(calls, replicas)
        else:
            replies = await self._replies_with(claim, calls, replicas)
        refused = [reply for reply in replies if isinstance(reply, ResponseError)]
        if refused and len(refused) < len(calls) and any(call.script.writes for call in calls):
            raise OutcomeUnknownError(
                f"the store did a part of it; repeat with the same IDs ({str(refused[0])[:200]})",
                retry_after_s=RETRY_AFTER_S,
            )
        return [self._read(call, reply) for call, reply in zip(calls, replies, strict=True)]

    async def run_each(self, calls: Sequence[ScriptCall]) -> list[tuple[str, list[Any]] | Exception]:
        """Run scripts in order, in one round trip; return for each its answer, or the error that `run` would have raised.

        Raises StoreUnavailableError when certainly none ran, OutcomeUnknownError when any may have."""
        return self._read_each(calls, await self._replies(calls, None))

    def _read_each(
        self, calls: Sequence[ScriptCall], replies: Sequence[Any]
    ) -> list[tuple[str, list[Any]] | Exception]:
        return [self._read_or_error(call, reply) for call, reply in zip(calls, replies, strict=True)]

    async def _replies_with(
        self, claim: TravellingClaim, calls: Sequence[ScriptCall], replicas: int | None
    ) -> list[Any]:
        try:
            replies = await self._replies([*calls, *claim.calls], replicas)
        except BaseException:
            claim.on_failure()
            raise
        claim.on_replies(self._read_each(claim.calls, replies[len(calls) :]))
        return replies[: len(calls)]

    async def _replies(self, calls: Sequence[ScriptCall], replicas: int | None) -> list[Any]:
        """Raw replies, and ResponseErrors in the place of those that failed."""
        if not calls:
            # An empty write never leaves the buffer of asyncio's own transport (since Python 3.12): the loop spins,
            # and the connection does not close.
            return []
        for call in calls:
            call.script.check_call(call.keys, call.args)
        guard = self._locator.guard if isinstance(self._locator, ClusterLocator) else None
        is_guarded = guard is not None
        commands = [
            (
                "EVALSHA",
                call.script.digest(is_guarded=is_guarded),
                len(call.keys) + is_guarded,
                *call.keys,
                *((guard,) if guard is not None else ()),
                *call.args,
            )
            for call in calls
        ]
        writes = any(c.script.writes for c in calls)

        async def evaluate(connection: AbstractConnection, todo: Sequence[int]) -> list[Any]:
            replies = await self._exchange(connection, [commands[i] for i in todo], writes=writes)
            missing = [n for n, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
            if missing:
                # EVAL loads the script too: after a failover or SCRIPT FLUSH it costs one more round trip, once.
                repeats = [
                    ("EVAL", calls[todo[n]].script.text(is_guarded=is_guarded), *commands[todo[n]][2:])
                    for n in missing
                ]
                again = await self._exchange(connection, repeats, writes=writes)
                for n, reply in zip(missing, again, strict=True):
                    replies[n] = reply
            needed = self.quorum_replicas if replicas is None else replicas
            if needed and writes and not all(isinstance(reply, ResponseError) for reply in replies):
                await self._await_replicas(connection, needed)
            return replies

        for call in calls:
            self.script_calls[call.script.name] = self.script_calls.get(call.script.name, 0) + 1
        # If a round trip has several scripts, the first stands for all.
        name, began_s = calls[0].script.name, perf_counter()
        try:
            replies = await self._where_it_belongs(len(calls), evaluate)
        except JqmasterError:
            self.failed_round_trips[name] = self.failed_round_trips.get(name, 0) + 1
            raise
        self.round_trips[name].add(perf_counter() - began_s)
        return replies

    async def command(self, *parts: Arg) -> Any:
        """Run one plain read command."""
        (reply,) = await self._read_only([parts])
        if isinstance(reply, ResponseError):
            raise _told_apart(reply)
        return reply

    async def pipeline(self, commands: Sequence[tuple[Arg, ...]], *, skip_damaged: bool = False) -> list[Any]:
        """Plain read commands in one round trip; `skip_damaged` answers None for keys of a wrong type."""
        if not commands:
            return []
        replies = await self._read_only(commands)
        for n, reply in enumerate(replies):
            if isinstance(reply, ResponseError):
                error = _told_apart(reply)
                if not (skip_damaged and isinstance(error, DamagedError)):
                    raise error
                replies[n] = None
        return replies

    async def ask_each(self, commands: Sequence[tuple[Arg, ...]]) -> list[Any]:
        """Plain read commands in one round trip; of each its answer, or what `command` would have raised for it alone."""
        return [
            _told_apart(reply) if isinstance(reply, ResponseError) else reply
            for reply in await self._read_only(commands)
        ]

    async def _read_only(self, commands: Sequence[tuple[Arg, ...]]) -> list[Any]:
        async def ask(connection: AbstractConnection, todo: Sequence[int]) -> list[Any]:
            return await self._exchange(connection, [commands[i] for i in todo], writes=False)

        return await self._where_it_belongs(len(commands), ask)

    async def _where_it_belongs(
        self, count: int, ask: Callable[[AbstractConnection, Sequence[int]], Awaitable[list[Any]]]
    ) -> list[Any]:
        """Return the replies to `count` commands. Those that came to the wrong node, which did nothing, go to the right one,
        in their order. `ask` gets a connection and their numbers."""
        replies: list[Any] = [None] * count
        todo: Sequence[int] = range(count)
        for _ in range(1 + _MOST_MOVES):
            async with self._connection() as connection:
                for n, reply in zip(todo, await ask(connection, todo), strict=True):
                    replies[n] = reply
            todo = [n for n in todo if isinstance(replies[n], MovedError)]
            if not todo or not isinstance(self._locator, ClusterLocator):
                break
            self._locator.follow(replies[todo[-1]])
        return replies

    @contextlib.asynccontextmanager
    async def _connection(self) -> AsyncIterator[AbstractConnection]:
        connection = await self._take_at_hand()
        if connection is None:
            cancels = _cancels()
            self._asking_the_pool += 1
            try:
                connection = await self._pool.get_connection()  # type: ignore[no-untyped-call]
            except _LOST as exc:
                kind = (
                    "no connection to the store is free"
                    if isinstance(exc, MaxConnectionsError)
                    else "the store cannot be reached"
                )
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
            if (
                len(self._at_hand) < self._most_at_hand
                and not self._asking_the_pool
                and connection.is_connected
            ):
                self._at_hand.append(connection)
            else:
                await self._pool.release(connection)

    async def _take_at_hand(self) -> AbstractConnection | None:
        """Return a connection that is open and idle, as the pool would, at a tenth of the pool's cost."""
        while self._at_hand:
            connection: Any = self._at_hand.pop()
            if connection.is_connected and not (
                connection.should_reconnect() or is_lost(connection) or connection._reader._buffer
            ):
                return connection  # type: ignore[no-any-return]
            # What was said in between was for nobody; the pool connects it anew.
            with contextlib.suppress(*_LOST):
                await connection.disconnect(nowait=True)
            await self._pool.release(connection)
        return None

    async def _exchange(
        self, connection: AbstractConnection, commands: Sequence[tuple[Arg, ...]], *, writes: bool
    ) -> list[Any]:
        # hiredis packs in C; redis-py's asyncio connection would do it argument by argument in Python.
        packed = b"".join([hiredis.pack_command(command) for command in commands])  # type: ignore[arg-type]
        # Remembered: redis-py lets go of a connection that failed before its caller hears of it.
        transport: asyncio.WriteTransport | None = getattr(
            getattr(connection, "_writer", None), "transport", None
        )
        if transport:
            self._busy.add(transport)
        try:
            # Around redis-py's own sending and reading, which begin a timeout, or a task, for each command.
            return await self._converse(connection, packed, len(commands))
        except BaseException as exc:
            # Answers may still be on their way: nobody else may use this connection.
            await self._abandon(connection, transport)
            if isinstance(exc, (BusyLoadingError, AuthenticationError)):
                # Answers, which redis-py takes for broken connections.
                raise StoreUnavailableError(f"the store says: {exc}", retry_after_s=RETRY_AFTER_S) from exc
            if not isinstance(exc, _LOST):
                raise
            if isinstance(exc, TimeoutError):
                self._distrust_idle()
            if writes:
                raise OutcomeUnknownError(
                    "the store did not answer; it may have happened, repeat with the same ID",
                    retry_after_s=RETRY_AFTER_S,
                ) from exc
            raise StoreUnavailableError("the store did not answer", retry_after_s=RETRY_AFTER_S) from exc
        finally:
            if transport:
                self._busy.discard(transport)

    async def _converse(self, connection: Any, packed: bytes, count: int) -> list[Any]:
        """Read the replies. The timeout applies to each reply, not to the batch."""
        if not connection.is_connected:
            raise RedisConnectionError("the connection was closed")
        loop, parser, replies = asyncio.get_running_loop(), connection._parser, list[Any]()
        async with asyncio.timeout(self._timeout_s) as limit:
            connection._writer.write(packed)
            await connection._writer.drain()
            while True:
                reply = await parser.read_response()
                if isinstance(reply, ResponseError):
                    self._doubt_after(reply)
                replies.append(reply)
                if len(replies) == count:
                    return replies
                limit.reschedule(loop.time() + self._timeout_s)

    async def _await_replicas(self, connection: AbstractConnection, needed: int) -> None:
        # On the same connection: WAIT counts the writes of its own connection only.
        wait_ms = int(self._timeout_s * 500)
        (confirmed,) = await self._exchange(connection, [("WAIT", needed, wait_ms)], writes=True)
        if isinstance(confirmed, ResponseError) or confirmed < needed:
            if self._locator:
                self._locator.doubt()
            raise OutcomeUnknownError(
                f"it is stored, and too few replicas confirmed it in time ({confirmed} of {needed}); repeat with the same ID",
                retry_after_s=RETRY_AFTER_S,
            )

    def _doubt_after(self, error: ResponseError) -> None:
        if self._locator and (isinstance(error, _DOUBTS) or str(error).startswith("NOREPLICAS")):
            self._locator.doubt()

    async def _abandon(
        self, connection: AbstractConnection, transport: asyncio.WriteTransport | None
    ) -> None:
        """Hang up at once. What was not yet sent is dropped: flushing it could take as long as the store is away, and
        a transport that closes that slowly outlives its event loop."""
        if self._locator:
            self._locator.doubt()
        if transport:
            transport.abort()
        await connection.disconnect(nowait=True)

    def _distrust_idle(self) -> None:
        """Has the connections that lie idle made anew before their next use. Where one gives no answer in time, the
        others may be as dead without a sign: what lies between has forgotten them, or drops all that is sent."""
        for connection in (*self._at_hand, *self._pool._available_connections):
            connection.mark_for_reconnect()  # type: ignore[no-untyped-call]

    def _read_or_error(self, call: ScriptCall, reply: Any) -> tuple[str, list[Any]] | Exception:
        try:
            return self._read(call, reply)
        except Exception as exc:  # whatever the store can say: the others' answers count all the same
            return exc

    def _read(self, call: ScriptCall, reply: Any) -> tuple[str, list[Any]]:
        if isinstance(reply, ResponseError):
            raise _told_apart(reply)
        word, data = call.script.read_reply(reply)
        if word == STALE_EPOCH:
            raise StaleEpochError
        return word, data


def _locator(url: StoreUrl, access: StoreAccess) -> Locator | None:
    match url.topology:
        case "sentinel":
            return SentinelLocator(
                url, _connecting(url, access, access.sentinel_username, access.sentinel_password)
            )
        case "cluster":
            return ClusterLocator(url, _connecting(url, access, url.username, url.password))
        case _:
            return None


def _connecting(
    url: StoreUrl, access: StoreAccess, username: str | None, password: str | None
) -> Callable[[Endpoint], redis_asyncio.Redis]:
    """Return what makes a client of one server that tells where the primary is."""
    options = {
        "connection_class": TlsConnection if url.is_tls else TcpConnection,
        **_credentials(username, password),
        **_tls_options(url, access),
        **_connection_options(ASK_S, ASK_S),
    }

    def connect(endpoint: Endpoint) -> redis_asyncio.Redis:
        host, port = endpoint
        return redis_asyncio.Redis.from_pool(ConnectionPool(host=host, port=port, **options))

    return connect


def _connection_options(timeout_s: float, connect_timeout_s: float) -> dict[str, Any]:
    return {
        "socket_timeout": timeout_s,
        "socket_connect_timeout": connect_timeout_s,
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,
    }


def _credentials(username: str | None, password: str | None) -> dict[str, Any]:
    return {name: text for name, text in (("username", username), ("password", password)) if text}


def _tls_options(url: StoreUrl, access: StoreAccess) -> dict[str, Any]:
    if not url.is_tls:
        return {}
    files = {"ssl_ca_certs": access.ca_file, "ssl_certfile": access.cert_file, "ssl_keyfile": access.key_file}
    return {name: path for name, path in files.items() if path}


def _cancels() -> int:
    task = asyncio.current_task()
    return task.cancelling() if task else 0


def _pass_on_since(cancels: int) -> None:
    """Raise the cancellation that came since and was swallowed: redis-py sends under asyncio.wait_for, which before
    Python 3.12 forgets one that arrives together with the end of what it waits for (cpython issue 86296)."""
    if _cancels() > cancels:
        raise asyncio.CancelledError


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
