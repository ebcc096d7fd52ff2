"""Sample the ready jobs every few seconds, so that all masters know how many wait, and for how long."""

from collections.abc import Callable
from typing import Final

from jqmaster.clock import Clock
from jqmaster.domain.operations.tally import TOTAL, Tally
from jqmaster.runtime.periodic_loop import LeaderLoop
from jqmaster.store.leadership.leadership import Leadership
from jqmaster.store.operations.history import BacklogSample, HistoryStore

SAMPLE_S: Final = 2.0
# How long to pause after a sample that found no ready jobs. The pause ends earlier if a look at the shard finds some.
# The pause is short enough that each minute has a sample and that the newest sample does not expire.
IDLE_SAMPLE_S: Final = 50.0


class BacklogSampler(LeaderLoop):
    """A duty of one leadership: samples the backlog into `newest` and the counts of this process."""

    is_vital = False
    poll_s = SAMPLE_S
    rest_s = IDLE_SAMPLE_S

    def __init__(
        self,
        leadership: Leadership,
        history: HistoryStore,
        tally: Tally,
        clock: Clock,
        *,
        on_stale: Callable[[], None],
    ) -> None:
        super().__init__(
            "backlog_sampler",
            clock,
            complaint="cannot look at the backlog",
            on_stale=on_stale,
            retry_s=SAMPLE_S,
        )
        self._epoch = leadership.epoch
        self._history = history
        self._tally = tally
        # The last sample; None before the first.
        self.newest: BacklogSample | None = None
        # Whether the last sample, possibly of an earlier leader, may have found ready jobs. If so, a further sample
        # must record that they are gone.
        self.has_found = True

    async def _round(self) -> float:
        backlog = await self._history.sample_backlog()
        await self._history.put_backlog(self._epoch, backlog)
        self._count(backlog)
        self.newest = backlog
        self.has_found = backlog.whole.ready > 0
        return SAMPLE_S

    def _count(self, backlog: BacklogSample) -> None:
        for name, waiting in ((TOTAL, backlog.whole), *backlog.names.items()):
            age_ms = max(0, backlog.at_ms - waiting.since_ms) if waiting.since_ms else -1
            # Count an empty backlog as a sample, too.
            self._tally.sampled(name, waiting.ready, age_ms if waiting.ready else 0)
