"""The exclusive right to restore into a shard: a second restore is refused while one is at work."""

import contextlib
from collections.abc import AsyncIterator
from typing import Final

from jqmaster.domain.ids import new_id
from jqmaster.domain.instant import span
from jqmaster.errors import ConflictError, JqmasterError
from jqmaster.store.link.shard import Shard

# A killed restore blocks other restores for this long. A working restore renews its hold many times a second.
HOLD_MS: Final = 30_000


class RestoreHold:
    """The hold of one restore. Use `held`."""

    def __init__(self, shard: Shard) -> None:
        self.shard = shard
        self._id = new_id()
        self._key = shard.keys.restore_hold

    async def take(self) -> None:
        """Take the hold. Raise ConflictError while another restore has it."""
        client = self.shard.client
        if await client.command("SET", self._key, self._id, "NX", "PX", HOLD_MS):
            return
        left_ms = await client.command("PTTL", self._key)
        raise ConflictError(
            "another restore is at work on the shard, or was killed there; if no restore runs, run the command again "
            f"in {span(max(left_ms, 0))}"
        )

    async def renew(self) -> None:
        """Renew the hold. Raise ConflictError if this restore stood still for so long that another may have begun."""
        if not await self._is_ours():
            raise ConflictError(
                f"this restore stood still for longer than {span(HOLD_MS)}, so another one may be at work on the "
                "shard: run the command again when no other restore is running"
            )
        await self.shard.client.command("PEXPIRE", self._key, HOLD_MS)

    async def give_back(self) -> None:
        if await self._is_ours():
            await self.shard.client.command("UNLINK", self._key)

    async def _is_ours(self) -> bool:
        return bool(await self.shard.client.command("GET", self._key) == self._id.encode())


@contextlib.asynccontextmanager
async def held(shard: Shard) -> AsyncIterator[RestoreHold]:
    """Hold the shard for one restore. Raises ConflictError while another restore holds it."""
    hold = RestoreHold(shard)
    await hold.take()
    try:
        yield hold
    finally:
        with contextlib.suppress(JqmasterError):  # best effort: the hold expires
            await hold.give_back()
