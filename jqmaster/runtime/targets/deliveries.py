"""Deliver jobs to HTTP targets. Every master has one worker for each target, with a part of the target's slots."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from jqmaster.clock import wait_for_event
from jqmaster.domain.matching.requirement import name_of
from jqmaster.domain.operations.master import Pace
from jqmaster.domain.targets.figures import TargetFigures
from jqmaster.domain.targets.target import MAX_SERVED, HttpTarget
from jqmaster.domain.targets.target_set import NO_TARGETS, Share, TargetSet, share_of
from jqmaster.errors import JqmasterError
from jqmaster.lifecycle import BackgroundLoops, EntriesApart
from jqmaster.live_value import LiveValue
from jqmaster.runtime.targets.sample import send_sample
from jqmaster.runtime.targets.target_worker import TargetServices, TargetWorker
from jqmaster.service.targets.samples import Exchange, Sample
from jqmaster.store.leadership.masters import MasterStore
from jqmaster.store.targets.targets import TargetStore
from jqmaster.store.workers.workers import WorkerStore

logger = logging.getLogger(__name__)

# How often to read the list of masters and the names that have jobs, while there are targets.
ROUND_S: Final = 1.0
# How often to read the names that ordinary workers serve. It is rare, because each read covers all workers.
WORKERS_EVERY_S: Final = 5.0
FIGURES_EVERY_S: Final = 5.0
# How long a pattern keeps serving a name after its last job, so that the next job finds a worker.
NAME_KEPT_S: Final = 600.0


class TargetDeliveries:
    """Component of every master: delivers jobs to the targets. Without targets it does nothing.

    * `version`: returns the version of the targets, which comes with the settings.
    * `follow`: calls back when the version has changed.
    * `figures`: the figures by target. This component fills them in.
    * `grace_s`: how long requests under way may take when this master stops.
    """

    def __init__(
        self,
        store: TargetStore,
        masters: MasterStore,
        workers: WorkerStore,
        services: TargetServices,
        *,
        master_id: str,
        version: Callable[[], int],
        follow: Callable[[Callable[[], None]], None],
        pace: LiveValue[Pace],
        figures: dict[str, TargetFigures],
        grace_s: float,
    ) -> None:
        self._store = store
        self._masters = masters
        self._workers = workers
        self._services = services
        self._master_id = master_id
        self._version = version
        self._pace = pace
        self._loops = BackgroundLoops("targets", is_vital=False)
        self._apart = EntriesApart("targets")
        self._has_changed = asyncio.Event()
        self._known_version = 0
        self._targets = NO_TARGETS
        self._serving: dict[str, TargetWorker] = {}
        # Workers of targets that are no longer served here, and whose requests are still under way.
        self._leaving: dict[asyncio.Task[None], TargetWorker] = {}
        self._grace_s = grace_s
        # For names that a pattern may serve: when each last had jobs.
        self._seen_s: dict[str, float] = {}
        self._of_workers: frozenset[str] = frozenset()
        self._workers_at_s = float("-inf")
        self._saved_at_s = float("-inf")
        self._figures = figures
        follow(self._has_changed.set)

    async def start(self) -> None:
        if self._version():
            self._has_changed.set()
        self._loops.spawn("rounds", self._run)

    async def stop(self) -> None:
        await self._loops.stop()
        for name in list(self._serving):
            self._end(name)
        for worker in self._leaving.values():
            worker.hurry(self._grace_s)
        await asyncio.gather(*self._leaving, return_exceptions=True)

    @property
    def targets(self) -> Mapping[str, HttpTarget]:
        """Return this master's copy of the targets."""
        return self._targets.targets

    def running(self) -> dict[str, int]:
        """Return the number of requests that are under way here, by target."""
        return {name: worker.running for name, worker in self._serving.items()}

    @property
    def leaving(self) -> dict[str, int]:
        """Return the number of requests that are under way here for workers that are leaving, by target."""
        counts: Counter[str] = Counter()
        for worker in self._leaving.values():
            counts[worker.target.name] += worker.running
        return dict(counts)

    async def send_sample(self, target: HttpTarget, sample: Sample) -> Exchange:
        """Send a request for a job that does not exist, from this master."""
        return await send_sample(target, sample, self._services)

    async def _run(self) -> None:
        while True:
            if not self._targets:
                await self._has_changed.wait()
            self._has_changed.clear()
            try:
                await self._round()
                self._loops.worked("rounds")
            except JqmasterError as exc:
                logger.warning("cannot follow the targets: %s", exc.detail)
                await asyncio.sleep(ROUND_S)
                self._has_changed.set()
                continue
            if self._targets:
                await wait_for_event(self._has_changed, ROUND_S)

    async def _round(self) -> None:
        if self._version() != self._known_version:
            stored = await self._store.load()
            self._targets = TargetSet(one.target for one in stored.targets.values())
            self._known_version = stored.version
            for name in set(self._figures) - set(self._targets.targets):
                del self._figures[name]
        masters = await self._delivering() if self._targets else ()
        names = await self._names()
        for name, target in self._targets.targets.items():
            with self._apart.alone(name):
                await self._serve(target, names[name], _with_slots(target, masters))
        for name in set(self._serving) - set(self._targets.targets):
            self._end(name)
        await self._save_figures()

    async def _serve(self, target: HttpTarget, names: tuple[str, ...], masters: tuple[str, ...]) -> None:
        worker, share = self._serving.get(target.name), Share(self._master_id, masters)
        slots = share.of(target.max_running, target.name)
        if not (names and slots):
            self._end(target.name)
            return
        # Subtract the slots of a former worker whose requests are still under way.
        slots = max(0, slots - self.leaving.get(target.name, 0))
        if worker is not None:
            await worker.change(target, names, slots, share)
        elif slots:
            figures = self._figures.setdefault(target.name, TargetFigures())
            worker = TargetWorker(target, names, slots, share, figures, services=self._services)
            self._serving[target.name] = worker
            await worker.start()

    def _end(self, name: str) -> None:
        if worker := self._serving.pop(name, None):
            task = asyncio.create_task(worker.end(), name=f"target {name}.end")
            self._leaving[task] = worker
            task.add_done_callback(self._leaving.pop)

    async def _delivering(self) -> tuple[str, ...]:
        """Return the IDs of the masters that deliver now. A master that just started is not registered yet."""
        registry = await self._masters.look()
        fresh_since_ms = registry.now_ms - self._pace.current.fresh_ms
        found = {
            one.record.id
            for one in registry.seen
            if one.record.delivers and one.last_seen_ms >= fresh_since_ms
        }
        return tuple(sorted(found | {self._master_id}))

    async def _names(self) -> dict[str, tuple[str, ...]]:
        """Return the names that each target serves now."""
        if not self._targets.has_patterns:
            return self._targets.served(())
        now_s = self._services.clock.monotonic_s()
        if now_s - self._workers_at_s >= WORKERS_EVERY_S:
            self._workers_at_s = now_s
            self._of_workers = frozenset(
                name
                for worker in await self._workers.all()
                if not (worker.spec.is_built_in or worker.is_detached)
                for name in worker.spec.names
            )
        for queue in await self._store.names_with_jobs():
            self._seen_s[name_of(queue)] = now_s
        self._seen_s = {name: at_s for name, at_s in self._seen_s.items() if now_s - at_s < NAME_KEPT_S}
        if len(self._seen_s) > MAX_SERVED:
            newest = sorted(self._seen_s.items(), key=lambda one: -one[1])[: 10 * MAX_SERVED]
            self._seen_s = dict(newest)
        return self._targets.served(self._seen_s, self._of_workers)

    async def _save_figures(self) -> None:
        now_s = self._services.clock.monotonic_s()
        if not self._figures or now_s - self._saved_at_s < FIGURES_EVERY_S:
            return
        self._saved_at_s = now_s
        await self._store.save_figures(
            self._master_id,
            {name: figures.packed() for name, figures in self._figures.items() if figures.results},
        )


def _with_slots(target: HttpTarget, masters: tuple[str, ...]) -> tuple[str, ...]:
    """Return the masters that have a part of the target's slots."""
    if target.max_running >= len(masters):
        return masters
    return tuple(one for one in masters if share_of(target.max_running, target.name, one, masters))
