import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import msgpack
import pytest

from jqmaster.clock import SystemClock
from jqmaster.config import Durability
from jqmaster.domain.ids import new_id
from jqmaster.domain.job import Cause, JobSpec, JobState
from jqmaster.domain.outcome import Decision
from jqmaster.errors import (
    ConflictError,
    DamagedError,
    JqmasterError,
    NotFoundError,
    OutcomeUnknownError,
    StoreUnavailableError,
)
from jqmaster.live_value import LiveValue
from jqmaster.runtime.outbound.orders import CancelOrders
from jqmaster.runtime.outbound.worker_client import WorkerClient
from jqmaster.service.jobs import jobs as module
from jqmaster.service.jobs.jobs import JobService
from jqmaster.service.jobs.waiters import FinishWaiters
from jqmaster.store.jobs.claims import ClaimedJob
from jqmaster.store.jobs.operator_actions import Changes
from jqmaster.store.link.events import EventListener
from jqmaster.store.link.scripts import ScriptCall
from tests.support import real_time
from tests.support.egress import loopback_guard
from tests.support.fake_worker import FakeWorker
from tests.support.store import StoreWorld
from tests.support.waiting import wait_until

pytestmark = real_time.LOOPS


class Served:
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
        self.service = JobService(
            world.inspector,
            self.waiters,
            SystemClock(),
            world.rules,
            acceptance=world.acceptance,
            steering=world.steering,
            records=world.records,
            results=world.results,
            tell_worker=self._tell,
            admit=self._admit,
        )

    async def _tell(self, *order: str) -> None:
        self.orders.append(order)  # type: ignore[arg-type]

    def _admit(self, durability: Durability | None) -> int:
        if self.admits:
            raise self.admits
        return 0

    @contextlib.asynccontextmanager
    async def polls(self, job_id: str, count: int = 1) -> AsyncIterator[list[asyncio.Task[Any]]]:
        """Long polls of one job that does not end yet; the store has answered each once and knows that they watch."""
        looked = self.looks
        polls = [asyncio.create_task(self.service.result(job_id, wait_s=60)) for _ in range(count)]
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
        listener = EventListener(
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


@pytest.fixture
async def served(world: StoreWorld) -> AsyncIterator[Served]:
    one = Served(world)
    await one.service.start()
    yield one
    await one.service.stop()


# --- enqueue


@pytest.mark.req("J1", "M1")
async def test_the_same_id_and_content_again_is_no_second_job(served: Served) -> None:
    spec = served.world.spec(argument=1)
    assert await served.service.enqueue(spec) == (spec.id, True)
    assert await served.service.enqueue(spec) == (spec.id, False)
    assert (await served.world.inspector.counts())[JobState.READY] == 1


@pytest.mark.req("M1")
async def test_the_same_id_with_other_content_is_a_conflict(served: Served) -> None:
    spec = served.world.spec(argument=1)
    await served.service.enqueue(spec)
    with pytest.raises(ConflictError) as conflict:
        await served.service.enqueue(replace(spec, priority=1))
    assert conflict.value.code == "id_taken"
    assert (await served.world.get(spec.id)).priority == 0


@pytest.mark.req("M1")
async def test_an_idempotency_key_stands_for_its_first_request(served: Served) -> None:
    spec = served.world.spec(argument=1)
    first, is_new = await served.service.enqueue(spec, "key")
    again = await served.service.enqueue(replace(spec, id=new_id()), "key")
    assert (is_new, again) == (True, (first, False))
    with pytest.raises(ConflictError) as conflict:
        await served.service.enqueue(served.world.spec(argument=2), "key")
    assert conflict.value.code == "idempotency_key_reused"
    assert (await served.world.inspector.counts())[JobState.READY] == 1


@pytest.mark.req("M1")
async def test_concurrent_requests_with_one_key_make_one_job(served: Served) -> None:
    spec = served.world.spec(argument=1)
    answers = await asyncio.gather(
        *[served.service.enqueue(replace(spec, id=new_id()), "key") for _ in range(30)]
    )
    assert len({job_id for job_id, _ in answers}) == 1
    assert [is_new for _, is_new in answers].count(True) == 1


async def test_concurrent_requests_share_calls_to_the_store(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    enqueue = served.world.acceptance.enqueue

    async def counted(specs: list) -> list:
        sizes.append(len(specs))
        return await enqueue(specs)

    monkeypatch.setattr(served.service._batcher(0), "_flush", counted)
    specs = [served.world.spec(argument=n) for n in range(400)]
    answers = await asyncio.gather(*[served.service.enqueue(spec) for spec in specs])
    assert answers == [(spec.id, True) for spec in specs]
    assert len(sizes) <= 40


async def test_a_taken_id_in_a_shared_call_hurts_nobody_else(served: Served) -> None:
    taken = served.world.spec(argument=1)
    await served.service.enqueue(taken)
    specs = [served.world.spec(argument=n) for n in range(5)] + [replace(taken, priority=9)]
    answers = await asyncio.gather(*[served.service.enqueue(s) for s in specs], return_exceptions=True)
    assert answers[:5] == [(spec.id, True) for spec in specs[:5]]
    assert isinstance(answers[5], ConflictError)


@pytest.mark.req("M1")
async def test_a_store_that_takes_no_more_refuses_before_anything_happens(served: Served) -> None:
    served.admits = StoreUnavailableError("full", retry_after_s=1)
    spec = served.world.spec()
    async with served.world.unchanged():
        for refused in (
            served.service.enqueue(spec),
            served.service.enqueue(spec, "key"),
            served.service.enqueue_bulk([spec]),
        ):
            with pytest.raises(StoreUnavailableError):
                await refused


async def test_an_unknown_outcome_reaches_the_caller_as_such(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unknown(specs: list) -> list:
        raise OutcomeUnknownError("lost", retry_after_s=1)

    monkeypatch.setattr(served.service._batcher(0), "_flush", unknown)
    with pytest.raises(OutcomeUnknownError):
        await served.service.enqueue(served.world.spec())


# --- bulk


@pytest.mark.req("S3")
async def test_a_bulk_is_accepted_in_order_and_again_without_doubling(served: Served) -> None:
    specs = [served.world.spec(argument=n) for n in range(1200)]
    ids = [spec.id for spec in specs]
    assert await served.service.enqueue_bulk(specs) == ids
    assert await served.service.enqueue_bulk(specs) == ids
    assert (await served.world.inspector.counts())[JobState.READY] == 1200


@pytest.mark.req("M1")
async def test_one_taken_id_refuses_the_whole_bulk_and_is_named(served: Served) -> None:
    specs = [served.world.spec(argument=n) for n in range(700)]
    await served.service.enqueue(replace(specs[3], priority=5))
    await served.service.enqueue(replace(specs[650], priority=5))
    async with served.world.unchanged():
        with pytest.raises(ConflictError) as conflict:
            await served.service.enqueue_bulk(specs)
    assert [error.loc for error in conflict.value.errors] == [("jobs", 3, "id"), ("jobs", 650, "id")]
    assert specs[3].id in conflict.value.errors[0].msg
    assert "no job was accepted" in conflict.value.detail


async def test_an_id_taken_at_the_last_instant_is_named_and_the_others_are_in(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs = [served.world.spec(argument=n) for n in range(3)]
    look = served.world.acceptance.find_taken

    async def overtaken(wanted: Sequence[JobSpec]) -> list[int]:
        taken = await look(wanted)
        await served.service.enqueue(replace(specs[1], priority=5))
        return taken

    monkeypatch.setattr(served.world.acceptance, "find_taken", overtaken)
    with pytest.raises(ConflictError) as conflict:
        await served.service.enqueue_bulk(specs)
    assert [error.loc for error in conflict.value.errors] == [("jobs", 1, "id")]
    assert "all other jobs were accepted" in conflict.value.detail
    assert (await served.world.inspector.counts())[JobState.READY] == 3


async def test_a_store_that_fails_within_a_large_bulk_leaves_it_in_doubt_and_a_repeat_completes_it(
    served: Served,
) -> None:
    specs = [served.world.spec(argument=n) for n in range(1200)]
    redis = served.world.redis
    # A step has 8 MiB: one fits in, two do not.
    used = (await redis.info("memory"))["used_memory"]
    before = (await redis.config_get("maxmemory"))["maxmemory"]
    large = [replace(spec, argument=b"\xc5\x40\x00" + b"x" * 0x4000) for spec in specs]
    await redis.config_set("maxmemory", used + 12 * 2**20)
    try:
        with pytest.raises(OutcomeUnknownError):
            await served.service.enqueue_bulk(large)
        assert 0 < (await served.world.inspector.counts())[JobState.READY] < 1200
    finally:
        await redis.config_set("maxmemory", before)
    assert await served.service.enqueue_bulk(large) == [spec.id for spec in large]
    assert (await served.world.inspector.counts())[JobState.READY] == 1200


async def test_a_store_that_is_gone_after_the_first_step_of_a_large_bulk_leaves_it_in_doubt(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs = [served.world.spec(argument=n) for n in range(1200)]
    client = served.world.shard.client
    run_all, runs = client.run_all, 0

    async def fails_later(calls: Sequence[ScriptCall], **options: Any) -> list[tuple[str, list[Any]]]:
        nonlocal runs
        runs += 1
        if runs > 1:
            raise StoreUnavailableError("the store is away", retry_after_s=1.0)
        return await run_all(calls, **options)

    monkeypatch.setattr(client, "run_all", fails_later)
    with pytest.raises(OutcomeUnknownError, match="same IDs"):
        await served.service.enqueue_bulk(specs)
    monkeypatch.undo()
    assert (await served.world.inspector.counts())[JobState.READY] == 500
    assert await served.service.enqueue_bulk(specs) == [spec.id for spec in specs]
    assert (await served.world.inspector.counts())[JobState.READY] == 1200


async def test_one_id_for_two_jobs_of_a_bulk_refuses_it(served: Served) -> None:
    spec = served.world.spec(argument=1)
    async with served.world.unchanged():
        with pytest.raises(ConflictError) as conflict:
            await served.service.enqueue_bulk([spec, served.world.spec(), replace(spec, priority=1)])
    assert [error.loc for error in conflict.value.errors] == [("jobs", 2, "id")]
    assert await served.service.enqueue_bulk([spec, spec]) == [spec.id, spec.id]


# --- results


async def running_kept(served: Served, **fields: Any) -> tuple[str, ClaimedJob]:
    return await served.world.running(keep_result=True, **fields)


async def succeed(served: Served, worker: str, job: ClaimedJob) -> None:
    result = msgpack.packb({"type": "success", "result": 1})
    assert await served.world.settlements.settle_success(worker, [(job.job_id, job.token, result)]) == [True]


@pytest.mark.req("J14", "M10")
async def test_a_long_poll_returns_as_soon_as_the_job_ends(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What a test sees within its time came by the store's word.
    monkeypatch.setattr(module, "LOOK_AGAIN_S", 600)
    worker, job = await running_kept(served)
    async with served.listening(), served.polls(job.job_id, 5) as polls:
        await succeed(served, worker, job)
        results = await asyncio.wait_for(asyncio.gather(*polls), 30)
    assert all(isinstance(result, bytes) for result in results)


@pytest.mark.req("M10")
async def test_a_word_that_comes_before_the_stores_answer_is_not_missed(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The two travel on different connections."""
    monkeypatch.setattr(module, "LOOK_AGAIN_S", 600)
    worker, job = await running_kept(served)
    fetch = served.world.results.fetch_result
    calls = 0

    async def overtaken(job_id: str, *, watch: bool) -> object:
        nonlocal calls
        calls += 1
        answer = await fetch(job_id, watch=watch)
        if calls == 1:
            await succeed(served, worker, job)
            served.waiters.finished(job_id)
        return answer

    monkeypatch.setattr(served.world.results, "fetch_result", overtaken)
    result = await asyncio.wait_for(served.service.result(job.job_id, wait_s=60), 15)
    assert isinstance(result, bytes)


@pytest.mark.req("M10")
async def test_a_lost_word_costs_only_a_while(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_AGAIN_S", 0.1)
    worker, job = await running_kept(served)
    poll = asyncio.create_task(served.service.result(job.job_id, wait_s=60))
    await wait_until(lambda: served.waiters._waiting)
    await succeed(served, worker, job)
    assert isinstance(await asyncio.wait_for(poll, 15), bytes)


@pytest.mark.req("M2", "M10")
async def test_when_the_wait_is_over_the_state_is_told(served: Served) -> None:
    _, job = await running_kept(served)
    assert await served.service.result(job.job_id, wait_s=0) == JobState.RUNNING
    assert await served.service.result(job.job_id, wait_s=0.1) == JobState.RUNNING
    assert not served.waiters._waiting


@pytest.mark.req("J6", "J14")
async def test_what_is_not_kept_or_not_known_is_none_at_once(served: Served) -> None:
    worker, job = await served.world.running()
    await succeed(served, worker, job)
    for job_id in (job.job_id, new_id(), "no id", "../x"):
        assert await asyncio.wait_for(served.service.result(job_id, wait_s=60), 15) is None


@pytest.mark.req("J9", "M10")
async def test_a_waiting_poll_ends_with_a_final_failure_or_a_cancel(served: Served) -> None:
    async with served.listening():
        worker, job = await running_kept(served)
        async with served.polls(job.job_id) as (poll,):
            decision = Decision(JobState.FAILED, "failure", cause=Cause.ERROR, is_counted=True)
            assert await served.world.fail(worker, job, decision)
            assert await asyncio.wait_for(poll, 15) == b"failed result"
        _, job = await running_kept(served)
        async with served.polls(job.job_id) as (poll,):
            await served.service.cancel(job.job_id)
            assert await asyncio.wait_for(poll, 15) is None


async def test_a_poll_that_is_given_up_leaves_nothing(served: Served) -> None:
    _, job = await running_kept(served)
    poll = asyncio.create_task(served.service.result(job.job_id, wait_s=60))
    await wait_until(lambda: served.waiters._waiting)
    poll.cancel()
    await asyncio.gather(poll, return_exceptions=True)
    assert not served.waiters._waiting


# --- cancel and the other steering


@pytest.mark.req("M9")
async def test_cancelling_a_waiting_job_tells_nobody(served: Served) -> None:
    job_id = await served.world.enqueue()
    await served.service.cancel(job_id)
    await served.service.stop()
    assert (await served.world.state(job_id), served.orders) == (JobState.CANCELED, [])


async def test_many_cancellations_at_once_share_round_trips_and_none_spoils_another(served: Served) -> None:
    world = served.world
    over = (await world.running())[1]
    job_ids = [await world.enqueue() for _ in range(150)]
    await served.service.cancel(over.job_id)
    damaged = await world.enqueue()
    calls: list[int] = []
    run_each = world.shard.client.run_each

    async def counted(each: Any) -> Any:
        calls.append(len(each))
        answers = await run_each(each)
        return [
            DamagedError("its key is of another type") if damaged in call.args else answer
            for call, answer in zip(each, answers, strict=True)
        ]

    served.world.steering._client.run_each = counted  # type: ignore[method-assign,assignment]
    ends = await asyncio.gather(
        *(served.service.cancel(job_id) for job_id in [*job_ids, over.job_id, damaged, new_id()]),
        return_exceptions=True,
    )
    assert ends[:151] == [None] * 151
    assert isinstance(ends[151], DamagedError)
    assert isinstance(ends[152], NotFoundError)
    assert (sum(calls), len(calls) <= 4) == (153, True)


@pytest.mark.req("M9")
async def test_cancelling_a_running_job_tells_its_worker(served: Served) -> None:
    worker, job = await served.world.running()
    await served.service.cancel(job.job_id)
    assert await served.world.state(job.job_id) == JobState.CANCELED
    await wait_until(lambda: served.orders)
    assert served.orders == [(worker, job.job_id, job.token)]


@pytest.mark.req("M9", "D14")
async def test_the_order_reaches_the_endpoint_of_the_worker(served: Served) -> None:
    world = served.world
    client = WorkerClient(loopback_guard(), timeout_s=LiveValue(2))
    await client.start()
    async with FakeWorker().serving() as endpoint:
        await endpoint.join(world.workers)
        served.service._tell_worker = CancelOrders(world.workers, world.leadership, client)
        job_id = await world.enqueue()
        (job,) = await world.claim(endpoint.id)
        await served.service.cancel(job_id)
        await wait_until(lambda: endpoint.cancels)
        assert endpoint.cancels == [
            (job_id, {"token": job.token, "epoch": await world.leadership.newest_number()})
        ]
    await client.stop()


@pytest.mark.req("M9")
async def test_what_does_not_apply_is_a_conflict_that_names_the_state(served: Served) -> None:
    world = served.world
    worker, job = await world.running()
    for act in (
        served.service.retry(job.job_id),
        served.service.run_now(job.job_id),
        served.service.delete(job.job_id),
        served.service.patch(job.job_id, Changes(priority=1)),
    ):
        with pytest.raises(ConflictError) as conflict:
            await act
        assert conflict.value.code == "job_running"
    await succeed(served, worker, job)
    with pytest.raises(ConflictError) as conflict:
        await served.service.cancel(job.job_id)
    assert conflict.value.code == "job_succeeded"


@pytest.mark.req("M9")
async def test_an_unknown_job_is_told_apart(served: Served) -> None:
    service = served.service
    for job_id in (new_id(), "no id"):
        for act in (
            service.view(job_id),
            service.cancel(job_id),
            service.retry(job_id),
            service.run_now(job_id),
            service.delete(job_id),
        ):
            with pytest.raises(NotFoundError) as unknown:
                await act
            assert unknown.value.code == "unknown_job"


@pytest.mark.req("M4")
async def test_a_view_lists_every_attempt_and_the_present_one_last(served: Served) -> None:
    world = served.world
    worker, job = await world.running()
    await world.fail(worker, job, Decision(JobState.READY, "failure", cause=Cause.ERROR, is_counted=True))
    (again,) = await world.claim(worker)
    detail = await served.service.view(job.job_id)
    assert [(a.attempt, a.outcome) for a in detail.attempts] == [(1, "failure"), (2, None)]
    await succeed(served, worker, again)
    detail = await served.service.view(job.job_id)
    assert [(a.attempt, a.outcome) for a in detail.attempts] == [(1, "failure"), (2, "success")]
    assert detail.attempts[-1].finished_at_ms


@pytest.mark.req("M4", "M9")
async def test_a_success_that_was_retried_by_hand_stays_in_the_view(served: Served) -> None:
    world = served.world
    worker, job = await world.running()
    await succeed(served, worker, job)
    (success,) = (await served.service.view(job.job_id)).attempts
    await served.service.retry(job.job_id)
    assert (await served.service.view(job.job_id)).attempts == [success]
    (again,) = await world.claim(worker)
    world.pass_ms(5)
    await succeed(served, worker, again)
    first, second = (await served.service.view(job.job_id)).attempts
    assert first == success
    assert (second.attempt, second.outcome, second.finished_at_ms) == (2, "success", world.now_ms)
