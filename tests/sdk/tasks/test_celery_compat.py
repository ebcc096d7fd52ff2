"""A Celery task module runs with only its import changed, and missing features are reported at the import."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from worker_sdk import JobFailed, Worker
from worker_sdk.celery_compat import AsyncResult, Celery, MaxRetriesExceededError, shared_task
from worker_sdk.testing import drain, inline, recording

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
    return [self.name, self.request.retries, self.request.kwargs]


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
    assert "expires_at" in second
    assert (third["timeout"], third["priority"], third["max_retry"]) == (600, -5, 3)
    assert not third.get("keep_result")


def test_a_bound_task_retries_itself() -> None:
    with inline():
        assert flaky.delay(2).get() == ["flaky", 2, {"times": 2}]
    assert attempts == [0, 1, 2]


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


@pytest.mark.parametrize("name", ["chain", "group", "chord", "Task", "signature", "current_app"])
def test_a_name_that_is_missing_fails_at_the_import(name: str, tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(f"from worker_sdk.celery_compat import {name}\n")
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import module"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert f"{name} of Celery is missing" in done.stderr
    assert "docs/coming_from_celery.md" in done.stderr


def test_options_that_are_missing_fail_where_they_stand() -> None:
    with pytest.raises(TypeError, match="rate_limit: not an option of a task"):
        shared_task(rate_limit="10/m")(lambda: None)
    with pytest.raises(TypeError, match="link: not an option of apply_async"):
        add.apply_async((1,), link=add)
    with pytest.raises(AttributeError, match=r"use Task\.to_job"):
        add.s(1)
    with pytest.raises(AttributeError, match="conf of Celery is missing"):
        _ = app.conf
    with pytest.raises(NotImplementedError, match=r"testing\.inline"):
        add.apply((1,))
    with pytest.raises(TypeError, match="call it with apply_async"):
        flaky(1)
