"""Show the parameters of a task's function on the methods that take them, in `inspect.signature`, `help` and notebooks.
Type checkers know the parameters anyway."""

from collections.abc import Callable
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Protocol

from worker_sdk.tasks.signature import Signature

if TYPE_CHECKING:
    import inspect


class ShownTask(Protocol):
    """The part of a task that this module uses.

    * `function`: the function of the task.
    * `signature`: the parameters of the function.
    * `shown_methods`: the copies of its methods, by name.
    """

    function: Callable[..., Any]
    signature: Signature
    shown_methods: dict[str, Callable[..., Any]]


class WithParametersOfTask:
    """A descriptor for a method with the parameters of a task. Each task gets a copy of the method with the signature
    of the task's function. The signature is made when it is first read.

    * `method`: the method.
    * `returned`: a function that returns the generic class of the method's return value.
    """

    def __init__(self, method: Any, returned: Callable[[], Any]) -> None:
        self._method: FunctionType = method
        self._name: str = method.__name__
        self._returned = returned
        self.__doc__ = method.__doc__

    def __get__(self, calls: Any, owner: Any = None) -> Any:
        if calls is None:
            return self._method
        task: ShownTask = calls._task
        copy = task.shown_methods.get(self._name)
        if copy is None:
            copy = task.shown_methods[self._name] = self._copy_for(task)
        bound = MethodType(copy, calls)
        if calls is task:
            # Store the method in the task, so that the next access does not call `__get__`.
            task.__dict__[self._name] = bound
        return bound

    def _copy_for(self, task: ShownTask) -> Callable[..., Any]:
        method = self._method
        copy: Any = FunctionType(
            method.__code__, method.__globals__, method.__name__, method.__defaults__, method.__closure__
        )
        copy.__doc__, copy.__qualname__, copy.__module__ = (
            method.__doc__,
            method.__qualname__,
            method.__module__,
        )
        copy.__kwdefaults__, copy.__annotations__ = method.__kwdefaults__, method.__annotations__
        copy.__wrapped__ = _SignatureOfCall(task, self._returned)
        made: Callable[..., Any] = copy
        return made


class _SignatureOfCall:
    """Has the signature of one method of one task. Python finds it through `__wrapped__`."""

    def __init__(self, task: ShownTask, returned: Callable[[], Any]) -> None:
        self._task = task
        self._returned = returned

    def __call__(self) -> None:
        """Do nothing: only a callable has a signature."""

    @property
    def __signature__(self) -> "inspect.Signature":
        import inspect

        given = self._task.signature
        of_function = inspect.signature(self._task.function)
        travelling = given.annotations.keys()
        result: Any = of_function.return_annotation
        myself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
        return of_function.replace(
            parameters=[myself, *(one for one in of_function.parameters.values() if one.name in travelling)],
            return_annotation=self._returned()[Any if result is inspect.Signature.empty else result],
        )
