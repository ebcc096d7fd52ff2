"""Check a call against the parameters of its task before the job is made."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

# Stands for the context in a check of arguments. The worker passes the real context as the first argument.
_CONTEXT: Final = object()


def check_call(task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raise TypeError if the function of a task does not take these arguments. Otherwise the job would fail on a
    worker, and retries could not help.

    * `task`: the task.
    * `args`, `kwargs`: the arguments, without the context.
    """
    signature = _signature_of(task.func)
    if signature is None:
        return
    given = (_CONTEXT, *args) if task.takes_context else args
    try:
        signature.bind(*given, **kwargs)
    except TypeError as exc:
        raise TypeError(f"{task.module_path}: {exc}; its parameters are {_shown(signature, task)}") from None


@lru_cache(maxsize=4096)
def _signature_of(function: Callable[..., Any]) -> inspect.Signature | None:
    """Return the signature of the function itself, not of a function that it wraps, because a decorator may add
    arguments. Return None if the signature is unknown."""
    try:
        return inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):
        return None


def _shown(signature: inspect.Signature, task: Any) -> str:
    """Return the text of the parameters that a caller must give."""
    parameters = list(signature.parameters.values())
    if task.takes_context and parameters and parameters[0].kind is not parameters[0].VAR_POSITIONAL:
        del parameters[0]
    return str(inspect.Signature(parameters))
