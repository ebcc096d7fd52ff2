"""A caller that belongs to another store is refused, and learns from each answer which store this is."""

import asyncio
import uuid
from typing import Any

import pytest

from tests.chaos.proxy import HttpLink
from tests.support import real_time
from tests.support.each import for_each
from tests.support.master import Api, master_on
from tests.support.server import StoreServer
from tests.support.waiting import wait_until
from worker_sdk import Worker

pytestmark = real_time.MASTER

OTHER = {"JQ-Store": uuid.uuid4().hex}


async def store_of(api: Api, method: str, path: str) -> str:
    return (await api.http.request(method, path)).headers["jq-store"]


async def test_each_answer_names_the_store(api: Api) -> None:
    job_id = await api.enqueue("work", delay=60)
    named = {
        await store_of(api, "GET", "/healthz"),
        await store_of(api, "GET", f"/api/jobs/{job_id}"),
        await store_of(api, "GET", "/api/jobs/none"),
        await store_of(api, "PATCH", "/api/jobs"),
        await store_of(api, "DELETE", f"/api/jobs/{job_id}"),
    }
    assert len(named) == 1
    (store,) = named
    assert len(store) == 32
    assert (await api.call("GET", "/api/jobs", **{"JQ-Store": store}))[0] == 200


@for_each(
    ("method", "path", "body"),
    [
        ("POST", "/api/jobs", {"name": "work"}),
        ("GET", "/api/jobs", None),
        ("DELETE", "/api/workers/0198c3f4-5e6a-7b8c-9d0e-1f2a3b4c5d6e", None),
        ("POST", "/api/workers/0198c3f4-5e6a-7b8c-9d0e-1f2a3b4c5d6e/heartbeat", {"running": [], "free": 1}),
        ("POST", "/api/workers/0198c3f4-5e6a-7b8c-9d0e-1f2a3b4c5d6e/results", {"results": []}),
    ],
)
async def test_a_call_for_another_store_does_nothing(
    api: Api, method: str, path: str, body: dict[str, Any] | None
) -> None:
    status, problem = await api.call(method, path, body, **OTHER)
    assert (status, problem["code"]) == (421, "other_store")
    assert sum((await api.counts()).values()) == 0


@pytest.mark.row(82)
async def test_a_result_comes_home_though_a_stranger_stood_at_the_masters_address(
    store_server: StoreServer,
) -> None:
    """The stranger is a real master, of a store that has never heard of the worker."""
    async with (
        master_on(store_server.url, lease_ms=15_000) as (master, api),
        master_on(store_server.url) as (stranger, stranger_api),
    ):
        address = HttpLink("masters", ("127.0.0.1", master.server.port), seed=1)
        await address.start()
        worker = Worker(f"http://127.0.0.1:{address.port}", pull=True, grace_s=0.2)
        has_begun, may_end = asyncio.Event(), asyncio.Event()
        starts = 0

        @worker.handler("work")
        async def work(argument: Any) -> str:
            nonlocal starts
            starts += 1
            has_begun.set()
            await may_end.wait()
            return "done"

        try:
            async with worker.running():
                job_id = await api.enqueue("work", keep_result=True, max_retry=0)
                await has_begun.wait()
                worker_id = worker.worker_id
                address.upstream = ("127.0.0.1", stranger.server.port)
                address.reset()
                may_end.set()

                async def has_refused() -> bool:
                    metrics = (await stranger_api.http.get("/metrics")).text
                    return any("/results" in line and "421" in line for line in metrics.splitlines())

                await wait_until(has_refused, what="the stranger was given the result")
                address.upstream = ("127.0.0.1", master.server.port)
                address.reset()
                await api.until_state(job_id, "succeeded")
                assert worker.worker_id == worker_id
        finally:
            await address.stop()
        assert starts == 1
