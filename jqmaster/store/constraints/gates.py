"""Gates of constraints. The leader opens due gates, checks gates after a change, and removes idle gates."""

from collections.abc import Sequence
from typing import Final

from jqmaster.store.link.pages import GATES_PER_CALL, MAX_PER_CALL, pages, scanned
from jqmaster.store.link.shard import Shard

GATES_PER_PRUNING: Final = 500


class GateStore:
    """Gates of one shard. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._client = shard.client
        self._keys = shard.keys

    async def counted(self) -> list[str]:
        """Return the constraints that may have data in the store, including deleted constraints."""
        return sorted(raw.decode() for raw in await self._client.command("SMEMBERS", self._keys.counted))

    async def prune(self, epoch: str, cid: str, cursor: str) -> tuple[int, str]:
        """Remove the data of idle gates from one page of gates. Return the number of removed gates, and the cursor of
        the next page ("0": this was the last)."""
        k = self._keys
        _, data = await self._client.run(
            "prune_gates",
            (k.epoch, k.counted, k.shadowed, k.gates(cid), k.served(cid), k.crowded(cid), k.limits(cid),
             k.conditions(cid), k.observed),
            (k.tag, epoch, cid, cursor, GATES_PER_PRUNING),
        )  # fmt: skip
        return int(data[0]), data[1].decode()

    async def reopened(self) -> list[tuple[str, int]]:
        """Return the constraints whose gates have to be checked again, each with the version of its change."""
        flat = await self._client.command("ZRANGE", self._keys.reopened, 0, -1, "WITHSCORES")
        return [(flat[n].decode(), int(flat[n + 1])) for n in range(0, len(flat), 2)]

    async def reopen(self, epoch: str, cid: str, version: int) -> bool:
        """Check the gates of this constraint again, if lanes are parked there. Return whether any gate opened."""
        has_opened = False
        closed = scanned(self._client, "SSCAN", self._keys.closed, count=MAX_PER_CALL, match=f"{cid}*")
        async for found in closed:
            for page in pages([raw.decode() for raw in found], GATES_PER_CALL):
                has_opened = (await self.open(epoch, page))[1] or has_opened
        await self._client.run(
            "end_reopening", (self._keys.epoch, self._keys.reopened), (epoch, cid, version)
        )
        return has_opened

    async def open(self, epoch: str, gates: Sequence[str] = ()) -> tuple[int, bool]:
        """Open these gates and all due gates. Return the milliseconds until the next gate is due (-1: none), and
        whether more jobs can start now than before this call."""
        k, may_start = self._keys, False
        while True:
            _, data = await self._client.run(
                "open_gates",
                (k.epoch, k.gates_due, k.holds, k.observed),
                (self._shard.now_arg, k.tag, epoch, GATES_PER_CALL, *gates),
            )
            by_time, next_ms, has_opened = data
            may_start = may_start or bool(has_opened)
            if by_time < GATES_PER_CALL:
                return next_ms, may_start
            gates = ()
