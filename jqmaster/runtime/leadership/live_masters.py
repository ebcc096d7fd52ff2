"""The masters of an installation that are alive, by this process's clock."""

from dataclasses import dataclass
from typing import Final

from jqmaster.clock import Clock
from jqmaster.domain.operations.master import Pace
from jqmaster.live_value import LiveValue
from jqmaster.store.leadership.masters import MasterRegistry

# The shortest silence after which a master may count as dead.
MIN_SILENCE_S: Final = 3.0


@dataclass(slots=True)
class _Heard:
    """A master.

    * `seen_ms`: the store time of its last heartbeat.
    * `heard_s`: when this process noticed that heartbeat.
    * `since_s`: since when it has been alive without a break.
    """

    seen_ms: int
    heard_s: float
    since_s: float


class LiveMasters:
    """Judges silence by this process's clock, and counts no time in which it did not look. So neither a step of the
    store's clock nor an outage of the store makes a living master look dead.

    `ids`: the masters that were alive at the last look; empty before the first one.
    """

    def __init__(self, clock: Clock, pace: LiveValue[Pace]) -> None:
        self._clock = clock
        self._pace = pace
        self._heard: dict[str, _Heard] = {}
        self._looked_s = clock.monotonic_s()
        self.ids: frozenset[str] = frozenset()

    @property
    def silence_s(self) -> float:
        """Return the silence after which a master counts as dead."""
        return max(self._pace.current.fresh_ms / 1000, MIN_SILENCE_S)

    def take(self, masters: MasterRegistry) -> None:
        """Take the registered masters that a look has found."""
        now_s = self._clock.monotonic_s()
        unwatched_s, self._looked_s = max(0.0, now_s - self._looked_s - self.silence_s / 2), now_s
        known, self._heard = self._heard, {}
        for one in masters.seen:
            if heard := known.get(one.record.id):
                heard.heard_s += unwatched_s
            else:
                silent_s = max(0, masters.now_ms - one.last_seen_ms) / 1000
                heard = _Heard(one.last_seen_ms, now_s - silent_s, now_s)
            if heard.seen_ms != one.last_seen_ms:
                if not self._is_alive(heard, now_s):
                    heard.since_s = now_s
                heard.seen_ms, heard.heard_s = one.last_seen_ms, now_s
            self._heard[one.record.id] = heard
        self.ids = frozenset(
            master_id for master_id, heard in self._heard.items() if self._is_alive(heard, now_s)
        )

    def alive_s(self, master_id: str) -> float:
        """Return how long this process has known the master to be alive. 0: it is not."""
        if master_id not in self.ids:
            return 0.0
        return self._clock.monotonic_s() - self._heard[master_id].since_s

    def _is_alive(self, heard: _Heard, now_s: float) -> bool:
        return now_s - heard.heard_s <= self.silence_s
