"""Sends scripts and plain commands to the store, several in one round trip, and returns the answers in order.

The client library's own retries are off, because they would repeat writes. Callers decide what to repeat, under the
same IDs. A call has one of three outcomes: done, not done (StoreUnavailableError), or unknown (OutcomeUnknownError).

Behind Sentinels and on a Cluster, the connections follow the primary (see `locator`). A call that reached the wrong
node of a Cluster did nothing there, and is sent to the right node.
"""

import functools
from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter
from typing import Any, Final, Protocol

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import MovedError, NoScriptError, ResponseError

from jqmaster.domain.operations.latency import Latencies
from jqmaster.errors import (
    DamagedError,
    JqmasterError,
    OutcomeUnknownError,
    StaleEpochError,
    StoreUnavailableError,
)
from jqmaster.store.link.access import StoreAccess
from jqmaster.store.link.cluster import ClusterLocator
from jqmaster.store.link.leader_port import TravellingClaim
from jqmaster.store.link.pool import PackedCommands, StorePool
from jqmaster.store.link.refusals import RETRY_AFTER_S, classified
from jqmaster.store.link.script_pages import JoinedCalls, in_pages, page_call, page_replies
from jqmaster.store.link.scripts import Arg, ScriptCall, load
from jqmaster.store.link.shared_scan import SharedScan
from jqmaster.store.link.shared_trips import SharedTrips

# Every script replies with this word if it refuses a write because the caller's epoch is old.
STALE_EPOCH: Final = "stale_epoch"
_MAX_MOVES: Final = 3


class _Ask(Protocol):
    """Sends commands together, and returns their replies; see `StorePool.exchange`."""

    def __call__(self, commands: Sequence[tuple[Arg, ...]], *, writes: bool) -> Awaitable[list[Any]]: ...


class _Overtaken(list[Any]):
    """Replies to calls. Some calls ran after later calls, because their scripts had to be loaded first."""


class _Partial(list[Any]):
    """Replies to calls. Some calls were not executed: their replies are the error of the round trip."""


