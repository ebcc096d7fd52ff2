"""`Depends`, and the order in which dependencies are made."""

import inspect
import typing
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar, overload

from worker_sdk.worker.context import Context

Scope = Literal["job", "worker"]
ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True)
class Dependency:
    """The default of a parameter that is filled by a function. Equal ones share a value."""

    function: Callable[..., Any]
    scope: Scope

    @property
    def name(self) -> str:
        """The name of the function, for people."""
        return str(getattr(self.function, "__qualname__", self.function))


# The type of the value, so that type checkers compare it with the annotation of the parameter.
@overload
def Depends(function: Callable[..., Generator[ValueT, Any, Any]], *, scope: Scope = "job") -> ValueT: ...
@overload
def Depends(function: Callable[..., AsyncGenerator[ValueT, Any]], *, scope: Scope = "job") -> ValueT: ...
@overload
def Depends(function: Callable[..., Iterator[ValueT]], *, scope: Scope = "job") -> ValueT: ...
@overload
def Depends(function: Callable[..., AsyncIterator[ValueT]], *, scope: Scope = "job") -> ValueT: ...
@overload
def Depends(function: Callable[..., Coroutine[Any, Any, ValueT]], *, scope: Scope = "job") -> ValueT: ...
@overload
def Depends(function: Callable[..., ValueT], *, scope: Scope = "job") -> ValueT: ...
def Depends(function: Callable[..., Any], *, scope: Scope = "job") -> Any:  # noqa: N802  it reads as the type it stands for
    """Return a default for a parameter of a handler or a task that the worker fills:
    `def import_feed(url: str, db: Session = Depends(open_session))`.

    * `function`: makes the value. It may be `def`, `async def`, or a generator of either kind that yields the value
      once and cleans up afterwards. Its parameters may have `Depends` themselves, and one may be annotated with
      `Context`.
    * `scope`: `job` makes a value for each attempt, `worker` one when the worker starts, before it registers.

    A function that several parameters depend on is called once for each attempt, or once for the worker. An exception
    fails the attempt, or the start of the worker. A generator of an attempt gets the exception of the handler at its
    `yield`, also when the job is canceled. An exception of the clean-up itself is logged and changes nothing for the
    job. Hence commit in the handler, and only release in the clean-up.

    A `def` handler needs functions that are not async, unless their scope is `worker`. For an `async def` handler, all
    run in the event loop. An isolated handler makes all values in its own process.
    """
    if not callable(function):
        raise TypeError(f"Depends takes a function, not a {type(function).__name__}")
    if scope not in ("job", "worker"):
        raise ValueError("scope must be job or worker")
    return Dependency(function, scope)


@dataclass(frozen=True, slots=True)
class Step:
    """One call that makes a value. `context`: the parameter that takes the context. `needs`: what fills the others."""

    dependency: Dependency
    is_async: bool
    is_generator: bool
    context: str | None
    needs: Mapping[str, Dependency]

    @property
    def name(self) -> str:
        """The name of the function, for people."""
        return self.dependency.name


def dependencies_of(function: Callable[..., Any]) -> dict[str, Dependency]:
    """Return the dependencies of a function, by the names of its parameters."""
    return {
        name: parameter.default
        for name, parameter in _parameters_of(function).items()
        if isinstance(parameter.default, Dependency)
    }


def steps_for(dependencies: Iterable[Dependency]) -> list[Step]:
    """Return the calls that make these, in order. Raise TypeError for a function that cannot be called so, and for
    functions that depend on one another in a circle."""
    steps: dict[Dependency, Step] = {}
    path: list[Dependency] = []

    def add(dependency: Dependency) -> None:
        if dependency in steps:
            return
        if dependency in path:
            circle = [*path[path.index(dependency) :], dependency]
            raise TypeError(f"dependencies in a circle: {' → '.join(one.name for one in circle)}")
        path.append(dependency)
        step = _step_of(dependency)
        for needed in step.needs.values():
            add(needed)
        path.pop()
        steps[dependency] = step

    for dependency in dependencies:
        add(dependency)
    return list(steps.values())


def is_context(annotation: Any) -> bool:
    """Return whether a parameter with this annotation takes the context."""
    return annotation is Context or Context in typing.get_args(annotation)


_FILLED_BY_CALLS: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _step_of(dependency: Dependency) -> Step:
    function = dependency.function
    called = function
    if not (inspect.isroutine(function) or inspect.isclass(function) or hasattr(function, "func")):
        called = type(function).__call__
    is_async_generator = inspect.isasyncgenfunction(called)
    needs = dependencies_of(function)
    contexts = _contexts_of(function)
    step = Step(
        dependency,
        is_async=is_async_generator or inspect.iscoroutinefunction(called),
        is_generator=is_async_generator or inspect.isgeneratorfunction(called),
        context=contexts[0] if contexts else None,
        needs=needs,
    )
    for name, parameter in _parameters_of(function).items():
        is_filled = name in needs or name == step.context
        if is_filled and parameter.kind is parameter.POSITIONAL_ONLY:
            raise TypeError(f"dependency {step.name}: {name} cannot be positional-only")
        if not is_filled and parameter.default is parameter.empty and parameter.kind not in _FILLED_BY_CALLS:
            raise TypeError(
                f"dependency {step.name}: nothing fills {name}. Give it Depends(…), a default or the type Context."
            )
    if dependency.scope == "worker":
        short = [one.name for one in needs.values() if one.scope == "job"]
        if contexts or short:
            what = "the Context" if contexts else short[0]
            raise TypeError(
                f"dependency {step.name}: it lives as long as the worker, and cannot need {what} of one job"
            )
    return step


def _parameters_of(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except ValueError:  # built-in classes have none that Python could tell
        return {}


def _contexts_of(function: Callable[..., Any]) -> list[str]:
    target: Any = getattr(function, "func", function)  # of functools.partial
    if inspect.isclass(target):
        target = target.__init__
    elif not inspect.isroutine(target):
        target = type(target).__call__
    try:
        hints = typing.get_type_hints(target)
    except (NameError, TypeError):
        # Built-in classes have no hints. Types that only a type checker imports cannot be resolved.
        hints = dict(getattr(target, "__annotations__", {}))
    names = _parameters_of(function).keys()
    return [name for name, hint in hints.items() if name in names and is_context(hint)]
