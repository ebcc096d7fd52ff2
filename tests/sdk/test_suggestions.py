"""Mistakes that newcomers make are named where they are made, with what was probably meant."""

import inspect
import re
import uuid
from collections.abc import Callable
from datetime import timedelta
from enum import IntEnum
from typing import Any, cast

import pytest

from worker_sdk import (
    Batch,
    InvalidArgument,
    JobHandle,
    Pusher,
    SyncPusher,
    Tasks,
    Unique,
    Worker,
    configure,
    make_job,
    other_queues,
    retry_on,
)
from worker_sdk.option_types import KINDS
from worker_sdk.pusher import JobOptions
from worker_sdk.tasks.scheduled import DefinitionOptions
from worker_sdk.testing import WorkerHarness, drain, inline, recording
from worker_sdk.transport import option_names

tasks = Tasks()


@tasks.task("mail.send")
def send(user_id: int, subject: str = "") -> None: ...


def test_a_handler_without_a_name_is_refused() -> None:
    with pytest.raises(TypeError, match=re.escape('write @worker.handler("…")')):

        @Worker().handler  # type: ignore[arg-type]
        def handle(argument: int) -> None: ...


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("max_retries", "did you mean max_retry?"),
        ("max_attempts", "did you mean max_retry? It does not count the first attempt."),
        ("countdown", "did you mean delay?"),
        ("_defer_by", "did you mean delay?"),
        ("eta", "did you mean run_at?"),
        ("schedule_at", "did you mean run_at?"),
        ("time_limit", "did you mean timeout?"),
        ("retry_backoff", "did you mean retry? A map of base_s, factor, max_s and jitter."),
        ("depends_on", "did you mean after?"),
        ("ignore_result", "did you mean keep_result? It says the opposite."),
        (
            "queue",
            "did you mean requires? There are no queues: any worker with a handler for the name of the job may run it. "
            'Labels in requires, such as {"gpu": "1"}, leave only the workers that have them.',
        ),
        ("rate_limit", "limit it by a constraint of the master"),
        ("Priority", "did you mean priority?"),
        ("prioritee", "did you mean priority?"),
    ],
)
def test_an_unknown_option_comes_with_the_one_that_is_meant(option: str, told: str) -> None:
    for given in (lambda: send.using(**{option: 3}), lambda: make_job("x", **{option: 3})):  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=re.escape(f"{option} ({told})")):
            given()


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (
            lambda **given: tasks.task("a", **given),
            "not an option of a task: max_retries (did you mean max_retry?)",
        ),
        (
            lambda **given: tasks.task("a", **given),
            "countdown (an option of jobs: give delay where they are enqueued)",
        ),
        (lambda **given: tasks.command("a", ["true"], **given), "retry_limit (did you mean max_retry?)"),
        (
            lambda **given: tasks.every(**given)(send),
            "not an option of a definition: seconds (did you mean minutes?)",
        ),
        (Tasks, "not an option of Tasks: broker (did you mean master?)"),
        (Worker, "not an option of a worker: concurrency (did you mean max_jobs?)"),
        (Worker, "queues (a worker runs the jobs of all names that it has a handler for)"),
        (lambda **given: Worker().handler("a", **given), "autoretry_for (did you mean retry_on?)"),
        (
            lambda **given: Worker().handler("a", **given),
            "max_retry (an option of jobs: give max_retry where they are enqueued)",
        ),
        (SyncPusher, "not an option of a pusher: timeout (did you mean timeout_s?)"),
        (Pusher, "not an option of a pusher: redis_url (did you mean master?)"),
        (Batch, "not an option of a batch: ttl (did you mean expires?)"),
        (
            lambda **given: retry_on(KeyError, **given),
            "max_retries (did you mean attempts? It counts the first",
        ),
        (configure, "not an option of configure: api_key (did you mean token?)"),
        (configure, "not an option of configure: master (did you mean url?)"),
    ],
)
def test_a_call_with_options_of_its_own_tells_them_too(call: Callable[..., Any], told: str) -> None:
    option = re.sub(r"^not an option of [^:]+: ", "", told).partition(" ")[0]
    with pytest.raises(TypeError, match=re.escape(told)):
        call(**{option: 3})


