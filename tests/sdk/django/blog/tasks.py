from collections.abc import Callable
from functools import wraps
from typing import Any

from worker_sdk.django import task
from worker_sdk.django.tasks_api import api


@api.task
def add(a: int, b: int = 1) -> int:
    return a + b


@task(priority=10, queue_name="mail", timeout=60, tags=["from-task"])
def send(to: str) -> str:
    return f"sent to {to}"


@api.task
async def double(number: int) -> int:
    return 2 * number


@task(takes_context=True)
def who(context: Any, *names: str) -> list[Any]:
    return [context.task_result.id, context.attempt, list(names)]


@task(max_retry=0)
def fail(text: str) -> None:
    raise ValueError(text)


@task(max_retry=3, retry={"base_s": 0.01})
def flaky() -> None:
    raise KeyError("again")


@task(takes_context=True, max_retry=3, retry={"base_s": 0.01})
def mends(context: Any) -> str:
    if context.attempt < 3:
        raise OSError("not yet")
    return "done"


@api.task
def odd_value() -> object:
    return {1, 2}


def greeted(function: Callable[[str, str], str]) -> Callable[[str], str]:
    """Give the first argument, as a decorator of a site may do."""

    @wraps(function)
    def call(name: str) -> str:
        return function("hello", name)

    return call


@task
@greeted
def greet(greeting: str, name: str) -> str:
    return f"{greeting} {name}"


@api.task(backend="other")
def elsewhere() -> None: ...


not_a_task = 1
