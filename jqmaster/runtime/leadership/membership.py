"""Register this master in a shard, and describe it in each of its heartbeats."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from jqmaster.clock import Clock, sleep_to_tick
from jqmaster.domain.operations.master import MasterRecord, Pace
from jqmaster.errors import JqmasterError
from jqmaster.lifecycle import BackgroundLoops
from jqmaster.live_value import LiveValue
from jqmaster.runtime.leadership.heartbeats import Heartbeats
from jqmaster.store.leadership.masters import BeatAnswer, MasterStore
from jqmaster.store.link.scripts import ScriptCall

logger = logging.getLogger(__name__)

LEAVE_WITHIN_S: Final = 1.0


class Membership:
    """Component: registers this master, and leaves the further heartbeats to `beats`, those of the shard's store.

    * `describe`: called once, with the store time of the start.
    * `duty_faults`: its result is part of each heartbeat.
    * `on_answer`: gets the answer to each heartbeat, with the time at which it was sent.
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
        on_answer: Callable[[BeatAnswer, float], None] = lambda answer, sent_at_s: None,
    ) -> None:
        self.name = name
        self._store = store
        self._is_on_time = store.is_on_time
        self._clock = clock
        self._beats = beats
        self.pace = pace
        self._describe = describe
        self._duty_faults = duty_faults
        self._on_answer = on_answer
        self._record: MasterRecord | None = None
        # The call that sends this master's record.
        self._beat: ScriptCall | None = None
        self._loops = BackgroundLoops("membership", is_vital=True)

    async def start(self) -> None:
        self._loops.spawn("join", self._join)

    async def stop(self) -> None:
        """Unregister, so that the others do not have to notice the silence."""
        await self._loops.stop()
        if self._record is None:
            return
        # best effort: the record of a silent master is removed anyway.
        with contextlib.suppress(JqmasterError, TimeoutError):
            async with asyncio.timeout(LEAVE_WITHIN_S):
                await self._beats.leave(self)
                await self._store.forget(self._record.id)

    def heartbeat(self) -> ScriptCall:
        """Return the call that sends the next heartbeat."""
        assert self._record
        faults = self._duty_faults()
        if self._beat is None or faults != self._record.duty_faults or not self._is_on_time:
            self._record = replace(self._record, duty_faults=dict(faults))
            self._beat = self._store.heartbeat(self._record.id, self._store.encoded(self._record))
        return self._beat

    def take(self, data: Sequence[Any], sent_at_s: float) -> None:
        """Take the answer to a heartbeat."""
        self._on_answer(self._store.answer(data), sent_at_s)

    async def _join(self) -> None:
        while True:
            try:
                if self._record is None:
                    self._record = await self._describe((await self._store.look()).now_ms)
                sent_at_s = self._clock.monotonic_s()
                self._record = replace(self._record, duty_faults=dict(self._duty_faults()))
                self._on_answer(await self._store.beat(self._record), sent_at_s)
            except JqmasterError as exc:
                logger.warning("cannot send the heartbeat of this master: %s", exc.detail)
                await sleep_to_tick(self._clock, self.pace.current.beat_s)
            else:
                self._beats.join(self)
                return
