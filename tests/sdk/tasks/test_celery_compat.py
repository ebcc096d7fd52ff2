"""A Celery task module runs with only its import changed, and missing features are reported at the import."""

import asyncio
import contextlib
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from worker_sdk import JobFailed, Worker
from worker_sdk.celery_compat import (
    AsyncResult,
    Celery,
    Ignore,
    MaxRetriesExceededError,
    Reject,
    SoftTimeLimitExceeded,
    Task,
    chain,
    chord,
    group,
    shared_task,
    signals,
    signature,
)
from worker_sdk.celery_compat.soft_limit import call_within
from worker_sdk.testing import WorkerHarness, drain, inline, recording

pytestmark = pytest.mark.req("S3")

attempts: list[int] = []


@shared_task
def add(a: int, b: int = 1) -> int:
    return a + b


@shared_task(name="flaky", bind=True, max_retries=2, default_retry_delay=5)
def flaky(self: Any, times: int) -> list[Any]:
    attempts.append(self.request.retries)
    if self.request.retries < times:
        raise self.retry(exc=KeyError("again"))
    return [self.name, self.request.retries, self.request.args, self.request.kwargs]


@shared_task(autoretry_for=(OSError,), dont_autoretry_for=[FileNotFoundError], max_retries=3, retry_backoff=2)
def fetch(kind: str) -> None:
    attempts.append(1)
    raise {"os": OSError, "missing": FileNotFoundError, "value": ValueError}[kind](kind)


@shared_task(bind=True, max_retries=0)
def never(self: Any) -> None:
    self.retry()


app = Celery("photos", broker="redis://localhost", backend="redis://localhost")


@app.task(time_limit=600, ignore_result=True, priority=5)
def thumbnail(photo_id: int) -> None: ...


@pytest.fixture(autouse=True)
def _forgotten() -> None:
    attempts.clear()


def test_tasks_are_called_and_enqueued_as_ever() -> None:
    assert add(1) == 2
    with inline():
        result = add.delay(1, b=2)
        assert (result.get(timeout=10), result.state, result.ready(), result.successful()) == (
            3,
            "SUCCESS",
            True,
            True,
        )
        assert add.apply_async((1,), {"b": 5}).result == 6
        assert add.AsyncResult(result.id).state == "SUCCESS"
    assert add.name == f"{__name__}.add"


def test_the_options_of_apply_async_are_those_of_the_job() -> None:
    eta = datetime(2030, 1, 1, tzinfo=UTC)
    with recording() as jobs:
        add.apply_async((1,), countdown=60, priority=9, headers={"tenant": "a"}, retry=True)
        add.apply_async((1,), eta=eta.replace(tzinfo=None), expires=timedelta(hours=1), time_limit=5)
        thumbnail.delay(1)
    first, second, third = jobs
    assert (first["delay"], first["priority"], first["headers"]) == (60, -9, {"tenant": "a"})
    assert (second["run_at"], second["timeout"]) == ("2030-01-01T00:00:00.000Z", 5)
    assert second["expires_s"] == 3600
    assert (third["timeout"], third["priority"], third["max_retry"]) == (600, -5, 3)
    assert not third.get("keep_result")


def test_a_bound_task_retries_itself() -> None:
    with inline():
        assert flaky.delay(2).get() == ["flaky", 2, [2], {}]
        assert flaky.delay(times=1).get() == ["flaky", 1, [], {"times": 1}]
    assert attempts == [0, 1, 2, 0, 1]


def test_after_the_last_retry_the_exception_is_the_end() -> None:
    with inline(raises=False):
        failed = flaky.delay(9)
        with pytest.raises(JobFailed, match="KeyError"):
            failed.get()
        assert isinstance(failed.get(propagate=False), JobFailed)
        assert (failed.state, failed.failed()) == ("FAILURE", True)
    assert attempts == [0, 1, 2]
    with inline(), pytest.raises(MaxRetriesExceededError):
        never.delay()


@pytest.mark.parametrize(("kind", "count"), [("os", 4), ("missing", 1), ("value", 1)])
def test_only_the_exceptions_that_are_named_are_retried(kind: str, count: int) -> None:
    with recording() as jobs:
        fetch.delay(kind)
    assert [run.state for run in drain(jobs, raises=False)] == ["failed"]
    assert len(attempts) == count


def test_a_job_can_be_revoked_and_waited_for() -> None:
    with recording():
        result = add.delay(1)
        with pytest.raises(TimeoutError):
            result.get(timeout=0)
        assert (result.state, result.result) == ("PENDING", None)
        result.revoke(terminate=True)
        assert result.state == "REVOKED"
    assert isinstance(result, AsyncResult)
    assert str(result) == result.id


