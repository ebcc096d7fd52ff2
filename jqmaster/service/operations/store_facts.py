"""Reads facts from the store for metrics, with a few bounded reads."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from jqmaster.domain.constraints.constraint import Constraint
from jqmaster.domain.constraints.weight import THOUSAND
from jqmaster.domain.workers.worker import Worker
from jqmaster.live_value import LiveValue
from jqmaster.service.constraints.reader import ConstraintReader, Usage
from jqmaster.service.operations.metrics import Saturation, StoreFacts
from jqmaster.store.health.inspect import Inspector
from jqmaster.store.leadership.leadership import LeadershipStore
from jqmaster.store.logs.logs import LogStore
from jqmaster.store.operations.demand import DemandStore
from jqmaster.store.operations.history import HistoryStore, Waiting
from jqmaster.store.workers.workers import WorkerStore

MAX_NAMES_READ: Final = 10_000
STANDINGS: Final = ("fresh", "stale", "draining", "detached")


class StoreFactsReader:
    """Reads facts from the store.

    * `stale_ms`: the time without a heartbeat after which a worker counts as silent.
    * `log_retention_ms`: the age at which logs are archived. None: there is no archive.
    """

    def __init__(
        self,
        inspector: Inspector,
        workers: WorkerStore,
        constraints: ConstraintReader,
        leadership: LeadershipStore,
        history: HistoryStore,
        *,
        demand: DemandStore,
        logs: LogStore,
        log_retention_ms: LiveValue[int] | None,
        stale_ms: LiveValue[int],
    ) -> None:
        self._inspector = inspector
        self._workers = workers
        self._constraints = constraints
        self._leadership = leadership
        self._history = history
        self._demand = demand
        self._logs = logs
        self._log_retention_ms = log_retention_ms
        self._stale_ms = stale_ms

    async def read(self) -> StoreFacts:
        """Read the facts. Raise what `StoreClient.run` raises."""
        everybody, now_ms = await self._workers.all_with_time()
        workers = [worker for worker in everybody if not worker.spec.is_built_in]
        standings = [_standing(worker, now_ms, self._stale_ms.current) for worker in workers]
        kinds = Counter(standings)
        fresh = [worker for worker, kind in zip(workers, standings, strict=True) if kind == "fresh"]
        busy = sum(worker.busy for worker in fresh)
        ready = await self._inspector.names_ready(MAX_NAMES_READ)
        # The leader samples the longest-waiting ready job of each name every few seconds. If a name is not in the
        # sample, the wait is unknown.
        sample = await self._history.backlog()
        sampled = sample.names if sample else {}
        return StoreFacts(
            jobs=await self._inspector.counts(),
            ready={
                name: (
                    count,
                    max(0, now_ms - sampled[name].since_ms) if _is_known(sampled.get(name)) else None,
                )
                for name, count in ready.items()
                if count > 0
            },
            running=(await self._demand.running()).by_name(),
            slots_by_name=_slots_by_name(fresh),
            startable_wait_ms={
                name: max(0, now_ms - waiting.startable_since_ms)
                for name, waiting in sampled.items()
                if waiting.startable_since_ms
            },
            constraints=[_saturation(s.constraint, usage) for s, usage in await self._constraints.all()],
            workers={kind: kinds[kind] for kind in STANDINGS},
            slots={"busy": busy, "free": max(0, sum(worker.spec.max_jobs for worker in fresh) - busy)},
            epoch=await self._leadership.newest_number(),
            log_bytes=await self._logs.total_bytes(),
            log_archive_lag_ms=await self._archive_lag_ms(now_ms),
        )

    async def _archive_lag_ms(self, now_ms: int) -> int:
        if self._log_retention_ms is None:
            return 0
        since_ms = await self._logs.due_since_ms(self._log_retention_ms.current)
        return 0 if since_ms is None else max(0, now_ms - since_ms)


def _slots_by_name(workers: Sequence[Worker]) -> Counter[str]:
    """Return, by name, the number of slots that may run its jobs. A worker that serves several names counts for each of
    them."""
    found = Counter[str]()
    for worker in workers:
        found.update(dict.fromkeys(worker.spec.names, worker.spec.max_jobs))
    return found


def _is_known(waiting: Waiting | None) -> bool:
    return waiting is not None and waiting.since_ms > 0


def _standing(worker: Worker, now_ms: int, stale_ms: int) -> str:
    if worker.is_detached:
        return "detached"
    if not worker.is_fresh(now_ms, stale_ms):
        return "stale"
    return "draining" if worker.is_draining else "fresh"


def _saturation(constraint: Constraint, usage: Usage) -> Saturation:
    return Saturation(
        constraint.name,
        # Count as the limit does: jobs or, with a weight, whole units.
        usage.running if usage.running_units is None else usage.running_units // THOUSAND,
        constraint.concurrency,
        usage.waiting,
    )
