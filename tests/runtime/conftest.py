import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace

import pytest

from jqmaster.clock import SystemClock
from jqmaster.live_value import LiveValue
from jqmaster.runtime.duties.claim_offers import ClaimOffers
from jqmaster.runtime.duties.dispatcher import Dispatcher
from jqmaster.runtime.duties.fleet import Fleet, Member
from jqmaster.runtime.outbound.worker_client import WorkerClient
from jqmaster.service.workers.polls import HeldPolls
from jqmaster.service.workers.reports import ReportService
from jqmaster.store.jobs.claims import ClaimStore
from jqmaster.store.leadership.leadership import Leadership
from jqmaster.store.link.wake import (
    JobsReady,
    LeftToOthers,
    PollOpened,
    QueueOpened,
    SlotsFreed,
    WakeMessage,
    WorkersChanged,
)
from tests.support.egress import loopback_guard
from tests.support.fake_worker import Behaviour, FakeWorker
from tests.support.store import TIMES, StoreWorld

OFFER_S = 1.5
PUSH_S = 0.5
PATIENCE_S = 30.0


def waking(dispatcher: Dispatcher) -> Callable[[WakeMessage], None]:
    """Return a function that passes a dispatcher the messages that concern it."""

    def wake(message: WakeMessage) -> None:
        if isinstance(
            message, JobsReady | QueueOpened | SlotsFreed | LeftToOthers | PollOpened | WorkersChanged
        ):
            dispatcher.wake(message)

    return wake


class Dispatching:
    """A dispatcher on a real store, which pushes to scripted workers on loopback. Offers are short; store time stands
    still."""

    def __init__(
        self,
        world: StoreWorld,
        client: WorkerClient,
        stack: contextlib.AsyncExitStack,
        push_timeout_s: LiveValue[float],
    ) -> None:
        self.world = world
        self.client = client
        self._push_timeout_s = push_timeout_s
        self.stale = 0
        self.is_trusted = True
        self._stack = stack
        self._dispatchers: list[Dispatcher] = []
        self.claims = self.claim_store(offer_ms=round(OFFER_S * 1000))
        self.held_polls = HeldPolls(
            world.polls, world.leases, world.progress, world.challenges, world.predecessors
        )
        self.reports = ReportService(
            world.workers,
            world.constraints,
            settlements=world.settlements,
            challenges=world.challenges,
            records=world.records,
        )
        self.fleet = Fleet(SystemClock(), stale_ms=LiveValue(5000))

    def be_patient(self) -> None:
        """Let pushes and offers take half a minute, for tests that measure neither on a machine that may stand
        still."""
        self._push_timeout_s.current = PATIENCE_S
        self.claims = self.claim_store(offer_ms=round(PATIENCE_S * 1000))

    def claim_store(self, *, offer_ms: int) -> ClaimStore:
        times = replace(TIMES.current, offer_ms=offer_ms)
        return ClaimStore(self.world.shard, self.world.tally, LiveValue(times))

    async def worker(
        self,
        *script: Behaviour,
        names: tuple[str, ...] = ("work",),
        max_jobs: int = 10,
        labels: Mapping[str, str] | None = None,
        **options: object,
    ) -> FakeWorker:
        worker = await self._stack.enter_async_context(FakeWorker(*script, **options).serving())  # type: ignore[arg-type]
        await worker.join(self.world.workers, *names, max_jobs=max_jobs, labels=labels)
        return worker

    async def start(self, *, wakes_itself: bool = True) -> Dispatcher:
        def on_stale() -> None:
            self.stale += 1

        leadership = Leadership(self.world.epoch, "master-1")
        offers = ClaimOffers(
            leadership,
            leases=self.world.leases,
            settlements=self.world.settlements,
            progress=self.world.progress,
            challenges=self.world.challenges,
            predecessors=self.world.predecessors,
            fleet=self.fleet,
            held_polls=self.held_polls,
            client=self.client,
            report=self.reports.results,
            clock=SystemClock(),
            on_stale=on_stale,
            is_trusted=lambda: self.is_trusted,
        )
        dispatcher = Dispatcher(
            leadership,
            offers,
            claims=self.claims,
            workers=self.world.workers,
            constraints=self.world.constraints,
            fleet=self.fleet,
            held_polls=self.held_polls,
            clock=SystemClock(),
            max_push_jobs=LiveValue(200),
            on_stale=on_stale,
            notify=lambda _: None,
            is_trusted=lambda: self.is_trusted,
        )
        self._dispatchers.append(dispatcher)
        if wakes_itself:
            self.world.leader.connect(waking(dispatcher), dispatcher.claim_with)
        await dispatcher.start()
        return dispatcher

    def member(self, worker: FakeWorker) -> Member:
        member = self.fleet.get(worker.id)
        assert member
        return member

    async def stop(self) -> None:
        for dispatcher in self._dispatchers:
            await dispatcher.stop()
        self.world.leader.disconnect()


@pytest.fixture
def push_timeout_s() -> LiveValue[float]:
    return LiveValue(PUSH_S)


@pytest.fixture
async def worker_client(push_timeout_s: LiveValue[float]) -> AsyncIterator[WorkerClient]:
    client = WorkerClient(loopback_guard(), timeout_s=push_timeout_s)
    await client.start()
    yield client
    await client.stop()


@pytest.fixture
async def dispatching(
    world: StoreWorld, worker_client: WorkerClient, push_timeout_s: LiveValue[float]
) -> AsyncIterator[Dispatching]:
    async with contextlib.AsyncExitStack() as stack:
        one = Dispatching(world, worker_client, stack, push_timeout_s)
        try:
            yield one
        finally:
            await one.stop()
