"""The documented API of Django's tasks, on Django 6 and the backport, with a real master and a real worker."""

import asyncio
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

import django
import pytest
from asgiref.sync import sync_to_async
from django.db import connections, transaction
from django.test import override_settings
from django.utils import timezone

from tests.sdk.django.blog import tasks
from tests.support import django_site, real_time
from tests.support.master import Api, master_on
from tests.support.server import StoreServer
from worker_sdk import configure
from worker_sdk.django import task
from worker_sdk.django.tasks_api import (
    InvalidTask,
    TaskResultDoesNotExist,
    TaskResultStatus,
    api,
    exceptions,
    task_backends,
    task_enqueued,
    task_finished,
    task_started,
)
from worker_sdk.django.worker import django_worker
from worker_sdk.testing import recording

pytestmark = [pytest.mark.req("D22"), real_time.MASTER]


@pytest.fixture
def zone_of_the_process() -> Iterator[None]:
    """Give this process back its time zone, which Django sets for all of it."""
    before = os.environ.get("TZ")
    yield
    if before is None:
        os.environ.pop("TZ", None)
    else:
        os.environ["TZ"] = before
    time.tzset()


@pytest.fixture
async def real(store_server: StoreServer) -> AsyncIterator[Api]:
    """Yield a real master that receives the site's pushes."""
    async with master_on(store_server.url) as (master, client):
        configure(url=master.server.url)
        yield client
        configure()


@asynccontextmanager
async def working(**options: Any) -> AsyncIterator[Any]:
    """Yield a worker of the site."""
    worker = await asyncio.to_thread(django_worker, relays=False, **options)
    async with worker.running():
        yield worker


