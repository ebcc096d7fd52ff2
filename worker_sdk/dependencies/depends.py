"""`Depends`: parameters that the worker fills."""

import typing
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Coroutine,
    Generator,
    Iterator,
)
from typing import Any, Literal, TypeVar, overload

from worker_sdk.parameters import parameters_of
from worker_sdk.worker.context import Context

Scope = Literal["job", "worker"]
ValueT = TypeVar("ValueT")


class Dependency:
    """The default of a parameter that a function fills. Equal dependencies share a value."""

    __slots__ = ("function", "scope")

    def __init__(self, function: Callable[..., Any], scope: Scope) -> None:
        self.function = function
        self.scope = scope

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dependency):
            return NotImplemented
        return (self.function, self.scope) == (other.function, other.scope)

    def __hash__(self) -> int:
        return hash((self.function, self.scope))

    def __repr__(self) -> str:
        return f"Depends({self.name}, scope={self.scope!r})"

    @property
    def name(self) -> str:
        """The name of the function, for people."""
        return str(getattr(self.function, "__qualname__", self.function))


# `Depends` is typed to return the value, so that type checkers compare its type with the parameter's annotation.
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
      once and cleans up afterwards. Its parameters may have `Depends` themselves, and one parameter may be annotated
      with `Context`.
    * `scope`: `job` makes a value for each attempt. `worker` makes one value when the worker starts, before it
      registers.

    A function that several parameters depend on is called once for each attempt, or once for the worker. An exception
    fails the attempt, or the start of the worker. If the handler raises or the job is canceled, the exception is raised
    at the `yield` of the generators of this attempt. An exception of the clean-up itself is only logged, and the job
    can still succeed. Therefore, commit in the handler, and only release in the clean-up.

    A `def` handler needs functions that are not async; with the scope `worker`, a function may be async. For an `async
    def` handler, all functions run in the event loop. An isolated handler makes all values in its own process.

    For example:

        def opened() -> Iterator[io.StringIO]:
            with io.StringIO() as file:
                yield file

        @tasks.task("line.write")
        def write_line(text: str, *, file: io.StringIO = Depends(opened)) -> None:
            file.write(text)
    """
    if not callable(function):
        raise TypeError(f"Depends takes a function, not a {type(function).__name__}")
    if scope not in ("job", "worker"):
        raise ValueError("scope must be job or worker")
    return Dependency(function, scope)


def dependencies_of(function: Callable[..., Any]) -> dict[str, Dependency]:
    """Return the dependencies of a function, by the names of its parameters."""
    try:
        parameters = parameters_of(function)
    except ValueError:  # built-in classes have no signature that Python can show
        return {}
    return {
        name: parameter.default
        for name, parameter in parameters.items()
        if isinstance(parameter.default, Dependency)
    }


def is_context(annotation: Any) -> bool:
    """Return whether a parameter with this annotation takes the context."""
    return annotation is Context or Context in typing.get_args(annotation)
