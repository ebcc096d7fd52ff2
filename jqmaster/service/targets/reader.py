"""Targets for views: with the workers that deliver to them, and the figures of all masters."""

from collections.abc import Mapping
from dataclasses import dataclass

from jqmaster.domain.targets.figures import SummedFigures, summed
from jqmaster.service.targets.documents import unknown_target
from jqmaster.store.leadership.masters import MasterStore
from jqmaster.store.targets.documents import StoredTarget
from jqmaster.store.targets.targets import TargetStore
from jqmaster.store.workers.workers import WorkerStore


@dataclass(frozen=True, slots=True)
class ShownTarget:
    """A target. `serving`: the names that it serves now; `running`: requests under way; `unreachable`: why masters
    cannot reach it; empty: they can, or have not tried."""

    stored: StoredTarget
    serving: tuple[str, ...]
    running: int
    unreachable: tuple[str, ...]
    figures: SummedFigures
    now_ms: int


class TargetReader:
    """Methods raise what the store raises."""

    def __init__(self, store: TargetStore, workers: WorkerStore, masters: MasterStore) -> None:
        self._store = store
        self._workers = workers
        self._masters = masters

    async def all(self) -> list[ShownTarget]:
        """Return all targets by name."""
        stored = await self._store.load()
        return await self._shown(stored.targets)

    async def stored(self, name: str) -> StoredTarget:
        """Return a target without anything around it. Raise NotFoundError."""
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
        workers = [worker for worker in await self._workers.all() if worker.spec.target in targets]
        figures = await self._store.figures(list(targets), [one.record.id for one in registry.seen])
        shown = []
        for name, stored in targets.items():
            own = [worker for worker in workers if worker.spec.target == name]
            shown.append(
                ShownTarget(
                    stored,
                    tuple(sorted({served for worker in own for served in worker.spec.names})),
                    sum(worker.busy for worker in own),
                    tuple(sorted({worker.unreachable for worker in own} - {""})),
                    summed(figures[name], registry.now_ms),
                    registry.now_ms,
                )
            )
        return shown
