"""A push without an answer stays in doubt, whatever happens to the next one."""

import asyncio
from collections.abc import Sequence

import pytest

from jqmaster.clock import SystemClock
from jqmaster.domain.jobs.outcome import Outcome
from jqmaster.domain.workers.breaker import Breaker
from jqmaster.live_value import LiveValue
from jqmaster.runtime.duties.claim_offers import ClaimOffers
from jqmaster.runtime.duties.fleet import Fleet, Member
from jqmaster.runtime.outbound.worker_client import MaybeDelivered, NotDelivered, PushResult
from jqmaster.service.workers.polls import HeldPolls
from jqmaster.store.jobs.claims import Claim
from jqmaster.store.leadership.leadership import Leadership
from tests.support import real_time
from tests.support.store import OFFER_MS, StoreWorld

pytestmark = real_time.SOCKETS


class LostThenRefused:
    """The first answer is lost; then nobody listens any more."""

    def __init__(self) -> None:
        self.pushes = 0

    async def push(self, *_: object) -> PushResult:
        self.pushes += 1
        return (
            MaybeDelivered("ServerDisconnectedError") if self.pushes == 1 else NotDelivered("cannot connect")
        )


async def nobody_reports(worker_id: str, outcomes: Sequence[Outcome]) -> None:
    pytest.fail(f"{outcomes} of worker {worker_id}")


@pytest.mark.req("M3", "J10")
async def test_a_lost_answer_and_then_a_refusal_gives_the_job_to_nobody_else(world: StoreWorld) -> None:
    worker_id = await world.worker(url="http://127.0.0.1:9")
    job_id = await world.enqueue(max_retry=0)
    claim = await world.claims.claim(world.epoch, worker_id, ["work"], 1)
    assert isinstance(claim, Claim)
    worker = await world.workers.get(worker_id)
    assert worker
    client = LostThenRefused()
    clock = SystemClock()
    offers = ClaimOffers(
        Leadership(world.epoch, "master-1"),
        leases=world.leases,
        settlements=world.settlements,
        progress=world.progress,
        challenges=world.challenges,
        predecessors=world.predecessors,
        fleet=Fleet(clock, stale_ms=LiveValue(5_000)),
        held_polls=HeldPolls(world.polls, world.leases, world.progress, world.challenges, world.predecessors),
        client=client,  # type: ignore[arg-type]
        report=nobody_reports,
        clock=clock,
        on_stale=lambda: pytest.fail("nothing was returned"),
    )
    member = Member(worker, busy=1, breaker=Breaker())
    # The offer is nearly over: the rest is enough for two tries.
    began_s = clock.monotonic_s() - OFFER_MS / 1000 + 0.3
    push = offers.begin(member, claim, began_s, lambda: pytest.fail("nothing was returned"))
    assert push
    async with asyncio.timeout(10):
        await push
    assert client.pushes == 2
    job = await world.get(job_id)
    assert (job.state, job.token) == ("running", claim.jobs[0].token)
