"""Test helpers to create, fill, end and follow up batches on a store, as the leader does."""

from collections.abc import Sequence
from typing import Any

import msgpack

from jqmaster.domain.batches.batch import Batch, BatchCallback, BatchFigures, BatchSpec, callback_job_id
from jqmaster.domain.ids import new_id
from jqmaster.domain.jobs.job import JobSpec
from jqmaster.live_value import LiveValue
from jqmaster.service.batches.batches import BatchService
from jqmaster.service.batches.follow_ups import BatchExpiry, BatchFollowUps
from jqmaster.service.jobs.follow_ups import FollowUps
from jqmaster.service.jobs.reach import CallerReach
from jqmaster.store.batches.batches import BatchStore
from jqmaster.store.jobs.follow_ups import FollowUpStore
from tests.support.jobs import Served
from tests.support.store import StoreWorld

DAY_MS = 86_400_000
LIFE_MS, RETENTION_MS = 30 * DAY_MS, 7 * DAY_MS
ALL = tuple(BatchCallback)


def callback_spec(name: str, argument: Any = None) -> JobSpec:
    """Return a callback as it stands in a request, without an ID."""
    return JobSpec(id="", name=name, argument=msgpack.packb(argument))


class Batches:
    """The batches of one shard. Tests call `end_due` and `carry_out` in place of the leader."""

    def __init__(self, world: StoreWorld) -> None:
        self.world = world
        self.served = Served(world)
        self.figures = BatchFigures()
        self.store = BatchStore(world.shard, world.tally)
        self.entries = FollowUpStore(world.shard)
        self.service = BatchService(
            self.store,
            world.records,
            self.served.enqueue,
            self._now_ms,
            reach=CallerReach(world.records, self.store),
            life_ms=LiveValue(LIFE_MS),
            figures=self.figures,
        )
        self.expiry = BatchExpiry(self.store, retention_ms=LiveValue(RETENTION_MS), figures=self.figures)
        self.batch_follow_ups = BatchFollowUps(
            self.store, world.records, self.served.actions, world.constraints, self.figures
        )
        self.follow_ups = FollowUps(self.entries, self.batch_follow_ups.kinds())

    async def _now_ms(self) -> int:
        return self.world.now_ms

    async def make(
        self, callbacks: Sequence[BatchCallback] = ALL, *, parent: str | None = None, **fields: Any
    ) -> str:
        """Create an open batch whose callbacks are jobs with their own names."""
        spec = BatchSpec(
            id=fields.pop("id", None) or new_id(),
            callbacks={callback: callback_spec(str(callback), callback.name) for callback in callbacks},
            parent=parent,
            **fields,
        )
        assert await self.service.create(spec)
        return spec.id

    async def get(self, batch_id: str) -> Batch:
        batch = await self.store.get(batch_id)
        assert batch is not None
        return batch

    async def state(self, batch_id: str) -> str:
        return str((await self.get(batch_id)).state)

    async def ended(self, batch_id: str) -> dict[str, int]:
        """Return the nonzero counts of a batch."""
        batch = await self.get(batch_id)
        counts = {str(state): count for state, count in batch.ended.items()}
        counts |= {
            "total": batch.total,
            "unfinished": batch.unfinished,
            "deleted": batch.deleted,
            "gone": batch.gone,
        }
        return {name: count for name, count in counts.items() if count}

    async def carry_out(self) -> None:
        """Carry out all follow-ups, as the leader does."""
        while await self.entries.oldest():
            await self.follow_ups.carry_out(self.world.epoch)

    async def waiting(self) -> list[str]:
        """Return the entries that are not yet carried out."""
        return [entry.text for entry in await self.entries.oldest()]

    async def callbacks(self, batch_id: str) -> set[str]:
        """Return the callbacks of a batch whose jobs exist."""
        return {
            str(callback)
            for callback in ALL
            if await self.world.records.get(callback_job_id(batch_id, callback))
        }
