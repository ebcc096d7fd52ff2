"""Many pushers enqueue far more than can be processed: the jobs are taken, and running work is not disturbed."""

import asyncio
from pathlib import Path
from typing import Any

import psutil
import pytest

from jqmaster.domain.ids import new_id
from tests.support import long, real_time
from tests.support.master import Api
from tests.support.processes import MasterProcess, WorkerProcess, running
from tests.support.waiting import wait_until
from tests.system.test_kill import starts

pytestmark = [pytest.mark.system, pytest.mark.timeout(240), real_time.PROCESSES]

BULKS, OF_JOBS, AT_ONCE = long.size(30, 100), 1000, 25
MAX_MORE_MIB = 150


@pytest.mark.sized
@pytest.mark.req("M1", "M6")
async def test_a_fan_out_of_many_thousand_jobs_costs_no_lease_no_lead_and_little_memory(
    tmp_path: Path,
) -> None:
    master = MasterProcess(tmp_path, worker_stale_s=5, leader_ttl_s=5, lease_ms=10_000)
    worker = WorkerProcess(tmp_path, master.url)
    with running(master, worker):
        api = Api(master.url)
        _, before = await api.call("GET", "/api/masters")
        # It runs until the fan-out is over, which takes longer than a lease, and is then canceled.
        long = await api.enqueue("nap", 600.0, timeout=3600, max_retry=0)
        await wait_until(lambda: starts(worker), what="it runs")
        process = psutil.Process(master.pid)
        resident = process.memory_info().rss
        most = 0
        room = asyncio.Semaphore(AT_ONCE)

        async def push() -> None:
            nonlocal most
            jobs: list[dict[str, Any]] = [
                {"id": new_id(), "name": "later", "argument": "x" * 100} for _ in range(OF_JOBS)
            ]
            async with room:

                async def is_taken() -> bool:
                    status, answer = await api.call("POST", "/api/jobs/bulk", {"jobs": jobs})
                    assert status in (200, 201, 503), answer
                    return status != 503

                await wait_until(is_taken, timeout_s=60, what="a bulk is taken")
            most = max(most, process.memory_info().rss)

        await asyncio.gather(*(push() for _ in range(BULKS)))
        assert (await api.counts())["ready"] == BULKS * OF_JOBS
        job = await api.job(long)
        assert (job["state"], job["attempt"], job["losses"]) == ("running", 1, 0)
        _, after = await api.call("GET", "/api/masters")
        assert after["epoch"] == before["epoch"], "it lost the lead"
        assert (most - resident) / 2**20 < MAX_MORE_MIB
        # Even among all these, the next job is served at once.
        await api.until_state(await api.enqueue("echo", 1), "succeeded")
        assert (await api.call("POST", f"/api/jobs/{long}/cancel"))[0] == 200
        await api.until_state(long, "canceled")
        await api.http.aclose()
