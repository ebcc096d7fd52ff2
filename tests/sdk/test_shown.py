"""Objects show what they are, without secrets and without the content of jobs. Calls show their parameters."""

import importlib
import inspect
import pydoc
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from tools.sdk_reference import ENTRIES, Entry
from worker_sdk import (
    INPUT,
    Batch,
    Callback,
    CommandOutput,
    Context,
    Depends,
    Event,
    Flow,
    FormAnswer,
    JobHandle,
    JobLogLine,
    JobPart,
    JobResult,
    Pusher,
    SyncPusher,
    Task,
    TaskJob,
    Tasks,
    Worker,
    errors,
    retry_on,
)
from worker_sdk.environment import Configuration
from worker_sdk.testing import recording
from worker_sdk.worker.challenge import Challenge

SECRET = "s3cret-of-somebody"
AT = datetime(2026, 1, 2, tzinfo=UTC)
tasks = Tasks(master="http://127.0.0.1:1", token=SECRET)


def opened() -> int:
    return 1


@tasks.task("mail.send")
def send(ctx: Context, user_id: int, subject: str = "", *, number: int = Depends(opened)) -> int:
    return user_id


@tasks.task("mail.check")
async def check(text: str, score: float = INPUT) -> "bool | None": ...


def public_classes() -> Iterator[Any]:
    for entry in ENTRIES:
        if (found := found_of(entry)) is not None and inspect.isclass(found) and not typed_dict(found):
            yield pytest.param(found, id=entry.path)


def found_of(entry: Entry) -> Any:
    if entry.module.startswith("django."):
        return None  # it needs settings
    return getattr(importlib.import_module(f"worker_sdk.{entry.module}"), entry.name)


def typed_dict(found: Any) -> bool:
    return issubclass(found, dict) and found is not TaskJob


@pytest.mark.parametrize("kind", list(public_classes()))
def test_each_public_class_shows_what_it_is(kind: Any) -> None:
    assert kind.__repr__ is not object.__repr__


def test_the_walk_finds_what_people_hold() -> None:
    found = {one.values[0] for one in public_classes()}
    assert {Task, JobHandle, JobResult, Pusher, Worker, Batch, Flow, Context, errors.JobFailed} <= found


def shown() -> Iterator[Any]:
    handle: JobHandle[int] = JobHandle(send, "0190", tasks.own_pushers())  # type: ignore[arg-type]
    worker = Worker(token=SECRET, secret=SECRET * 2, tasks=tasks)
    with recording():
        flow: Flow[int] = Flow()
        flow.add(send.to_job(3, SECRET))
    job = send.using(id="0190", headers={"a": SECRET}).to_job(3, SECRET)
    yield send, "<task mail.send>"
    yield send.using(delay=3, key=SECRET), "<task mail.send with delay, key>"
    yield tasks, "<Tasks: mail.send, mail.check>"
    yield Tasks(), "<Tasks: none yet>"
    yield job, "<job 0190 of mail.send>"
    yield handle, "<job 0190 of mail.send, not asked about>"
    yield worker, "<Worker of mail.check, mail.send>"
    yield Worker(), "<Worker of no names>"
    yield Batch(id="0191", on_success=job), "<batch 0191>"
    yield flow, "<flow of 1 jobs>"
    for kind in (SyncPusher, Pusher):
        yield kind(["http://a:1", "http://b:2"], token=SECRET), f"<{kind.__name__} of http://a:1, http://b:2>"
    yield handle.logs(), "<log of job 0190>"
    yield handle.stream(), "<parts of job 0190>"
    yield retry_on(KeyError, wait=3), "retry_on(KeyError, wait=3, attempts=None)"
    yield (
        JobResult("success", "2026", SECRET),
        ("JobResult(type='success', finished_at='2026', reason=None, should_retry=None, message=None)"),
    )
    yield JobPart(1, 2, SECRET), "JobPart(attempt=1, number=2)"
    yield CommandOutput(3, SECRET, SECRET), "CommandOutput(exit_code=3)"
    yield Challenge(SECRET, f"http://a/{SECRET}"), "Challenge()"
    yield JobLogLine(1, 2, AT, "info", SECRET), f"JobLogLine(seq=1, attempt=2, at={AT!r}, level='info')"
    yield (
        Callback("text/plain", SECRET.encode(), AT),
        f"Callback(content_type='text/plain', received_at={AT!r})",
    )
    yield (
        FormAnswer("approve", SECRET, {"a": SECRET}),
        (f"FormAnswer(choice='approve', by=None, address='', at={datetime.fromtimestamp(0, UTC)!r})"),
    )
    yield (
        Event("order.paid", SECRET, "k"),
        ("Event(event_type='order.paid', dedupe_key='k', source='', subject='', occurred_at=None)"),
    )
    yield errors.NotFinished("0190", "running"), "NotFinished('job 0190 is running')"
    why = "no worker has started it yet. `jqmaster why 0190` explains why."
    yield errors.NotFinished("0190", "ready"), f"NotFinished('job 0190 is ready: {why}')"
    error = "its last attempt failed. `jqmaster job 0190` shows the error, and so does handle.refresh().job."
    yield errors.NotFinished("0190", "retrying"), f"NotFinished('job 0190 is retrying: {error}')"
    error = "its last attempt failed: HTTP 503"
    yield errors.NotFinished("0190", "retrying", "HTTP 503"), f"NotFinished('job 0190 is retrying: {error}')"


