"""Record that this master is alive, where the others can see it."""

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
from jqmaster.store.leadership.masters import MasterStore

LEAVE_WITHIN_S: Final = 1.0


class Membership(PeriodicLoop):
    """Component. `describe` is called once, when it starts, with the store time at which it did. Each sign
    of life tells the other masters what `duty_faults` returns.

    It shares the event loop with everything else on purpose: a master that stands still must be seen to do so.
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
    ) -> None:
        super().__init__("membership", clock, complaint="cannot say that this master lives")
        self._store = store
        self._pace = pace
        self._describe = describe
        self._duty_faults = duty_faults
        self._record: MasterRecord | None = None

    async def stop(self) -> None:
        """Leave, so that the others do not have to find out that this master is gone."""
        await super().stop()
        if self._record is None:
            return
        # best effort: a master that falls silent is forgotten as well.
        with contextlib.suppress(JqmasterError, TimeoutError):
            async with asyncio.timeout(LEAVE_WITHIN_S):
                await self._store.forget(self._record.id)

    async def _round(self) -> float:
        if self._record is None:
            self._record = await self._describe((await self._store.look()).now_ms)
        await self._store.beat(replace(self._record, duty_faults=self._duty_faults()))
        return self._pace.current.beat_s

    def _retry_after_s(self) -> float:
        return self._pace.current.beat_s
