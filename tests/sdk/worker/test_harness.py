"""Handlers under test without a master: the helper that the SDK ships."""

import asyncio
from typing import Any

import pytest

from tests.support import real_time
from worker_sdk import Context, Defer, Worker
from worker_sdk.testing import WorkerHarness

pytestmark = real_time.WORKER

worker = Worker()


@worker.handler("double", discard_on=LookupError)
async def double(argument: Any, ctx: Context) -> int:
    if argument is None:
        raise LookupError("nothing there")
    await ctx.enqueue("log", {"attempt": ctx.attempt}, priority=9)
    return int(argument) * 2


@worker.handler("later")
def later(argument: Any, ctx: Context) -> None:
    ctx.enqueue("log", "sync")
    raise Defer(5)


@worker.handler("slow", confirm_start=True)
async def slow(argument: Any) -> None:
    await asyncio.sleep(60)


@pytest.mark.req("S9")
async def test_a_handler_is_run_as_a_worker_would() -> None:
    harness = WorkerHarness(worker)
    ending = await harness.run("double", 21, attempt=2)
    assert (ending.type, ending.result) == ("success", 42)
    [job] = harness.enqueued
    assert (job["name"], job["argument"], job["priority"]) == ("log", {"attempt": 2}, 9)
    ending = await harness.run("double", None)
    assert (ending.type, ending.fields["should_retry"]) == ("failure", False)
    assert (await harness.run("later")).fields == {"retry_after": 5.0}
    assert [job["argument"] for job in harness.enqueued] == [{"attempt": 2}, "sync"]
    assert (await harness.run("slow", timeout=0.05)).fields["reason"] == "timeout"
    with pytest.raises(LookupError):
        await harness.run("nobody")
