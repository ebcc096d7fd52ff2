"""Write to the timeline what happens to the masters, the workers and the store."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from jqmaster.clock import Clock, SharedRests
from jqmaster.domain.operations.timeline import (
    KnownState,
    LeaderCause,
    OldBacklog,
    QueueSeen,
    StoreOutage,
)
from jqmaster.domain.workers.worker import Worker
from jqmaster.runtime.periodic_loop import LeaderLoop
from jqmaster.store.leadership.leadership import Leadership
from jqmaster.store.operations.history import BacklogSample
from jqmaster.store.operations.timeline import TimelineStore

POLL_S: Final = 1.0
# The number of ticks of `SharedRests` between two checks for an outage of the store or a new sample of the backlog.
ASKED_EVERY: Final = 4

# A function that receives the ID of the former leader, and returns why it no longer leads and who demoted it.
EndOfLead = Callable[[str], Awaitable[tuple[LeaderCause, str]]]


class TimelineKeeper(LeaderLoop):
    """A duty of one leadership: writes new entries of the timeline. It reads nothing by itself:

    * The failure detector gives it the workers (`look`).
    * `StoreHealth` gives it the `outages` of the store, in monotonic seconds.
    * The sampler gives it the `backlog`.
    """

    is_vital = False

    def __init__(
        self,
        leadership: Leadership,
        timeline: TimelineStore,
        clock: Clock,
        *,
        label: str,
        outages: Callable[[], Sequence[tuple[float, float]]],
        backlog: Callable[[], BacklogSample | None],
        end_of_lead: EndOfLead,
        on_stale: Callable[[], None],
        rests: SharedRests | None = None,
    ) -> None:
        super().__init__(
            "timeline", clock, complaint="cannot write the timeline", on_stale=on_stale, retry_s=POLL_S
        )
        self._rests = rests or SharedRests(clock)
        self._leadership = leadership
        self._timeline = timeline
        self._label = label
        self._outages = outages
        self._backlog = backlog
        self._end_of_lead = end_of_lead
        self._seen: tuple[Sequence[Worker], int, float] | None = None
        self._known: KnownState | None = None
        # The workers and the backlog that the last round compared.
        self._compared: tuple[object, object] = (None, None)
        # When the last recorded outage ended, by the monotonic clock, because the store's clock may step.
        self._told_until_s = float("-inf")

    def look(self, workers: Sequence[Worker], now_ms: int) -> None:
        """Take the registered workers at this store time."""
        self._seen = workers, now_ms, self._clock.monotonic_s()
        self._wake.set()

    async def _round(self) -> float:
        if self._seen is None:
            return POLL_S
        workers, now_ms, now_s = self._seen
        leader = (self._leadership.master_id, self._label)
        known = self._known or await self._timeline.known()
        cause, by = LeaderCause.ENDED, ""
        if known and known.leader[0] != leader[0]:
            cause, by = await self._end_of_lead(known.leader[0])
        sample, away = self._backlog(), self._new_outages()
        outages = [
            StoreOutage(now_ms - round(1000 * (now_s - since_s)), now_ms - round(1000 * (now_s - until_s)))
            for since_s, until_s in away
        ]
        seen = QueueSeen(now_ms, leader, workers, outages, _old_backlog(sample), cause, by)
        new, entries = known.compare(seen) if known else (KnownState.first(seen), [])
        if entries or new != known:
            await self._timeline.note(self._leadership.epoch, new, entries)
        self._known, self._compared = new, (self._seen, sample)
        self._told_until_s = max([self._told_until_s, *(until_s for _, until_s in away)])
        return POLL_S

    async def _sleep(self, seconds: float) -> None:
        if self._has_news():
            await super()._sleep(seconds)
            self._wake.clear()
        else:
            await self._rests.wait(self._wake, self._has_news, every=ASKED_EVERY)

    def _has_news(self) -> bool:
        seen, sample = self._compared
        # Compare identities: each look and each sample creates a new object.
        if seen is not self._seen or sample is not self._backlog():
            return True
        # The last entry is the newest outage.
        outages = self._outages()
        return bool(outages) and outages[-1][1] > self._told_until_s

    def _new_outages(self) -> list[tuple[float, float]]:
        return [one for one in self._outages() if one[1] > self._told_until_s]


def _old_backlog(sample: BacklogSample | None) -> OldBacklog | None:
    if sample is None or not sample.whole.startable_since_ms:
        return None
    whole = sample.whole
    name = next(
        (
            name
            for name, one in sample.names.items()
            if one.startable_job_id == whole.startable_job_id and one.startable_since_ms
        ),
        "",
    )
    return OldBacklog(name, whole.startable_job_id, whole.ready, whole.startable_since_ms)
