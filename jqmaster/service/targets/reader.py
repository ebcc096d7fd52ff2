"""Reads targets, with the workers that deliver to them and the figures of all masters."""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from jqmaster.domain.matching.requirement import name_of
from jqmaster.domain.targets.figures import SummedFigures, summed
from jqmaster.domain.targets.target import MAX_SERVED
from jqmaster.domain.targets.target_set import TargetSet
from jqmaster.domain.workers.worker import Worker
from jqmaster.service.targets.documents import unknown_target
from jqmaster.store.leadership.masters import MasterStore
from jqmaster.store.targets.documents import StoredTarget
from jqmaster.store.targets.targets import TargetStore
from jqmaster.store.workers.workers import WorkerStore


@dataclass(frozen=True, slots=True)
class ShownTarget:
    """A target with its workers and its figures.

    * `serving`: the names that the target serves now.
    * `left_out`: the number of names with jobs that its patterns match but that it does not serve, because it serves
      the maximum number of names.
    * `running`: the number of requests in progress.
    * `unreachable`: why masters cannot reach the target. Empty: they can reach it, or have not tried.
    """

    stored: StoredTarget
    serving: tuple[str, ...]
    running: int
    unreachable: tuple[str, ...]
    figures: SummedFigures
    now_ms: int
    left_out: int = 0


class TargetReader:
    """Reads targets. Methods raise what the store raises."""

    def __init__(self, store: TargetStore, workers: WorkerStore, masters: MasterStore) -> None:
        self._store = store
        self._workers = workers
        self._masters = masters

    async def all(self) -> list[ShownTarget]:
        """Return all targets, sorted by name."""
        stored = await self._store.load()
        return await self._shown(stored.targets)

    async def stored(self, name: str) -> StoredTarget:
        """Return only the stored target, without its workers and figures. Raise NotFoundError."""
        found = await self._store.get(name)
        if found is None:
            raise unknown_target(name)
        return found

    async def get(self, name: str) -> ShownTarget:
        """Return a target. Raise NotFoundError."""
        (shown,) = await self._shown({name: await self.stored(name)})
        return shown

    async def _shown(self, targets: Mapping[str, StoredTarget]) -> list[ShownTarget]:
        if not targets:
            return []
        registry = await self._masters.look()
        workers = await self._workers.all()
        own = {name: [worker for worker in workers if worker.spec.target == name] for name in targets}
        serving = {
            name: {served for worker in of_target for served in worker.spec.names}
            for name, of_target in own.items()
        }
        left_out = await self._left_out(serving, workers)
        figures = await self._store.figures(list(targets), [one.record.id for one in registry.seen])
        return [
            ShownTarget(
                stored,
                tuple(sorted(serving[name])),
                sum(worker.busy for worker in own[name]),
                tuple(sorted({worker.unreachable for worker in own[name]} - {""})),
                summed(figures[name], registry.now_ms),
                registry.now_ms,
                left_out[name],
            )
            for name, stored in targets.items()
        ]

    async def _left_out(self, serving: Mapping[str, Set[str]], workers: Sequence[Worker]) -> Counter[str]:
        full = {name for name, served in serving.items() if len(served) >= MAX_SERVED}
        if not full:
            return Counter()
        every = TargetSet(one.target for one in (await self._store.load()).targets.values())
        known = {name_of(queue) for queue in await self._store.names_with_jobs()}
        for worker in workers:
            if not worker.is_detached:
                known.difference_update(worker.spec.names)
        return Counter(target for name in known if (target := every.target_of(name)) in full)
