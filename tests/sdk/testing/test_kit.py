"""The test kit: enqueuing code and handlers, without a master."""

import asyncio
import threading
import traceback
from typing import Any

import pytest

from worker_sdk import (
    INJECTED,
    Context,
    Defer,
    InvalidArgument,
    JobCanceled,
    JobDiscarded,
    JobFailed,
    NotFinished,
    Pusher,
    ResultGone,
    ResultNotKept,
    SyncPusher,
    Tasks,
    Worker,
    retry_on,
    wait_all,
)
from worker_sdk.testing import drain, inline, recording

pytestmark = pytest.mark.req("S9")

tasks = Tasks()
log: list[Any] = []


@pytest.fixture(autouse=True)
def _empty() -> None:
    log.clear()


class ShakyError(Exception):
    pass


@tasks.task("double", keep_result=True)
async def double(number: int) -> int:
    return 2 * number


@tasks.task("triple", keep_result=True)
def triple(number: int) -> int:
    return 3 * number


@tasks.task("shaky", max_retry=2, keep_result=True)
def shaky(fails: int, *, ctx: Context = INJECTED) -> int:
    log.append(ctx.attempt)
    if ctx.attempt <= fails:
        raise ShakyError(f"attempt {ctx.attempt}")
    return ctx.attempt


@tasks.task("gone", discard_on=LookupError, keep_result=True)
def gone() -> None:
    raise LookupError("no such photo")


@tasks.task("parent")
async def parent(children: int, ctx: Context = INJECTED) -> None:
    await child.using(delay=10).amany({"number": number} for number in range(children))
    ids = await ctx.pusher.enqueue_many([("raw", 1)])
    assert (await ctx.pusher.status(ids[0]))["name"] == "raw"


@tasks.task("child")
def child(number: int) -> None:
    log.append(number)


@tasks.task("endless")
def endless() -> None:
    endless.enqueue()


def test_recording_keeps_what_would_be_sent() -> None:
    with recording() as jobs:
        handle = double.using(priority=-5, delay=60).enqueue(21)
        triple.enqueue(number=1)
        triple.many([{"number": 2}, triple.to_job(3)])
    assert len(jobs) == 4
    assert (jobs[0].task, jobs[0].arguments) == (double, {"number": 21})
    assert jobs[0].options == {"priority": -5, "delay": 60, "keep_result": True}
    assert jobs[0].id == handle.id
    assert [job.arguments["number"] for job in jobs.of(triple)] == [1, 2, 3]
    assert jobs.only(triple, number=2)["name"] == "triple"
    with pytest.raises(
        AssertionError,
        match=r"expected one job, found 3; enqueued: double\(number=21\), triple\(number=1\), ",
    ):
        jobs.only("triple")
    with pytest.raises(
        NotFinished, match=r"is scheduled: the jobs of a test run in inline\(\) or drain\(\) only"
    ):
        handle.get()


async def test_recording_works_in_async_code_and_threads() -> None:
    with recording() as jobs:
        await double.aenqueue(1)
        thread = threading.Thread(target=triple.enqueue, args=(2,))
        thread.start()
        thread.join()
        await asyncio.to_thread(triple.enqueue, 3)
    assert [job["name"] for job in jobs] == ["double", "triple", "triple"]


def test_a_recorded_job_can_be_canceled_and_a_key_counts_once() -> None:
    with recording() as jobs:
        handle = double.using(key="a").enqueue(1)
        assert double.using(key="a").enqueue(1).id == handle.id
        handle.cancel()
        with pytest.raises(JobCanceled):
            handle.get()
        with pytest.raises(ResultGone, match="does not exist"):
            double.handle("00000000-0000-7000-8000-000000000001").get()
        assert [run.job.id for run in drain(jobs)] == []


def test_values_that_cannot_be_sent_cannot_be_recorded() -> None:
    with recording() as jobs:
        with pytest.raises(InvalidArgument):
            double.enqueue("1")  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument, match="number: is an integer beyond 64 bits"):
            double.enqueue(2**70)
    assert jobs == []


def test_inline_runs_at_once_and_the_handle_has_the_result() -> None:
    with inline() as jobs:
        handles = [double.enqueue(1), triple.enqueue(2)]
        assert wait_all(handles) == [2, 6]
        assert handles[0].status == "succeeded"
        with pytest.raises(ResultNotKept):
            double.using(keep_result=False).enqueue(1).get()
    assert len(jobs) == 3


async def test_inline_works_in_async_code() -> None:
    with inline():
        assert await (await double.aenqueue(1)).aget() == 2
        assert await (await triple.aenqueue(1)).aget() == 3
        assert double.enqueue(2).get() == 4  # a blocking call in the event loop


def test_inline_retries_as_the_task_says_and_raises_the_original_exception() -> None:
    with inline():
        assert shaky.enqueue(2).get() == 3
        assert log == [1, 2, 3]
        with pytest.raises(ShakyError, match="attempt 3") as raised:
            shaky.enqueue(7)
    assert "raise ShakyError" in "".join(traceback.format_tb(raised.value.__traceback__))


def test_inline_can_leave_the_failure_to_the_handle() -> None:
    with inline(raises=False):
        with pytest.raises(JobFailed, match="ShakyError: attempt 3") as raised:
            shaky.enqueue(7).get()
        with pytest.raises(JobDiscarded):
            gone.enqueue().get()
    assert raised.value.error_type.endswith("ShakyError")


def test_tasks_that_enqueue_one_another_for_ever_are_stopped() -> None:
    with (
        inline(),
        pytest.raises(RecursionError, match=r"more than 50 deep; record them, and run them with drain\(\)"),
    ):
        endless.enqueue()


