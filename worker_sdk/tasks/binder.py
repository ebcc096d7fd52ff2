"""Bind the arguments of calls to the names of parameters."""

from collections.abc import Mapping, Sequence
from typing import Any

from worker_sdk.errors import InvalidArgument
from worker_sdk.tasks.compiled import binding_of
from worker_sdk.tasks.signature import Signature
from worker_sdk.transport.suggestions import suggestion


class Binder:
    """The parameters of one task that a job has arguments for."""

    def __init__(self, task: str, signature: Signature) -> None:
        self._task = task
        self._context = signature.context
        self._dependencies = signature.dependencies.keys()
        self._names = signature.annotations.keys()
        self._required = {name for name in self._names if not signature.has_default(name)}
        self._positional = [name for name in self._names if not signature.is_keyword_only(name)]
        keyword_only = [name for name in self._names if signature.is_keyword_only(name)]
        self._bind = binding_of(self._positional, keyword_only, self._required)

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the given arguments by name. Raise InvalidArgument if they do not fit the parameters."""
        try:
            return self._bind(*args, **kwargs)
        except TypeError:
            raise InvalidArgument(self._task, self._problems(args, kwargs)) from None

    def _problems(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[tuple[str, str]]:
        problems = []
        if len(args) > len(self._positional):
            problems.append(
                (
                    "arguments",
                    f"{len(args)} were given by position, but at most {len(self._positional)} are accepted",
                )
            )
        by_position = self._positional[: len(args)]
        for name in kwargs:
            if name == self._context:
                problems.append((name, "is the context, which the worker fills"))
            elif name in self._dependencies:
                problems.append((name, "is a dependency, which the worker fills"))
            elif name not in self._names:
                problems.append(
                    (name, f"is not a parameter{suggestion(name, self._names) or _as_option(name)}")
                )
            elif name in by_position:
                problems.append((name, "is given twice"))
        missing = sorted(self._required - set(by_position) - kwargs.keys())
        return problems + [(name, "is missing") for name in missing]


def _as_option(name: str) -> str:
    """Return advice if `name` is an option of the job, given among the arguments of the call by mistake. Otherwise,
    return ""."""
    from worker_sdk.other_queues import option_of_jobs  # imported here because only mistakes need it

    found = option_of_jobs(name)
    return f"; options of the job go before the call: using({found}=…)" if found else ""


def taken(positional: Sequence[str], arguments: dict[str, Any]) -> list[Any]:
    """Remove the positional-only arguments, including the context, from `arguments`, and return their values in
    order."""
    args = []
    for name in positional:
        if name not in arguments:  # the other parameters have defaults
            break
        args.append(arguments.pop(name))
    return args
