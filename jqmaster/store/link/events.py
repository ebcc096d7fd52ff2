"""Messages from the store to its listeners: work for the leader, and ends of jobs that callers wait for."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from redis.exceptions import RedisError

from jqmaster.lifecycle import BackgroundLoops
from jqmaster.store.link.shard import Shard
from jqmaster.store.link.wake import WakeMessage, decode

logger = logging.getLogger(__name__)

RECONNECT_S: Final = 0.5
# A channel that was silent for this long is asked whether it is still there, and has as long to answer.
QUIET_S: Final = 15.0


class EventListener:
    """Component. Calls `on_wake(message)` and `on_finished(job_id)`, and `on_gap()` after every (re)connection, because
    messages are lost while nobody listens: pub/sub only makes things quick, polling makes them sure."""

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
        keys = self._shard.keys
        while True:
            pubsub = self._shard.client.redis.pubsub()
            is_asked = False
            try:
                await pubsub.subscribe(keys.wake_channel, keys.finished_channel)
                while True:
                    message = await pubsub.get_message(timeout=self._quiet_s)
                    if message is None:
                        if is_asked:
                            raise TimeoutError
                        # This exposes a connection that died in silence: nothing else is ever sent on it.
                        await pubsub.ping()
                        is_asked = True
                        continue
                    is_asked = False
                    if message["type"] == "subscribe" and message["data"] == len(pubsub.channels):
                        # Reached also when the client library has connected and subscribed again by itself.
                        self._on_gap()
                    if message["type"] != "message":
                        continue
                    text = message["data"].decode()
                    if message["channel"].decode() == keys.wake_channel:
                        self._wake(text)
                    else:
                        for job_id in text.split(","):
                            self._on_finished(job_id)
            except (RedisError, OSError, TimeoutError) as exc:
                logger.warning("lost the store's event channel (%s); listening again", type(exc).__name__)
            finally:
                await pubsub.aclose()  # type: ignore[no-untyped-call]
            await asyncio.sleep(RECONNECT_S)

    def _wake(self, text: str) -> None:
        if (message := decode(text)) is not None:
            self._on_wake(message)
        else:
            logger.debug("a wake-up message that this version does not know: %.100s", text)
