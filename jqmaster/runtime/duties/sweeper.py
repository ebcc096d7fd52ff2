"""Remove what is over and no longer kept, in bounded steps."""

from collections.abc import Callable, Mapping
from typing import Final

from jqmaster.clock import Clock
from jqmaster.domain.jobs.job import JobState
from jqmaster.live_value import LiveValue
from jqmaster.runtime.periodic_loop import LeaderLoop
from jqmaster.store.jobs.retention import RetentionStore
from jqmaster.store.leadership.leadership import Leadership
from jqmaster.store.link.pages import MAX_PER_CALL

POLL_S: Final = 1.0
# The pause after a round that found nothing: what is over stays a little longer, and an idle store is queried less.
IDLE_POLL_S: Final = 3.0
# After this many full steps other duties get a turn; a backlog of finished jobs can wait.
MAX_STEPS: Final = 20


class Sweeper(LeaderLoop):
    """Component of one leadership. `retention` gives the milliseconds and the maximum number of jobs for each final
    state. `archives_logs`: logs of these jobs go to the archive."""

    def __init__(
        self,
        leadership: Leadership,
        store: RetentionStore,
        clock: Clock,
        *,
        retention: LiveValue[Mapping[JobState, tuple[int, int]]],
        on_stale: Callable[[], None],
        archives_logs: bool = False,
    ) -> None:
        super().__init__("sweeper", clock, complaint="cannot sweep", on_stale=on_stale, retry_s=IDLE_POLL_S)
        self._epoch = leadership.epoch
        self._store = store
        self._retention = retention
        self._archives_logs = archives_logs

    async def _round(self) -> float:
        found_some = False
        # None stands for the kept results.
        left = dict[JobState | None, tuple[int, int]]([*self._retention.current.items(), (None, (0, 0))])
        for _ in range(MAX_STEPS):
            removed = await self._store.sweep_all(self._epoch, left, archives_logs=self._archives_logs)
            found_some = found_some or any(removed.values())
            left = {state: limits for state, limits in left.items() if removed[state] == MAX_PER_CALL}
            if not left:
                break
        return POLL_S if found_some else IDLE_POLL_S
