"""Handlers' exceptions reach error trackers."""

import asyncio
from typing import Any

import pytest

from tests.sdk.worker import isolated_with_dependencies
from tests.support import real_time
from worker_sdk import Context, Defer, Discard, Fail, IsolatedHandlerError, Retry, Worker
from worker_sdk.middleware import ErrorHook
from worker_sdk.testing import WorkerHarness

pytestmark = [real_time.WORKER, pytest.mark.req("S7")]

ORDERS = {"defer": Defer(1), "retry": Retry(), "discard": Discard(), "fail": Fail()}


def worker_with(middleware: Any) -> Worker:
    worker = Worker(middleware=[middleware])

    def run(argument: Any, ctx: Context) -> Any:
        if argument in ORDERS:
            raise ORDERS[argument]
        if argument == "key":
            raise KeyError("no key")
        raise LookupError("no such thing")

    worker.handler("sync")(run)

    @worker.handler("async")
    async def run_async(argument: Any, ctx: Context) -> Any:
        if argument == "wait":
            await asyncio.sleep(60)
        return run(argument, ctx)

    worker.handler("isolated", isolated=True)(isolated_with_dependencies.plain)
    return worker


@pytest.mark.parametrize("name", ["sync", "async"])
async def test_an_error_is_reported_with_its_job(name: str) -> None:
    reported: list[tuple[BaseException, str, int]] = []
    hook = ErrorHook(lambda exc, ctx: reported.append((exc, ctx.name, ctx.attempt)), ignore=(KeyError,))
    harness = WorkerHarness(worker_with(hook))
    for argument in (*ORDERS, "key"):
        await harness.run(name, argument)
    assert reported == []
    ending = await harness.run(name, "error", attempt=2)
    assert ending.fields["error"]["type"] == "LookupError"
    (one,) = reported
    assert (str(one[0]), *one[1:]) == ("no such thing", name, 2)
    assert one[0].__traceback__ is not None


async def test_a_cancellation_is_no_error_and_an_isolated_one_is_reported_as_told() -> None:
    reported: list[BaseException] = []
    harness = WorkerHarness(worker_with(ErrorHook(lambda exc, ctx: reported.append(exc))))
    await harness.run("async", "wait", timeout=0.05)
    assert reported == []
    await harness.run("isolated", "fail")
    assert [type(exc) for exc in reported] == [IsolatedHandlerError]


async def test_a_report_that_fails_changes_nothing_for_the_job(caplog: pytest.LogCaptureFixture) -> None:
    def report(exc: BaseException, ctx: Context) -> None:
        raise OSError("no route to the tracker")

    ending = await WorkerHarness(worker_with(ErrorHook(report))).run("sync", "error")
    assert ending.fields["error"]["type"] == "LookupError"
    assert "no route to the tracker" in caplog.text