class StoreClient:
    """Runs scripts and plain commands on one store. `quorum_replicas`: how many replicas must have a write before it
    counts as done; may change at any time.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float = 5.0,
        connections: int = 32,
        quorum_replicas: int = 0,
        access: StoreAccess | None = None,
    ) -> None:
        """`url`: see `store_url`. Raise ValueError if it is malformed."""
        self._timeout_s = timeout_s
        self.quorum_replicas = quorum_replicas
        # By script: round trips, calls (a round trip may have several), and failed round trips.
        self.round_trips: Latencies[str] = Latencies()
        self.script_calls: dict[str, int] = {}
        self.failed_round_trips: dict[str, int] = {}
        self._pool = StorePool(url, access or StoreAccess(), timeout_s=timeout_s, connections=connections)
        self._locator = self._pool.locator
        self.redis = self._pool.redis
        self.together = SharedTrips(self.run_shards)
        self._joined = JoinedCalls()
        self.scan = SharedScan(self.command)
        # On a Cluster: whether listeners receive messages that are published only on the node of the shard, and whether
        # this master publishes there (see runtime/leadership/sharding.py).
        self.listens_sharded = False
        self.publishes_sharded = False

    def bind(self, tag: str) -> None:
        """Use the node of a Cluster that holds the keys with this tag."""
        if isinstance(self._locator, ClusterLocator):
            self._locator.bind(tag)

    def on_located(self, tell: Callable[[str, int], None]) -> None:
        """Call `tell` with host and port of each server that turns out to be the primary."""
        if self._locator:
            self._locator.on_located(tell)

    @property
    def is_on_cluster(self) -> bool:
        return isinstance(self._locator, ClusterLocator)

    @property
    def cluster(self) -> ClusterLocator | None:
        """The locator of the shard's node; None: the store is not a Cluster."""
        return self._locator if isinstance(self._locator, ClusterLocator) else None

    def doubt(self, error: Exception) -> None:
        """On a Cluster, look again for the node that holds the shard: this error may mean that the shard has moved. If
        the error names a node, use that node.
        """
        if isinstance(self._locator, ClusterLocator):
            if isinstance(error, MovedError):
                self._locator.follow(error)
            else:
                self._locator.doubt()

    async def close(self) -> None:
        await self._pool.close()

    async def reset(self) -> None:
        """Close every connection. Callers that are using one get OutcomeUnknownError."""
        await self._pool.reset()

    def reset_those_of(self, tag: str) -> None:
        """Close the connections that are in use for keys of this tag (`{jq}:`) alone. Calls for other keys are not
        affected. Check idle connections before their next use.
        """
        self._pool.reset_those_of(tag)

    @property
    def gives_up_after_s(self) -> float:
        """The longest time that a caller waits for a connection and for the answer to a command."""
        return 2 * self._timeout_s

    async def run(
        self, script: str, keys: Sequence[str], args: Sequence[Arg], *, replicas: int | None = None
    ) -> tuple[str, list[Any]]:
        """Run one script. Returns its status word and data. `replicas`: as in `run_all`.

        Raise:

        * StoreUnavailableError if the script certainly did not run,
        * OutcomeUnknownError if it may have run,
        * DamagedError if a key has the wrong type,
        * StaleEpochError if the epoch is old.
        """
        call = ScriptCall(load(script), keys, args)
        (reply,) = await self._replies([call], replicas)
        return self._read(call, reply)

    async def run_all(
        self,
        calls: Sequence[ScriptCall],
        *,
        claim: TravellingClaim | None = None,
        replicas: int | None = None,
    ) -> list[tuple[str, list[Any]]]:
        """Run scripts in order, in one round trip.

        * `replicas`: how many replicas must confirm these writes. None: as many as every write of this client needs.
        * `claim`: claims to send behind the scripts. It gets their replies before this method returns or raises.

        Raises what `run` raises for the first script that failed. Raises OutcomeUnknownError if other scripts were
        done, or if too few replicas confirmed in time.
        """
        if claim is None:
            replies = await self._replies(calls, replicas)
        else:
            replies = await self._replies_with(claim, calls, replicas)
        refused = [reply for reply in replies if isinstance(reply, Exception)]
        if refused and len(refused) < len(calls) and any(call.script.writes for call in calls):
            raise OutcomeUnknownError(
                f"the store carried out only a part; repeat with the same IDs ({str(refused[0])[:200]})",
                retry_after_s=RETRY_AFTER_S,
            )
        return [self._read(call, reply) for call, reply in zip(calls, replies, strict=True)]

    async def run_each(self, calls: Sequence[ScriptCall]) -> list[tuple[str, list[Any]] | Exception]:
        """Run scripts in order, in one round trip. Return for each script its answer, or the error that `run` would
        have raised.

        Raises StoreUnavailableError if certainly no script ran, OutcomeUnknownError if any script may have run.
        """
        return self._read_each(calls, await self._replies(calls, None))

    async def run_shards(self, calls: Sequence[ScriptCall]) -> list[tuple[str, list[Any]] | Exception]:
        """Run scripts of different shards as `run_each` does. Consecutive calls of one script share one call of the
        store, which costs a fraction of separate calls.

        On a Cluster, each shard has a slot of its own, so the calls share only the round trip. If some calls were done
        before an error occurred, only the failed calls get the error.
        """
        if len(calls) <= 1 or self.is_on_cluster:
            return await self.run_each(calls)
        replies: list[Any] = []
        pages = in_pages(calls)
        of_pages = await self._replies([*map(page_call, pages)], None)
        for page, reply in zip(pages, of_pages, strict=True):
            # Count the calls of the page except the first, which `_replies` has counted.
            self.script_calls[page[0].script.name] += len(page) - 1
            found = [reply] * len(page) if isinstance(reply, JqmasterError) else page_replies(page, reply)
            # `page_replies` returns None if the store refused the page. Repeat its calls one by one, because the reason
            # may concern only one shard.
            replies += await self._replies_or_error(page) if found is None else found
        return self._read_each(calls, replies)

    async def run_joined(self, calls: Sequence[ScriptCall]) -> list[tuple[slice, list[Any] | Exception]]:
        """Run calls of one script that takes several shards, each for another shard. Return the data of each reply, or
        its error, with the part of `calls` that the reply answers.

        One reply usually answers all calls. It answers one call on a Cluster, where each shard has a slot of its own,
        and after the store refused the joined call.

        Repeating the same calls in the same order costs less. Raise what `run_each` raises.
        """
        if len(calls) > 1 and not self.is_on_cluster:
            joined = self._joined.of(calls)
            (reply,) = await self._replies([joined.together], None, packed=joined.packed)
            self.script_calls[joined.together.script.name] += len(calls) - 1
            if not isinstance(reply, ResponseError):
                (found,) = self._read_each([joined.together], [reply])
                return [(slice(len(calls)), _data_of(found))]
            # Repeat the calls one by one, because the reason may concern only one shard.
        replies = await self.run_each(calls)
        return [(slice(n, n + 1), _data_of(found)) for n, found in enumerate(replies)]

    async def command(self, *parts: Arg) -> Any:
        """Run one plain read command."""
        (reply,) = await self._read_only([parts])
        if isinstance(reply, ResponseError):
            raise classified(reply)
        return reply

    async def publish(self, channel: str, text: str) -> None:
        """Publish a message on a channel of the shard."""
        await self.command("SPUBLISH" if self.publishes_sharded else "PUBLISH", channel, text)

    async def pipeline(self, commands: Sequence[tuple[Arg, ...]], *, skip_damaged: bool = False) -> list[Any]:
        """Run plain read commands in one round trip, and return their answers. `skip_damaged`: return None for a key
        of the wrong type."""
        if not commands:
            return []
        replies = await self._read_only(commands)
        for n, reply in enumerate(replies):
            if isinstance(reply, ResponseError):
                error = classified(reply)
                if not (skip_damaged and isinstance(error, DamagedError)):
                    raise error
                replies[n] = None
        return replies

    async def ask_each(self, commands: Sequence[tuple[Arg, ...]]) -> list[Any]:
        """Run plain read commands in one round trip. Return for each command its answer, or the error that `command`
        would have raised.
        """
        return [
            classified(reply) if isinstance(reply, ResponseError) else reply
            for reply in await self._read_only(commands)
        ]

    def _read_each(
        self, calls: Sequence[ScriptCall], replies: Sequence[Any]
    ) -> list[tuple[str, list[Any]] | Exception]:
        read: list[tuple[str, list[Any]] | Exception] = []
        for call, reply in zip(calls, replies, strict=True):
            try:
                read.append(self._read(call, reply))
            except Exception as exc:  # an unexpected answer must not affect the answers to the other calls
                read.append(exc)
        return read

    async def _replies_with(
        self, claim: TravellingClaim, calls: Sequence[ScriptCall], replicas: int | None
    ) -> list[Any]:
        all_calls = [*calls, *claim.calls]
        try:
            replies = await self._replies(all_calls, replicas)
            if isinstance(replies, _Partial):
                raise _whole_error(all_calls, replies)
        except BaseException:
            claim.on_failure()
            raise
        claim.on_replies(self._read_each(claim.calls, replies[len(calls) :]))
        if isinstance(replies, _Overtaken):
            claim.on_overtaken()
        return replies[: len(calls)]

    async def _replies_or_error(self, calls: Sequence[ScriptCall]) -> list[Any]:
        """Return the result of `_replies`. If it raises an error, return that error for each call."""
        try:
            return await self._replies(calls, None)
        except JqmasterError as exc:
            return [exc] * len(calls)

    async def _replies(
        self, calls: Sequence[ScriptCall], replicas: int | None, *, packed: PackedCommands | None = None
    ) -> list[Any]:
        """Return the raw replies. `packed`: the commands of the calls, if they are known.

        The reply to a call that failed is a ResponseError. The list is an _Overtaken if calls ran before earlier calls.
        It is a _Partial if scripts could not be loaded, or too few replicas confirmed the writes. Raise the error of
        the round trip if no call is known to be done.
        """
        if not calls:
            # Send nothing: since Python 3.12, the transport of asyncio never removes an empty write from its buffer, so
            # the loop spins and the connection does not close.
            return []
        cluster = self._locator if isinstance(self._locator, ClusterLocator) else None
        guard = cluster.guard if cluster else None
        is_guarded, is_sharded = guard is not None, self.publishes_sharded
        commands: list[tuple[Arg, ...]] = [] if packed is None else packed
        writes = False
        for call in calls:
            if packed is None:
                commands.append(call.script.command(call.keys, call.args, guard, is_sharded=is_sharded))
            writes = writes or call.script.writes
        replicas_needed = (self.quorum_replicas if replicas is None else replicas) if writes else 0
        is_overtaken = is_partial = False

        def whole(n: int) -> tuple[Arg, ...]:
            text = calls[n].script.text(is_guarded=is_guarded, is_sharded=is_sharded)
            return ("EVAL", text, *commands[n][2:])

        async def load_missing(replies: list[Any], todo: Sequence[int], ask: _Ask) -> None:
            nonlocal is_overtaken, is_partial
            overtaken, partial = await _load_missing(
                replies, lambda n: whole(todo[n]), functools.partial(ask, writes=writes)
            )
            is_overtaken, is_partial = is_overtaken or overtaken, is_partial or partial

        async def evaluate(connection: AbstractConnection, todo: Sequence[int]) -> list[Any]:
            asked = commands if len(todo) == len(commands) else [commands[i] for i in todo]
            replies = await self._pool.exchange(connection, asked, writes=writes)
            if NoScriptError in map(type, replies):
                await load_missing(replies, todo, functools.partial(self._pool.exchange, connection))
            if replicas_needed and not all(isinstance(reply, ResponseError) for reply in replies):
                nonlocal is_partial
                confirmed = await self._confirmed(
                    connection, replicas_needed, [calls[n] for n in todo], replies
                )
                is_partial = is_partial or confirmed is not replies
                return confirmed
            return replies

        for call in calls:
            self.script_calls[call.script.name] = self.script_calls.get(call.script.name, 0) + 1
        # A round trip with several scripts is recorded under the name of the first.
        name, began_s = calls[0].script.name, perf_counter()
        try:
            if cluster or replicas_needed:
                replies = await self._with_redirects(len(calls), evaluate)
            else:
                # Without redirects or replicas, the commands may run on any connection of the pool.
                replies = await self._pool.ask(commands, writes=writes)
                if NoScriptError in map(type, replies):
                    await load_missing(replies, range(len(calls)), self._pool.ask)
        except JqmasterError:
            self.failed_round_trips[name] = self.failed_round_trips.get(name, 0) + 1
            raise
        self.round_trips[name].add(perf_counter() - began_s)
        if is_partial:
            self.failed_round_trips[name] = self.failed_round_trips.get(name, 0) + 1
            return _Partial(replies)
        return _Overtaken(replies) if is_overtaken else replies

    async def _read_only(self, commands: Sequence[tuple[Arg, ...]]) -> list[Any]:
        async def ask(connection: AbstractConnection, todo: Sequence[int]) -> list[Any]:
            return await self._pool.exchange(connection, [commands[i] for i in todo], writes=False)

        return await self._with_redirects(len(commands), ask)

    async def _with_redirects(
        self, count: int, ask: Callable[[AbstractConnection, Sequence[int]], Awaitable[list[Any]]]
    ) -> list[Any]:
        """Return the replies to `count` commands. Commands that reached the wrong node did nothing there, and are sent
        to the right node, in order. `ask`: sends the commands with these numbers on a connection.
        """
        if not isinstance(self._locator, ClusterLocator):
            async with self._pool.connection() as connection:
                return await ask(connection, range(count))
        replies: list[Any] = [None] * count
        todo: Sequence[int] = range(count)
        for _ in range(1 + _MAX_MOVES):
            async with self._pool.connection() as connection:
                for n, reply in zip(todo, await ask(connection, todo), strict=True):
                    replies[n] = reply
            todo = [n for n in todo if isinstance(replies[n], MovedError)]
            if not todo:
                break
            self._locator.follow(replies[todo[-1]])
        return replies

    async def _confirmed(
        self,
        connection: AbstractConnection,
        needed: int,
        calls: Sequence[ScriptCall],
        replies: list[Any],
    ) -> list[Any]:
        """Return the replies once enough replicas have the writes. If too few confirm in time, return the error in
        place of the replies to the writes."""
        try:
            await self._await_replicas(connection, needed)
        except JqmasterError as exc:
            return [
                exc if call.script.writes and not isinstance(reply, Exception) else reply
                for call, reply in zip(calls, replies, strict=True)
            ]
        return replies

    async def _await_replicas(self, connection: AbstractConnection, needed: int) -> None:
        # Send WAIT on the connection that sent the writes, because WAIT counts only the writes of its own connection.
        wait_ms = int(self._timeout_s * 500)
        (confirmed,) = await self._pool.exchange(connection, [("WAIT", needed, wait_ms)], writes=True)
        if isinstance(confirmed, ResponseError) or confirmed < needed:
            if self._locator:
                self._locator.doubt()
            raise OutcomeUnknownError(
                f"it is stored, but too few replicas confirmed it in time ({confirmed} of {needed}); repeat with the "
                "same ID",
                retry_after_s=RETRY_AFTER_S,
            )

    def _read(self, call: ScriptCall, reply: Any) -> tuple[str, list[Any]]:
        if isinstance(reply, Exception):
            raise classified(reply) if isinstance(reply, ResponseError) else reply
        word = reply[0].decode()
        if word not in call.script.replies:
            raise call.script.unknown_reply(word)
        if word == STALE_EPOCH:
            raise StaleEpochError
        return word, reply[1:]


