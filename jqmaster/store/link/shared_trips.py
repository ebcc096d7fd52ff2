"""Round trips to one store that the calls of many shards share."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from jqmaster.store.link.scripts import ScriptCall

# How long a call waits so that calls of other shards can join its round trip.
GATHER_S: Final = 0.1
# Maximum number of calls in one round trip. It is limited, because the store runs these calls without a pause.
MAX_TOGETHER: Final = 50
# Maximum number of simultaneous round trips of a kind (reads or writes). Further calls wait until a round trip has
# returned.
MAX_TRIPS: Final = 2

Reply = tuple[str, list[Any]]


RunShards = Callable[[Sequence[ScriptCall]], Awaitable[list[Reply | Exception]]]


class SharedTrips:
    """Sends the calls that each shard makes in its rounds. `shards`: how many shards use the store. If several shards
    use it, a call waits `GATHER_S` for the calls of other shards. A thousand idle shards then need ten round trips a
    second instead of a thousand. If one shard uses the store, its calls never wait.

    Calls that only read have separate round trips, so that they do not wait for replicas or for the disk.

    `run_shards`: see `StoreClient`.
    """

    def __init__(self, run_shards: RunShards) -> None:
        self._run = run_shards
        self.shards = 1
        self._reads, self._writes = _TripsOfOneKind(run_shards), _TripsOfOneKind(run_shards)

    async def run(self, call: ScriptCall) -> Reply:
        """Return the answer to a call. Raise what `StoreClient.run` raises."""
        if self.shards > 1:
            return await (self._writes if call.script.writes else self._reads).run(call)
        (reply,) = await self._run([call])
        if isinstance(reply, Exception):
            raise reply
        return reply


class _TripsOfOneKind:
    def __init__(self, run_shards: RunShards) -> None:
        self._run = run_shards
        self._gathered: list[tuple[ScriptCall, asyncio.Future[Reply]]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._trips: set[asyncio.Task[None]] = set()

    async def run(self, call: ScriptCall) -> Reply:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Reply] = loop.create_future()
        self._gathered.append((call, future))
        if self._timer is None:
            self._timer = loop.call_later(GATHER_S, self._send)
        return await future

    def _send(self) -> None:
        self._timer = None
        # Drop the calls whose callers were canceled or timed out.
        self._gathered = [(call, future) for call, future in self._gathered if not future.done()]
        while self._gathered and len(self._trips) < MAX_TRIPS:
            together, self._gathered = self._gathered[:MAX_TOGETHER], self._gathered[MAX_TOGETHER:]
            trip = asyncio.create_task(self._trip(together), name="shared round trip")
            self._trips.add(trip)
            trip.add_done_callback(self._end)

    def _end(self, trip: asyncio.Task[None]) -> None:
        self._trips.discard(trip)
        # Calls that have arrived since then may wait for the next trip.
        if self._gathered and self._timer is None:
            self._send()

    async def _trip(self, gathered: Sequence[tuple[ScriptCall, asyncio.Future[Reply]]]) -> None:
        # Sort by script: adjacent calls of the same script become one call.
        gathered = sorted(gathered, key=lambda one: one[0].script.name)
        replies: Sequence[Reply | Exception]
        try:
            replies = await self._run([call for call, _ in gathered])
        except asyncio.CancelledError:
            for _, future in gathered:
                future.cancel()
            raise
        except Exception as exc:  # every caller gets the error
            replies = [exc] * len(gathered)
        for (_, future), reply in zip(gathered, replies, strict=True):
            if future.done():
                continue
            if isinstance(reply, Exception):
                future.set_exception(reply)
            else:
                future.set_result(reply)