@pytest.mark.parametrize(
    ("call", "options", "told"),
    [
        (Worker, {"max_jobs": "3"}, "a worker: max_jobs is '3': give a whole number"),
        (Worker, {"max_jobs": True}, "max_jobs is True: give a whole number"),
        (Worker, {"max_jobs": None}, "max_jobs is None: give a whole number"),
        (Worker, {"port": "9000"}, "port is '9000': give a whole number"),
        (Worker, {"grace_s": timedelta(seconds=3)}, "grace_s is a timedelta: give a number"),
        (Worker, {"pull": "false"}, "pull is 'false': give True or False"),
        (Pusher, {"timeout_s": "3"}, "a pusher: timeout_s is '3': give a number"),
        (SyncPusher, {"max_wait_s": [3]}, "max_wait_s is a list: give a number"),
        (configure, {"max_wait_s": "3"}, "configure: max_wait_s is '3': give a number"),
        (
            lambda **given: retry_on(KeyError, **given),
            {"attempts": "3"},
            "attempts is '3': give a whole number",
        ),
        (
            lambda **given: tasks.task("a", **given),
            {"timeout": "3"},
            "timeout is '3': give seconds or a timedelta",
        ),
        (
            lambda **given: tasks.task("a", **given),
            {"isolated": "no"},
            "a task: isolated is 'no': give True or False",
        ),
        (
            lambda **given: Worker().handler("a", **given),
            {"isolated": 1},
            "isolated is 1: give True or False",
        ),
    ],
)
def test_a_number_of_another_type_is_refused_where_it_is_given(
    call: Callable[..., Any], options: dict[str, Any], told: str
) -> None:
    with pytest.raises(TypeError, match=re.escape(told)):
        call(**options)


def test_each_numeric_option_of_workers_and_pushers_is_checked() -> None:
    calls: tuple[Callable[..., Any], ...] = (Worker, Pusher, SyncPusher, configure)
    for call in calls:
        for name, one in inspect.signature(call).parameters.items():
            if one.annotation in (int, float, bool, "int", "float", "bool"):
                with pytest.raises(TypeError, match=f"{name} is a dict: give"):
                    call(**{name: {}})
    assert Worker(max_jobs=MyNumber.THREE, grace_s=3, port=0).max_jobs == 3
    assert retry_on(KeyError, attempts=None)


class MyNumber(IntEnum):
    THREE = 3


def test_each_option_that_is_suggested_exists() -> None:
    calls: list[Any] = [Tasks.task, Tasks.every, Tasks.cron, Worker, SyncPusher, retry_on, Batch, Tasks]
    known = {name for one in calls for name in inspect.signature(one).parameters}
    known |= JobOptions.__annotations__.keys() | DefinitionOptions.__annotations__.keys()
    # Those of tasks of Django.
    known |= {"run_after", "queue_name"}
    assert {meant for found in option_names.OPTIONS.values() for meant in found} - known == set()
    assert {"retries", "delay", "eta", "queue", "timeout"} <= option_names.OPTIONS.keys()


@pytest.mark.parametrize(
    ("owner", "names"),
    [
        (send, other_queues.TASK_METHODS),
        (JobHandle(send, "x", cast(Any, None)), other_queues.HANDLE_METHODS),
        (SyncPusher(), other_queues.PUSHER_METHODS),
        (Pusher(), other_queues.PUSHER_METHODS),
    ],
    ids=["task", "handle", "sync pusher", "pusher"],
)
def test_each_method_of_another_queue_comes_with_one_that_exists(owner: Any, names: dict[str, str]) -> None:
    for name, meant in names.items():
        with pytest.raises(AttributeError, match=re.escape(f"has no {name}: did you mean {meant}?")):
            getattr(owner, name)
        if not meant.startswith("the task itself"):
            assert hasattr(owner, re.split(r"\W", meant)[0]), meant
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        owner.nothing  # noqa: B018


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("timeout", "x", "timeout is 'x': give seconds or a timedelta"),
        ("timeout", True, "timeout is True: give seconds or a timedelta"),
        ("delay", [5], "delay is a list: give seconds or a timedelta"),
        ("max_retry", "3", "max_retry is '3': give a whole number"),
        ("priority", 0.5, "priority is 0.5: give a whole number"),
        ("keep_result", "yes", "keep_result is 'yes': give True or False"),
        ("tags", "urgent", "tags is 'urgent': give a list of texts"),
        ("tags", {"urgent"}, "tags is a set: give a list of texts"),
        ("headers", ["a"], "headers is a list: give a map of texts"),
        ("requires", "gpu", "requires is 'gpu': give a map of texts, such as"),
        ("unique", "key", "unique is 'key': give a Unique"),
        ("debounce", 5, "debounce is 5: give a Debounce"),
        ("retry", 3, "retry is 3: give a map, such as"),
        ("expires", "soon", "expires is 'soon': give seconds or a timedelta, or an instant as expires_at"),
        ("run_at", 1700000000, "run_at is 1700000000: give a datetime with a time zone, or its text"),
        ("id", uuid.UUID(int=0), "id is a UUID: give a UUID as text, such as str(value)"),
        ("batch", 7, "batch is 7: give a Batch, or its ID as text"),
        ("key", b"secret", "key is a bytes: give a text"),
    ],
)
def test_an_option_with_a_value_of_a_wrong_type_is_refused_where_it_is_written(
    option: str, value: Any, told: str
) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: make_job("x", **{option: value}),
        lambda: send.using(**{option: value}),
    ]
    if option in inspect.signature(Tasks.task).parameters:
        calls.append(lambda: tasks.task("another", **{option: value}))
    for call in calls:
        with pytest.raises(TypeError, match=re.escape(told)):
            call()


