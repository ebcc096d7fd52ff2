"""Operators' actions on single jobs."""

import asyncio
from typing import Any

import pytest

from jqmaster.domain.ids import new_id
from jqmaster.domain.jobs.job import JobState
from jqmaster.errors import ConflictError, DamagedError, NotFoundError
from jqmaster.live_value import LiveValue
from jqmaster.runtime.outbound.commands import CancelCommands
from jqmaster.runtime.outbound.worker_client import WorkerClient
from jqmaster.store.jobs.operator_actions import Changes
from tests.support import real_time
from tests.support.egress import loopback_guard
from tests.support.fake_worker import FakeWorker
from tests.support.jobs import Served, succeed
from tests.support.waiting import wait_until

pytestmark = real_time.LOOPS


@pytest.mark.req("M9")
async def test_cancelling_a_waiting_job_tells_nobody(served: Served) -> None:
    job_id = await served.world.enqueue()
    await served.actions.cancel(job_id)
    await served.actions.stop()
    assert (await served.world.state(job_id), served.orders) == (JobState.CANCELED, [])


async def test_many_cancellations_at_once_share_round_trips_and_none_spoils_another(served: Served) -> None:
    world = served.world
    over = (await world.running())[1]
    job_ids = [await world.enqueue() for _ in range(150)]
    await served.actions.cancel(over.job_id)
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

    served.world.operator_actions._client.run_each = counted  # type: ignore[method-assign,assignment]
    ends = await asyncio.gather(
        *(served.actions.cancel(job_id) for job_id in [*job_ids, over.job_id, damaged, new_id()]),
        return_exceptions=True,
    )
    assert ends[:151] == [None] * 151
    assert isinstance(ends[151], DamagedError)
    assert isinstance(ends[152], NotFoundError)
    assert (sum(calls), len(calls) <= 4) == (153, True)


@pytest.mark.req("M9")
async def test_cancelling_a_running_job_tells_its_worker(served: Served) -> None:
    worker, job = await served.world.running()
    await served.actions.cancel(job.job_id)
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
        served.actions._tell_worker = CancelCommands(world.workers, world.leadership, client)
        job_id = await world.enqueue()
        (job,) = await world.claim(endpoint.id)
        await served.actions.cancel(job_id)
        await wait_until(lambda: endpoint.cancels)
        assert endpoint.cancels == [
            (job_id, {"token": job.token, "epoch": await world.leadership.newest_number()})
        ]
    await client.stop()


@pytest.mark.req("M9")
async def test_an_action_that_does_not_apply_is_a_conflict_that_names_the_state(served: Served) -> None:
    world = served.world
    worker, job = await world.running()
    for act in (
        served.actions.retry(job.job_id),
        served.actions.run_now(job.job_id),
        served.actions.delete(job.job_id),
        served.actions.patch(job.job_id, Changes(priority=1)),
    ):
        with pytest.raises(ConflictError) as conflict:
            await act
        assert conflict.value.code == "job_running"
    await succeed(served.world, worker, job)
    with pytest.raises(ConflictError) as conflict:
        await served.actions.cancel(job.job_id)
    assert conflict.value.code == "job_succeeded"


@pytest.mark.req("M9")
async def test_an_unknown_job_is_told_apart(served: Served) -> None:
    actions = served.actions
    for job_id in (new_id(), "no id"):
        for act in (
            served.jobs.view(job_id),
            actions.cancel(job_id),
            actions.retry(job_id),
            actions.run_now(job_id),
            actions.delete(job_id),
        ):
            with pytest.raises(NotFoundError) as unknown:
                await act
            assert unknown.value.code == "unknown_job"
