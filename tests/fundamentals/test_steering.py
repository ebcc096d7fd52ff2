"""Priorities, delays, results and operators' actions on single jobs."""

import asyncio
from typing import Any

import pytest

from tests.support import real_time
from tests.support.master import Api
from tests.support.waiting import wait_until
from worker_sdk import Context, NotFinished, Pusher, RefusedError, SyncPusher, Worker

pytestmark = real_time.MASTER


@pytest.mark.req("J4")
@pytest.mark.req("J12")
async def test_the_smallest_priority_runs_first_and_the_oldest_within(url: str, pusher: Pusher) -> None:
    for priority in (0, 2**31 - 1, -5, 0, -(2**31), -5):
        await pusher.enqueue("note", priority, priority=priority)
    worker = Worker(url, max_jobs=1)
    seen: list[int] = []

    @worker.handler("note")
    async def note(priority: int) -> None:
        seen.append(priority)

    async with worker.running():
        await wait_until(lambda: len(seen) == 6)
    assert seen == [-(2**31), -5, -5, 0, 0, 2**31 - 1]


@pytest.mark.req("J4")
async def test_a_priority_out_of_range_is_refused(pusher: Pusher) -> None:
    with pytest.raises(RefusedError) as refused:
        await pusher.enqueue("note", priority=2**31)
    assert refused.value.status == 422
    assert refused.value.errors[0]["loc"] == ["priority"]


@pytest.mark.req("J6")
@pytest.mark.req("J14")
async def test_a_result_is_kept_only_where_asked_for(url: str, pusher: Pusher) -> None:
    worker = Worker(url)

    @worker.handler("echo")
    async def echo(value: Any) -> Any:
        return value

    kept = await pusher.enqueue("echo", 1, keep_result=True)
    dropped = await pusher.enqueue("echo", 2)
    with pytest.raises(NotFinished):
        await pusher.result(kept)
    async with worker.running():
        result = await pusher.result(kept, wait=10)
        assert result
        assert result.result == 1
        assert await pusher.result(dropped, wait=10) is None


@pytest.mark.req("M2")
async def test_the_state_of_a_job_can_be_asked_for_at_any_time(url: str, pusher: Pusher) -> None:
    worker = Worker(url)
    go_on = asyncio.Event()

    @worker.handler("wait")
    async def wait(_: Any) -> None:
        await go_on.wait()

    job_id = await pusher.enqueue("wait")
    later = await pusher.enqueue("wait", delay=3600)
    assert (await pusher.status(job_id))["state"] == "ready"
    assert (await pusher.status(later))["state"] == "scheduled"
    async with worker.running():

        async def state() -> str:
            return (await pusher.status(job_id))["state"]

        async def is_running() -> bool:
            return await state() == "running"

        async def has_succeeded() -> bool:
            return await state() == "succeeded"

        await wait_until(is_running)
        go_on.set()
        await wait_until(has_succeeded)


@pytest.mark.req("M9")
async def test_a_waiting_job_can_be_canceled_retried_and_run_now(api: Api, url: str, pusher: Pusher) -> None:
    job_id = await pusher.enqueue("echo", delay=3600, keep_result=True)
    await pusher.cancel(job_id)
    assert (await pusher.status(job_id))["cause"] == "canceled"
    assert (await api.call("POST", f"/api/jobs/{job_id}/retry"))[1]["state"] == "ready"
    other = await pusher.enqueue("echo", delay=3600)
    assert (await api.call("POST", f"/api/jobs/{other}/run"))[1]["state"] == "ready"
    worker = Worker(url)

    @worker.handler("echo")
    async def echo(value: Any) -> Any:
        return value

    async with worker.running():
        assert await pusher.result(job_id, wait=10)
        await api.until_state(other, "succeeded")


@pytest.mark.req("M9")
async def test_a_running_job_is_told_to_stop(url: str, pusher: Pusher) -> None:
    worker = Worker(url)
    told = asyncio.Event()

    @worker.handler("long")
    async def long(_: Any, ctx: Context) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            told.set()
            raise

    async with worker.running():
        job_id = await pusher.enqueue("long", timeout=600)

        async def runs() -> bool:
            return (await pusher.status(job_id))["state"] == "running"

        await wait_until(runs)
        await pusher.cancel(job_id)
        await asyncio.wait_for(told.wait(), 10)
        assert (await pusher.status(job_id))["state"] == "canceled"


async def test_the_same_id_twice_is_one_job(pusher: Pusher) -> None:
    job_id = await pusher.enqueue("once", 1)
    assert await pusher.enqueue("once", 1, id=job_id) == job_id
    with pytest.raises(RefusedError) as refused:
        await pusher.enqueue("once", 2, id=job_id)
    assert refused.value.status == 409


async def test_a_pusher_without_asyncio(url: str) -> None:
    def push() -> str:
        with SyncPusher(url) as pusher:
            return str(pusher.status(pusher.enqueue("echo", "x", tags=["a"]))["tags"])

    assert await asyncio.to_thread(push) == "['a']"


@pytest.mark.req("S4")
async def test_a_large_argument_is_refused_with_the_advice_to_pass_an_id(pusher: Pusher) -> None:
    with pytest.raises(RefusedError) as refused:
        await pusher.enqueue("photo.resize", b"x" * 300_000)
    assert refused.value.status == 413
    assert "pass an ID" in refused.value.detail


@pytest.mark.req("M7")
async def test_workers_share_the_jobs(url: str, pusher: Pusher) -> None:
    """Workers do not know each other; each gets jobs while it has room."""
    took: dict[int, int] = {0: 0, 1: 0, 2: 0}

    def sharing(number: int) -> Worker:
        worker = Worker(url, max_jobs=2)

        @worker.handler("share")
        async def share(_: Any) -> None:
            took[number] += 1
            await asyncio.sleep(0.05)

        return worker

    workers = [sharing(number) for number in took]
    async with workers[0].running(), workers[1].running(), workers[2].running():
        await pusher.enqueue_many(("share", n) for n in range(60))
        await wait_until(lambda: sum(took.values()) == 60)
    assert all(count > 0 for count in took.values())


@pytest.mark.req("D24")
@pytest.mark.parametrize("pull", [False, True])
async def test_a_worker_takes_as_many_jobs_as_an_operator_says(
    url: str, api: Api, pusher: Pusher, pull: bool
) -> None:
    running: set[int] = set()
    may_end = asyncio.Event()
    worker = Worker(url, max_jobs=2, pull=pull)

    @worker.handler("hold")
    async def hold(number: int) -> None:
        running.add(number)
        await may_end.wait()
        running.discard(number)

    async with worker.running():
        await pusher.enqueue_many(("hold", n) for n in range(6))
        await wait_until(lambda: len(running) == 2)
        (view,) = [w for w in (await api.call("GET", "/api/workers"))[1]["workers"] if "hold" in w["names"]]
        path = f"/api/workers/{view['id']}/slots"
        assert (await api.call("POST", path, {"max_jobs": 5}))[0] == 200
        await wait_until(lambda: len(running) == 5)
        # The limit is lowered: all five go on, and the sixth waits until none runs.
        assert (await api.call("POST", path, {"max_jobs": 1}))[0] == 200
        assert len(running) == 5
        may_end.set()
        await wait_until(lambda: not running)
