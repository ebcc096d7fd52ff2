"""Handlers: what they take, what they give, and how they fail."""

import asyncio
import time
from datetime import UTC, datetime
from typing import Any

import msgpack
import pytest

from worker_sdk import Context, Defer, Discard, Pusher, Retry, Worker, retry_on


@Worker("http://127.0.0.1:1").handler("stubborn", isolated=True)
def sleep_on(_: Any) -> None:
    """A handler at the top of a module: its process imports it from there."""
    time.sleep(30)


FAST = {"base_s": 0.01, "jitter": False}


@pytest.mark.req("J1")
@pytest.mark.req("J2")
@pytest.mark.req("J8")
@pytest.mark.req("J10")
async def test_a_job_runs_and_its_result_comes_back(url: str, pusher: Pusher) -> None:
    worker = Worker(url)

    @worker.handler("greeting.make")
    async def make_greeting(argument: Any, ctx: Context) -> str:
        return f"Hello {argument['name']}"

    async with worker.running():
        job_id = await pusher.enqueue("greeting.make", {"name": "Ada"}, keep_result=True)
        result = await pusher.result(job_id, wait=10)
    assert result
    assert (result.type, result.result) == ("success", "Hello Ada")
    assert datetime.fromisoformat(result.finished_at).tzinfo is not None


@pytest.mark.req("J3")
@pytest.mark.parametrize(
    "argument",
    [
        None,
        True,
        -(2**63),
        2**64 - 1,
        1.5,
        "text, 日本語",
        b"\x00\xff",
        [1, [2, []]],
        {"a": {"b": None}},
        datetime(2026, 11, 21, 4, 30, 0, 123456, tzinfo=UTC),
        msgpack.ExtType(42, b"ext"),
    ],
    ids=repr,
)
async def test_the_handler_receives_a_value_equal_to_the_pushed_one(
    url: str, pusher: Pusher, argument: Any
) -> None:
    worker = Worker(url)

    @worker.handler("echo")
    async def echo(value: Any) -> Any:
        return value

    async with worker.running():
        result = await pusher.result(await pusher.enqueue("echo", argument, keep_result=True), wait=10)
    assert result
    assert result.result == argument
    assert type(result.result) is type(argument)


@pytest.mark.req("S1")
@pytest.mark.req("J5")
@pytest.mark.req("M4")
async def test_an_exception_retries_the_job_and_every_attempt_is_recorded(url: str, pusher: Pusher) -> None:
    worker = Worker(url)

    @worker.handler("flaky")
    async def flaky(_: Any, ctx: Context) -> int:
        if ctx.attempt < 3:
            raise ConnectionError(f"attempt {ctx.attempt}")
        return ctx.attempt

    async with worker.running():
        job_id = await pusher.enqueue("flaky", retry=FAST, keep_result=True)
        result = await pusher.result(job_id, wait=10)
        job = await pusher.status(job_id)
    assert result
    assert result.result == 3
    assert [(a["attempt"], a["outcome"]) for a in job["attempts"]] == [
        (1, "failure"),
        (2, "failure"),
        (3, "success"),
    ]
    assert job["attempts"][0]["message"] == "ConnectionError: attempt 1"
    assert all(a["worker_id"] and a["started_at"] <= a["finished_at"] for a in job["attempts"])


@pytest.mark.req("J5")
@pytest.mark.req("J9")
async def test_when_the_retries_are_used_up_the_job_has_failed(url: str, pusher: Pusher) -> None:
    worker = Worker(url)

    @worker.handler("broken")
    async def broken(_: Any) -> None:
        raise ValueError("never")

    async with worker.running():
        job_id = await pusher.enqueue("broken", max_retry=2, retry=FAST, keep_result=True)
        result = await pusher.result(job_id, wait=10)
        job = await pusher.status(job_id)
    assert result
    assert (result.type, result.reason, result.message) == ("failure", "other", "ValueError: never")
    assert (job["state"], job["cause"], job["attempt"]) == ("failed", "error", 3)


@pytest.mark.req("S2")
@pytest.mark.req("J9")
async def test_a_deleted_record_ends_the_job_quietly(url: str, pusher: Pusher) -> None:
    worker = Worker(url)

    @worker.handler("user.greet", discard_on=LookupError)
    async def greet(user_id: int) -> None:
        raise LookupError(f"user {user_id} is gone")

    async with worker.running():
        job_id = await pusher.enqueue("user.greet", 42, keep_result=True)
        result = await pusher.result(job_id, wait=10)
        job = await pusher.status(job_id)
    assert result
    assert result.should_retry is False
    assert (job["state"], job["attempt"]) == ("failed", 1)


@pytest.mark.req("S2")
async def test_each_exception_may_have_its_own_number_of_attempts_and_wait(url: str, pusher: Pusher) -> None:
    worker = Worker(url)

    @worker.handler("crawl", retry_on=retry_on(TimeoutError, wait=0.05, attempts=2))
    async def crawl(_: Any) -> None:
        raise TimeoutError("slow site")

    async with worker.running():
        job_id = await pusher.enqueue("crawl", max_retry=10, retry=FAST, keep_result=True)
        assert await pusher.result(job_id, wait=10)
        job = await pusher.status(job_id)
    assert (job["state"], job["attempt"]) == ("failed", 2)


async def test_a_handler_says_itself_how_its_job_goes_on(url: str, pusher: Pusher) -> None:
    worker = Worker(url)

    @worker.handler("choosy")
    async def choosy(how: str, ctx: Context) -> str:
        if ctx.attempt == 1:
            raise {"later": Defer(0.05), "again": Retry(after_s=0.05), "never": Discard("no use")}[how]
        return "done"

    async with worker.running():
        ids = {
            how: await pusher.enqueue("choosy", how, keep_result=True) for how in ("later", "again", "never")
        }
        results = {how: await pusher.result(job_id, wait=10) for how, job_id in ids.items()}
        jobs = {how: await pusher.status(job_id) for how, job_id in ids.items()}
    assert results["later"] and results["later"].result == "done"  # noqa: PT018
    assert jobs["later"]["failures"] == 0
    assert jobs["again"]["failures"] == 1
    assert results["never"] and results["never"].message == "no use"  # noqa: PT018


@pytest.mark.req("J7")
async def test_a_run_that_exceeds_its_timeout_has_failed(url: str, pusher: Pusher) -> None:
    worker = Worker(url)

    @worker.handler("slow")
    async def slow(_: Any) -> None:
        await asyncio.sleep(30)

    worker.handler("stubborn", isolated=True)(sleep_on)

    async with worker.running():
        for name in ("slow", "stubborn"):
            job_id = await pusher.enqueue(name, timeout=0.3, max_retry=0, keep_result=True)
            result = await pusher.result(job_id, wait=15)
            assert result
            assert (result.type, result.reason) == ("failure", "timeout")
            assert (await pusher.status(job_id))["cause"] == "timeout"


@pytest.mark.req("J16")
async def test_a_handler_enqueues_more_jobs(url: str, pusher: Pusher) -> None:
    worker = Worker(url)

    @worker.handler("parent")
    async def parent(count: int, ctx: Context) -> list[str]:
        return [await ctx.enqueue("child", n, keep_result=True) for n in range(count)]

    @worker.handler("child")
    def child(n: int) -> int:
        return n * n

    async with worker.running():
        result = await pusher.result(await pusher.enqueue("parent", 3, keep_result=True), wait=10)
        assert result
        children = [await pusher.result(job_id, wait=10) for job_id in result.result]
    assert [c.result for c in children if c] == [0, 1, 4]
