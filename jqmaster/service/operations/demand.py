"""Sums up the demand for workers. Autoscalers use it to scale a fleet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jqmaster.domain.constraints.constraint_set import ConstraintSet
from jqmaster.domain.jobs.reserved_names import RESERVED_PREFIX
from jqmaster.domain.matching.requirement import is_met, name_of, queues_for
from jqmaster.live_value import LiveValue
from jqmaster.service.constraints.cache import ConstraintCache
from jqmaster.store.operations.demand import MAX_LANES, AskedQueue, DemandStore, RunningJobs
from jqmaster.store.workers.workers import WorkerStore


@dataclass(frozen=True, slots=True)
class Demand:
    """The jobs that need slots, and the slots that workers offer.

    * `ready`: the number of jobs that would start now if slots were free.
    * `blocked`: the number of ready jobs that a constraint holds back.
    * `slots`: the slots of the live workers that may run the jobs.
    * `oldest_wait_s`: how long the longest-waiting job of `ready` has waited. None: there is no such job.
    * `is_exact`: False if there may be more jobs than these numbers say.
    """

    ready: int
    blocked: int
    running: int
    slots: int
    oldest_wait_s: float | None
    is_exact: bool

    @property
    def demand(self) -> int:
        """Return the number of slots that the running and ready jobs need."""
        return self.ready + self.running


class DemandService:
    """Sums up the demand for workers. `stale_ms`: the time without a heartbeat after which a worker counts as silent.
    Methods raise what `StoreClient.run` raises."""

    def __init__(
        self,
        store: DemandStore,
        workers: WorkerStore,
        constraints: ConstraintCache,
        *,
        stale_ms: LiveValue[int],
    ) -> None:
        self._store = store
        self._workers = workers
        self._constraints = constraints
        self._stale_ms = stale_ms

    async def of(self, names: Sequence[str], labels: Mapping[str, str]) -> Demand:
        """Sum up the jobs of these names, and the workers that serve the names. Without names, count all jobs and
        workers. With `labels`, count only jobs that a worker with these labels may run, and only workers that have the
        labels."""
        fleet = await self._workers.fleet()
        constraints = (await self._constraints.reload()).constraint_set
        is_cut = False
        wanted = list(dict.fromkeys(names))
        if not names:
            wanted = [name for name in await self._store.names() if not name.startswith(RESERVED_PREFIX)]
            wanted, is_cut = wanted[:MAX_LANES], len(wanted) > MAX_LANES
        queues = [*wanted, *_queues(wanted, labels, fleet.queues)]
        seen = await self._store.look([AskedQueue(queue, _is_keyed(constraints, queue)) for queue in queues])
        able = [worker for worker in fleet.workers if is_met(labels, worker.spec.labels)]
        is_asked = frozenset(wanted)
        stale_ms = self._stale_ms.current
        return Demand(
            ready=seen.ready,
            blocked=seen.blocked,
            running=_running(seen.running, is_asked, {worker.id for worker in able} if labels else None),
            slots=sum(
                worker.spec.max_jobs
                for worker in able
                if worker.state(fleet.now_ms, stale_ms) == "fresh"
                and not worker.spec.is_built_in
                and not (names and is_asked.isdisjoint(worker.spec.names))
            ),
            oldest_wait_s=None
            if seen.ready_since_ms is None
            else max(0, seen.now_ms - seen.ready_since_ms) / 1000,
            is_exact=seen.is_exact and seen.running.is_whole and not is_cut,
        )


def _queues(names: Sequence[str], labels: Mapping[str, str], queues: Sequence[str]) -> list[str]:
    """Return the queues with the jobs of these names that require labels. If `labels` are given, leave out queues whose
    jobs a worker with these labels may not run."""
    if labels:
        return list(queues_for(names, labels, queues))
    is_asked = frozenset(names)
    return sorted(queue for queue in queues if name_of(queue) in is_asked)


def _is_keyed(constraints: ConstraintSet, queue: str) -> bool:
    return any(step.gate is None for step in constraints.plan(queue).steps)


def _running(running: RunningJobs, names: frozenset[str], worker_ids: set[str] | None) -> int:
    """Return how many jobs of these names are running. `worker_ids`: count only jobs on these workers. None: count jobs
    on all workers."""
    return sum(
        count
        for (worker_id, name), count in running.counts.items()
        if name in names and (worker_ids is None or worker_id in worker_ids)
    )
