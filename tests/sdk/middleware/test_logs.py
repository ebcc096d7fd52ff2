"""Log records name the job in which they were written."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from tests.support import real_time
from worker_sdk import Context, Discard, Worker
from worker_sdk.middleware import JobContextFilter, JobLogs, JsonFormatter
from worker_sdk.testing import WorkerHarness

pytestmark = [real_time.WORKER, pytest.mark.req("S7")]

library = logging.getLogger("some.library")


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """Return the JSON lines written by the root logger."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    yield stream
    root.removeHandler(handler)
    root.setLevel(level)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def worker_with(middleware: JobLogs) -> Worker:
    worker = Worker(middleware=[middleware])

    def write(argument: Any, ctx: Context) -> dict[str, Any]:
        library.info("in %s", ctx.name, extra={"shoes": 2})
        ctx.logger.info("by the context")
        if argument == "fail":
            raise LookupError("no such thing")
        if argument == "discard":
            raise Discard
        return dict(structlog.contextvars.get_contextvars())

    worker.handler("sync")(write)

    @worker.handler("async")
    async def write_async(argument: Any, ctx: Context) -> dict[str, Any]:
        return write(argument, ctx)

    return worker


@pytest.mark.parametrize("name", ["sync", "async"])
async def test_records_of_any_library_carry_the_job(name: str, written: io.StringIO) -> None:
    ending = await WorkerHarness(worker_with(JobLogs())).run(name, attempt=3)
    job = {"job_id": "00000000-0000-7000-8000-000000000000", "job_name": name, "attempt": 3}
    assert ending.result == job
    assert structlog.contextvars.get_contextvars() == {}
    of_library, of_context, of_end = lines(written)
    assert of_library.items() >= {
        "level": "info", "logger": "some.library", "message": f"in {name}", "shoes": 2, **job
    }.items()  # fmt: skip
    assert of_context.items() >= {"message": "by the context", **job}.items()
    assert of_end.items() >= job.items()
    assert of_end["duration_s"] >= 0
    assert "ended after" in of_end["message"]
    library.info("outside")
    assert "job_id" not in lines(written)[-1]


@pytest.mark.parametrize("argument", ["fail", "discard"])
async def test_an_attempt_that_fails_is_logged_once_by_the_worker_itself(
    argument: str, written: io.StringIO
) -> None:
    await WorkerHarness(worker_with(JobLogs())).run("sync", argument)
    ends = lines(written)[2:]
    assert [end["level"] for end in ends] == (["error"] if argument == "fail" else [])
    if ends:
        assert "LookupError: no such thing" in ends[0]["exception"]
        assert ends[0]["job_name"] == "sync"


async def test_handlers_that_are_given_get_the_job_and_no_others() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(job_name)s %(message)s"))
    library.addHandler(handler)
    level = library.level
    library.setLevel(logging.INFO)
    try:
        await WorkerHarness(worker_with(JobLogs([handler]))).run("sync")
        assert handler.filters == []
        handler.addFilter(JobContextFilter())
        library.info("outside")
    finally:
        library.removeHandler(handler)
        library.setLevel(level)
    assert stream.getvalue() == "sync in sync\nNone outside\n"
