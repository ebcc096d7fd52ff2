"""Flows whose master is killed between the end of a job and the release of its dependents: no job gets stuck."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from jqmaster.store.keys import Keys
from jqmaster.store.link.client import StoreClient
from tests.support import real_time
from tests.support.admin import admin_of
from tests.support.processes import MasterProcess, Process, running
from tests.support.server import StoreServer
from tests.support.waiting import wait_until
from worker_sdk import After, Flow, Pusher, chain, group, make_job

pytestmark = [pytest.mark.system, pytest.mark.timeout(240), real_time.PROCESSES]

# By hand, use JQMASTER_FLOW_KILLS=50
KILLS = int(os.environ.get("JQMASTER_FLOW_KILLS", "2"))
# Pages of dependents keep the leader busy long enough to be killed in between.
WIDTH = 400
STEP: Any = {"rerun_lost": True, "max_retry": 0}

PROGRAM = """
import os
from worker_sdk import Worker

# Few at a time: on a busy machine, more would begin too late for the short leases of this test, again and again.
worker = Worker(os.environ["MASTER"], max_jobs=8)

@worker.handler("begin")
@worker.handler("tidy")
async def begin(argument):
    return argument

@worker.handler("step")
async def step(argument, ctx):
    return ctx.inputs[0].result + argument

@worker.handler("last")
async def last(argument, ctx):
    return sum(ctx.inputs.results())

@worker.handler("fail")
async def fail(argument):
    raise ValueError("fails for good")

worker.run()
"""


@pytest.fixture
async def store() -> AsyncIterator[tuple[StoreServer, StoreClient]]:
    """A server that outlives the masters, and can be observed without them."""
    server = StoreServer()
    server.start()
    client = StoreClient(server.url, connections=2)
    try:
        yield server, client
    finally:
        await client.close()
        server.stop()


def wide_flow() -> tuple[dict[str, Any], Flow[Any]]:
    """Return the first job and a flow in which many jobs wait for it and one waits for all of those."""
    begin = make_job("begin", 1000, **STEP)
    steps = [make_job("step", n, **STEP) for n in range(WIDTH)]
    return begin, chain(begin, group(steps), make_job("last", keep_result=True, **STEP))


def failing_flow() -> tuple[dict[str, Any], Flow[Any], dict[str, Any]]:
    """Return a job that fails, a flow in which many jobs are skipped because of it, and one that still runs."""
    flow = Flow()
    fails = flow.add(make_job("fail", max_retry=0))
    after = flow.add(
        group(chain(*(make_job("step", 1, **STEP) for _ in range(2))) for _ in range(WIDTH // 2)), fails
    )
    ends = [job["id"] for job in after.to_jobs() if "after" in job]
    tidy = flow.add(make_job("tidy", 7, keep_result=True, **STEP), After(ends, when="finished"))
    return fails, flow, tidy


@pytest.mark.req("P9", "M1")
async def test_no_flow_is_stuck_although_the_master_is_killed_before_the_dependents_are_released(
    tmp_path: Path, store: tuple[StoreServer, StoreClient]
) -> None:
    server, client = store
    redis, keys = admin_of(client), Keys("jq")
    program = tmp_path / "worker.py"
    program.write_text(PROGRAM)
    master = MasterProcess(tmp_path, redis_url=server.url, max_losses=20)
    worker = Process([str(program)], tmp_path / "worker.log", MASTER=master.url)
    hits = 0

    async def is_due(job_id: str) -> bool:
        return await redis.zscore(keys.follow_ups, f"order:{job_id}") is not None

    async def kill_at_the_end_of(job_id: str) -> None:
        """Kill the master once a job's end is stored but its follow-ups are not carried out."""
        nonlocal hits
        while not await is_due(job_id):
            await asyncio.sleep(0)
        master.kill()
        hits += await is_due(job_id)
        await asyncio.to_thread(master.start)

    with running(master, worker):
        async with Pusher(master.url, max_wait_s=60) as pusher:

            async def enqueue(flow: Flow[Any]) -> None:
                jobs = flow.to_jobs()
                # `aenqueue` does the same: there is no task behind these jobs to name the master.
                await pusher.enqueue_many(jobs, in_one_call=True)

            for number in range(KILLS):
                begin, flow = wide_flow()
                await enqueue(flow)
                await kill_at_the_end_of(begin["id"])
                fails, failing, tidy = failing_flow()
                await enqueue(failing)
                await kill_at_the_end_of(fails["id"])

                for job in (flow.to_jobs()[-1], tidy):

                    async def is_over(job: dict[str, Any] = job) -> bool:
                        return (await pusher.status(job["id"]))["state"] in ("succeeded", "failed", "skipped")

                    await wait_until(is_over, timeout_s=100, what=f"{job['name']} of flow {number} ends")
                last = await pusher.result(flow.to_jobs()[-1]["id"])
                assert last is not None
                assert last.result == WIDTH * 1000 + sum(range(WIDTH))
                told = await pusher.result(tidy["id"])
                assert told is not None
                assert told.result == 7
                view = await pusher.status(failing.to_jobs()[WIDTH // 2]["id"])
                assert (view["state"], view["cause"]) == ("skipped", "dependency")
                assert view["skipped_by"] == {"id": fails["id"], "state": "failed"}
            counts = {
                state: (await pusher._call("GET", f"/api/jobs/count?state={state}")).body["count"]
                for state in ("awaiting_jobs", "ready", "running", "skipped")
            }
            assert counts == {
                "awaiting_jobs": 0,
                "ready": 0,
                "running": 0,
                "skipped": KILLS * (WIDTH // 2) * 2,
            }
        assert await redis.exists(keys.follow_ups, keys.awaiting_jobs) == 0
    # Most kills come in between. If that mattered, each would leave jobs behind.
    assert hits >= KILLS, hits
