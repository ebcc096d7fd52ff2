"""A job that is canceled and retried at once starts again as soon as its earlier handler ends, on the same worker."""

import asyncio
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
