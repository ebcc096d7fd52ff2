"""Logs: a job's handle reads and follows what the job writes while it runs."""

import asyncio

import pytest

from tests.support import real_time
from worker_sdk import INJECTED, Context, JobLogLine, ResultGone, Tasks, Worker, configure

pytestmark = [pytest.mark.req("D17"), real_time.MASTER]

tasks = Tasks()
may_end = asyncio.Event()


# The next attempt begins at once, before the lines of the first one would have been gathered.
@tasks.task("logs.write", max_retry=1, retry={"base_s": 0})
async def write(ctx: Context = INJECTED) -> None:
    for number in range(3):
        ctx.logger.info("row %d", number)
    ctx.logger.warning("attempt %d", ctx.attempt)
    if ctx.attempt == 1:
        raise ConnectionError("the database is away")


@tasks.task("logs.write_and_wait")
async def write_and_wait(ctx: Context = INJECTED) -> None:
    ctx.logger.info("begun")
    await may_end.wait()
    ctx.logger.info("the end")


def texts(lines: list[JobLogLine]) -> list[str | None]:
    return [line.text for line in lines if line.level != "error"]


async def test_a_handle_reads_the_log_of_its_job(url: str) -> None:
    configure(url=url)
    try:
        handle = await write.aenqueue()
        async with asyncio.timeout(60), Worker(url, tasks=tasks).running():
            found = [line async for line in handle.logs(follow=True)]
        rows = ["row 0", "row 1", "row 2"]
        assert texts(found) == [*rows, "attempt 1", *rows, "attempt 2"]
        assert handle.status == "succeeded"
        assert [line.seq for line in found] == [*range(1, len(found) + 1)]
        assert {line.attempt for line in found} == {1, 2}
        assert found[0].at.tzinfo is not None
        # The lines can be read again, with filters, and without asyncio.
        lines = handle.logs()
        assert await asyncio.to_thread(lambda: list(lines)) == found
        assert lines.dropped == 0
        assert texts([line async for line in handle.logs(level="warning")]) == ["attempt 1", "attempt 2"]
        second = [line for line in found if line.attempt == 2]
        assert await asyncio.to_thread(lambda: list(handle.logs(attempt=2))) == second
        assert [line async for line in handle.logs(tail=2)] == found[-2:]
        assert await asyncio.to_thread(lambda: list(handle.logs(tail=2, follow=True))) == found[-2:]
    finally:
        configure()


async def test_a_handle_follows_a_job_that_runs(url: str) -> None:
    may_end.clear()
    configure(url=url)
    try:
        handle = await write_and_wait.aenqueue()
        async with asyncio.timeout(60), Worker(url, tasks=tasks).running():
            lines = aiter(handle.logs(follow=True))
            assert (await anext(lines)).text == "begun"
            # Without `follow`, it returns the lines that are stored so far.
            assert texts([line async for line in handle.logs()]) == ["begun"]
            may_end.set()
            assert texts([line async for line in lines]) == ["the end"]
    finally:
        configure()


async def test_an_unknown_job_has_no_log(url: str) -> None:
    configure(url=url)
    try:
        handle = write.handle("01890000-0000-7000-8000-000000000000")
        with pytest.raises(ResultGone, match="does not exist"):
            _ = [line async for line in handle.logs()]
    finally:
        configure()