def test_drain_follows_children_and_runs_raw_jobs_by_their_worker() -> None:
    worker = Worker("http://127.0.0.1:1")
    worker.handler("raw")(lambda argument: log.append(("raw", argument)))
    with recording() as jobs:
        parent.enqueue(3)
        with pytest.raises(LookupError, match="no handler for jobs named raw"):
            drain(jobs)
        log.clear()
        parent.enqueue(3)
        runs = drain(jobs, worker=worker)
    assert [run.job["name"] for run in runs] == ["parent", "raw", "child", "child", "child"]
    assert log == [("raw", 1), 0, 1, 2]
    assert {run.state for run in runs} == {"succeeded"}
    assert jobs == []


def test_drain_passes_over_delays_and_backoffs_by_a_virtual_clock() -> None:
    with recording() as jobs:
        shaky.using(retry={"base_s": 600, "factor": 2}).enqueue(2)
        child.using(delay=900).enqueue(1)
        child.using(delay=86_400).enqueue(2)
        child.using(priority=5).enqueue(3)
        child.using(delay=60, expires=30).enqueue(4)
    runs = drain(jobs)
    assert [(run.job["name"], run.state, run.at_s) for run in runs] == [
        ("child", "succeeded", 0), ("child", "skipped", 60), ("child", "succeeded", 900),
        ("shaky", "succeeded", 1800), ("child", "succeeded", 86_400),
    ]  # fmt: skip
    assert log == [1, 3, 2, 1, 3, 2]
    assert (runs[3].attempts, runs[3].result) == (3, 3)


def test_drain_raises_the_original_exception_or_returns_it() -> None:
    with recording() as jobs:
        shaky.using(max_retry=0).enqueue(1)
        job = double.to_job(1)
        job["argument"] = {"number": "one"}
        SyncPusherOf.enqueue(job)
    with pytest.raises(ShakyError):
        drain(jobs)


class SyncPusherOf:
    """Enqueues jobs as an older release of the application would."""

    @staticmethod
    def enqueue(job: Any) -> None:
        double.pushers().sync_pusher().enqueue_job(job)


def test_an_argument_that_does_not_fit_is_not_retried() -> None:
    with recording() as jobs:
        job = double.to_job(1)
        job["argument"] = {"number": "one"}
        SyncPusherOf.enqueue(job)
    (run,) = drain(jobs, raises=False)
    assert (run.state, run.attempts) == ("failed", 1)
    assert run.fields
    assert run.fields["reason"] == "invalid_argument"


def test_policies_and_orders_of_handlers_count() -> None:
    own = Tasks()

    @own.task("limited", retry_on=retry_on(ShakyError, wait=50, attempts=2))
    def limited(ctx: Context) -> None:
        log.append(ctx.attempt)
        raise ShakyError

    @own.task("deferred", keep_result=True)
    def deferred(ctx: Context) -> str:
        log.append(ctx.attempt)
        if len(log) < 5:
            raise Defer(10)
        return "done"

    with recording() as jobs:
        limited.enqueue()
        (run,) = drain(jobs, raises=False)
        assert (run.state, run.attempts, run.at_s) == ("failed", 2, 50)
        assert isinstance(run.exception, ShakyError)
        handle = deferred.enqueue()
        (run,) = drain(jobs)
        assert (run.attempts, handle.get()) == (1, "done")
    assert log == [1, 2, 1, 1, 1]


def test_nothing_is_substituted_after_the_block() -> None:
    with recording(), inline():
        assert double.enqueue(1).get() == 2
    assert isinstance(double.pushers().sync_pusher(), SyncPusher)
    assert isinstance(double.pushers().pusher(), Pusher)


@tasks.task("parts.found", max_retry=1)
def emit_and_fail_once(ctx: Context = INJECTED) -> None:
    ctx.emit({"attempt": ctx.attempt})
    if ctx.attempt == 1:
        raise ConnectionError("away")


def test_a_handle_streams_the_parts_of_the_last_attempt_inline() -> None:
    with inline():
        handle = emit_and_fail_once.enqueue()
        assert [(part.attempt, part.number, part.value) for part in handle.stream()] == [
            (2, 1, {"attempt": 2})
        ]


@tasks.task("logs.written", max_retry=1)
def log_and_fail_once(ctx: Context = INJECTED) -> None:
    ctx.logger.info("attempt %d", ctx.attempt)
    ctx.logger.warning("careful")
    if ctx.attempt == 1:
        raise ConnectionError("away")


def test_a_handle_reads_the_log_of_the_last_attempt_inline() -> None:
    with inline():
        handle = log_and_fail_once.enqueue()
        assert [(line.seq, line.attempt, line.level, line.text) for line in handle.logs(follow=True)] == [
            (1, 2, "info", "attempt 2"),
            (2, 2, "warning", "careful"),
        ]
        assert [line.text for line in handle.logs(level="warning")] == ["careful"]
        assert [line.text for line in handle.logs(tail=1)] == ["careful"]
        assert list(handle.logs(attempt=1)) == []
    with recording():
        handle = log_and_fail_once.enqueue()
        assert list(handle.logs()) == []
        with pytest.raises(NotFinished):
            list(handle.logs(follow=True))


def test_a_drained_run_has_its_parts_and_a_recorded_job_none_yet() -> None:
    with recording() as jobs:
        handle = emit_and_fail_once.enqueue()
        with pytest.raises(NotFinished):
            list(handle.stream())
    (run,) = drain(jobs)
    assert run.parts == [{"attempt": 2}]
