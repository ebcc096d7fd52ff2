"""The job services on a test store."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgpack

from jqmaster.clock import SystemClock
from jqmaster.config import Durability
from jqmaster.domain.jobs.job import JobState
from jqmaster.errors import JqmasterError
from jqmaster.service.jobs.enqueue import EnqueueService
from jqmaster.service.jobs.operator_actions import JobActions
from jqmaster.service.jobs.reach import CallerReach
from jqmaster.service.jobs.reader import JobReader
from jqmaster.service.jobs.waiters import FinishWaiters
from jqmaster.store.batches.batches import BatchStore
from jqmaster.store.jobs.claims import ClaimedJob
from tests.support.listening import OwnListener
from tests.support.store import StoreWorld
from tests.support.waiting import wait_until


class Served:
    """The job services of one master."""

    def __init__(self, world: StoreWorld) -> None:
        self.world = world
        self.waiters = FinishWaiters()
        self.orders: list[tuple[str, str, str]] = []
        self.admits: JqmasterError | None = None
        self.looks = 0
        fetch = world.results.fetch_result

        async def counted(job_id: str, *, watch: bool) -> bytes | JobState | None:
            answer = await fetch(job_id, watch=watch)
            self.looks += 1
            return answer

        world.results.fetch_result = counted  # type: ignore[method-assign]
        self.enqueue = EnqueueService(
            world.acceptance,
            world.constraints,
            admit=self._admit,
            reach=CallerReach(world.records, BatchStore(world.shard, world.tally)),
        )
        self.jobs = JobReader(
            world.records,
            world.results,
            world.progress,
            self.waiters,
            SystemClock(),
            predecessors=world.predecessors,
            inspector=world.inspector,
            lists=world.lists,
        )
        self.actions = JobActions(
            world.operator_actions, world.records, world.constraints, tell_worker=self._tell
        )

    async def stop(self) -> None:
        await self.actions.stop()
        await self.enqueue.stop()

    async def _tell(self, *order: str) -> None:
        self.orders.append(order)  # type: ignore[arg-type]

    def _admit(self, durability: Durability | None) -> int:
        if self.admits:
            raise self.admits
        return 0

    @contextlib.asynccontextmanager
    async def polls(self, job_id: str, count: int = 1) -> AsyncIterator[list[asyncio.Task[Any]]]:
        """Yield long polls of one unfinished job. The store has answered each once and knows that they watch."""
        looked = self.looks
        polls = [asyncio.create_task(self.jobs.result(job_id, wait_s=60)) for _ in range(count)]
        await wait_until(lambda: self.looks == looked + count)
        try:
            yield polls
        finally:
            for poll in polls:
                poll.cancel()
            await asyncio.gather(*polls, return_exceptions=True)

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        ready = asyncio.Event()
        listener = OwnListener(
            self.world.shard,
            on_wake=lambda message: None,
            on_finished=self.waiters.finished,
            on_gap=ready.set,
        )
        await listener.start()
        try:
            await ready.wait()
            yield
        finally:
            await listener.stop()


async def running_kept(world: StoreWorld, **fields: Any) -> tuple[str, ClaimedJob]:
    """Return a worker and a job that it runs, whose result will be kept."""
    return await world.running(keep_result=True, **fields)


async def succeed(world: StoreWorld, worker: str, job: ClaimedJob) -> None:
    """End the attempt successfully."""
    result = msgpack.packb({"type": "success", "result": 1})
    assert await world.settlements.settle_success(worker, [(job.job_id, job.token, result)]) == [True]
