"""Errors for unknown options that suggest the right one; Python's own errors name only the unknown one."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

CallT = TypeVar("CallT", bound=Callable[..., Any])


def suggesting(of: str) -> Callable[[CallT], CallT]:
    """Decorate a function: its TypeError for an unknown option suggests one of its own.

    * `of`: what has the options, such as "a task".
    """

    def decorate(function: CallT) -> CallT:
        code: Any = getattr(function, "__code__")  # noqa: B009  not every callable has it
        names = frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]) - {"self"}

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except TypeError:
                if not (unknown := kwargs.keys() - names):
                    raise
            from worker_sdk.other_queues import unknown_options

            raise unknown_options(unknown, names, of)

        made: Any = call
        decorated: CallT = made
        return decorated

    return decorate
