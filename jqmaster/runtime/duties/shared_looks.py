"""Look at all quiet shards that this master leads on one store, on behalf of their `ShardLook`s."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any, Final, Protocol

from jqmaster.clock import Clock
from jqmaster.errors import JqmasterError
from jqmaster.runtime.periodic_loop import PeriodicLoop
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.pages import pages
from jqmaster.store.link.scripts import ScriptCall
from jqmaster.store.link.shared_trips import MAX_TOGETHER, Reply

ROUND_S: Final = 1.0
# If shared looks have had no answer for this long, each shard looks for itself.
ANSWER_WITHIN_S: Final = 1.0


class QuietLook(Protocol):
    """The look at a quiet shard.

    * `look_call`: the call that reads the shard.
    * `entries_call`: a call that reads less. The shard is unchanged if it returns `facts_without_entries`.
    * `facts_without_entries`: empty if the shard has entries. Then only `look_call` shows whether it is unchanged.
    """

    entries_call: ScriptCall
    facts_without_entries: bytes

    @property
    def look_call(self) -> ScriptCall: ...

    def is_unchanged(self, reply: Reply, sent_at_s: float, late_s: float) -> bool:
        """Take the reply to `look_call`. `sent_at_s`: when the call was sent. `late_s`: how much later than planned.
        Return whether the shard is unchanged since the last look at it."""
        ...

    def take_time(self, now_ms: int, sent_at_s: float, late_s: float) -> bool:
        """Take the store's time in the answer to `entries_call`. Return whether it changes nothing."""
        ...

    def wake(self) -> None:
        """Look at the shard now."""
        ...


class SharedLooks(PeriodicLoop):
    """One loop for each store. It reads all quiet shards, `MAX_TOGETHER` in a call. A shard's own `ShardLook` looks at
    it and acts if the shard has changed, or if its answer is late or an error."""

    is_vital = True

    def __init__(self, client: StoreClient, clock: Clock) -> None:
        super().__init__("shared_looks", clock, complaint="cannot look at quiet shards")
        self._client = client
        # When the next look at each shard is due, the earliest first.
        self._due_s: dict[QuietLook, float] = {}
        self._every_s: dict[QuietLook, float] = {}
        self._next_round_s = 0.0

    def join(self, member: QuietLook, every_s: float) -> None:
        """Read this shard every `every_s` seconds until it leaves."""
        self._every_s[member] = every_s
        # Join the shards that are read last, so that they share a call. If they already fill a call, begin another one.
        due_s = self._clock.monotonic_s() + every_s
        latest_s = next(reversed(self._due_s.values()), due_s)
        together = sum(1 for _ in takewhile(latest_s.__eq__, reversed(self._due_s.values())))
        self._due_s[member] = min(due_s, latest_s) if together < MAX_TOGETHER else due_s
        self._wake.set()

    def leave(self, member: QuietLook) -> None:
        """Stop reading this shard."""
        self._due_s.pop(member, None)
        self._every_s.pop(member, None)

    async def _pause(self, seconds: float) -> None:
        if not self._due_s:
            self._wake.clear()
            await self._wake.wait()
        self._next_round_s = self._clock.monotonic_s() + seconds
        await self._clock.sleep(seconds)

    async def _round(self) -> float:
        now_s = self._clock.monotonic_s()
        late_s = max(0.0, now_s - self._next_round_s)
        due = [member for member, due_s in self._due_s.items() if due_s <= now_s]
        for page in pages(due, MAX_TOGETHER):
            await self._look([member for member in page if member in self._due_s], late_s)
        return ROUND_S

    async def _look(self, members: Sequence[QuietLook], late_s: float) -> None:
        sent_at_s = self._clock.monotonic_s()
        late = asyncio.get_running_loop().call_later(ANSWER_WITHIN_S, _wake_all, members)
        changed = members
        try:
            # Ignore errors here: the shard's own look will have the same error, and reports it.
            with contextlib.suppress(JqmasterError):
                changed = await self._changed(members, sent_at_s, late_s)
        finally:
            late.cancel()
        # Skip members that left while the calls were under way.
        for member in changed:
            if member in self._every_s:
                member.wake()
        for member in members:
            if (every_s := self._every_s.get(member)) is not None:
                del self._due_s[member]
                self._due_s[member] = sent_at_s + every_s

    async def _changed(
        self, members: Sequence[QuietLook], sent_at_s: float, late_s: float
    ) -> list[QuietLook]:
        """Return the members that have changed, or whose answers are errors."""
        empty = [member for member in members if member.facts_without_entries]
        others = [member for member in members if not member.facts_without_entries]
        changed = list[QuietLook]()

        def judge(member: QuietLook, is_unchanged: Callable[..., bool], found: Any) -> None:
            try:
                if member in self._every_s and is_unchanged(found, sent_at_s, late_s):
                    return
            except Exception:  # noqa: S110 - the shard's own look will have the same error, and reports it
                pass
            changed.append(member)

        answers = await self._client.run_joined([member.entries_call for member in empty]) if empty else ()
        for part, data in answers:
            if isinstance(data, Exception):
                others += empty[part]
                continue
            now_ms, facts = data
            for member, found in zip(empty[part], facts, strict=True):
                if found == member.facts_without_entries:
                    judge(member, member.take_time, now_ms)
                else:
                    changed.append(member)
        replies = await self._client.run_shards([member.look_call for member in others]) if others else ()
        for member, reply in zip(others, replies, strict=True):
            if isinstance(reply, Exception):
                changed.append(member)
            else:
                judge(member, member.is_unchanged, reply)
        return changed


def _wake_all(members: Sequence[QuietLook]) -> None:
    for member in members:
        member.wake()
