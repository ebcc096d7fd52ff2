"""Handlers tested without a master: the helper that the SDK ships."""

import asyncio
import uuid
from typing import Any

import pytest

from tests.support import real_time
from worker_sdk import Context, Defer, Tasks, Worker
from worker_sdk.testing import WorkerHarness
from worker_sdk.worker.once import derived_id

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


@worker.handler("fan")
async def fan(argument: int, ctx: Context) -> list[str]:
    first = await ctx.enqueue("one", once=True)
    return [first, *await ctx.enqueue_many(((f"many.{n}", n) for n in range(argument)), once=True)]


@worker.handler("fan.sync")
def fan_sync(argument: int, ctx: Context) -> list[str]:
    first = ctx.enqueue_sync("one", once=True)
    return [
        first,
        *ctx.enqueue_many([{"name": "two", "argument": 2}], once=True),
        *ctx.enqueue_many([("x", 1)]),
    ]


@pytest.mark.req("J16", "S3")
async def test_jobs_that_are_enqueued_once_have_the_same_ids_in_each_attempt() -> None:
    harness = WorkerHarness(worker)
    # Each harness run is a new job, but the first ID is the same in every harness.
    parent = "0198c3f4-5e6a-7b8c-9d0e-1f2a3b4c5d6e"
    expected = [derived_id(parent, n) for n in range(4)]
    assert sorted(set(expected)) == expected
    assert all(one.startswith("0198c3f4-5e6a-7") for one in expected)
    for attempt in (1, 2):
        ending = await harness.run("fan", 3, attempt=attempt, job_id=parent)
        assert ending.result == expected
    assert [job["id"] for job in harness.enqueued] == expected * 2
    assert [job["name"] for job in harness.enqueued[:4]] == ["one", "many.0", "many.1", "many.2"]
    result = (await harness.run("fan.sync", 0, job_id=parent)).result
    assert result[:2] == expected[:2]
    assert result[2] not in expected
    assert (await harness.run("fan", 0)).result[0] not in expected


def test_an_id_that_follows_from_another_is_a_uuid7_whatever_that_one_is() -> None:
    for parent in (str(uuid.uuid4()), str(uuid.uuid5(uuid.NAMESPACE_URL, "a"))):
        made = [derived_id(parent, n) for n in (0, 1, 4_000, 2**21)]
        assert len(set(made)) == 4
        assert {uuid.UUID(one).version for one in made} == {7}
        assert {uuid.UUID(one).variant for one in made} == {uuid.RFC_4122}


@pytest.mark.req("S9")
async def test_a_handler_is_run_as_a_worker_would() -> None:
    harness = WorkerHarness(worker)
    ending = await harness.run("double", 21, attempt=2)
    assert (ending.type, ending.result) == ("success", 42)
    [job] = harness.enqueued
    assert (job["name"], job["argument"], job["priority"]) == ("log", {"attempt": 2}, 9)
    ending = await harness.run("double", None)
    assert (ending.type, ending.fields["message"]) == ("discarded", "LookupError: nothing there")
    assert (await harness.run("later")).fields == {"retry_after": 5.0}
    assert [job["argument"] for job in harness.enqueued] == [{"attempt": 2}, "sync"]
    assert (await harness.run("slow", timeout=0.05)).fields["reason"] == "timeout"
    with pytest.raises(LookupError):
        await harness.run("nobody")


async def test_the_harness_takes_tasks_and_a_task() -> None:
    tasks = Tasks()

    @tasks.task("text.repeat")
    def repeat(text: str, *, times: int = 2) -> str:
        return text * times

    ending = await WorkerHarness(tasks).run(repeat, {"text": "ab"})
    assert ending.result == "abab"
    async with WorkerHarness(tasks) as harness:
        assert (await harness.run("text.repeat", {"text": "a", "times": 3})).result == "aaa"
        with pytest.raises(LookupError):
            await harness.run("text.other")
