"""Send this master's heartbeats to all shards on a store."""

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

from jqmaster.clock import Clock
from jqmaster.domain.operations.master import Pace
from jqmaster.errors import JqmasterError
from jqmaster.lifecycle import EntriesApart
from jqmaster.live_value import LiveValue
from jqmaster.runtime.periodic_loop import PeriodicLoop
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.pages import pages
from jqmaster.store.link.scripts import ScriptCall
from jqmaster.store.link.shared_trips import MAX_TOGETHER


class RegisteredShard(Protocol):
    """A shard in which this master has registered. `pace`: returns the seconds between two heartbeats."""

    name: str
    pace: LiveValue[Pace]

    def heartbeat(self) -> ScriptCall: ...

    def take(self, data: Sequence[Any], sent_at_s: float) -> None: ...


class Heartbeats(PeriodicLoop):
    """One loop for each store. It sends this master's heartbeats to all shards there, `MAX_TOGETHER` in a round trip,
    so that a quiet shard needs no task and no timer for them.

    It shares the event loop with everything else on purpose, so that a master whose loop stands still falls silent.
    """

    is_vital = True

    def __init__(self, client: StoreClient, clock: Clock) -> None:
        super().__init__("membership", clock, complaint="cannot send the heartbeat of this master")
        self._client = client
        self._members: dict[RegisteredShard, None] = {}
        self._apart = EntriesApart("membership")
        self._is_free = asyncio.Lock()

    def join(self, member: RegisteredShard) -> None:
        """Send heartbeats for this member, too. It has just sent one."""
        self._members[member] = None
        self.wake()

    async def leave(self, member: RegisteredShard) -> None:
        """Stop sending heartbeats for this member. Return when none is under way."""
        if member in self._members:
            del self._members[member]
            async with self._is_free:
                pass

    async def _pause(self, seconds: float) -> None:
        if self._members:
            await super()._pause(seconds)
            return
        self._wake.clear()
        await self._wake.wait()
        # Pause first, because the first member sends its first heartbeat itself.
        await super()._pause(self._beat_s())

    def _retry_after_s(self) -> float:
        return self._beat_s()

    def _beat_s(self) -> float:
        # Compare the distinct paces only: most shards share one.
        paces = {member.pace for member in self._members}
        return min((pace.current.beat_s for pace in paces), default=0.0)

    async def _round(self) -> float:
        for page in pages(list(self._members), MAX_TOGETHER):
            async with self._is_free:
                await self._send([member for member in page if member in self._members])
        return self._beat_s()

    async def _send(self, members: Sequence[RegisteredShard]) -> None:
        # Do not use context managers in this loop: it is most of what a quiet shard costs.
        calls: dict[RegisteredShard, ScriptCall] = {}
        for member in members:
            try:
                calls[member] = member.heartbeat()
            except Exception as exc:
                self._apart.failed(member.name, exc)
        sent_at_s = self._clock.monotonic_s()
        replies = await self._client.run_shards([*calls.values()])
        for member, reply in zip(calls, replies, strict=True):
            try:
                if isinstance(reply, Exception):
                    raise reply
                member.take(reply[1], sent_at_s)
            except JqmasterError as exc:
                # Report the error for this shard only: shards of the same store are independent.
                self._failed(exc, f"{self._complaint} in {member.name}")
            except Exception as exc:
                self._apart.failed(member.name, exc)
            else:
                self._apart.worked(member.name)
