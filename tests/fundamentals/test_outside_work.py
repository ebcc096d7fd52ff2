"""Work in another system: its callback comes in time, never, early, twice, or late."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from jqmaster.app import Master
from tests.support import real_time
from tests.support.waiting import wait_until
from worker_sdk import Callback, CodedError, Context, Defer, OutsideWork, Pusher, Ready, Worker

pytestmark = [real_time.MASTER, pytest.mark.req("P2", "P3", "P6")]

DAY_S = 86_400.0
NO_WAIT = {"base_s": 0.0, "factor": 1.0, "max_s": 0.0, "jitter": False}


async def post(url: str, body: bytes = b'{"shipped": true}') -> int:
    async with httpx.AsyncClient(trust_env=False) as outside:
        return (
            await outside.post(url, content=body, headers={"content-type": "application/json"})
        ).status_code


class Ship(OutsideWork):
    """An order that a warehouse ships."""

    name = "order.ship"
    answer_within_s = 60.0

    def __init__(self, call: Callable[[str], Any]) -> None:
        self.call = call
        self.urls: list[str] = []
        self.keys: list[str] = []

    async def challenge(self, argument: Any, ctx: Context) -> None:
        opened = await ctx.open_challenge(meta=argument)
        self.urls.append(opened.callback_url)
        self.keys.append(ctx.idempotency_key)
        await self.call(opened.callback_url)

    async def on_callback(self, callback: Callback, ctx: Context) -> Any:
        return callback.json()


async def nothing(_: str) -> None:
    """The warehouse accepts the order, and answers at any time."""


async def state_is(pusher: Pusher, job_id: str, state: str) -> None:
    async def reached() -> bool:
        return (await pusher.status(job_id))["state"] == state

    await wait_until(reached, timeout_s=30, what=f"the job is {state}")


@pytest.mark.parametrize("pull", [False, True])
async def test_the_job_goes_on_when_the_warehouse_answers(url: str, pusher: Pusher, pull: bool) -> None:
    worker, work = Worker(url, pull=pull), Ship(nothing)
    worker.outside(work)
    job_id = await pusher.enqueue("order.ship", {"order": 42}, keep_result=True)
    async with worker.running():
        await state_is(pusher, job_id, "awaiting_callback")
        assert await post(work.urls[0]) == 202
        # The callback comes twice.
        assert await post(work.urls[0]) == 200
        assert await post(work.urls[0], b"other") == 409
        result = await pusher.result(job_id, wait=20)
    assert result is not None
    assert result.result == {"shipped": True}
    assert work.keys == [job_id]


async def test_an_answer_that_comes_before_the_call_ends_counts(url: str, pusher: Pusher) -> None:
    worker = Worker(url)
    worker.outside(Ship(post))
    job_id = await pusher.enqueue("order.ship", keep_result=True)
    async with worker.running():
        result = await pusher.result(job_id, wait=20)
    assert result is not None
    assert result.result == {"shipped": True}


async def test_without_an_answer_the_attempt_fails_and_a_late_one_changes_nothing(
    url: str, pusher: Pusher
) -> None:
    worker, work = Worker(url), Ship(nothing)
    work.answer_within_s = 0.05
    worker.outside(work)
    job_id = await pusher.enqueue("order.ship", max_retry=1, retry=NO_WAIT)
    async with worker.running():
        await state_is(pusher, job_id, "failed")
    assert (await pusher.status(job_id))["cause"] == "callback_timeout"
    assert [await post(one) for one in work.urls] == [410, 410]
    # Each attempt has its own address, and the warehouse gets the same key.
    assert (len(set(work.urls)), set(work.keys)) == (2, {job_id})


@pytest.fixture
def pass_days(master: Master) -> Callable[[float], None]:
    """Return a function that lets this many days pass for the store."""
    days = [0.0]
    link = master.shard.services.stores.challenges._shard
    object.__setattr__(link, "now", lambda: round((time.time() + days[0] * DAY_S) * 1000))
    return lambda count: days.__setitem__(0, days[0] + count)


async def test_an_answer_that_comes_a_day_later_counts(
    url: str, pusher: Pusher, pass_days: Callable[[float], None]
) -> None:
    worker, work = Worker(url), Ship(nothing)
    work.answer_within_s = 2 * DAY_S
    worker.outside(work)
    job_id = await pusher.enqueue("order.ship", keep_result=True)
    async with worker.running():
        await state_is(pusher, job_id, "awaiting_callback")
        pass_days(1)
        assert await post(work.urls[0]) == 202
        await state_is(pusher, job_id, "succeeded")


async def test_an_answer_that_comes_after_the_day_that_it_had_changes_nothing(
    url: str, pusher: Pusher, pass_days: Callable[[float], None]
) -> None:
    worker, work = Worker(url), Ship(nothing)
    work.answer_within_s = DAY_S
    worker.outside(work)
    job_id = await pusher.enqueue("order.ship", max_retry=0)
    async with worker.running():
        await state_is(pusher, job_id, "awaiting_callback")
        pass_days(1)
        await state_is(pusher, job_id, "failed")
        assert await post(work.urls[0]) == 410
    assert (await pusher.status(job_id))["cause"] == "callback_timeout"


async def test_a_warehouse_that_answers_with_an_error_and_delivers_anyway_is_asked_again_under_the_same_key(
    url: str, pusher: Pusher
) -> None:
    async def deliver_and_fail(callback_url: str) -> None:
        assert await post(callback_url) == 202
        if len(work.urls) == 1:
            raise CodedError("TEMPORARY_UNAVAILABLE", "500")

    worker, work = Worker(url), Ship(deliver_and_fail)
    worker.outside(work)
    job_id = await pusher.enqueue("order.ship", max_retry=1, retry=NO_WAIT)
    async with worker.running():
        await state_is(pusher, job_id, "succeeded")
    assert [await post(one) for one in work.urls] == [410, 200]
    assert (len(work.urls), set(work.keys)) == (2, {job_id})


@pytest.mark.req("P1")
async def test_a_warehouse_that_is_full_is_asked_again_without_a_retry(url: str, pusher: Pusher) -> None:
    asked = []

    class Careful(Ship):
        max_wait_s = 0.01

        def prepare(self, argument: Any, ctx: Context) -> Any:
            asked.append(ctx.attempt)
            return Ready() if len(asked) > 3 else Defer(0.001, "the warehouse is full")

    worker = Worker(url)
    worker.outside(Careful(post))
    job_id = await pusher.enqueue("order.ship", max_retry=0)
    async with worker.running():
        await state_is(pusher, job_id, "succeeded")
    assert len(asked) == 4
    assert (await pusher.status(job_id))["failures"] == 0


@pytest.mark.req("P5")
@pytest.mark.parametrize(("code", "calls"), [("RESOURCE_CONFLICT", 3), ("NO_SUCH_ARTICLE", 1)])
async def test_only_codes_that_are_named_are_retried(url: str, pusher: Pusher, code: str, calls: int) -> None:
    async def refuse(_: str) -> None:
        raise CodedError(code, "the warehouse says no")

    worker, work = Worker(url), Ship(refuse)
    worker.outside(work)
    job_id = await pusher.enqueue("order.ship", max_retry=2, retry=NO_WAIT)
    async with worker.running():
        await state_is(pusher, job_id, "failed")
    assert len(work.urls) == calls
    assert {attempt["code"] for attempt in (await pusher.status(job_id))["attempts"]} == {code}


@pytest.mark.req("P6")
async def test_each_phase_has_its_own_time(url: str, pusher: Pusher) -> None:
    async def hang(_: str) -> None:
        await asyncio.Event().wait()

    worker, work = Worker(url), Ship(hang)
    work.challenge_timeout_s = 0.05
    worker.outside(work)
    job_id = await pusher.enqueue("order.ship", max_retry=0)
    async with worker.running():
        await state_is(pusher, job_id, "failed")
    (attempt,) = (await pusher.status(job_id))["attempts"]
    assert (attempt["outcome"], attempt["message"]) == ("timeout", "challenge did not end within 0.05 s")
    assert [await post(one) for one in work.urls] == [410]
