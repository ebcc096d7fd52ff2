"""A job that is retried while its earlier handler still runs on the same worker starts again as soon as that ends."""

import asyncio
import threading
import time
from collections import defaultdict

import pytest

from tests.support import real_time
from tests.support.master import Api, master_on
from tests.support.server import StoreServer
from tests.support.waiting import wait_until
from worker_sdk import Context, Worker

pytestmark = real_time.MASTER

ORDERS = 100
CLEANUP_S = 0.3
# This is far below the lease, for which a new attempt waits if nobody takes it up.
LATE_S = 5.0


@pytest.mark.req("M8")
@pytest.mark.parametrize("pull", [True, False], ids=["pull", "push"])
async def test_none_of_a_hundred_starts_late(store_server: StoreServer, pull: bool) -> None:
    async with master_on(
        store_server.url, lease_ms=15_000, offer_ms=5_000, heartbeat_interval_s=1.0, worker_stale_s=5.0
    ) as (master, api):
        worker = Worker(master.server.url, max_jobs=ORDERS, pull=pull, grace_s=0)
        starts: dict[str, list[float]] = defaultdict(list)
        running: dict[str, int] = defaultdict(int)
        most: dict[str, int] = defaultdict(int)

        @worker.handler("work")
        async def work(argument: object, ctx: Context) -> None:
            starts[ctx.job_id].append(time.monotonic())
            running[ctx.job_id] += 1
            most[ctx.job_id] = max(most[ctx.job_id], running[ctx.job_id])
            try:
                if len(starts[ctx.job_id]) == 1:
                    await ctx.cancelled
                    await asyncio.sleep(60)
            finally:
                if len(starts[ctx.job_id]) == 1:
                    await asyncio.sleep(CLEANUP_S)
                running[ctx.job_id] -= 1

        job_ids = [await api.enqueue("work") for _ in range(ORDERS)]
        async with worker.running():
            await wait_until(lambda: len(starts) == ORDERS, what="each job has started")
            ordered_at_s = dict(await asyncio.gather(*(_cancel_and_retry(api, job_id) for job_id in job_ids)))
            for job_id in job_ids:
                await api.until_state(job_id, "succeeded", timeout_s=40)
        late = [j for j in job_ids if starts[j][1] - ordered_at_s[j] > LATE_S]
        assert late == []
        assert {len(starts[job_id]) for job_id in job_ids} == {2}
        assert set(most.values()) == {1}, "never both attempts at once"


async def _cancel_and_retry(api: Api, job_id: str) -> tuple[str, float]:
    """Return the job's ID and the time at which its retry was answered."""
    for order in ("cancel", "retry"):
        status, answer = await api.call("POST", f"/api/jobs/{job_id}/{order}")
        assert status == 200, answer
    return job_id, time.monotonic()


@pytest.mark.req("J7")
@pytest.mark.parametrize("pull", [True, False], ids=["pull", "push"])
@pytest.mark.parametrize("kept_s", [0.0, 0.3, 1.5], ids=["starts", "late", "handed back meanwhile"])
async def test_the_retry_of_a_thread_that_outlives_its_timeout_starts_when_the_thread_has_ended(
    store_server: StoreServer, pull: bool, kept_s: float
) -> None:
    async with master_on(
        store_server.url, lease_ms=15_000, offer_ms=5_000, heartbeat_interval_s=1.0, worker_stale_s=5.0
    ) as (master, api):
        worker = Worker(master.server.url, max_jobs=10, pull=pull, grace_s=0)
        may_end = threading.Event()
        starts: list[float] = []
        ends: list[float] = []

        @worker.handler("deaf")
        def deaf(argument: object) -> None:
            starts.append(time.monotonic())
            may_end.wait(20)
            ends.append(time.monotonic())

        async def is_offered_again() -> bool:
            shown = await api.job(job_id)
            return bool(shown["state"] == "running" and shown["attempt"] == 2)

        retry = {"base_s": 0.01, "jitter": False}
        async with worker.running():
            job_id = await api.enqueue("deaf", timeout=1.0, max_retry=1, retry=retry)
            await wait_until(is_offered_again, what="the retry is offered")
            await asyncio.sleep(kept_s)
            assert len(starts) == 1, "never both attempts at once"
            may_end.set()
            shown = await api.until_state(job_id, "succeeded", timeout_s=40)
        assert len(starts) == 2
        assert 0 <= starts[1] - ends[0] < LATE_S
        # Being handed back uses no retry: there is only one.
        assert shown["failures"] == 1


@pytest.mark.req("J7")
@pytest.mark.parametrize("pull", [True, False], ids=["pull", "push"])
async def test_a_retry_never_stays_with_a_worker_that_is_stuck_while_another_is_free(
    store_server: StoreServer, pull: bool
) -> None:
    jobs = 3
    async with master_on(
        store_server.url, lease_ms=15_000, offer_ms=5_000, heartbeat_interval_s=1.0, worker_stale_s=5.0
    ) as (master, api):
        may_end = threading.Event()
        ran_on: dict[str, list[str]] = defaultdict(list)

        def worker_named(name: str) -> Worker:
            worker = Worker(master.server.url, max_jobs=10, pull=pull, grace_s=0)

            @worker.handler("deaf")
            def deaf(argument: object, ctx: Context) -> None:
                ran_on[ctx.job_id].append(name)
                if len(ran_on[ctx.job_id]) == 1:
                    may_end.wait(60)

            return worker

        # Half of these timeouts is the time for which a worker keeps a retry that it cannot start.
        terms = {"timeout": 4.0, "max_retry": 1, "retry": {"base_s": 0.01, "jitter": False}}
        async with worker_named("stuck").running():
            job_ids = [await api.enqueue("deaf", **terms) for _ in range(jobs)]
            await wait_until(lambda: len(ran_on) == jobs, what="each job runs on the only worker")
            async with worker_named("free").running():
                try:
                    for job_id in job_ids:
                        await api.until_state(job_id, "succeeded", timeout_s=12)
                finally:
                    may_end.set()
        assert list(ran_on.values()) == [["stuck", "free"]] * jobs
