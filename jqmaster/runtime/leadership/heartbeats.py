"""Send this master's heartbeats to all shards on a store."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, Final, Protocol

from jqmaster.clock import Clock, DueTime
from jqmaster.domain.operations.master import ANSWER_LIVES_S, Pace
from jqmaster.errors import JqmasterError
from jqmaster.lifecycle import EntriesApart
from jqmaster.live_value import LiveValue
from jqmaster.runtime.periodic_loop import PeriodicLoop
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.pages import pages
from jqmaster.store.link.scripts import ScriptCall
from jqmaster.store.link.shared_trips import MAX_TOGETHER

# How often a heartbeat is sent in full although nothing has changed. A heartbeat in full also removes silent masters,
# and restores the entry of this master.
FULL_EVERY: Final = 20
# Stands for the time of the leader's last heartbeat if this master holds the lock.
_OWN: Final = -2


class RegisteredShard(Protocol):
    """A shard in which this master has registered.

    * `pace`: returns the seconds between two heartbeats.
    * `repeated`: the call that repeats a heartbeat; see `MasterStore.repeated`.
    * `facts`: what `repeated` returned before the shard's components took the last answer in full. None: they have to
      take another answer in full.
    * `faults`: failing loops, which only a heartbeat in full describes.
    * `fresh`: until when the last answer counts as current.
    """

    name: str
    pace: LiveValue[Pace]
    facts: bytes | None
    faults: Collection[str]
    fresh: DueTime

    @property
    def repeated(self) -> ScriptCall: ...

    def heartbeat(self) -> ScriptCall: ...

    def take(self, data: Sequence[Any], sent_at_s: float) -> bool:
        """Take the answer to a heartbeat. Return whether the shard's components have all that it names."""
        ...

    def take_seen(self, leader_seen_ms: int, now_ms: int, sent_at_s: float) -> bool:
        """Take the last answer again, with a newer heartbeat of the leader. Return the same as `take`."""
        ...


class Heartbeats(PeriodicLoop):
    """One loop for each store. It sends this master's heartbeats to all shards there, `MAX_TOGETHER` in a round trip.
    So a quiet shard needs no task and no timer for them.

    Most heartbeats only repeat the last one, and find out whether its answer still holds. A repeat costs the store a
    quarter of a heartbeat in full, and this process almost nothing.

    The loop shares the event loop with all other work on purpose: a master whose event loop stands still falls silent.
    """

    is_vital = True

    def __init__(self, client: StoreClient, clock: Clock) -> None:
        super().__init__("membership", clock, complaint="cannot send the heartbeat of this master")
        self._client = client
        self._members: dict[RegisteredShard, None] = {}
        self._apart = EntriesApart("membership")
        self._is_free = asyncio.Lock()
        self._rounds = 0

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
        ttl_s = min([member.pace.current.ttl_s for member in self._members], default=0.0)
        return Pace(ttl_s).beat_s

    async def _round(self) -> float:
        self._rounds += 1
        for number, page in enumerate(pages(list(self._members), MAX_TOGETHER)):
            async with self._is_free:
                members = [member for member in page if member in self._members]
                # Spread the heartbeats in full over the rounds.
                if (self._rounds + number) % FULL_EVERY:
                    members = await self._repeat(members)
                if members:
                    await self._send(members)
        return self._beat_s()

    async def _repeat(self, members: Sequence[RegisteredShard]) -> list[RegisteredShard]:
        """Repeat the last heartbeats. Return the members that must send one in full."""
        steady, others = list[RegisteredShard](), list[RegisteredShard]()
        # Call as few functions as possible in these loops, which make up much of the cost of a quiet shard.
        for member in members:
            if member.faults:
                member.facts = None
                others.append(member)
            else:
                steady.append(member)
        if not steady:
            return others
        sent_at_s = self._clock.monotonic_s()
        fresh_until_s = sent_at_s + ANSWER_LIVES_S
        for part, data in await self._client.run_joined([member.repeated for member in steady]):
            if isinstance(data, Exception):
                others += steady[part]
                continue
            now_ms, facts, seen_ms = data
            for member, found, leader_seen_ms in zip(steady[part], facts, seen_ms, strict=True):
                if found != member.facts or not found:
                    member.facts = found
                    others.append(member)
                elif leader_seen_ms == _OWN:
                    member.fresh.at_s = fresh_until_s
                else:
                    seen = partial(member.take_seen, leader_seen_ms, now_ms, sent_at_s)
                    self._take(member, sent_at_s, seen)
        return others

    async def _send(self, members: Sequence[RegisteredShard]) -> None:
        """Send heartbeats in full."""
        calls: dict[RegisteredShard, ScriptCall] = {}
        for member in members:
            try:
                calls[member] = member.heartbeat()
            except Exception as exc:
                member.facts = None
                self._apart.failed(member.name, exc)
        sent_at_s = self._clock.monotonic_s()
        replies = await self._client.run_shards([*calls.values()])
        for member, reply in zip(calls, replies, strict=True):
            self._take(member, sent_at_s, partial(_taken, member, reply, sent_at_s))

    def _take(self, member: RegisteredShard, sent_at_s: float, take: Callable[[], bool]) -> None:
        """Let a member take the answer to a heartbeat. Errors concern this member only: shards of the same store are
        independent."""
        is_taken = False
        try:
            is_taken = take()
        except JqmasterError as exc:
            self._failed(exc, f"{self._complaint} in {member.name}")
        except Exception as exc:
            self._apart.failed(member.name, exc)
        else:
            self._apart.worked(member.name)
        if is_taken:
            member.fresh.at_s = sent_at_s + ANSWER_LIVES_S
        else:
            member.facts = None


def _taken(member: RegisteredShard, reply: tuple[str, Sequence[Any]] | Exception, sent_at_s: float) -> bool:
    if isinstance(reply, Exception):
        raise reply
    return member.take(reply[1], sent_at_s)
