"""Handler errors in Sentry: the real package, with events dropped at the last moment."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import sentry_sdk

from tests.support import real_time
from worker_sdk import Context, Discard, Tasks, Worker
from worker_sdk.middleware import Sentry
from worker_sdk.testing import WorkerHarness, inline

pytestmark = [real_time.WORKER, pytest.mark.req("S7")]


@pytest.fixture
def events() -> Iterator[list[dict[str, Any]]]:
    """Return the events that Sentry would receive."""
    kept: list[dict[str, Any]] = []
    sentry_sdk.init(
        dsn="http://key@127.0.0.1:9/1",
        before_send=lambda event, hint: kept.append(dict(event)),
        default_integrations=False,
        auto_enabling_integrations=False,
        include_local_variables=False,
    )
    yield kept
    sentry_sdk.get_client().close()
    sentry_sdk.get_global_scope().set_client(None)


def sentry_worker() -> Worker:
    worker = Worker(middleware=[Sentry()])

    def run(argument: Any) -> None:
        if argument == "discard":
            raise Discard
        if argument == "message":
            sentry_sdk.capture_message("from the handler")
            return
        raise LookupError("no such thing")

    worker.handler("sync")(run)

    @worker.handler("async")
    async def run_async(argument: Any, ctx: Context) -> None:
        run(argument)

    return worker


@pytest.mark.parametrize("name", ["sync", "async"])
async def test_sentry_gets_errors_with_the_job(name: str, events: list[dict[str, Any]]) -> None:
    harness = WorkerHarness(sentry_worker())
    await harness.run(name, "discard")
    await harness.run(name, "an argument", attempt=2)
    await harness.run(name, "message")
    error, message = events
    assert error["exception"]["values"][-1]["type"] == "LookupError"
    assert error["tags"]["job_name"] == message["tags"]["job_name"] == name
    assert error["contexts"]["job"] == {
        "id": "00000000-0000-7000-8000-000000000001",
        "name": name,
        "attempt": 2,
    }
    assert "an argument" not in str(error)
    sentry_sdk.capture_message("outside")
    assert "job_name" not in events[-1].get("tags", {})


async def test_the_scopes_of_jobs_that_run_at_once_are_apart(events: list[dict[str, Any]]) -> None:
    tasks = Tasks()
    gate = asyncio.Event()

    @tasks.task("wait", max_retry=0)
    async def wait(number: int) -> None:
        sentry_sdk.set_tag("number", number)
        if number:
            gate.set()
        await gate.wait()
        raise LookupError(str(number))

    worker = Worker(tasks=tasks, middleware=[Sentry()])
    async with WorkerHarness(worker) as harness, asyncio.TaskGroup() as group:
        for number in range(2):
            group.create_task(harness.run("wait", {"number": number}))
    told = {event["exception"]["values"][-1]["value"]: event["tags"]["number"] for event in events}
    assert told == {"0": 0, "1": 1}
    with inline(worker=worker, raises=False):
        await wait.aenqueue(7)
    assert len(events) == 3
