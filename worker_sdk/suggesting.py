"""Raise errors for wrong options where the options are given. Python's own error for an unknown option suggests no
other option. A number of a wrong type would fail later, in other code."""

from collections.abc import Callable, Collection, Mapping
from functools import wraps
from typing import Any, Final, TypeVar

_PLAIN: Final[Mapping[Any, Collection[type]]] = {int: {int}, float: {float, int}, bool: {bool}}

CallT = TypeVar("CallT", bound=Callable[..., Any])


def suggesting(of: str) -> Callable[[CallT], CallT]:
    """Decorate a function, so that its TypeError for an unknown option suggests an existing option. Options that are
    annotated with `int`, `float` or `bool` raise TypeError for a value of another type.

    * `of`: the object with the options, such as "a task".
    """

    def decorate(function: CallT) -> CallT:
        code: Any = getattr(function, "__code__")  # noqa: B009  not every callable has it
        plain = _plain_types(function.__annotations__)
        names = frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]) - {"self"}

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            for name in plain.keys() & kwargs:
                if type(kwargs[name]) not in plain[name]:
                    _check(of, name, kwargs[name], function.__annotations__[name])
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


def _plain_types(annotations: Mapping[str, Any]) -> Mapping[str, Collection[type]]:
    """Return, by the name of an option, the types that are accepted without a further check."""
    found: dict[str, Collection[type]] = {}
    for name, annotation in annotations.items():
        for kind, types in _PLAIN.items():
            if name != "return" and annotation == kind:
                found[name] = types
            elif name != "return" and annotation == kind | None:
                found[name] = {*types, type(None)}
    return found


def _check(of: str, option: str, value: Any, annotation: Any) -> None:
    from worker_sdk.option_types import BY_ANNOTATION, check_kind  # imported here because few calls need it

    kind = next(kind for kind in _PLAIN if annotation in (kind, kind | None))
    try:
        check_kind(option, value, BY_ANNOTATION[kind])
    except TypeError as exc:
        raise TypeError(f"{of}: {exc}") from None
