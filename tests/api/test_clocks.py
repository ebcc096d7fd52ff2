"""The clocks of masters are wrong: leases and delays follow the store's clock, and only signatures use the master's."""

import asyncio
import logging
import time
from types import SimpleNamespace

import pytest

from tests.support import real_time
from tests.support.master import master_on
from tests.support.server import StoreServer
from tests.support.waiting import wait_until
from worker_sdk import Context, Worker
from worker_sdk.transport import signature

pytestmark = real_time.MASTER

MINUTE_S = 60


def set_wrong(patch: pytest.MonkeyPatch, by_s: float) -> None:
    """Make the clock wrong that the master signs with."""
    wrong = SimpleNamespace(time_ns=lambda: time.time_ns() + int(by_s * 1e9))
    patch.setattr(signature, "time", wrong)


@pytest.mark.req("D18", "M6")
@pytest.mark.parametrize("sign", [1, -1])
async def test_a_wrong_clock_of_a_master_costs_no_lease_and_is_named_when_workers_refuse_its_signature(
    store_server: StoreServer, caplog: pytest.LogCaptureFixture, sign: int
) -> None:
    async with master_on(store_server.url, lease_ms=4_000, worker_stale_s=4.0) as (_, api):
        worker = Worker(api.http.base_url.__str__().rstrip("/"), grace_s=0.2, max_jobs=4)
        go_on = asyncio.Event()

        @worker.handler("wait")
        async def wait(argument: int, ctx: Context) -> int:
            await go_on.wait()
            return argument

        @worker.handler("echo")
        async def echo(argument: int) -> int:
            return argument

        async with worker.running():
            with pytest.MonkeyPatch.context() as patch:
                set_wrong(patch, sign * 4 * MINUTE_S)
                running = await api.enqueue("wait", 1, max_retry=0)
                await api.until_state(running, "running")
                await api.until_state(await api.enqueue("echo", 2), "succeeded")
                set_wrong(patch, sign * 10 * MINUTE_S)
                caplog.clear()
                refused = await api.enqueue("echo", 3, max_retry=0)
                with caplog.at_level(logging.WARNING):
                    await wait_until(lambda: "clocks" in caplog.text, what="it is told")
                # Two leases pass: the store measures this delay.
                later = await api.enqueue("nobody", delay=8.0)
                await api.until_state(later, "ready")
                # The job is ready between two attempts to offer it: each attempt is a claim that is given back.
                await api.until_state(refused, "ready")
                job = await api.job(running)
                assert (job["state"], job["attempt"], job["losses"]) == ("running", 1, 0)
            go_on.set()
            for job_id in (running, refused):
                job = await api.until_state(job_id, "succeeded", timeout_s=40)
                assert (job["attempt"], job["failures"], job["losses"]) == (1, 0, 0)
