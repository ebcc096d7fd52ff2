"""Jobs in states that the former release does not know, while it leads again."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.support import real_time
from tests.support.master import master_on
from tests.support.processes import running
from tests.support.server import StoreServer
from tests.upgrade.former import FormerMaster, FormerWorker
from worker_sdk import Challenged, Context, Discard, Worker
from worker_sdk.pusher import Pusher

pytestmark = [pytest.mark.req("M12"), pytest.mark.system, pytest.mark.timeout(120), real_time.PROCESSES]

FAR = "2099-01-01T00:00:00Z"


def _worker(url: str) -> Worker:
    worker = Worker(url, pull=True)

    @worker.handler("unwanted")
    async def unwanted(argument: Any) -> None:
        raise Discard("nobody wants it")

    @worker.handler("outside")
    async def outside(argument: Any, ctx: Context) -> Any:
        if ctx.callback is None:
            raise Challenged((await ctx.open_challenge()).request_id)
        return ctx.callback.json()

    @worker.handler("echo")
    async def echo(argument: Any) -> Any:
        return argument

    return worker


async def test_jobs_in_states_that_the_former_release_does_not_know_rest_until_the_newer_one_is_back(
    store_server: StoreServer, tmp_path: Path, release: Path
) -> None:
    """Roll back once and upgrade again: the former release works beside these jobs, and damages none."""
    shard = f"u{uuid4().hex[:10]}"
    async with master_on(store_server.url, shard=shard) as (master, api):
        later = await api.enqueue("echo", "later", run_at=FAR)
        last = await api.enqueue("echo", "last", after={"jobs": [later]})
        resting = {
            await api.enqueue("unwanted"): "discarded",
            await api.enqueue("outside"): "awaiting_callback",
            last: "awaiting_jobs",
        }
        async with _worker(master.server.url).running():
            for job_id, state in resting.items():
                await api.until_state(job_id, state, timeout_s=30)
    former = FormerMaster(release, tmp_path, store_server.url, shard=shard)
    with running(former, FormerWorker(release, tmp_path, former.url)):
        async with Pusher(former.url) as pusher:
            meanwhile = [await pusher.enqueue("echo", n, keep_result=True) for n in range(10)]
            for n, job_id in enumerate(meanwhile):
                result = await pusher.result(job_id, wait=30)
                assert result is not None
                assert result.result == n
        async with httpx.AsyncClient(base_url=former.url, trust_env=False) as http:
            for job_id in resting:
                assert (await http.get(f"/api/jobs/{job_id}")).status_code == 500
    async with master_on(store_server.url, shard=shard) as (master, api):
        for job_id, state in resting.items():
            assert await api.state(job_id) == state
        for job_id in meanwhile:
            assert await api.state(job_id) == "succeeded"
        async with _worker(master.server.url).running():
            assert (await api.call("POST", f"/api/jobs/{later}/run"))[0] == 200
            await api.until_state(last, "succeeded", timeout_s=30)
