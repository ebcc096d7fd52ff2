"""Mistakes that newcomers make are named where they are made, with what was probably meant."""

import inspect
import re
import uuid
from collections.abc import Callable
from datetime import timedelta
from enum import IntEnum
from typing import Any

import pytest

from worker_sdk import Pusher, SyncPusher, Tasks, Unique, Worker, make_job, retry_on
from worker_sdk.option_types import KINDS
from worker_sdk.pusher import JobOptions
from worker_sdk.testing import drain, recording

tasks = Tasks()


@tasks.task("mail.send")
def send(user_id: int, subject: str = "") -> None: ...


def test_a_handler_without_a_name_is_refused() -> None:
    with pytest.raises(TypeError, match=re.escape('write @worker.handler("…")')):

        @Worker().handler  # type: ignore[arg-type]
        def handle(argument: int) -> None: ...


@pytest.mark.parametrize(
    ("option", "meant"), [("max_retries", "max_retry"), ("countdown", "delay"), ("prioritee", "priority")]
)
def test_an_unknown_option_comes_with_the_one_that_is_meant(option: str, meant: str) -> None:
    for given in (lambda: send.using(**{option: 3}), lambda: make_job("x", **{option: 3})):  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=re.escape(f"{option} (did you mean {meant}?)")):
            given()


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


def test_a_method_of_another_queue_comes_with_ours() -> None:
    with pytest.raises(AttributeError, match=r"did you mean enqueue\?"):
        send.delay(3)  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        send.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_what_is_no_exception_class_is_named() -> None:
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
    with pytest.raises(TypeError, match=r"mail\.send has no parameter userid"):
        jobs.only(send, userid=1)


def test_drain_takes_a_list_of_jobs() -> None:
    assert [run.state for run in drain([send.to_job(1), send.to_job(2)])] == ["succeeded", "succeeded"]


def test_a_missing_argument_of_a_step_comes_with_its_remedy() -> None:
    with pytest.raises(
        TypeError, match="user_id: is missing; give it the default INPUT, if it is to get the result"
    ):
        send.to_job()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"user_id: is missing$"):
        send.enqueue()  # type: ignore[call-arg]


def test_clients_and_workers_show_what_they_are() -> None:
    worker = Worker()
    worker.handler("mail.send")(lambda argument: None)
    assert repr(worker) == "<Worker of mail.send>"
    assert repr(Worker()) == "<Worker of no names>"
    for pusher in (
        SyncPusher(["http://a:1", "http://b:2"], token="secret"),
        Pusher(["http://a:1", "http://b:2"]),
    ):
        assert repr(pusher) == f"<{type(pusher).__name__} of http://a:1, http://b:2>"


@pytest.mark.parametrize(
    "name", [name for name in vars(SyncPusher) if name in vars(Pusher) and name[0] != "_"]
)
def test_each_call_of_both_pushers_is_explained_where_it_is_used(name: str) -> None:
    explained, given = (" ".join((getattr(one, name).__doc__ or "").split()) for one in (SyncPusher, Pusher))
    assert explained == given.replace(
        "an iterable, which may be an async one, of maps", "an iterable of maps"
    )
