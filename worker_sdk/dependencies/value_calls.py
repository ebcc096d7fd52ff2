"""The calls that make the values of dependencies, and their order."""

import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from worker_sdk.dependencies.depends import Dependency, dependencies_of, is_context


@dataclass(frozen=True, slots=True)
class ValueCall:
    """One call that makes a value. `context`: the parameter for the context. `needs`: the dependencies that fill the
    other parameters."""

    dependency: Dependency
    is_async: bool
    is_generator: bool
    context: str | None
    needs: Mapping[str, Dependency]

    @property
    def name(self) -> str:
        """The name of the function, for people."""
        return self.dependency.name


def value_calls(dependencies: Iterable[Dependency]) -> list[ValueCall]:
    """Return the calls that make these values. Each call comes after the calls that make the values it needs. Raise
    TypeError for a function that cannot be called this way, and for functions that depend on each other in a circle."""
    calls: dict[Dependency, ValueCall] = {}
    path: list[Dependency] = []

    def add(dependency: Dependency) -> None:
        if dependency in calls:
            return
        if dependency in path:
            circle = [*path[path.index(dependency) :], dependency]
            raise TypeError(f"dependencies in a circle: {' → '.join(one.name for one in circle)}")
        path.append(dependency)
        call = _call_of(dependency)
        for needed in call.needs.values():
            add(needed)
        path.pop()
        calls[dependency] = call

    for dependency in dependencies:
        add(dependency)
    return list(calls.values())


_FILLED_BY_CALLS: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _call_of(dependency: Dependency) -> ValueCall:
    function = dependency.function
    called = function
    if not (inspect.isroutine(function) or inspect.isclass(function) or hasattr(function, "func")):
        called = type(function).__call__
    is_async_generator = inspect.isasyncgenfunction(called)
    needs = dependencies_of(function)
    contexts = _contexts_of(function)
    call = ValueCall(
        dependency,
        is_async=is_async_generator or inspect.iscoroutinefunction(called),
        is_generator=is_async_generator or inspect.isgeneratorfunction(called),
        context=contexts[0] if contexts else None,
        needs=needs,
    )
    for name, parameter in _parameters_of(function).items():
        is_filled = name in needs or name == call.context
        if is_filled and parameter.kind is parameter.POSITIONAL_ONLY:
            raise TypeError(f"dependency {call.name}: {name} cannot be positional-only")
        if not is_filled and parameter.default is parameter.empty and parameter.kind not in _FILLED_BY_CALLS:
            raise TypeError(
                f"dependency {call.name}: nothing fills {name}. Give it Depends(…), a default or the type Context."
            )
    if dependency.scope == "worker":
        short = [one.name for one in needs.values() if one.scope == "job"]
        if contexts or short:
            what = "the Context" if contexts else short[0]
            raise TypeError(
                f"dependency {call.name}: its scope is worker, so it cannot need {what} of one job"
            )
    return call


def _parameters_of(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except ValueError:  # built-in classes have no signature that Python can show
        return {}


def _contexts_of(function: Callable[..., Any]) -> list[str]:
    target: Any = getattr(function, "func", function)  # a functools.partial has its function in `func`
    if inspect.isclass(target):
        target = target.__init__
    elif not inspect.isroutine(target):
        target = type(target).__call__
    try:
        hints = typing.get_type_hints(target)
    except (NameError, TypeError):
        # The annotations cannot be resolved: built-in classes have none, and some types are imported for type checkers
        # only. Use the unresolved annotations.
        hints = dict(getattr(target, "__annotations__", {}))
    names = _parameters_of(function).keys()
    return [name for name, hint in hints.items() if name in names and is_context(hint)]
