"""Register this master in a shard, and describe it in each of its heartbeats."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

from jqmaster.clock import Clock, DueTime, sleep_to_tick
from jqmaster.domain.operations.master import ANSWER_LIVES_S, MasterRecord, Pace
from jqmaster.errors import JqmasterError
from jqmaster.lifecycle import BackgroundLoops
from jqmaster.live_value import LiveValue
from jqmaster.runtime.leadership.heartbeats import Heartbeats
from jqmaster.store.leadership.masters import BeatAnswer, MasterStore
from jqmaster.store.link.scripts import ScriptCall

logger = logging.getLogger(__name__)

LEAVE_WITHIN_S: Final = 1.0


class Membership:
    """Component: registers this master. `beats`, the heartbeats of the shard's store, sends all further heartbeats.

    * `describe`: called once, with the store time of the start.
    * `duty_faults`: its result is part of each heartbeat in full.
    * `faults`: failing loops, which `duty_faults` describes.
    * `on_answer`: gets the answer to each heartbeat, with the time at which it was sent. Returns whether the shard's
      components have all that the answer names.
    * `fresh`: until when the last answer counts as current.
    """

    def __init__(
        self,
        store: MasterStore,
        clock: Clock,
        *,
        name: str,
        beats: Heartbeats,
        pace: LiveValue[Pace],
        describe: Callable[[int], Awaitable[MasterRecord]],
        duty_faults: Callable[[], Mapping[str, str]],
        faults: Collection[str] = (),
        on_answer: Callable[[BeatAnswer, float], bool] = lambda answer, sent_at_s: True,
        fresh: DueTime | None = None,
    ) -> None:
        self.name = name
        self.faults = faults
        self.fresh = fresh or DueTime()
        self.facts: bytes | None = None
        self._store = store
        self._clock = clock
        self._beats = beats
        self.pace = pace
        self._describe = describe
        self._duty_faults = duty_faults
        self._on_answer = on_answer
        self._record: MasterRecord | None = None
        self._answer: BeatAnswer | None = None
        self._loops = BackgroundLoops("membership", is_vital=True)

    async def start(self) -> None:
        self._loops.spawn("join", self._join)

    async def stop(self) -> None:
        """Unregister, so that the other masters need not wait until they notice the silence."""
        await self._loops.stop()
        if self._record is None:
            return
        # best effort: the record of a silent master is removed anyway.
        with contextlib.suppress(JqmasterError, TimeoutError):
            async with asyncio.timeout(LEAVE_WITHIN_S):
                await self._beats.leave(self)
                await self._store.forget(self._record.id)

    def heartbeat(self) -> ScriptCall:
        """Return the call that sends the next heartbeat in full."""
        assert self._record
        self._record = replace(self._record, duty_faults=dict(self._duty_faults()))
        return self._store.heartbeat(self._record.id, self._store.encoded(self._record))

    def tell(self) -> None:
        """Send the next heartbeat in full, because a fault that it describes has begun or ended."""
        self.facts = None

    @cached_property
    def repeated(self) -> ScriptCall:
        """Return the call that repeats a heartbeat."""
        assert self._record
        return self._store.repeated(self._record.id)

    def take(self, data: Sequence[Any], sent_at_s: float) -> bool:
        """Take the answer to a heartbeat in full."""
        self._answer = self._store.answer(data)
        return self._on_answer(self._answer, sent_at_s)

    def take_seen(self, leader_seen_ms: int, now_ms: int, sent_at_s: float) -> bool:
        """Take the last answer again, with a newer heartbeat of the leader."""
        assert self._answer
        leader = (self._answer.leader[0], leader_seen_ms) if self._answer.leader else None
        self._answer = self._answer._replace(now_ms=now_ms, leader=leader)
        return self._on_answer(self._answer, sent_at_s)

    async def _join(self) -> None:
        while True:
            try:
                if self._record is None:
                    self._record = await self._describe((await self._store.look()).now_ms)
                sent_at_s = self._clock.monotonic_s()
                self._record = replace(self._record, duty_faults=dict(self._duty_faults()))
                if self._on_answer(await self._store.beat(self._record), sent_at_s):
                    self.fresh.at_s = sent_at_s + ANSWER_LIVES_S
            except JqmasterError as exc:
                logger.warning("cannot send the heartbeat of this master: %s", exc.detail)
                await sleep_to_tick(self._clock, self.pace.current.beat_s)
            else:
                self._beats.join(self)
                return
