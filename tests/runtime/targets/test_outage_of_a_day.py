"""A host that is down for a day, by injected time: it costs no job a retry, and is used again once it is back."""

import asyncio

import pytest

from jqmaster.domain.jobs.job import Cause, JobState
from jqmaster.domain.targets.answer import DeliveryEnd, DeliveryResult
from jqmaster.domain.targets.target import HttpTarget
from jqmaster.domain.workers.breaker import BreakerPolicy
from jqmaster.live_value import LiveValue
from jqmaster.runtime.outbound.target_client import TargetAnswer
from jqmaster.runtime.targets.delivery import outcome_of
from jqmaster.runtime.targets.hosts import MAX_BREAKERS, TargetHosts
from jqmaster.service.workers.reports import ReportService
from tests.support.clock import ManualClock
from tests.support.store import StoreWorld

pytestmark = pytest.mark.req("M13")

DAY_S = 86_400
HOST = "http://shop.example"
SHOP = HttpTarget("shop", ("order",), url_from="argument.url", allow_hosts=("shop.example",))
AWAY = TargetAnswer(
    DeliveryEnd(DeliveryResult.UNREACHABLE, "cannot be reached (connection refused)", code="unreachable"),
    was_sent=False,
)
DONE = TargetAnswer(DeliveryEnd(DeliveryResult.SUCCEEDED, "status 200", 200), was_sent=True)


class Deliveries:
    """Delivers the jobs that are due, with an answer that the test chooses, and lets the time pass until the next."""

    def __init__(self, world: StoreWorld, target: HttpTarget, ids: list[str], worker_id: str) -> None:
        self._world = world
        self._target = target
        self._ids = ids
        self._worker_id = worker_id
        self._reports = ReportService(
            world.workers,
            world.constraints,
            settlements=world.settlements,
            challenges=world.challenges,
            records=world.records,
        )

    async def run(self, answer: TargetAnswer, for_s: float) -> int:
        """Return the number of deliveries."""
        world, count = self._world, 0
        ends_ms = world.now_ms + for_s * 1000
        while True:
            jobs = await world.claim(self._worker_id, "order")
            ends = [outcome_of(self._target, job, answer, world.now_ms) for job in jobs]
            accepted, _ = await self._reports.results(self._worker_id, ends)
            assert len(accepted) == len(jobs)
            count += len(jobs)
            found = (await world.records.get_without_argument(self._ids)).values()
            due_ms = [job.due_at_ms for job in found if job.state is JobState.SCHEDULED]
            if not due_ms or min(due_ms) > ends_ms:
                return count
            world.pass_ms(max(0, min(due_ms) - world.now_ms))
            await world.due.promote(world.epoch, JobState.SCHEDULED)


async def test_a_day_without_the_host_costs_no_retry(world: StoreWorld) -> None:
    ids = await world.enqueue_many(2, "order", max_retry=0)
    deliveries = Deliveries(world, SHOP, ids, await world.worker("order"))
    tries = await deliveries.run(AWAY, DAY_S)
    # They get rarer: at last one of each job in five minutes.
    assert len(ids) * DAY_S / 300 <= tries <= len(ids) * (DAY_S / 300 + 10)
    assert {await world.state(one) for one in ids} == {JobState.SCHEDULED}
    assert await deliveries.run(DONE, 600) == len(ids)
    for one in ids:
        job = await world.get(one)
        assert (job.state, job.failures, job.losses) == (JobState.SUCCEEDED, 0, 0)


async def test_a_job_whose_host_stays_away_fails_at_last(world: StoreWorld) -> None:
    ids = await world.enqueue_many(1, "order", max_retry=5)
    target = HttpTarget(
        "shop", ("order",), url_from=SHOP.url_from, allow_hosts=SHOP.allow_hosts, not_ready_for_s=3600
    )
    await Deliveries(world, target, ids, await world.worker("order")).run(AWAY, DAY_S)
    job = await world.get(ids[0])
    assert (job.state, job.cause) == (JobState.FAILED, Cause.NOT_READY)
    assert job.finished_at_ms - job.created_at_ms == 3_600_000


def test_a_host_that_is_down_for_a_day_is_tried_every_half_minute() -> None:
    clock = ManualClock()
    hosts = TargetHosts(LiveValue(BreakerPolicy()), clock)
    tries = 0
    for _ in range(DAY_S):
        breaker = hosts.breaker(HOST)
        if breaker is None or breaker.admits(clock.monotonic_s()):
            with hosts.calling(HOST):
                assert hosts.calls(HOST) == 1
            hosts.failed(HOST, "connection refused")
            tries += 1
        clock.jump(1)
    assert DAY_S / 31 <= tries <= DAY_S / 30 + 20
    assert hosts.why_unreachable() == "connection refused"
    hosts.reached(HOST)
    assert (hosts.breaker(HOST), hosts.why_unreachable(), hosts.calls(HOST)) == (None, "", 0)


def test_a_try_that_was_cut_off_leaves_the_next_one_free() -> None:
    clock = ManualClock()
    hosts = TargetHosts(LiveValue(BreakerPolicy(failures_to_open=1)), clock)
    hosts.failed(HOST, "connection refused")
    clock.jump(1)
    breaker = hosts.breaker(HOST)
    assert breaker is not None
    call = hosts.calling(HOST)
    call.__enter__()
    assert not breaker.admits(clock.monotonic_s())
    assert not call.__exit__(asyncio.CancelledError, asyncio.CancelledError(), None)
    assert breaker.admits(clock.monotonic_s())
    hosts.forget_failures()
    assert hosts.breaker(HOST) is None


def test_a_bounded_number_of_hosts_is_remembered() -> None:
    hosts = TargetHosts(LiveValue(BreakerPolicy()), ManualClock())
    for number in range(MAX_BREAKERS + 1):
        hosts.failed(f"http://{number}.example", "connection refused")
    assert hosts.breaker("http://0.example") is None
    assert hosts.breaker(f"http://{MAX_BREAKERS}.example") is not None
