"""A retry that names the attempt it has seen runs the job once, however often it is sent."""

import asyncio

import pytest

from tests.support import real_time
from tests.support.master import master_on
from tests.support.scripted_worker import puller_at
from tests.support.server import StoreServer

pytestmark = [pytest.mark.req("D8"), real_time.MASTER]


async def test_a_repeat_of_a_retry_changes_nothing(store_server: StoreServer) -> None:
    async with master_on(store_server.url) as (_, api), puller_at(api) as worker:
        job_id = await api.enqueue("work")
        (job,) = await worker.claim()
        await worker.end(job)
        path, seen = f"/api/jobs/{job_id}/retry", {"attempt": 1}
        answers = await asyncio.gather(*(api.call("POST", path, seen) for _ in range(4)))
        assert sorted(status for status, _ in answers) == [200, 409, 409, 409]
        (job,) = await worker.claim()
        await worker.end(job)
        # It has succeeded again, and may be retried; but not by a repeat of the call from before.
        status, problem = await api.call("POST", path, seen)
        assert (status, problem["code"]) == (409, "retried_before")
        assert (await api.job(job_id))["attempt"] == 2
        # Last year's client sends nothing.
        assert (await api.call("POST", path))[0] == 200
        assert (await api.call("POST", path, {"attempt": "x"}))[0] == 422