def _data_of(found: tuple[str, list[Any]] | Exception) -> list[Any] | Exception:
    return found[1] if isinstance(found, tuple) else found


def _whole_error(calls: Sequence[ScriptCall], replies: Sequence[Any]) -> JqmasterError:
    """Return the error for a caller that cannot use a part of the replies."""
    error = next(reply for reply in replies if isinstance(reply, JqmasterError))
    if isinstance(error, StoreUnavailableError) and any(call.script.writes for call in calls):
        # The outcome is unknown, because some calls may have been executed: those whose scripts were already loaded.
        return OutcomeUnknownError(error.detail, retry_after_s=RETRY_AFTER_S)
    return error


async def _load_missing(
    replies: list[Any],
    whole: Callable[[int], tuple[Arg, ...]],
    ask: Callable[[Sequence[tuple[Arg, ...]]], Awaitable[list[Any]]],
) -> tuple[bool, bool]:
    """Send the calls whose scripts were missing again, with EVAL, which also loads the scripts. So a failover or SCRIPT
    FLUSH costs only one more round trip.

    Put the new replies in place of the old ones. Return whether some calls ran before earlier calls, and whether some
    calls were not executed. `whole`: returns the command of a call with the text of its script.
    """
    missing = [n for n, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
    is_partial = False
    again: Sequence[Any]
    try:
        again = await ask([whole(n) for n in missing])
    except JqmasterError as exc:
        if len(missing) == len(replies):
            raise
        again, is_partial = [exc] * len(missing), True
    for n, reply in zip(missing, again, strict=True):
        replies[n] = reply
    return len(missing) < len(replies) - missing[0], is_partial