def test_each_option_of_a_job_has_a_type_that_is_checked() -> None:
    assert JobOptions.__annotations__.keys() - {"after"} <= KINDS.keys()


def test_subclasses_and_forms_that_are_converted_are_taken() -> None:
    class Level(IntEnum):
        HIGH = -5

    job = make_job("x", priority=Level.HIGH, tags=("a",), timeout=timedelta(minutes=1), unique=Unique("k"))
    assert (job["priority"], job["tags"], job["timeout"], job["unique"]["key"]) == (-5, ["a"], 60.0, "k")
    assert make_job(**job) == job


def test_the_error_names_a_value_that_is_no_exception_class() -> None:
    with pytest.raises(TypeError, match="retry_on: exception classes are needed, not 'TimeoutError'"):
        tasks.task("a", retry_on="TimeoutError")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="discard_on: exception classes are needed, not 'KeyError'"):
        tasks.task("a", discard_on="KeyError")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="needed here, not 3"):
        retry_on(3)  # type: ignore[arg-type]


def test_only_shows_the_arguments_of_what_was_enqueued() -> None:
    with recording() as jobs:
        send.enqueue(1, subject="hello")
    with pytest.raises(AssertionError, match=re.escape("enqueued: mail.send(user_id=1, subject='hello')")):
        jobs.only(send, user_id=2)
    for given in (send, "mail.send", tasks):
        with pytest.raises(TypeError, match=r"mail\.send has no parameter userid; did you mean user_id\?"):
            jobs.only(given, userid=1)
    with pytest.raises(AssertionError, match="expected one job, found 0"):
        jobs.only(user_id=2)
    assert jobs.only(user_id=1) is jobs.only(tasks) is jobs[0]
    assert repr(jobs) == "<jobs: mail.send(user_id=1, subject='hello')>"


def test_a_misspelt_parameter_comes_with_the_nearest() -> None:
    with pytest.raises(TypeError, match=r"userid: is not a parameter; did you mean user_id\?"):
        send.enqueue(userid=1)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("given", "meant"),
    [("countdown", "delay"), ("priority", "priority"), ("_job_id", "id"), ("after", "after")],
)
def test_an_option_among_the_arguments_comes_with_its_place(given: str, meant: str) -> None:
    told = f"{given}: is not a parameter; options of the job go before the call: using({meant}=…)"
    with pytest.raises(InvalidArgument, match=re.escape(told)):
        send.enqueue(1, **{given: 3})  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=r"mail\.send: colour: is not a parameter$"):
        send.enqueue(1, colour=3)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("method", "told"), [("apply", "the task itself"), ("enqueue_in", r"using\(delay=…\)\.enqueue")]
)
def test_a_method_of_another_queue_comes_with_the_one_here(method: str, told: str) -> None:
    with pytest.raises(AttributeError, match=f"a task has no {method}: did you mean {told}"):
        getattr(send, method)


async def test_the_test_kit_takes_tasks_wherever_it_takes_a_worker() -> None:
    with inline(worker=tasks) as jobs:
        send.enqueue(1)
    assert jobs.only().arguments == {"user_id": 1}
    with recording() as jobs:
        send.enqueue(1)
    assert [run.state for run in drain(jobs, worker=tasks)] == ["succeeded"]
    harness = WorkerHarness(tasks)
    assert (await harness.run(send.to_job(1))).type == "success"
    assert repr(harness) == "<WorkerHarness of <Worker of mail.send>>"
    for call in (lambda: WorkerHarness(send), lambda: Worker(tasks=send)):  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="needed here, not a Task"):
            call()
    with pytest.raises(TypeError, match=r"mail\.send takes its parameters as a map, or pass a call"):
        await harness.run(send, 1)
    with pytest.raises(LookupError, match=r"no handler for mail\.sent; did you mean mail\.send\?"):
        await harness.run("mail.sent")


def test_drain_takes_a_list_of_jobs() -> None:
    assert [run.state for run in drain([send.to_job(1), send.to_job(2)])] == ["succeeded", "succeeded"]


def test_a_missing_argument_of_a_step_comes_with_its_remedy() -> None:
    with pytest.raises(
        TypeError, match="user_id: is missing; give it the default INPUT, if it takes the result"
    ):
        send.to_job()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"user_id: is missing$"):
        send.enqueue()  # type: ignore[call-arg]


def test_an_option_of_another_queue_or_a_misspelt_one_finds_the_one_that_is_known() -> None:
    known = {"max_retry", "delay", "max_jobs"}
    for name, meant in (
        ("max_retries", "max_retry"), ("--concurrency", "max_jobs"), ("_countdown", "delay"), ("max-jbos", "max_jobs"),
        ("maxRetry", "max_retry"), ("rate_limit", ""),
    ):  # fmt: skip
        assert option_names.meant_option(name, known) == meant, name
    assert option_names.difference_of("max-attempts", "max_retry") == " It does not count the first attempt."
    assert option_names.difference_of("max_retries", "max_retry") == ""
