"""`OutsideWork` in the test kit, and its phases' reports."""

import threading
from typing import Any

import pytest

from tests.sdk import outside_handlers
from worker_sdk import (
    Approval,
    Callback,
    Challenged,
    Choice,
    CodedError,
    Context,
    Defer,
    Form,
    FormAnswer,
    OutsideWork,
    Ready,
    Worker,
)
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


class Refund(Approval):
    name = "order.refund"
    audience = "users"
    answer_within_s = 3_600.0

    def __init__(self) -> None:
        self.told: list[str] = []

    def form(self, argument: Any, ctx: Context) -> Form:
        return Form(
            f"Refund order {argument['order']}?",
            choices=[Choice("approve"), Choice("reject", "No", needs_comment=True, skips_fields=True)],
            fields={"type": "object", "properties": {"amount": {"type": "number"}}},
        )

    def ask(self, argument: Any, ctx: Context, url: str) -> None:
        self.told.append(url)

    def on_answer(self, answer: FormAnswer, ctx: Context) -> Any:
        if not answer.is_approved:
            raise CodedError("REJECTED", answer.comment)
        return {"amount": answer.values["amount"], "by": answer.by}


class AsyncRefund(Refund):
    name = "order.async_refund"

    async def ask(self, argument: Any, ctx: Context, url: str) -> None:  # type: ignore[override]
        self.told.append(url)


@pytest.mark.req("P10")
@pytest.mark.parametrize("work", [Refund(), AsyncRefund()])
async def test_people_are_asked_and_their_answer_decides(work: Refund) -> None:
    worker = Worker("http://127.0.0.1:1")
    worker.outside(work)
    harness = WorkerHarness(worker)
    asked = await harness.run(work.name, {"order": 42})
    assert (asked.type, work.told) == ("challenged", ["http://127.0.0.1/callbacks/request-1"])
    assert asked.challenge is not None
    assert (asked.challenge["audience"], asked.challenge["timeout_s"]) == ("users", 3_600.0)
    assert asked.challenge["form"] == {
        "title": "Refund order 42?", "description": "", "comment": "optional",
        "choices": [
            {"value": "approve", "label": "", "needs_comment": False, "skips_fields": False},
            {"value": "reject", "label": "No", "needs_comment": True, "skips_fields": True},
        ],
        "fields": {"type": "object", "properties": {"amount": {"type": "number"}}},
    }  # fmt: skip
    approved = await harness.run(
        work.name, callback=FormAnswer("approve", values={"amount": 7}, by="user:ada")
    )
    assert approved.result == {"amount": 7, "by": "user:ada"}
    assert approved.challenge is None
    rejected = await harness.run(work.name, callback=FormAnswer("reject", "too late"))
    assert (rejected.fields["code"], rejected.fields["message"]) == ("REJECTED", "too late")
    wrong = await harness.run(work.name, callback={"paid": True})
    assert "not the answer to a form" in wrong.fields["message"]


@pytest.mark.req("P10")
async def test_a_plain_handler_asks_people_too() -> None:
    worker = Worker("http://127.0.0.1:1")

    @worker.handler("plain.ask")
    async def ask(argument: Any, ctx: Context) -> Any:
        if ctx.callback is None:
            opened = await ctx.open_challenge(form=Form("Go on?"))
            raise Challenged(opened.request_id)
        answer = ctx.callback.answer()
        return [
            answer.choice,
            answer.comment,
            dict(answer.values),
            answer.by,
            answer.address,
            answer.at.tzname(),
        ]

    harness = WorkerHarness(worker)
    asked = await harness.run("plain.ask")
    assert asked.challenge is not None
    assert [choice["value"] for choice in asked.challenge["form"]["choices"]] == ["approve", "reject"]
    answered = await harness.run("plain.ask", callback=FormAnswer("approve", address="203.0.113.9"))
    assert answered.result == ["approve", "", {}, None, "203.0.113.9", "UTC"]


@pytest.mark.req("P10")
async def test_an_isolated_process_asks_people() -> None:
    harness = WorkerHarness(outside_handlers.worker)
    asked = await harness.run("isolated.approve")
    assert asked.type == "challenged", asked
    assert asked.challenge is not None
    assert asked.challenge["form"]["title"] == "Go on?"
    ended = await harness.run("isolated.approve", callback=FormAnswer("approve"))
    assert ended.result == "approve"
