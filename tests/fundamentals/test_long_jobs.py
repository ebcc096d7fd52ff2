"""Progress of long jobs, and checkpoints."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from tests.support import real_time
from tests.support.waiting import wait_until
from worker_sdk import INJECTED, Context, Pusher, Tasks, Worker, configure

pytestmark = real_time.MASTER


@pytest.mark.req("D21")
async def test_people_see_how_far_a_job_is(url: str, pusher: Pusher) -> None:
    worker = Worker(url)
    may_end = asyncio.Event()

    @worker.handler("import")
    async def import_rows(argument: object, ctx: Context) -> None:
        ctx.progress(0.4, "row 12,000")
        await may_end.wait()

    job_id = await pusher.enqueue("import")
    assert (await pusher.status(job_id))["progress"] is None
    async with worker.running():

        async def told() -> bool:
            progress = (await pusher.status(job_id))["progress"]
            return bool(progress) and (progress["fraction"], progress["message"]) == (0.4, "row 12,000")

        await wait_until(told)
        may_end.set()


tasks = Tasks()


@tasks.task("count.rows")
async def count_rows(rows: int, ctx: Context = INJECTED) -> int:
    for row in range(rows):
        ctx.progress((row + 1) / rows, f"row {row + 1}")
    return rows


@pytest.mark.req("D21")
async def test_a_handle_tells_how_far_its_job_is(url: str) -> None:
    configure(url=url)
    try:
        handle = await count_rows.using(keep_result=True).aenqueue(3)
        assert await handle.aprogress() is None
        assert handle.status == "ready"
        async with Worker(url, tasks=tasks).running():
            assert await handle.aget(20) == 3
        told = await handle.aprogress()
        assert told is not None
        # A report from right before the end is kept, too.
        assert (told.fraction, told.message) == (1.0, "row 3")
        assert told.at > datetime.now(UTC) - timedelta(minutes=10)
        assert await asyncio.to_thread(handle.progress) == told
    finally:
        configure()


@pytest.mark.req("S7")
@pytest.mark.parametrize("pull", [False, True])
async def test_an_import_goes_on_where_it_failed(url: str, pusher: Pusher, pull: bool) -> None:
    first, second = Worker(url, pull=pull), Worker(url, pull=pull)
    seen: list[tuple[int, int]] = []

    async def import_rows(argument: object, ctx: Context) -> int:
        async for row in ctx.iterate(range(10)):
            if ctx.attempt == 1 and row == 6:
                raise ConnectionError("the database is away")
            seen.append((ctx.attempt, row))
        return len(seen)

    first.handler("import")(import_rows)
    second.handler("import")(import_rows)
    retry = {"base_s": 0.0, "factor": 1.0, "max_s": 0.0, "jitter": False}
    job_id = await pusher.enqueue("import", keep_result=True, retry=retry)
    async with first.running():

        async def has_failed() -> bool:
            return (await pusher.status(job_id))["failures"] == 1 or len(seen) == 10

        await wait_until(has_failed)
        async with second.running():
            result = await pusher.result(job_id, wait=20)
    assert result is not None
    assert result.result == 10
    assert seen == [(1, row) for row in range(6)] + [(2, row) for row in range(6, 10)]
