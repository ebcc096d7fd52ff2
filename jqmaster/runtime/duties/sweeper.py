"""Removes what is over and no longer kept, in bounded steps."""

import logging
from collections.abc import Callable, Mapping
from typing import Final

from jqmaster.clock import Clock, sleep_to_tick
from jqmaster.domain.job import JobState
from jqmaster.errors import JqmasterError
from jqmaster.lifecycle import BackgroundLoops
from jqmaster.store.jobs.retention import RetentionStore
from jqmaster.store.leadership.leadership import Leadership
from jqmaster.store.link.pages import MAX_PER_CALL

logger = logging.getLogger(__name__)

POLL_S: Final = 1.0
# After a round that found nothing: what is over stays a little longer, and an idle store is asked less.
IDLE_POLL_S: Final = 3.0
# After this many full steps others get a turn; a backlog of finished jobs is no emergency.
MAX_STEPS: Final = 20


class Sweeper:
    """Component of one leadership. `retention` gives milliseconds and the most jobs for each final state."""

    def __init__(
        self,
        leadership: Leadership,
        store: RetentionStore,
        clock: Clock,
        *,
        retention: Mapping[JobState, tuple[int, int]],
        on_stale: Callable[[], None],
    ) -> None:
        self._epoch = leadership.epoch
        self._store = store
        self._clock = clock
        self.tune(retention=retention)
        self._on_stale = on_stale
        self._loops = BackgroundLoops("sweeper")
        self._found_some = False

    def tune(self, *, retention: Mapping[JobState, tuple[int, int]]) -> None:
        """Change settings, from the next round on."""
        self._retention = retention

    async def start(self) -> None:
        self._loops.spawn("rounds", self._run)

    async def stop(self) -> None:
        await self._loops.stop()

    async def _run(self) -> None:
        while True:
            try:
                if not await self._round():
                    self._on_stale()
                    return
            except JqmasterError as exc:
                logger.warning("cannot sweep: %s", exc.detail)
            await sleep_to_tick(self._clock, POLL_S if self._found_some else IDLE_POLL_S)

    async def _round(self) -> bool:
        """False under a stale epoch."""
        self._found_some = False
        # None: the kept results.
        left = dict[JobState | None, tuple[int, int]]([*self._retention.items(), (None, (0, 0))])
        for _ in range(MAX_STEPS):
            removed = await self._store.sweep_all(self._epoch, left)
            if removed is None:
                return False
            self._found_some = self._found_some or any(removed.values())
            left = {state: limits for state, limits in left.items() if removed[state] == MAX_PER_CALL}
            if not left:
                break
        return True