async def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function in a thread, as Django does with views."""

    def run() -> Any:
        try:
            return function(*args, **kwargs)
        finally:
            connections.close_all()

    return await asyncio.to_thread(run)


async def finished(result: Any) -> Any:
    """Refresh a result until it is finished."""
    for _ in range(300):
        await call(result.refresh)
        if result.is_finished:
            return result
        await asyncio.sleep(0.05)
    raise AssertionError(f"{result.id} is {result.status}")


async def test_an_enqueued_task_is_ready_and_has_what_was_given(real: Api) -> None:
    result = await call(tasks.add.enqueue, 1, b=2)
    assert (result.status, result.args, result.kwargs) == (TaskResultStatus.READY, [1], {"b": 2})
    assert (result.backend, result.errors, result.worker_ids, result.attempts) == ("default", [], [], 0)
    assert result.enqueued_at <= datetime.now(UTC)
    assert (result.started_at, result.finished_at, result.last_attempted_at) == (None, None, None)
    assert not result.is_finished
    with pytest.raises(ValueError, match="not finished"):
        _ = result.return_value
    job = await real.job(result.id)
    assert job["name"] == "tests.sdk.django.blog.tasks.add"
    assert job["argument"] == {"args": [1], "kwargs": {"b": 2}}


async def test_a_task_runs_and_its_result_can_be_read_again_and_again(real: Api) -> None:
    async with working():
        result = await finished(await call(tasks.add.enqueue, 20, 22))
    assert (result.status, result.return_value, result.attempts) == (TaskResultStatus.SUCCESSFUL, 42, 1)
    assert result.enqueued_at <= result.started_at <= result.finished_at
    assert result.last_attempted_at == result.started_at
    again = await call(tasks.add.get_result, result.id)
    assert again == result
    assert (await tasks.add.aget_result(result.id)).return_value == 42
    assert (await call(api.default_task_backend.get_result, result.id)).task.func is tasks.add.func
    await result.arefresh()
    assert result.return_value == 42


async def test_many_calls_are_enqueued_together(real: Api) -> None:
    told: list[str] = []

    def note(sender: Any, task_result: Any, **_: Any) -> None:
        told.append(task_result.id)

    task_enqueued.connect(note)
    try:
        many = await call(tasks.add.enqueue_many, [(1,), [2, 3], {"a": 4, "b": 5}])
        more = await tasks.double.aenqueue_many([])
    finally:
        task_enqueued.disconnect(note)
    assert [(one.status, one.args, one.kwargs) for one in many] == [
        (TaskResultStatus.READY, [1], {}), (TaskResultStatus.READY, [2, 3], {}),
        (TaskResultStatus.READY, [], {"a": 4, "b": 5}),
    ]  # fmt: skip
    assert (told, more) == ([one.id for one in many], [])
    async with working():
        assert [(await finished(one)).return_value for one in many] == [2, 5, 9]
    with pytest.raises(TypeError):
        await call(tasks.add.enqueue_many, [({1, 2},)])


async def test_async_tasks_and_the_context(real: Api) -> None:
    async with working():
        doubled = await tasks.double.aenqueue(21)
        told = await call(tasks.who.enqueue, "a", "b")
        assert (await finished(doubled)).return_value == 42
        assert (await finished(told)).return_value == [told.id, 1, ["a", "b"]]


async def test_a_failure_has_its_exception_and_traceback(real: Api) -> None:
    async with working():
        result = await finished(await call(tasks.fail.enqueue, "broken"))
    assert result.status == TaskResultStatus.FAILED
    (error,) = result.errors
    assert error.exception_class is ValueError
    assert "raise ValueError(text)" in error.traceback
    assert error.traceback.rstrip().endswith("ValueError: broken")
    with pytest.raises(ValueError, match="failed"):
        _ = result.return_value


async def test_retries_leave_an_error_each(real: Api) -> None:
    async with working():
        result = await finished(await call(tasks.flaky.enqueue))
    assert (result.status, result.attempts) == (TaskResultStatus.FAILED, 4)
    assert [error.exception_class for error in result.errors] == [KeyError] * 4


async def test_a_task_that_succeeds_at_last_has_its_result_and_its_errors(real: Api) -> None:
    async with working():
        result = await finished(await call(tasks.mends.enqueue))
    assert (result.status, result.return_value, result.attempts) == (TaskResultStatus.SUCCESSFUL, "done", 3)
    assert [error.exception_class for error in result.errors] == [OSError, OSError]
    assert len(result.worker_ids) == 3


@pytest.mark.parametrize("using_tz", [True, False])
async def test_a_task_with_a_time_runs_then(real: Api, zone_of_the_process: None, using_tz: bool) -> None:
    with override_settings(USE_TZ=using_tz, TIME_ZONE="Asia/Tokyo"):
        async with working():
            far = timezone.now() + timedelta(hours=1)
            result = await call(tasks.add.using(run_after=far).enqueue, 1)
            waiting = await call(tasks.add.get_result, result.id)
            # Instants are sent in milliseconds.
            assert abs(waiting.task.run_after - far) < timedelta(milliseconds=1)
            assert (waiting.status, waiting.started_at) == (TaskResultStatus.READY, None)
            at = timezone.now() + timedelta(seconds=1)
            done = await finished(await call(tasks.add.using(run_after=at).enqueue, 1))
        assert (done.return_value, done.started_at >= at - timedelta(milliseconds=1)) == (2, True)


def test_the_backend_has_all_that_django_documents() -> None:
    names = ("name", "func", "module_path", "priority", "backend", "queue_name", "run_after", "takes_context",
            "using", "enqueue", "aenqueue", "get_result", "aget_result", "call", "acall", "get_backend")  # fmt: skip
    assert [name for name in names if not hasattr(tasks.add, name)] == []
    assert (tasks.add.name, tasks.add.module_path) == ("add", "tests.sdk.django.blog.tasks.add")
    backend = task_backends["default"]
    assert (api.default_task_backend.alias, backend.alias) == ("default", "default")
    assert backend.queues == {"default", "mail"}
    assert {"enqueue", "aenqueue", "get_result", "aget_result", "validate_task", "check"} <= set(dir(backend))
    assert [status.value for status in TaskResultStatus] == ["READY", "RUNNING", "FAILED", "SUCCESSFUL"]


async def test_a_worker_knows_the_tasks_that_were_declared_under_other_settings(real: Api) -> None:
    with override_settings(TASKS=django_site.tasks(timeout=50)):
        async with working() as worker:
            assert {task.func.__name__ for task in task_backends["default"].tasks.values()} >= {
                "add",
                "flaky",
            }
            assert "tests.sdk.django.blog.tasks.flaky" in worker.names
            assert (await finished(await call(tasks.add.enqueue, 1))).return_value == 2
    async with working() as worker:
        assert "tests.sdk.django.blog.tasks.flaky" in worker.names


def test_these_are_the_tasks_of_the_wanted_django() -> None:
    wanted = os.environ.get("JQMASTER_TEST_DJANGO")
    assert wanted is None or django.get_version().startswith(f"{wanted}.")
    assert api.__name__ == ("django_tasks" if django.VERSION < (6, 0) else "django.tasks")


async def test_a_return_value_that_json_cannot_carry_fails(real: Api) -> None:
    async with working():
        result = await finished(await call(tasks.odd_value.using(max_retry=0).enqueue))
    assert result.errors[0].exception_class is TypeError


async def test_using_changes_priority_queue_time_and_options(real: Api) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    task = tasks.send.using(priority=-100, queue_name="default", run_after=later, max_retry=7)
    assert (task.priority, task.queue_name, task.run_after, task.timeout) == (-100, "default", later, 60)
    assert (tasks.send.priority, tasks.send.run_after) == (10, None)
    job = await real.job((await call(task.enqueue, "ada")).id)
    assert (job["priority"], job["state"], job["max_retry"], job["timeout"]) == (100, "scheduled", 7, 60)
    plain = await call(tasks.send.enqueue, "ada")
    job = await real.job(plain.id)
    assert (job["name"], job["priority"]) == ("mail/tests.sdk.django.blog.tasks.send", -10)
    assert job["tags"] == ["from-task"]
    found = (await call(tasks.send.get_result, plain.id)).task
    assert (found.queue_name, found.priority) == ("mail", 10)


@pytest.mark.req("D24")
async def test_a_task_requires_labels_of_its_worker(real: Api) -> None:
    with override_settings(TASKS=django_site.tasks(requires={"zone": "a"})):
        of_settings = await call(tasks.add.enqueue, 1)
        of_task = await call(tasks.add.using(requires={"gpu": "1"}).enqueue, 2)
        without = await call(tasks.add.using(requires={}).enqueue, 3)
    required = [(await real.job(one.id))["requires"] for one in (of_settings, of_task, without)]
    assert required == [{"zone": "a"}, {"gpu": "1"}, None]
    async with working(labels={"gpu": "1"}):
        assert (await finished(of_task)).return_value == 3
        assert (await finished(without)).return_value == 4
    await call(of_settings.refresh)
    assert of_settings.status == TaskResultStatus.READY


def test_labels_that_no_master_takes_are_refused_where_they_are_written() -> None:
    with pytest.raises(InvalidTask, match="'gpu' with 1: a text of up to 200 characters"):
        tasks.add.using(requires={"gpu": 1}).enqueue(1)


async def test_the_larger_priority_runs_first(real: Api) -> None:
    ran: list[Any] = []

    def note(sender: Any, task_result: Any, **_: Any) -> None:
        ran.append(task_result.args[0])

    for priority in (0, 100, -100, 50):
        await call(tasks.add.using(priority=priority).enqueue, priority)
    task_started.connect(note)
    try:
        async with working(max_jobs=1):
            last = await call(tasks.add.using(priority=-100).enqueue, 0)
            await finished(last)
    finally:
        task_started.disconnect(note)
    assert ran == [100, 50, 0, -100, 0]


async def test_a_worker_of_one_queue_leaves_the_others_alone(real: Api) -> None:
    mail = await call(tasks.send.enqueue, "ada")
    other = await call(tasks.add.enqueue, 1)
    async with working(queues=["mail"]) as worker:
        assert all(name.startswith("mail/") for name in worker.names)
        assert (await finished(mail)).return_value == "sent to ada"
    await call(other.refresh)
    assert other.status == TaskResultStatus.READY


async def test_signals_tell_of_each_step(real: Api) -> None:
    told: list[Any] = []

    def note(name: str) -> Any:
        def receive(sender: Any, task_result: Any, **_: Any) -> None:
            told.append((name, sender.__name__, task_result.id, str(task_result.status)))

        return receive

    receivers = {signal: note(name) for name, signal in
                 (("enqueued", task_enqueued), ("started", task_started), ("finished", task_finished))}  # fmt: skip
    for signal, receiver in receivers.items():
        signal.connect(receiver)
    try:
        async with working():
            good, bad = await call(tasks.add.enqueue, 1), await call(tasks.fail.enqueue, "x")
            await finished(good)
            await finished(bad)
    finally:
        for signal, receiver in receivers.items():
            signal.disconnect(receiver)
    steps = [("enqueued", "READY"), ("started", "RUNNING"), ("finished", "SUCCESSFUL")]
    assert [(name, status) for name, _, job_id, status in told if job_id == good.id] == steps
    assert told[-1][0] == "finished"
    assert {("finished", "JqmasterBackend", bad.id, "FAILED")} <= set(told)


async def test_results_of_other_tasks_and_unknown_ones_are_errors(real: Api) -> None:
    result = await call(tasks.add.enqueue, 1)
    with pytest.raises(exceptions.TaskResultMismatch):
        await call(tasks.send.get_result, result.id)
    for unknown in ("01980000-0000-7000-8000-000000000000", "not-an-id"):
        with pytest.raises(TaskResultDoesNotExist):
            await call(tasks.add.get_result, unknown)
    raw = await real.enqueue("no.task.of.django")
    with pytest.raises(TaskResultDoesNotExist):
        await call(tasks.add.get_result, raw)


async def test_a_canceled_job_has_failed(real: Api) -> None:
    result = await call(tasks.add.enqueue, 1)
    await real.call("POST", f"/api/jobs/{result.id}/cancel")
    await call(result.refresh)
    assert result.status == TaskResultStatus.FAILED
    assert result.errors[0].exception_class.__name__ == "JobCanceled"


@pytest.mark.parametrize("priority", [-101, 101, 1.5])
def test_a_priority_that_django_does_not_allow_is_refused(priority: float) -> None:
    with pytest.raises(InvalidTask):
        tasks.add.using(priority=priority)


def test_a_task_that_cannot_run_is_refused_when_it_is_declared() -> None:
    def inner() -> None: ...

    with pytest.raises(InvalidTask):
        api.task(inner)
    with pytest.raises(InvalidTask):
        tasks.add.using(queue_name="unknown")
    with pytest.raises(InvalidTask):
        tasks.add.using(run_after=datetime.now())
    for decorate in (api.task, task):
        with pytest.raises(TypeError):
            decorate(unknown_option=1)(tasks.add.func)


@pytest.mark.parametrize("argument", [{1, 2}, object(), datetime.now(UTC)])
def test_arguments_that_json_cannot_carry_are_refused(argument: Any) -> None:
    with pytest.raises(TypeError):
        tasks.add.enqueue(argument)


def nothing_is_made() -> bool:
    from worker_sdk.django.models import OutboxRow

    return not OutboxRow.objects.exists()


@pytest.mark.parametrize(
    ("task", "args", "kwargs", "told"),
    [
        (tasks.send, ("ada",), {"nope": 1}, "got an unexpected keyword argument 'nope'; its parameters are (to: str)"),
        (tasks.send, (), {}, "missing a required argument: 'to'; its parameters are (to: str)"),
        (tasks.send, (1, 2), {}, "too many positional arguments; its parameters are (to: str)"),
        (tasks.add, (1,), {"a": 1}, "multiple values for argument 'a'; its parameters are (a: int, b: int = 1)"),
        (tasks.who, ("a",), {"context": 1}, "multiple values for argument 'context'; its parameters are (*names: str)"),
        (tasks.mends, (1,), {}, "too many positional arguments; its parameters are ()"),
        (tasks.double, ("1", "2"), {}, "too many positional arguments; its parameters are (number: int)"),
    ],
)  # fmt: skip
def test_a_call_that_its_function_does_not_take_is_refused_at_once(
    task: Any, args: Sequence[Any], kwargs: dict[str, Any], told: str
) -> None:
    for atomic in (nullcontext(), transaction.atomic()):
        with atomic, pytest.raises(TypeError) as caught:
            task.enqueue(*args, **kwargs)
        assert str(caught.value) == f"{task.module_path}: {told}"
    assert nothing_is_made()


@pytest.mark.parametrize("call", [("ada", "bob"), {"nope": 1}, ()])
def test_a_call_among_many_that_its_function_does_not_take_is_refused_at_once(call: Any) -> None:
    with pytest.raises(TypeError, match=re.escape("its parameters are (to: str)")), transaction.atomic():
        tasks.send.enqueue_many([("ada",), call])
    assert nothing_is_made()


def test_a_decorator_that_gives_an_argument_is_asked_itself() -> None:
    with recording() as jobs:
        tasks.greet.enqueue("ada")
    assert jobs.only()["argument"] == {"args": ["ada"], "kwargs": {}}
    assert tasks.greet.call("ada") == "hello ada"


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("timeout", "x", "timeout is 'x': give seconds or a timedelta"),
        ("max_retry", 1.5, "max_retry is 1.5: give a whole number"),
        ("tags", "a", "tags is 'a': give a list of texts"),
        ("keep_result", 1, "keep_result is 1: give True or False"),
        ("expires", "soon", "expires is 'soon': give seconds"),
        ("unique", "key", "unique is 'key': give a Unique"),
    ],
)
def test_a_value_that_no_option_takes_is_refused_where_it_is_written(
    option: str, value: Any, told: str
) -> None:
    with pytest.raises(InvalidTask, match=re.escape(told)):
        tasks.add.using(**{option: value})
    with pytest.raises(InvalidTask, match=re.escape(told)):
        task(**{option: value})(tasks.add.func)


@pytest.mark.parametrize(
    ("option", "meant"), [("max_retries", "max_retry"), ("countdown", "run_after"), ("queue", "queue_name")]
)
def test_an_option_that_no_task_has_comes_with_the_one_that_is_meant(option: str, meant: str) -> None:
    for given in (lambda: tasks.add.using(**{option: 3}), lambda: task(**{option: 3})):
        with pytest.raises(
            TypeError, match=re.escape(f"not an option of a task: {option} (did you mean {meant}?)")
        ):
            given()


def test_the_backend_says_what_it_can() -> None:
    backend = task_backends["default"]
    assert backend.supports_defer
    assert backend.supports_async_task
    assert backend.supports_get_result
    assert backend.supports_priority
    assert tasks.add.get_backend() is backend
    assert tasks.add.call(1, 2) == 3


async def test_a_task_is_called_as_its_function() -> None:
    assert await tasks.double.acall(2) == 4
    assert await sync_to_async(tasks.double.call)(2) == 4
