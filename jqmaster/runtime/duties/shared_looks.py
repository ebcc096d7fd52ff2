"""Look at all quiet shards that this master leads on one store, on behalf of their `ShardLook`s."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final, Protocol

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
    """The look at a quiet shard. `look_call` is the call that reads the shard."""

    @property
    def look_call(self) -> ScriptCall: ...

    def is_unchanged(self, reply: Reply, sent_at_s: float, late_s: float) -> bool:
        """Take the reply to a call that was sent at `sent_at_s`, `late_s` later than planned. Return whether the shard
        is unchanged since the last look at it."""
        ...

    def wake(self) -> None:
        """Look at the shard now."""
        ...


class SharedLooks(PeriodicLoop):
    """One loop for each store. It reads all quiet shards, `MAX_TOGETHER` in a call. If a shard has changed, or its
    answer is late or an error, its own `ShardLook` looks at it and acts."""

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
        self._due_s[member] = self._clock.monotonic_s() + every_s
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
        replies: Sequence[Reply | Exception]
        try:
            replies = await self._client.run_shards([member.look_call for member in members])
        except JqmasterError as exc:
            replies = [exc] * len(members)
        finally:
            late.cancel()
        for member, reply in zip(members, replies, strict=True):
            # Skip a member that left while the call was under way.
            if (every_s := self._every_s.get(member)) is None:
                continue
            is_unchanged = False
            # Ignore errors here: the shard's own look will have the same error, and reports it.
            with contextlib.suppress(Exception):
                is_unchanged = not isinstance(reply, Exception) and member.is_unchanged(
                    reply, sent_at_s, late_s
                )
            if not is_unchanged:
                member.wake()
            del self._due_s[member]
            self._due_s[member] = sent_at_s + every_s


def _wake_all(members: Sequence[QuietLook]) -> None:
    for member in members:
        member.wake()
