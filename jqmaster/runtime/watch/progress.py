"""Measure whether a leader makes progress, by the data of the store and not by the leader's own belief."""

from collections.abc import Callable
from typing import Final, NamedTuple

from jqmaster.clock import Clock
from jqmaster.runtime.duties.dispatcher import Dispatcher
from jqmaster.runtime.duties.fleet import Fleet
from jqmaster.store.health.inspect import Inspector
from jqmaster.store.workers.workers import WorkerStore

# For how long after a claim a dispatcher with work counts as making progress. It claims every second, so a shorter time
# would cause false alarms.
QUIET_S: Final = 3.0
# An idle dispatcher is examined after this long without a round.
CALM_S: Final = 9.0


class Stall(NamedTuple):
    """A lack of progress. `what`: the part that makes no progress, for people; `seconds`: how long it has lasted."""

    seconds: float
    what: str


NO_STALL: Final = Stall(0.0, "")


class ProgressWatch:
    """Measures the progress of the leader. `dispatcher`: returns the dispatcher of the present leadership. None: this
    master does not lead."""

    def __init__(
        self,
        inspector: Inspector,
        workers: WorkerStore,
        fleet: Fleet,
        clock: Clock,
        *,
        dispatcher: Callable[[], Dispatcher | None],
    ) -> None:
        self._inspector = inspector
        self._workers = workers
        self._fleet = fleet
        self._clock = clock
        self._dispatcher = dispatcher
        self._idle_since_s: float | None = None

    def round_s(self) -> float:
        """Return the seconds since the dispatcher's last round; 0 if this master does not lead."""
        dispatcher = self._dispatcher()
        return 0.0 if dispatcher is None else self._clock.monotonic_s() - dispatcher.last_round_s

    def is_calm(self) -> bool:
        """Return whether a stall is ruled out. This check does not read the store."""
        dispatcher = self._dispatcher()
        return dispatcher is None or (
            dispatcher.is_idle and self._clock.monotonic_s() - dispatcher.last_round_s < CALM_S
        )

    async def stall(self) -> Stall:
        """Return the longest stall. Raise what `StoreClient.run` raises."""
        rounds = Stall(self.round_s(), "the dispatcher has made no round")
        return max(rounds, await self._idleness())

    async def unclaimed_jobs(self) -> dict[str, int]:
        """Return the number of ready jobs by name, for names with a free worker. Raise what `StoreClient.run`
        raises."""
        dispatcher = self._dispatcher()
        if dispatcher is not None and dispatcher.is_idle:
            return {}  # the last look read the same counts
        names = self._fleet.takers(*await self._workers.all_with_time())
        ready = await self._inspector.ready_counts(sorted(names))
        return {name: count for name, count in ready.items() if count}

    async def _idleness(self) -> Stall:
        """Return the time without an answered claim although jobs and workers wait. An empty claim counts as an
        answer: jobs that constraints hold back do not stall."""
        dispatcher, now_s = self._dispatcher(), self._clock.monotonic_s()
        if dispatcher is None or dispatcher.is_idle or now_s - dispatcher.claimed_at_s < QUIET_S:
            self._idle_since_s = None
            return NO_STALL
        ready = await self.unclaimed_jobs()
        if not ready:
            self._idle_since_s = None
            return NO_STALL
        if self._idle_since_s is None:
            self._idle_since_s = now_s
        waiting = ", ".join(f"{count} {name}" for name, count in list(ready.items())[:5])
        return Stall(
            now_s - max(self._idle_since_s, dispatcher.claimed_at_s),
            f"workers are free and jobs are ready ({waiting}), but none was claimed",
        )
