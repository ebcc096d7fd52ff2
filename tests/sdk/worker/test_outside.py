"""`OutsideWork` in the test kit, and the reports that its phases give."""

import threading
from typing import Any

import pytest

from tests.sdk import outside_handlers
from worker_sdk import Callback, Challenged, CodedError, Context, Defer, OutsideWork, Ready, Worker
from worker_sdk.testing import WorkerHarness

pytestmark = pytest.mark.req("P1", "P2", "P3")


class Measure(OutsideWork):
    name = "lab.measure"
    answer_within_s = 600.0
    max_wait_s = 30.0
    not_ready_for_s = 3_600.0
    prepare_timeout_s = 5.0

    def __init__(self) -> None:
        self.answer: Any = Ready()
        self.opens = True
        self.left_s: list[float] = []

    def prepare(self, argument: Any, ctx: Context) -> Any:
        self.left_s.append(ctx.remaining())
        return self.answer

    def challenge(self, argument: Any, ctx: Context) -> None:
        self.left_s.append(ctx.remaining())
        if self.opens:
            opened = ctx.open_challenge(meta=argument)
            assert opened.callback_url.endswith(opened.request_id)

    def on_callback(self, callback: Callback, ctx: Context) -> Any:
        if callback.json() == "broken":
            raise CodedError("NO_PROBE", "the probe broke")
        return callback.json()


@pytest.fixture
def work() -> Measure:
    return Measure()


@pytest.fixture
def harness(work: Measure) -> WorkerHarness:
    worker = Worker("http://127.0.0.1:1")
    worker.outside(work)
    return WorkerHarness(worker)


async def test_it_is_challenged_and_then_ends_with_the_callback(
    harness: WorkerHarness, work: Measure
) -> None:
    challenged = await harness.run("lab.measure", {"probe": 7})
    assert challenged.type == "challenged"
    assert challenged.fields["request_id"] == "request-1"
    prepare_s, challenge_s = work.left_s
    assert prepare_s <= 5 < challenge_s
    ended = await harness.run("lab.measure", {"probe": 7}, callback={"value": 3})
    assert (ended.type, ended.fields["result"]) == ("success", {"value": 3})


async def test_not_ready_says_how_long_it_may_wait(harness: WorkerHarness, work: Measure) -> None:
    work.answer = Defer(2, "the lab is closed")
    deferred = await harness.run("lab.measure")
    assert (deferred.type, deferred.fields["retry_after"]) == ("deferred", 2)
    assert deferred.fields["not_ready"] == {
        "max_wait_s": 30.0,
        "for_s": 3_600.0,
        "reason": "the lab is closed",
    }


@pytest.mark.req("P5")
async def test_a_code_that_is_not_named_is_final(harness: WorkerHarness) -> None:
    failed = await harness.run("lab.measure", callback="broken")
    assert (failed.type, failed.fields["code"], failed.fields["should_retry"]) == (
        "failure",
        "NO_PROBE",
        False,
    )


async def test_mistakes_are_told(harness: WorkerHarness, work: Measure) -> None:
    work.opens = False
    failed = await harness.run("lab.measure")
    assert "did not call ctx.open_challenge" in failed.fields["message"]
    work.answer = None
    failed = await harness.run("lab.measure")
    assert "must return Ready() or Defer" in failed.fields["message"]


@pytest.mark.req("P6")
async def test_a_def_that_took_too_long_fails(harness: WorkerHarness, work: Measure) -> None:
    work.prepare_timeout_s = 0.01

    def slow(argument: Any, ctx: Context) -> Ready:
        threading.Event().wait(0.05)
        return Ready()

    work.prepare = slow  # type: ignore[method-assign]
    failed = await harness.run("lab.measure")
    assert (failed.type, failed.fields["reason"]) == ("failure", "timeout")


async def test_a_plain_handler_may_do_it_by_itself() -> None:
    worker = Worker("http://127.0.0.1:1")

    @worker.handler("plain", retry_codes={"BUSY"})
    async def plain(argument: Any, ctx: Context) -> Any:
        if ctx.callback is None:
            opened = await ctx.open_challenge(timeout_s=5)
            raise Challenged(opened.request_id)
        raise CodedError("BUSY")

    harness = WorkerHarness(worker)
    assert (await harness.run("plain")).type == "challenged"
    busy = await harness.run("plain", callback=b"\x00")
    assert (busy.fields["code"], busy.fields["should_retry"]) == ("BUSY", True)


async def test_an_isolated_process_opens_challenges_and_gets_callbacks() -> None:
    harness = WorkerHarness(outside_handlers.worker)
    challenged = await harness.run("isolated.ship")
    assert challenged.type == "challenged", challenged
    assert challenged.progress == (0.5, "http://127.0.0.1/callbacks/request-1")
    ended = await harness.run("isolated.ship", callback=b"one")
    assert (ended.type, ended.fields["result"]) == ("success", ["one"])
