"""Says of this master that it lives, where the others can see it."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from jqmaster.clock import Clock, sleep_to_tick
from jqmaster.domain.master import MasterRecord, Pace
from jqmaster.errors import JqmasterError
from jqmaster.lifecycle import BackgroundLoops
from jqmaster.live_value import LiveValue
from jqmaster.store.leadership.masters import MasterStore

logger = logging.getLogger(__name__)

LEAVE_WITHIN_S: Final = 1.0


class Membership:
    """Component. `describe` is called once, when it starts, with the store time at which it did.

    On the event loop of everything else on purpose: a master that stands still must look as if it does.
    """

    def __init__(
        self,
        store: MasterStore,
        clock: Clock,
        *,
        pace: LiveValue[Pace],
        describe: Callable[[int], Awaitable[MasterRecord]],
    ) -> None:
        self._store = store
        self._clock = clock
        self._pace = pace
        self._describe = describe
        self._record: MasterRecord | None = None
        self._loops = BackgroundLoops("membership")

    async def start(self) -> None:
        self._loops.spawn("beats", self._run)

    async def stop(self) -> None:
        """Leaves: nobody need find out that this master is gone."""
        await self._loops.stop()
        if self._record is None:
            return
        # best effort: who falls silent is forgotten as well.
        with contextlib.suppress(JqmasterError, TimeoutError):
            async with asyncio.timeout(LEAVE_WITHIN_S):
                await self._store.forget(self._record.id)

    async def _run(self) -> None:
        while True:
            try:
                if self._record is None:
                    self._record = await self._describe((await self._store.look()).now_ms)
                await self._store.beat(self._record)
            except JqmasterError as exc:
                logger.warning("cannot say that this master lives: %s", exc.detail)
            await sleep_to_tick(self._clock, self._pace.current.beat_s)
