"""The parameters of a task's function: parameters that calls give, and parameters that the worker fills."""

import typing
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, Final

from worker_sdk.dependencies.depends import Dependency, dependencies_of, is_context
from worker_sdk.parameters import (
    EMPTY,
    Parameter,
    is_coroutine_function,
    is_generator_function,
    parameters_of,
)

Function = Callable[..., Any]

# The default of parameters that the worker fills. In a direct call, the task fills them. With this default, type
# checkers let callers omit such a parameter at any position.
INJECTED: Any = None


class FromInputs:
    """The default of a parameter that the worker fills with the result of the job's predecessor. `takes_all`: the
    worker fills it with a list of the results of all predecessors."""

    __slots__ = ("takes_all",)

    def __init__(self, *, takes_all: bool) -> None:
        self.takes_all = takes_all

    def __repr__(self) -> str:
        return "INPUTS" if self.takes_all else "INPUT"


# The defaults of parameters that predecessors fill. Callers may omit such a parameter at any position, or give a value.
INPUT: Any = FromInputs(takes_all=False)
INPUTS: Any = FromInputs(takes_all=True)

_NAMED_CONTEXT: Final = "ctx"


class Signature:
    """The parameters of a task's function. Annotations are resolved when they are first needed, because a module
    of tasks may be imported before the modules of its types are complete.

    * `annotations`: the types of the parameters that calls send, by name.
    * `dependencies`: the dependencies of the parameters with `Depends`, by name.
    * `inputs`: the parameters that the worker fills with results of predecessors if the call omits them.
    * `gathers`: the function takes the arguments of many jobs. The types are those of one job.
    """

    def __init__(self, task: str, function: Function, *, gathers: bool = False) -> None:
        self._task = task
        self._gathers = gathers
        self._function = function
        self._resolved: tuple[dict[str, Any], Any, str | None] | None = None
        self._parameters = _parameters_of(task, function)
        self.dependencies: Mapping[str, Dependency] = dependencies_of(function)
        self.inputs: Mapping[str, FromInputs] = {
            name: one.default for name, one in self._parameters.items() if isinstance(one.default, FromInputs)
        }
        self.is_coroutine = is_coroutine_function(function)

    @property
    def annotations(self) -> Mapping[str, Any]:
        """The types of the parameters that calls send. Raise TypeError if one cannot be resolved."""
        return self._resolve()[0]

    @property
    def returns(self) -> Any:
        """The type of the result; Any if the function has no annotation."""
        return self._resolve()[1]

    @property
    def context(self) -> str | None:
        """The name of the parameter that takes the `Context`, if there is one."""
        return self._resolve()[2]

    @property
    def leading(self) -> list[str]:
        """The parameters that the function takes only by position, including the context."""
        return [name for name, one in self._parameters.items() if one.is_positional_only]

    def has_default(self, name: str) -> bool:
        """Return whether a call may omit the parameter."""
        return self._parameters[name].default is not EMPTY

    def omitted(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[str]:
        """Return the parameters for which a call of the function gives no value."""
        by_position = [name for name, one in self._parameters.items() if not one.is_keyword_only]
        given = {*by_position[: len(args)], *kwargs}
        return [name for name in self._parameters if name not in given]

    def default_of(self, name: str) -> Any:
        """Return the default of a parameter, which must have one."""
        return self._parameters[name].default

    def is_keyword_only(self, name: str) -> bool:
        """Return whether a call must name the parameter."""
        return self._parameters[name].is_keyword_only

    def _resolve(self) -> tuple[dict[str, Any], Any, str | None]:
        if self._resolved is None:
            try:
                hints = typing.get_type_hints(self._function, include_extras=True)
            except NameError as exc:
                raise TypeError(
                    f"task {self._task}: an annotation cannot be resolved, because {exc}. "
                    "Import the type when the program runs too, not only under TYPE_CHECKING."
                ) from None
            is_taken = self._context_test()
            contexts = [
                name
                for name in self._parameters
                if name not in self.dependencies and is_taken(hints.get(name))
            ]
            if len(contexts) > 1:
                raise TypeError(f"task {self._task}: {' and '.join(contexts)} both take the Context")
            travelling = {
                name: hints.get(name, Any)
                for name in self._parameters
                if name not in contexts and name not in self.dependencies
            }
            returns = hints.get("return", Any)
            if self._gathers:
                from worker_sdk.tasks.gathered_types import types_of_one_job

                if not contexts or self.inputs or any(self.has_default(name) for name in travelling):
                    travelling = {}
                travelling, returns = types_of_one_job(self._task, travelling, returns)
            self._resolved = travelling, returns, contexts[0] if contexts else None
        return self._resolved

    def _context_test(self) -> Callable[[Any], bool]:
        """Return a function that tells from an annotation whether the parameter takes the context."""
        if not self._gathers:
            return is_context
        from worker_sdk.tasks.gathered_types import is_gather_context

        return is_gather_context


def _parameters_of(task: str, function: Function) -> dict[str, Parameter]:
    """Return the parameters by name. Raise TypeError for something that cannot be a task."""
    if not isinstance(function, FunctionType):
        what = "method" if isinstance(function, staticmethod | classmethod) else type(function).__name__
        raise TypeError(f"task {task}: a {what} cannot be a task; decorate a function")
    place = function.__qualname__.rpartition(".")[0]
    if place and not place.endswith("<locals>"):
        raise TypeError(
            f"task {task}: {function.__qualname__} is a method, and a job has no object to call it on. "
            "Move it out of the class."
        )
    if is_generator_function(function):
        raise TypeError(f"task {task}: a generator cannot be a task, because a job has one result")
    parameters = parameters_of(function)
    for parameter in parameters.values():
        if parameter.is_variable:
            raise TypeError(f"task {task}: name each parameter instead of {_written(function, parameter)}")
    if _NAMED_CONTEXT in parameters and not _is_annotated(function, _NAMED_CONTEXT):
        raise TypeError(
            f"task {task}: annotate the parameter that takes the context: write ctx: Context as the first "
            "parameter, or ctx: Context = INJECTED"
        )
    by_position = [one for one in parameters.values() if not one.is_keyword_only]
    filled = [isinstance(one.default, Dependency) for one in by_position]
    if filled != sorted(filled) or any(
        has_depends and one.is_positional_only for one, has_depends in zip(by_position, filled, strict=True)
    ):
        # A call passes no value for these parameters, but type checkers would let it fill them by position.
        raise TypeError(f"task {task}: put parameters with Depends after all other parameters, or after a *")
    return parameters


def _is_annotated(function: Function, name: str) -> bool:
    if name in function.__annotations__:
        return True
    import inspect

    # If the function wraps another function, it has the annotations of the wrapped function.
    return inspect.signature(function).parameters[name].annotation is not inspect.Parameter.empty


def _written(function: Function, parameter: Parameter) -> str:
    import inspect

    return str(inspect.signature(function).parameters[parameter.name])
