"""The current figures of all namespaces."""

import asyncio
from dataclasses import dataclass, replace
from typing import Final

from jqmaster.clock import Clock
from jqmaster.domain.jobs.job import STATES, JobState, Phase
from jqmaster.domain.namespaces.move import FAILED_SHOWN_MS
from jqmaster.domain.namespaces.namespace import Namespace
from jqmaster.domain.operations.tally import TOTAL
from jqmaster.errors import JqmasterError, OutcomeUnknownError, StoreUnavailableError
from jqmaster.service.namespaces.places import Places
from jqmaster.service.namespaces.registry import NamespaceRegistry
from jqmaster.service.namespaces.troubles import unmended
from jqmaster.service.operations.remembered import Remembered
from jqmaster.store.health.inspect import Inspector
from jqmaster.store.jobs.records import RecordStore
from jqmaster.store.leadership.leadership import LeadershipStore
from jqmaster.store.link.shard import Shard
from jqmaster.store.namespaces.moves import MoveStore
from jqmaster.store.operations.history import STEP_MS, HistoryStore

# Time for which an answer is reused, for all callers.
LIVES_S: Final = 1.0
# Maximum number of namespaces that are read at the same time.
MAX_ASKED: Final = 16


@dataclass(frozen=True, slots=True)
class NamespaceFigures:
    """Figures of one namespace.

    * `leader_id`: None if no master leads.
    * `waiting`: the number of jobs that wait for any reason.
    * `oldest_wait_s`: how long the longest-waiting ready job has waited. None: no job is ready, or the wait is unknown.
    * `failures`: the number of attempts that failed in this hour or in the previous hour.
    """

    leader_id: str | None
    ready: int
    running: int
    waiting: int
    oldest_wait_s: float | None
    failures: int


@dataclass(frozen=True, slots=True)
class SeenNamespace:
    """A namespace with its figures.

    * `figures`: None if the namespace's data cannot be read.
    * `fault`: why the data cannot be read, or why an operator must repair the namespace's entry in the registry (see
      `unmended`). If the entry cannot be read, store and tag of the namespace are empty.
    * `failed_move`: why the newest move failed. Empty: it did not fail, or it failed more than a week ago.
    """

    namespace: Namespace
    figures: NamespaceFigures | None
    fault: str = ""
    failed_move: str = ""


class NamespaceOverview:
    """Reads the figures of all namespaces at most about once a second, however many callers ask. If a store does not
    answer, only the namespaces in that store have no figures."""

    def __init__(self, registry: NamespaceRegistry, places: Places, moves: MoveStore, clock: Clock) -> None:
        self._registry = registry
        self._places = places
        self._moves = moves
        self._seen = Remembered(clock, LIVES_S, self._look)

    async def all(self) -> list[SeenNamespace]:
        """Return all namespaces, the default one first and the others by name."""
        return await self._seen.get()

    async def _look(self) -> list[SeenNamespace]:
        turns = asyncio.Semaphore(MAX_ASKED)
        # Maps a store's name, or its client, to the reason why the store does not answer. Other namespaces of the store
        # then need not wait for it, too.
        away: dict[object, str] = {}

        async def seen(namespace: Namespace) -> SeenNamespace:
            async with turns:
                place: object = namespace.store
                try:
                    if (fault := away.get(place)) is None:
                        shard = await self._places.shard_of(namespace)
                        place = shard.client
                        if (fault := away.get(place)) is None:
                            return SeenNamespace(namespace, await self._figures(shard))
                except JqmasterError as exc:
                    fault = exc.detail
                    if isinstance(exc, StoreUnavailableError | OutcomeUnknownError):
                        away[place] = fault
                return SeenNamespace(namespace, None, fault)

        all_seen, failed, faults = await asyncio.gather(
            asyncio.gather(*map(seen, self._registry.current.values())),
            self._failed_moves(),
            self._unmended(),
        )
        unread = [Namespace(name, "", "", "faulted") for name in faults if name not in self._registry.current]
        default, *others = [*all_seen, *(SeenNamespace(one, None) for one in unread)]
        others.sort(key=lambda one: one.namespace.name)
        return [
            replace(
                one,
                fault=faults.get(name := one.namespace.name, one.fault),
                failed_move=failed.get(name, ""),
            )
            for one in (default, *others)
        ]

    async def _unmended(self) -> dict[str, str]:
        try:
            return await unmended(self._registry, self._moves)
        except JqmasterError:
            return {}  # the store of the registry is unreachable; the fault of its namespace reports that

    async def _failed_moves(self) -> dict[str, str]:
        names = [name for name, one in self._registry.current.items() if not one.is_default]
        if not names:
            return {}
        try:
            failed = await self._moves.failed(names, within_ms=FAILED_SHOWN_MS)
        except JqmasterError:
            return {}  # the store of the registry is unreachable; the fault of its namespace reports that
        return {name: one.reason for name, one in failed.items()}

    async def _figures(self, shard: Shard) -> NamespaceFigures:
        history = HistoryStore(shard, master_id="")
        leadership = await LeadershipStore(shard).current()
        counts = await Inspector(shard, RecordStore(shard)).counts()
        backlog, now_ms = await history.backlog(), await history.now_ms()
        hour = now_ms // STEP_MS["hour"]
        hours = await history.series(TOTAL, "hour", [hour - 1, hour])
        since_ms = backlog.whole.since_ms if backlog else 0
        return NamespaceFigures(
            leadership.master_id if leadership else None,
            counts[JobState.READY],
            counts[JobState.RUNNING],
            sum(count for state, count in counts.items() if STATES[state].phase is Phase.WAITING),
            max(0, now_ms - since_ms) / 1000 if since_ms else None,
            sum(one.failed + one.retried for one in hours if one),
        )
