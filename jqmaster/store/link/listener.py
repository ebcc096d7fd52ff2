"""Messages from the store to its listeners: work for the leader, and ends of jobs that callers wait for."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from redis.asyncio.client import PubSub
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from jqmaster.lifecycle import BackgroundLoops
from jqmaster.store.keys import Keys
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.wake import WakeMessage, decode

logger = logging.getLogger(__name__)

RECONNECT_S: Final = 0.5
# After this many seconds without a message, send a ping. The answer must arrive within the same number of seconds.
QUIET_S: Final = 15.0
_KINDS: Final = frozenset({"message", "smessage", "subscribe", "ssubscribe", "sunsubscribe"})


class ShardChannels:
    """Component: calls `on_wake(message)` and `on_finished(job_id)` for the messages of one shard. Calls `on_gap()`
    after every (re)connection, because messages are lost while nobody listens. Messages only save time: polling finds
    the same work later.
    """

    def __init__(
        self,
        listener: "StoreListener",
        keys: Keys,
        *,
        on_wake: Callable[[WakeMessage], None],
        on_finished: Callable[[str], None],
        on_gap: Callable[[], None],
    ) -> None:
        self._listener = listener
        self._wake_channel = keys.wake_channel
        # Each subscribe command names this channel last, so its confirmation shows that all channels are subscribed.
        self.last = keys.finished_channel
        self.names = keys.wake_channel, keys.finished_channel
        self._on_wake = on_wake
        self._on_finished = on_finished
        self.on_gap = on_gap

    async def start(self) -> None:
        self._listener.add(self)

    async def stop(self) -> None:
        self._listener.remove(self)

    def take(self, channel: str, text: str) -> None:
        """Take a message."""
        if channel != self._wake_channel:
            for job_id in text.split(","):
                self._on_finished(job_id)
        elif (message := decode(text)) is not None:
            self._on_wake(message)
        else:
            logger.debug("a wake-up message that this version does not know: %.100s", text)


class StoreListener:
    """Component: listens to the channels of all shards on a store, on one connection.

    On a Cluster, each shard has a listener of its own, which listens on the shard's node. It subscribes to messages to
    all nodes, and to messages to this node only. The node ends the second subscription when it loses the shard's slot.
    """

    def __init__(self, client: StoreClient, *, quiet_s: float = QUIET_S) -> None:
        self._client = client
        self._quiet_s = quiet_s
        self._shards: dict[str, ShardChannels] = {}
        self._has_shards = asyncio.Event()
        # The connection that is subscribed or being subscribed. None: there is no connection.
        self._pubsub: PubSub | None = None
        self._loops = BackgroundLoops("events", is_vital=True)

    async def start(self) -> None:
        self._loops.spawn("listen", self._listen)

    async def stop(self) -> None:
        await self._loops.stop()

    def add(self, shard: ShardChannels) -> None:
        """Listen to these channels, too."""
        self._shards.update(dict.fromkeys(shard.names, shard))
        self._has_shards.set()
        if self._pubsub is not None:
            self._loops.spawn("subscribe", partial(self._change, self._pubsub, self._subscribe, shard.names))

    def remove(self, shard: ShardChannels) -> None:
        """Stop listening to these channels."""
        for name in shard.names:
            del self._shards[name]
        if not self._shards:
            self._has_shards.clear()
        if self._pubsub is not None:
            self._loops.spawn(
                "unsubscribe", partial(self._change, self._pubsub, self._unsubscribe, shard.names)
            )

    async def _listen(self) -> None:
        while True:
            await self._has_shards.wait()
            pubsub = self._pubsub = self._client.redis.pubsub()
            is_asked = False
            try:
                await self._subscribe(pubsub, list(self._shards))
                while True:
                    message = await pubsub.get_message(timeout=self._quiet_s)
                    if message is None:
                        if is_asked:
                            raise TimeoutError
                        # Ping, because nothing else is sent on this connection. Only a ping shows that the connection
                        # is lost.
                        await pubsub.ping()
                        is_asked = True
                        continue
                    is_asked = False
                    self._take(message)
            except (RedisError, OSError, TimeoutError) as exc:
                self._client.doubt(exc)
                logger.warning("lost the store's event channel (%s); listening again", type(exc).__name__)
            finally:
                self._pubsub = None
                await pubsub.aclose()  # type: ignore[no-untyped-call]
            await asyncio.sleep(RECONNECT_S)

    async def _change(
        self, pubsub: PubSub, change: Callable[[PubSub, Sequence[str]], Awaitable[None]], names: Sequence[str]
    ) -> None:
        # Ignore a lost connection: the loop notices it, and subscribes to all channels on the next connection.
        with contextlib.suppress(RedisError, OSError, TimeoutError):
            await change(pubsub, names)

    async def _subscribe(self, pubsub: PubSub, names: Sequence[str]) -> None:
        await pubsub.subscribe(*names)
        if self._client.listens_sharded:
            await pubsub.ssubscribe(*names)

    async def _unsubscribe(self, pubsub: PubSub, names: Sequence[str]) -> None:
        await pubsub.unsubscribe(*names)
        if self._client.listens_sharded:
            await pubsub.sunsubscribe(*names)

    def _take(self, message: Mapping[str, Any]) -> None:
        """Handle a message of the store. Raise redis.exceptions.ConnectionError if the store has ended the
        subscription."""
        kind = message["type"]
        if kind not in _KINDS:
            return
        channel = message["channel"].decode()
        shard = self._shards.get(channel)
        if shard is None:
            return  # it was closed meanwhile
        match kind:
            case "message" | "smessage":
                shard.take(channel, message["data"].decode())
            case "sunsubscribe":
                raise RedisConnectionError("another node holds the shard")
            case _:
                # This confirmation also arrives after the client library has reconnected and subscribed again by
                # itself.
                is_last = kind == ("ssubscribe" if self._client.listens_sharded else "subscribe")
                if is_last and channel == shard.last:
                    shard.on_gap()
