"""Job order on a test store, carried out as the leader does."""

from typing import Any

from jqmaster.domain.batches.batch import BatchFigures
from jqmaster.domain.jobs.predecessors import After, AfterWhen
from jqmaster.service.batches.follow_ups import BatchFollowUps
from jqmaster.service.jobs.follow_ups import FollowUps
from jqmaster.service.jobs.predecessors import PredecessorFollowUps
from jqmaster.store.batches.batches import BatchStore
from jqmaster.store.jobs.follow_ups import FollowUpStore
from tests.support.jobs import Served
from tests.support.store import StoreWorld


class Orders:
    """The job order of one shard. Follow-ups wait for `carry_out`."""

    def __init__(self, world: StoreWorld) -> None:
        self.world = world
        self.served = Served(world)
        self.entries = FollowUpStore(world.shard)
        batches = BatchFollowUps(
            BatchStore(world.shard, world.tally),
            world.records,
            self.served.actions,
            world.constraints,
            BatchFigures(),
        )
        order = PredecessorFollowUps(world.predecessors, world.records, world.constraints)
        self.follow_ups = FollowUps(self.entries, batches.kinds() | order.kinds())

    async def behind(self, *predecessors: str, name: str = "work", **fields: Any) -> str:
        """Enqueue a job that waits for these to succeed, and return its ID."""
        return await self.world.enqueue(name, after=After(predecessors), **fields)

    async def behind_the_end(self, *predecessors: str) -> str:
        """Enqueue a job that waits for these to finish, and return its ID."""
        return await self.world.enqueue(after=After(predecessors, AfterWhen.FINISHED))

    async def carry_out(self) -> None:
        """Carry out all follow-ups, as the leader does."""
        while await self.entries.oldest():
            await self.follow_ups.carry_out(self.world.epoch)

    async def states(self, *job_ids: str) -> list[str]:
        """Return the job states."""
        return [str((await self.world.get(job_id)).state) for job_id in job_ids]
