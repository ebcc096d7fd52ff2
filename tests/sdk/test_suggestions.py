"""Mistakes that newcomers make are named where they are made, with what was probably meant."""

import re

import pytest

from worker_sdk import Tasks, Worker, make_job, retry_on
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
