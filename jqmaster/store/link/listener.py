"""Messages from the store to its listeners: work for the leader, and ends of jobs that callers wait for."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from redis.asyncio.client import PubSub
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from jqmaster.lifecycle import BackgroundLoops
from jqmaster.store.link.shard import Shard
from jqmaster.store.link.wake import WakeMessage, decode

logger = logging.getLogger(__name__)

RECONNECT_S: Final = 0.5
# A channel that was silent for this long is pinged, and has the same time to answer.
QUIET_S: Final = 15.0


class StoreListener:
    """Component. Calls `on_wake(message)` and `on_finished(job_id)`. Calls `on_gap()` after every (re)connection,
    because messages are lost while nobody listens. Messages only save time; polling finds everything.

    On a Cluster, it listens on one connection to the shard's node, both for messages to all nodes and for messages to
    that node only. The node ends the latter subscription when it loses the shard's slot."""

    def __init__(
        self,
        shard: Shard,
        *,
        on_wake: Callable[[WakeMessage], None],
        on_finished: Callable[[str], None],
        on_gap: Callable[[], None],
        quiet_s: float = QUIET_S,
    ) -> None:
        self._shard = shard
        self._on_wake = on_wake
        self._on_finished = on_finished
        self._on_gap = on_gap
        self._quiet_s = quiet_s
        self._loops = BackgroundLoops("events", is_vital=True)

    async def start(self) -> None:
        self._loops.spawn("listen", self._listen)

    async def stop(self) -> None:
        await self._loops.stop()

    async def _listen(self) -> None:
        client = self._shard.client
        while True:
            pubsub = client.redis.pubsub()
            is_asked = False
            try:
                await self._subscribe(pubsub)
                while True:
                    message = await pubsub.get_message(timeout=self._quiet_s)
                    if message is None:
                        if is_asked:
                            raise TimeoutError
                        # Nothing else is ever sent on this connection, so only a ping shows that it is lost.
                        await pubsub.ping()
                        is_asked = True
                        continue
                    is_asked = False
                    self._take(message, pubsub)
            except (RedisError, OSError, TimeoutError) as exc:
                client.doubt(exc)
                logger.warning("lost the store's event channel (%s); listening again", type(exc).__name__)
            finally:
                await pubsub.aclose()  # type: ignore[no-untyped-call]
            await asyncio.sleep(RECONNECT_S)

    async def _subscribe(self, pubsub: PubSub) -> None:
        channels = (self._shard.keys.wake_channel, self._shard.keys.finished_channel)
        await pubsub.subscribe(*channels)
        if self._shard.client.listens_sharded:
            await pubsub.ssubscribe(*channels)

    def _take(self, message: Mapping[str, Any], pubsub: PubSub) -> None:
        """Handle a message of the store. Raise redis.exceptions.ConnectionError if the store has ended the
        subscription."""
        # Answers come in the order of the commands, so this is the last one.
        last = (
            ("ssubscribe", pubsub.shard_channels) if pubsub.shard_channels else ("subscribe", pubsub.channels)
        )
        match message["type"]:
            case "message" | "smessage":
                text = message["data"].decode()
                if message["channel"].decode() == self._shard.keys.wake_channel:
                    self._wake(text)
                else:
                    for job_id in text.split(","):
                        self._on_finished(job_id)
            case "sunsubscribe":
                raise RedisConnectionError("another node holds the shard")
            case kind if kind == last[0] and message["data"] == len(last[1]):
                # Reached also when the client library has connected and subscribed again by itself.
                self._on_gap()

    def _wake(self, text: str) -> None:
        if (message := decode(text)) is not None:
            self._on_wake(message)
        else:
            logger.debug("a wake-up message that this version does not know: %.100s", text)
