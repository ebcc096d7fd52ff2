"""Batches whose master is killed repeatedly: no batch gets stuck, and each callback starts once."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.support import real_time
from tests.support.processes import MasterProcess, Process, running
from tests.support.waiting import wait_until
from worker_sdk import Batch, Pusher, Tasks

pytestmark = [pytest.mark.system, pytest.mark.timeout(180), real_time.PROCESSES]

# By hand, use JQMASTER_BATCHES=1000 JQMASTER_BATCH_KILLS=20
BATCHES = int(os.environ.get("JQMASTER_BATCHES", "40"))
KILLS = int(os.environ.get("JQMASTER_BATCH_KILLS", "3"))
MEMBERS = 5

PROGRAM = """
import os
from worker_sdk import Worker

worker = Worker(os.environ["MASTER"])

@worker.handler("member")
def member(argument, ctx):
    # Every seventh batch has a member that fails.
    if argument == [0, 0]:
        raise ValueError("a member that fails")

@worker.handler("told.on_success")
@worker.handler("told.on_complete")
@worker.handler("told.on_failure")
def told(argument, ctx):
    pass

worker.run()
"""


@pytest.mark.req("S7")
async def test_no_batch_is_stuck_and_no_callback_comes_twice_although_the_master_is_killed(
    tmp_path: Path,
) -> None:
    program = tmp_path / "worker.py"
    program.write_text(PROGRAM)
    master = MasterProcess(tmp_path)
    worker = Process([str(program)], tmp_path / "worker.log", MASTER=master.url)
    tasks = Tasks(master=master.url)
    made: list[Batch] = []

    async def fill(number: int) -> None:
        callbacks = {f"on_{when}": (f"told.on_{when}", number) for when in ("success", "complete", "failure")}
        async with Batch(**callbacks, tasks=tasks) as batch:  # type: ignore[arg-type]
            fails = number % 7 == 0
            await batch.aadd(
                {"name": "member", "argument": [0 if fails else 1, n], "max_retry": 0, "rerun_lost": True}
                for n in range(MEMBERS)
            )
        made.append(batch)

    with running(master, worker):
        async with Pusher(master.url, max_wait_s=60) as pusher:
            filling = asyncio.gather(*(fill_slowly(fill, part) for part in range(4)))
            for kill in range(1, KILLS + 1):
                await wait_until(lambda kill=kill: len(made) >= BATCHES * kill // (KILLS + 1), timeout_s=60)
                await asyncio.to_thread(master.kill)
                await asyncio.to_thread(master.start)
            await filling
            assert len(made) == BATCHES
            for batch in made:

                async def is_told(batch: Batch = batch) -> bool:
                    view = await pusher.batch_status(batch.id)
                    fails = view["counts"]["failed"] > 0
                    expected = {"on_complete", "on_failure" if fails else "on_success"}
                    told = {name for name, one in view["callbacks"].items() if one["state"] == "enqueued"}
                    return bool(view["state"] == "complete" and told == expected)

                await wait_until(is_told, timeout_s=30)
                view = await pusher.batch_status(batch.id)
                assert view["counts"]["total"] == MEMBERS
                assert view["counts"]["succeeded"] + view["counts"]["failed"] == MEMBERS
            failed = sum([(await pusher.batch_status(batch.id))["counts"]["failed"] > 0 for batch in made])
            counts = {}
            for when in ("success", "complete", "failure"):
                answer = await pusher._call("GET", f"/api/jobs/count?name=told.on_{when}")
                counts[when] = answer.body["count"]
            assert counts == {"success": BATCHES - failed, "complete": BATCHES, "failure": failed}
            assert failed >= BATCHES // 7
        assert await asyncio.to_thread(master.troubles_of_store) == []
    await tasks.aclose()


async def fill_slowly(fill: Callable[[int], Awaitable[None]], part: int) -> None:
    for number in range(part, BATCHES, 4):
        await fill(number)
        await asyncio.sleep(0.05)