@pytest.mark.parametrize(("held", "text"), list(shown()), ids=lambda one: type(one).__name__)
def test_it_shows_no_secret_and_no_content(held: Any, text: str) -> None:
    assert repr(held) == text
    assert SECRET not in text


def test_a_bearer_token_is_never_shown() -> None:
    assert [one.name for one in fields(Configuration) if one.repr and one.name == "token"] == []
    assert is_dataclass(Configuration)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (send, "(ctx: worker_sdk.worker.context.Context, user_id: int, subject: str = '', *,"),
        (send.enqueue, "(user_id: int, subject: str = '') -> worker_sdk.tasks.handle.JobHandle[int]"),
        (send.aenqueue, "(user_id: int, subject: str = '') -> worker_sdk.tasks.handle.JobHandle[int]"),
        (send.to_job, "(user_id: int, subject: str = '') -> worker_sdk.tasks.task.TaskJob[int]"),
        (
            send.using(delay=1).enqueue,
            "(user_id: int, subject: str = '') -> worker_sdk.tasks.handle.JobHandle[int]",
        ),
        (check.enqueue, "(text: str, score: float = INPUT) -> worker_sdk.tasks.handle.JobHandle["),
    ],
)
def test_a_task_shows_the_parameters_of_its_function_where_one_calls_it(call: Any, expected: str) -> None:
    assert str(inspect.signature(call)).startswith(expected)


def test_help_shows_them_too_and_the_calls_stay_what_they_are() -> None:
    assert "enqueue(user_id: int, subject: str = '')" in pydoc.plain(pydoc.render_doc(send.enqueue))
    assert inspect.ismethod(send.enqueue)
    assert inspect.iscoroutinefunction(send.aenqueue)
    assert not inspect.iscoroutinefunction(send.enqueue)
    assert send.enqueue is send.enqueue
    assert send.enqueue.__self__ is send
    assert send.enqueue.__doc__ == Task.enqueue.__doc__


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda one: one.path)
def test_each_public_call_has_a_signature(entry: Entry) -> None:
    found = found_of(entry)
    if not callable(found) or typed_dict_or_exception(found):
        return
    names = list(inspect.signature(found).parameters)
    assert names != ["args", "kwargs"], f"{entry.path} hides its parameters"
    for name, member in inspect.getmembers(found, inspect.isfunction):
        if not name.startswith("_") and member.__module__.startswith("worker_sdk"):
            shown = list(inspect.signature(member).parameters)
            is_of_task = found.__name__ in ("Task", "Calls") and name in ("to_job", "enqueue", "aenqueue")
            # A call of gathered jobs refuses some methods, whatever they get; a step passes on what its function takes.
            is_refused = member.__name__.startswith("_")
            assert is_of_task or is_refused or "kwargs" not in shown or name in ("of", "only", "step"), (
                f"{entry.path}.{name}"
            )


def typed_dict_or_exception(found: Any) -> bool:
    return inspect.isclass(found) and issubclass(found, dict | BaseException)


def test_former_names_of_exceptions_lead_to_the_new_ones_and_say_so() -> None:
    for module in ("worker_sdk", "worker_sdk.errors"):
        for former, now in errors.RENAMED.items():
            with pytest.warns(DeprecationWarning, match=f"{former} is now {now.__name__}"):
                assert getattr(importlib.import_module(module), former) is now


def test_no_exception_has_two_names() -> None:
    by_stem: dict[str, set[str]] = {}
    for name, found in vars(errors).items():
        if inspect.isclass(found) and issubclass(found, BaseException):
            assert found.__name__ == name
            by_stem.setdefault(name.removesuffix("Error"), set()).add(name)
    assert {stem: names for stem, names in by_stem.items() if len(names) > 1} == {}
    assert not by_stem.keys() & {name.removesuffix("Error") for name in errors.RENAMED} - {"NotFinished"}
