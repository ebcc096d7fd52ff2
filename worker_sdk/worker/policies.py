"""Policies of a handler: they declare how its jobs continue after an exception."""

from collections.abc import Callable, Iterable
from typing import Any

from worker_sdk.suggesting import suggesting

ExceptionType = type[BaseException]
# The wait before the next attempt: seconds, or a function that gets the number of the failed attempt (from 1) and
# returns seconds.
Wait = float | Callable[[int], float] | None


class RetryOn:
    """A policy that `retry_on` made."""

    __slots__ = ("attempts", "exceptions", "wait")

    def __init__(self, exceptions: tuple[ExceptionType, ...], wait: Wait, attempts: int | None) -> None:
        self.exceptions = exceptions
        self.wait = wait
        self.attempts = attempts

    def __repr__(self) -> str:
        names = ", ".join(one.__name__ for one in self.exceptions)
        return f"retry_on({names}, wait={self.wait!r}, attempts={self.attempts})"

    def wait_s(self, attempt: int) -> float | None:
        return self.wait(attempt) if callable(self.wait) else self.wait


@suggesting("retry_on")
def retry_on(*exceptions: ExceptionType, wait: Wait = None, attempts: int | None = None) -> RetryOn:
    """Return a policy for `Worker.handler(retry_on=…)`.

    * `exceptions`: the classes that the policy applies to.
    * `wait`: minimum seconds before the next attempt, or a function that gets the number of the failed attempt (from 1)
      and returns these seconds. Default: the backoff of the job.
    * `attempts`: maximum number of attempts. The job's own `max_retry` still applies.

    Raise TypeError for anything but classes of exceptions, and ValueError for a number out of range. For example:

        @tasks.task("photo.fetch", retry_on=retry_on(TimeoutError, wait=10, attempts=3))
        def fetch(url: str) -> None:
            print(url)
    """
    if attempts is not None and attempts < 1:
        raise ValueError("attempts must be at least 1")
    if not callable(wait) and wait is not None and wait < 0:
        raise ValueError("wait must not be negative")
    return RetryOn(_exception_types(exceptions), wait, attempts)


def discard_on(*exceptions: ExceptionType) -> tuple[ExceptionType, ...]:
    """Return exception classes for `Worker.handler(discard_on=…)`: they end the job at once as `discarded`. This is not
    a failure: nothing is left to do.

    * `exceptions`: the classes.

    Raise TypeError for anything but classes of exceptions. For example:

        @tasks.task("photo.fetch", discard_on=discard_on(FileNotFoundError))
        def fetch(url: str) -> None:
            print(url)
    """
    return _exception_types(exceptions)


def as_retry_policies(given: Any) -> tuple[RetryOn, ...]:
    """Return policies from `retry_on(...)`, an exception class, or an iterable of either."""
    if given is None:
        return ()
    if isinstance(given, str):
        raise TypeError(f"retry_on: exception classes are needed, not {given!r}")
    items = [given] if isinstance(given, RetryOn | type) else list(given)
    return tuple(item if isinstance(item, RetryOn) else retry_on(item) for item in items)


def as_discarded(given: Any) -> tuple[ExceptionType, ...]:
    """Return exception classes from an exception class, or an iterable of classes and of `discard_on(...)`."""
    if given is None:
        return ()
    if isinstance(given, str):
        raise TypeError(f"discard_on: exception classes are needed, not {given!r}")
    found: list[ExceptionType] = []
    for item in [given] if isinstance(given, type) else given:
        found += item if isinstance(item, tuple) else (item,)
    return _exception_types(found)


def _exception_types(given: Iterable[Any]) -> tuple[ExceptionType, ...]:
    types = tuple(given)
    if not types or not all(isinstance(item, type) and issubclass(item, BaseException) for item in types):
        raise TypeError(f"exception classes are needed here, not {', '.join(map(repr, types)) or 'nothing'}")
    return types
