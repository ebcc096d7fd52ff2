"""Send this master's heartbeats to the store."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Final

from jqmaster.clock import Clock
from jqmaster.domain.operations.master import MasterRecord, Pace
from jqmaster.errors import JqmasterError
from jqmaster.live_value import LiveValue
from jqmaster.runtime.periodic_loop import PeriodicLoop
from jqmaster.store.leadership.masters import BeatAnswer, MasterStore

LEAVE_WITHIN_S: Final = 1.0


class Membership(PeriodicLoop):
    """Component. `describe`: called once, with the store time of the start. `duty_faults`: its result is part of each
    heartbeat. `on_answer`: gets the answer to each heartbeat, with the time at which it was sent.

    It shares the event loop with everything else on purpose, so that a master whose loop stands still falls silent.
    """

    is_vital = True

    def __init__(
        self,
        store: MasterStore,
        clock: Clock,
        *,
        pace: LiveValue[Pace],
        describe: Callable[[int], Awaitable[MasterRecord]],
        duty_faults: Callable[[], Mapping[str, str]],
        on_answer: Callable[[BeatAnswer, float], None] = lambda answer, sent_at_s: None,
    ) -> None:
        super().__init__("membership", clock, complaint="cannot say that this master lives")
        self._store = store
        self._pace = pace
        self._describe = describe
        self._duty_faults = duty_faults
        self._on_answer = on_answer
        self._record: MasterRecord | None = None

    async def stop(self) -> None:
        """Unregister, so that the others do not have to notice the silence."""
        await super().stop()
        if self._record is None:
            return
        # best effort: silent masters are removed anyway.
        with contextlib.suppress(JqmasterError, TimeoutError):
            async with asyncio.timeout(LEAVE_WITHIN_S):
                await self._store.forget(self._record.id)

    async def _round(self) -> float:
        if self._record is None:
            self._record = await self._describe((await self._store.look()).now_ms)
        sent_at_s = self._clock.monotonic_s()
        answer = await self._store.beat(replace(self._record, duty_faults=self._duty_faults()))
        self._on_answer(answer, sent_at_s)
        return self._pace.current.beat_s

    def _retry_after_s(self) -> float:
        return self._pace.current.beat_s
