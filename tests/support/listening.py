"""A listener for a single shard."""

from collections.abc import Callable

from jqmaster.store.link.listener import QUIET_S, ShardChannels, StoreListener
from jqmaster.store.link.shard import Shard
from jqmaster.store.link.wake import WakeMessage


class OwnListener:
    """Component. See `ShardChannels`."""

    def __init__(
        self,
        shard: Shard,
        *,
        on_wake: Callable[[WakeMessage], None],
        on_finished: Callable[[str], None],
        on_gap: Callable[[], None],
        quiet_s: float = QUIET_S,
    ) -> None:
        self._listener = StoreListener(shard.client, quiet_s=quiet_s)
        self._channels = ShardChannels(
            self._listener, shard.keys, on_wake=on_wake, on_finished=on_finished, on_gap=on_gap
        )

    async def start(self) -> None:
        await self._listener.start()
        await self._channels.start()

    async def stop(self) -> None:
        await self._channels.stop()
        await self._listener.stop()
