"""Remove finished jobs and results after their retention, in bounded steps."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from jqmaster.clock import Clock
from jqmaster.domain.jobs.job import JobState
from jqmaster.live_value import LiveValue
from jqmaster.runtime.periodic_loop import LeaderLoop
from jqmaster.store.jobs.retention import Retention, RetentionStore
from jqmaster.store.leadership.leadership import Leadership
from jqmaster.store.operations.looks import Look

POLL_S: Final = 1.0
# How long to pause after a round that removed nothing. The pause is longer, so that an idle store is queried less
# often.
IDLE_POLL_S: Final = 3.0
# After this many full steps, pause, so that other duties get their turns.
MAX_STEPS: Final = 20
# Jobs that other jobs need are checked again after one more retention, within these bounds.
MIN_AGAIN_S: Final = 3.0
MAX_AGAIN_S: Final = 600.0


class Sweeper(LeaderLoop):
    """A duty of one leadership: removes jobs and results after their retention.

    * `retention`: the limits for each final state.
    * `archives_logs`: whether logs of removed jobs go to the archive.
    """

    is_vital = False
    poll_s = IDLE_POLL_S

    def __init__(
        self,
        leadership: Leadership,
        store: RetentionStore,
        clock: Clock,
        *,
        retention: LiveValue[Mapping[JobState, Retention]],
        on_stale: Callable[[], None],
        archives_logs: bool = False,
    ) -> None:
        super().__init__("sweeper", clock, complaint="cannot sweep", on_stale=on_stale, retry_s=IDLE_POLL_S)
        self._epoch = leadership.epoch
        self._store = store
        self._retention = retention
        self._archives_logs = archives_logs
        # By state: the number of jobs past their retention that other jobs still need, and when this count began.
        self._passed: dict[JobState | None, int] = {}
        self._since_s: dict[JobState | None, float] = {}

    async def _round(self) -> float:
        found_some = False
        # The key None stands for the index of results, the other keys for the states of jobs.
        left = dict[JobState | None, Retention]([*self._retention.current.items(), (None, Retention(0, 0))])
        self._begin_again(left)
        for _ in range(MAX_STEPS):
            swept = await self._store.sweep_all(
                self._epoch, left, passed=self._passed, archives_logs=self._archives_logs
            )
            for state, one in swept.items():
                found_some = found_some or one.removed > 0
                self._passed[state] = self._passed.get(state, 0) + one.kept
            left = {state: limits for state, limits in left.items() if swept[state].has_more}
            if not left:
                break
        return POLL_S if found_some else IDLE_POLL_S

    def due_ms(self, look: Look) -> int:
        """Return the milliseconds until a job or result is past its retention. -1: there is none yet."""
        dues = [limits.ms - passed_ms for limits, _, passed_ms in self._finished(look)]
        dues = [ms for ms in (*dues, look.results) if ms > 0]
        return min(dues, default=-1)

    def has_some(self, look: Look) -> bool:
        """Return whether jobs or results are past their retention, or there are too many jobs. Other jobs may still
        need some of them."""
        return look.results == 0 or any(
            passed_ms >= limits.ms or count > limits.most for limits, count, passed_ms in self._finished(look)
        )

    def _finished(self, look: Look) -> Iterator[tuple[Retention, int, int]]:
        retention = self._retention.current
        for state, (count, passed_ms) in look.finished.items():
            yield retention[state], count, passed_ms

    def _begin_again(self, retention: Mapping[JobState | None, Retention]) -> None:
        """Check jobs again that were kept long ago, because they may not be needed any more."""
        now_s = self._clock.monotonic_s()
        for state, limits in retention.items():
            again_s = min(max(limits.ms / 1000, MIN_AGAIN_S), MAX_AGAIN_S)
            if now_s - self._since_s.get(state, -again_s) >= again_s:
                self._since_s[state] = now_s
                self._passed[state] = 0
