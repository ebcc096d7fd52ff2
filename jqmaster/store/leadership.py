"""The leader's lock and the epoch."""

from dataclasses import dataclass

from jqmaster.store import codec
from jqmaster.store.shard import Shard


@dataclass(frozen=True, slots=True)
class Leadership:
    """What its holder shows: `epoch` is `number:nonce`, and compared for equality by every leader script."""

    epoch: str
    master_id: str

    @property
    def number(self) -> int:
        return codec.epoch_number(self.epoch)

    @property
    def holder(self) -> str:
        return f"{self.epoch}:{self.master_id}"


class LeadershipStore:
    """Leadership of one shard. Raises what `JobStore` raises."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    async def elect(self, master_id: str, nonce: str, *, ttl_ms: int) -> Leadership | None:
        """The new leadership, or None while another holds the lock."""
        k = self._shard.keys
        word, data = await self._shard.client.run(
            "elect", (k.leader, k.epoch), (self._shard.now_arg, master_id, nonce, ttl_ms)
        )
        return Leadership(data[0].decode(), master_id) if word == "ok" else None

    async def renew(self, leadership: Leadership, *, ttl_ms: int) -> bool:
        word, _ = await self._shard.client.run(
            "renew_leadership", (self._shard.keys.leader,), (leadership.holder, ttl_ms)
        )
        return word == "ok"

    async def resign(self, leadership: Leadership) -> bool:
        k = self._shard.keys
        word, _ = await self._shard.client.run("resign", (k.leader,), (leadership.holder, k.wake_channel))
        return word == "ok"

    async def newest_number(self) -> int:
        """The growing part of the newest epoch; 0 where nobody led yet."""
        return codec.epoch_number(await self._shard.client.command("GET", self._shard.keys.epoch) or "")

    async def current(self) -> Leadership | None:
        """Who leads now, if anybody."""
        holder = await self._shard.client.command("GET", self._shard.keys.leader)
        if holder is None:
            return None
        number, nonce, master_id = holder.decode().split(":", 2)
        return Leadership(f"{number}:{nonce}", master_id)
