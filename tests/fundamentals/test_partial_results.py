"""Partial results: what a job returns while it runs."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from jqmaster.app import Master
from tests.support import real_time
from tests.support.master import PATIENT, master_on
from tests.support.server import StoreServer
from worker_sdk import INJECTED, Context, JobPart, ResultGone, Tasks, UnreadableResult, Worker, configure

pytestmark = [pytest.mark.req("D21"), real_time.MASTER]

tasks = Tasks()


@pytest.fixture
async def master(store_server: StoreServer) -> AsyncIterator[Master]:
    """Yield a leading master whose leases outlast a machine that stands still: no test here loses a worker."""
    async with master_on(store_server.url, **PATIENT) as (one, _):
        yield one


@dataclass
class Row:
    number: int
    text: str


@tasks.task("rows.find")
async def find_rows(rows: int, ctx: Context = INJECTED) -> int:
    for number in range(rows):
        await ctx.emit({"number": number, "text": f"row {number}"})
    return rows


@tasks.task("rows.find_slowly", max_retry=1, retry={"base_s": 0, "max_s": 0})
def find_rows_twice(ctx: Context = INJECTED) -> None:
    ctx.emit(f"attempt {ctx.attempt}")
    if ctx.attempt == 1:
        raise ConnectionError("the database is away")


@pytest.mark.parametrize("pull", [False, True])
async def test_a_handle_streams_what_its_job_hands_out(url: str, pull: bool) -> None:
    configure(url=url)
    try:
        handle = await find_rows.using(keep_result=True).aenqueue(3)
        async with asyncio.timeout(30), Worker(url, tasks=tasks, pull=pull).running():
            found = [part async for part in handle.stream(Row)]
            assert found == [JobPart(1, n + 1, Row(n, f"row {n}")) for n in range(3)]
            assert handle.status == "succeeded"
            assert await handle.aget(10) == 3
        # The parts are kept and can be read again, without asyncio too.
        again = await asyncio.to_thread(lambda: list(handle.stream()))
        assert [part.value["number"] for part in again] == [0, 1, 2]
        with pytest.raises(UnreadableResult, match="does not fit"):
            await asyncio.to_thread(lambda: list(handle.stream(int)))
        await handle.arefresh()
    finally:
        configure()


async def test_a_retry_begins_anew(url: str) -> None:
    configure(url=url)
    try:
        handle = await find_rows_twice.aenqueue()
        async with asyncio.timeout(30), Worker(url, tasks=tasks).running():
            found = [part async for part in handle.stream()]
        # The first attempt may have begun and ended before the stream was opened.
        assert found[-1] == JobPart(2, 1, "attempt 2")
        assert [part.attempt for part in found] in ([2], [1, 2])
    finally:
        configure()


async def test_the_stream_of_an_unknown_job_says_so(url: str) -> None:
    configure(url=url)
    try:
        handle = find_rows.handle("0198c3f4-5e6a-7b8c-9d0e-1f2a3b4c5d6e")
        with pytest.raises(ResultGone):
            _ = [part async for part in handle.stream()]
    finally:
        configure()
