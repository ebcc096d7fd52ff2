"""Derive the types of one job from a function that runs many jobs in one call."""

import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from worker_sdk.worker.gather import GatherContext

_LISTS: Final = (list, Sequence, Iterable)
_NOTHING: Final = type(None)


def is_gather_context(annotation: Any) -> bool:
    """Return whether a parameter with this annotation takes the context of a call for many jobs."""
    return annotation is GatherContext or GatherContext in typing.get_args(annotation)


def types_of_one_job(task: str, travelling: Mapping[str, Any], returns: Any) -> tuple[dict[str, Any], Any]:
    """Return the types of one job: the type of its argument, in a map by the name of the parameter, and the type of its
    result. Raise TypeError for a function that cannot run many jobs."""
    if len(travelling) != 1:
        raise TypeError(
            f"task {task}: a function with gather takes the list of its arguments, and a GatherContext, as in "
            "(rows: list[Row], ctx: GatherContext)"
        )
    [(name, annotation)] = travelling.items()
    if annotation is Any or annotation is list:
        return {name: Any}, _result_of_one_job(task, returns)
    if typing.get_origin(annotation) not in _LISTS:
        raise TypeError(
            f"task {task}: annotate {name} as a list of the arguments of its jobs, as in list[Row]"
        )
    return {name: typing.get_args(annotation)[0]}, _result_of_one_job(task, returns)


def _result_of_one_job(task: str, returns: Any) -> Any:
    if returns is Any:
        return Any
    parts = [part for part in _parts(returns) if part is not _NOTHING]
    if not parts:
        return _NOTHING
    if len(parts) > 1 or typing.get_origin(parts[0]) not in _LISTS:
        raise TypeError(
            f"task {task}: a function with gather returns a result or an exception for each of its jobs, as in "
            "Sequence[Result | Exception], or None"
        )
    results = [
        part
        for part in _parts(typing.get_args(parts[0])[0])
        if not (isinstance(part, type) and issubclass(part, BaseException))
    ]
    return typing.Union[tuple(results)] if results else _NOTHING  # noqa: UP007  the number of types is not known


def _parts(annotation: Any) -> tuple[Any, ...]:
    """Return the types of a union; for any other type, a tuple of that type alone."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return typing.get_args(annotation)
    return (annotation,)