def test_a_worker_runs_the_tasks_of_the_module_and_of_the_application() -> None:
    shared = sys.modules[__name__].jqmaster_tasks
    assert "flaky" in Worker(tasks=shared).names
    assert Worker(tasks=app).names == [f"{__name__}.thumbnail"]


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("", "current_app"),
        ("", "chunks"),
        (".canvas", "chunks"),
        (".exceptions", "TimeLimitExceeded"),
        (".schedules", "solar"),
        (".signals", "worker_ready"),
    ],
)
def test_a_name_that_is_missing_fails_at_the_import(module: str, name: str, tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(f"from worker_sdk.celery_compat{module} import {name}\n")
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import module"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert f"{name} of Celery is missing" in done.stderr
    assert "docs/coming_from_celery.md" in done.stderr


def test_options_that_are_missing_fail_where_they_stand() -> None:
    with pytest.raises(TypeError, match=r"rate_limit: not an option of a task.*a constraint"):
        shared_task(rate_limit="10/m")(lambda: None)
    with pytest.raises(TypeError, match=r"base: not an option of a task.*Depends"):
        shared_task(base=object)(lambda: None)
    with pytest.raises(TypeError, match=r"link: not an option of apply_async.*use chain"):
        add.apply_async((1,), link=add)
    with pytest.raises(AttributeError, match="use group"):
        add.chunks(1)
    with pytest.raises(AttributeError, match=r"worker_main of Celery is missing.*jqmaster worker MODULE:app"):
        _ = app.worker_main
    with pytest.raises(AttributeError, match="inspect of Celery is missing"):
        app.control.inspect()
    with pytest.raises(TypeError, match="a class of tasks has no counterpart"):
        type("Base", (Task,), {})
    with pytest.raises(TypeError, match="missing a required argument"):
        add.delay()


def test_a_bound_task_is_called_directly_in_a_unit_test() -> None:
    with pytest.raises(KeyError):
        flaky(9)
    assert flaky(0) == ["flaky", 0, [0], {}]
    assert flaky.run(times=0) == ["flaky", 0, [], {"times": 0}]


def test_apply_runs_a_call_here_and_now() -> None:
    done = add.apply((1,), {"b": 5})
    assert (done.get(), done.state, done.successful(), done.task_id) == (6, "SUCCESS", True, done.id)
    failed = fetch.apply(("value",))
    assert (failed.state, str(failed.result)) == ("FAILURE", "value")
    with pytest.raises(ValueError, match="value"):
        failed.get()
    assert 'raise {"os"' in str(failed.traceback)
    with pytest.raises(ValueError, match="value"):
        fetch.apply(("value",), throw=True)


@shared_task(bind=True)
def told(self: Any, total: int) -> None:
    self.update_state(state="PROGRESS", meta={"current": 3, "total": total, "status": "crop"})


def test_update_state_is_what_the_caller_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    with recording() as jobs:
        result = told.delay(4)
        view = jobs.known_store().view
        [run] = drain(jobs)
        assert run.progress == (0.75, 'PROGRESS {"current":3,"total":4,"status":"crop"}')
        assert result.state == "SUCCESS"
        # As the master answers while it runs.
        monkeypatch.setattr(jobs.known_store(), "view", lambda job_id: {**view(job_id), "state": "running"})
        assert (result.state, result.ready()) == ("PROGRESS", False)
        assert result.info == {"current": 3, "total": 4, "status": "crop"}
    told(4)  # outside of a job, nobody is told


ended: list[Any] = []


def spin(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


@shared_task(soft_time_limit=0.05, time_limit=20)
def long_def(seconds: float) -> str:
    try:
        spin(seconds)
    except SoftTimeLimitExceeded:
        ended.append("cleaned up")
        return "stopped"
    return "done"


@shared_task(soft_time_limit=0.05)
async def long_async(seconds: float) -> str:
    try:
        async with asyncio.timeout(60):
            await asyncio.create_task(asyncio.sleep(seconds))
    except SoftTimeLimitExceeded:
        await asyncio.sleep(0)  # the clean-up may wait, too
        return "stopped"
    return "done"


@shared_task(soft_time_limit=0.05)
def unprepared() -> None:
    spin(20)


@pytest.mark.parametrize("task", [long_def, long_async])
def test_the_soft_time_limit_is_raised_inside_the_task(task: Any) -> None:
    with inline():
        assert task.delay(20).get() == "stopped"
        assert task.delay(0).get() == "done"
        assert task.apply_async((0.2,), soft_time_limit=20).get() == "done"
    with inline(raises=False), pytest.raises(JobFailed, match="SoftTimeLimitExceeded"):
        unprepared.delay().get()


def test_the_soft_time_limit_interrupts_a_blocking_call_of_the_main_thread() -> None:
    program = """
import signal, time
from worker_sdk.celery_compat import SoftTimeLimitExceeded
from worker_sdk.celery_compat.soft_limit import call_within
try:
    call_within(0.1, lambda: time.sleep(60))
except SoftTimeLimitExceeded:
    print("stopped", signal.getitimer(signal.ITIMER_REAL), signal.getsignal(signal.SIGALRM) is signal.SIG_DFL)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=True
    )
    assert done.stdout == "stopped (0.0, 0.0) True\n"


async def test_the_soft_time_limit_is_raised_by_a_worker() -> None:
    jobs = [(long_def, 20), (long_async, 20)]
    async with WorkerHarness(Worker(tasks=sys.modules[__name__].jqmaster_tasks)) as harness:
        for task, seconds in jobs:
            outcome = await harness.run(task.name, {"seconds": seconds})
            assert outcome.result == "stopped", task


@pytest.mark.parametrize("run_s", [0.0, 60.0], ids=["in time", "too long"])
def test_after_a_soft_time_limit_functions_run_under_a_tracer_too(run_s: float) -> None:
    program = f"""
import contextlib, sys, threading, time
from worker_sdk.celery_compat import SoftTimeLimitExceeded
from worker_sdk.celery_compat.soft_limit import call_within
def spin():
    end = time.monotonic() + {run_s}
    while time.monotonic() < end:
        pass
def limited():
    with contextlib.suppress(SoftTimeLimitExceeded):
        call_within(0.1, spin)
thread = threading.Thread(target=limited)
thread.start()
thread.join()
def called():
    print("called")
sys.settrace(lambda *_: None)
called()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=True
    )
    assert done.stdout == "called\n"


def test_a_soft_time_limit_never_hits_the_next_job_of_the_thread() -> None:
    def once() -> None:
        for _ in range(200):
            with contextlib.suppress(SoftTimeLimitExceeded):
                call_within(0.0005, lambda: spin(0.0005))
            spin(0.0002)
        ended.append("through")

    ended.clear()
    thread = threading.Thread(target=once)
    thread.start()
    thread.join()
    assert ended == ["through"]


@shared_task
def joined(numbers: list[int], more: int = 0) -> int:
    return sum(numbers) + more


@shared_task(ignore_result=True)
def no_result() -> str:
    return "no result taken"


def test_a_canvas_hands_results_on_as_celery_does() -> None:
    with inline():
        assert chain(add.s(1, 2), add.s(10), add.s(b=100))().get() == 113
        assert (add.s(1, 2) | add.s(3)).delay().get() == 6
        assert chain(add.s(2), add.si(5, 5))(1).get() == 10
        assert group(add.s(n, n) for n in range(3))().get() == [0, 2, 4]
        assert chord([add.s(1, 1), add.s(2, 2)])(joined.s(more=1)).get() == 7
        assert chain(group(add.s(1, 1)), joined.s())().get() == 2
        result = chain(add.s(1), group(add.s(10), add.s(20)), joined.s())(1)
        assert (result.get(), result.parent.join(), result.parent.parent.get()) == (34, [12, 22], 2)
        assert add.signature((1,), {"b": 1}).apply_async().get() == 2
        assert signature(add.name, args=(1, 2)).apply_async().get() == 3
    with pytest.raises(TypeError, match="use si"):
        chain(add.s(1), no_result.s())()
    with pytest.raises(TypeError, match="use chain"):
        add.s(1).link(add.s(2))


def test_a_first_argument_that_nothing_fills_fails_the_job() -> None:
    with recording() as jobs:
        add.task.enqueue(b=1)
    [run] = drain(jobs, raises=False)
    assert (run.state, run.fields and run.fields["reason"]) == ("failed", "invalid_argument")


def test_an_exception_by_which_a_task_ends_is_no_failure() -> None:
    with inline(raises=False):
        assert ending.delay("ignore").handle.refresh().status == "discarded"
        assert ending.delay("reject").state == "FAILURE"
    with recording() as jobs:
        ending.delay("requeue")
        [run] = drain(jobs)
        assert (run.state, run.attempts, run.at_s) == ("succeeded", 1, 1.0)


requeued: list[str] = []


@shared_task
def ending(kind: str) -> None:
    if kind == "ignore":
        raise Ignore
    if kind == "reject":
        raise Reject("no", requeue=False)
    if not requeued:
        requeued.append(kind)
        raise Reject("later", requeue=True)


def test_signals_are_sent_around_a_run() -> None:
    seen: list[Any] = []

    @signals.task_prerun.connect(sender=add)
    def before(sender: Any, task_id: str, args: Any, kwargs: Any, **fields: Any) -> None:
        seen.append(("prerun", sender.name, kwargs))

    @signals.task_postrun.connect
    def after(state: str, retval: Any, **fields: Any) -> None:
        seen.append((state, retval))

    @signals.task_failure.connect
    def failed(exception: Exception, **fields: Any) -> None:
        seen.append(repr(exception))

    try:
        with inline(raises=False):
            add.delay(1, b=2)
            fetch.delay("value")
    finally:
        assert all(
            one.disconnect(function)
            for one, function in [
                (signals.task_prerun, before),
                (signals.task_postrun, after),
                (signals.task_failure, failed),
            ]
        )
    assert seen[:3] == [("prerun", add.name, {"a": 1, "b": 2}), ("SUCCESS", 3), "ValueError('value')"]
    assert seen[3][0] == "FAILURE"
