"""Errors for unknown options that suggest the right option. Python's own errors name only the unknown option."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

CallT = TypeVar("CallT", bound=Callable[..., Any])


def suggesting(of: str) -> Callable[[CallT], CallT]:
    """Decorate a function, so that its TypeError for an unknown option suggests an existing option.

    * `of`: the object with the options, such as "a task".
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
