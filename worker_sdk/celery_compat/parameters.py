"""The parameters of a task's function, without `self`. They bind the arguments of calls, and jobs contain the arguments
by name."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from worker_sdk.errors import InvalidArgument


class _NotGiven:
    """The default of a first parameter, which the result of the previous step may fill."""


_NOT_GIVEN: Final = _NotGiven()


class Parameters:
    """The parameters of a function.

    * `returns`: the annotation of its result.
    * `positional`: names of the parameters that accept arguments by position.
    * `positional_only`: names of the parameters that accept arguments only by position.
    """

    def __init__(self, task: str, function: Callable[..., Any], *, is_bound: bool) -> None:
        self._task = task
        whole = inspect.signature(function)
        parameters = list(whole.parameters.values())[1 if is_bound else 0 :]
        self._signature = whole.replace(parameters=parameters)
        self.returns = whole.return_annotation
        self.positional = [one.name for one in parameters if one.kind is not one.KEYWORD_ONLY]
        self.positional_only = [one.name for one in parameters if one.kind is one.POSITIONAL_ONLY]

    def bound(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], *, is_first_taken: bool
    ) -> dict[str, Any]:
        """Return the arguments of a call by name. Raise InvalidArgument, a TypeError, if they do not fit.

        * `args`, `kwargs`: the call.
        * `is_first_taken`: True if the result of the previous step will fill the first parameter.
        """
        try:
            if not is_first_taken:
                return dict(self._signature.bind(*args, **kwargs).arguments)
            if not self.positional:
                raise TypeError("it has no parameter for the result of the previous step: use si()")
            found = dict(self._signature.bind(None, *args, **kwargs).arguments)
            del found[self.positional[0]]
            return found
        except TypeError as exc:
            raise InvalidArgument(self._task, [("arguments", str(exc))]) from None

    def needs(self, name: str) -> bool:
        """Return whether a parameter has no default."""
        return self._signature.parameters[name].default is inspect.Parameter.empty

    def travelling(self) -> list[inspect.Parameter]:
        """Return the parameters as a job carries them: all by name, and the first one optional."""
        found = []
        for one in self._signature.parameters.values():
            name_too = one.POSITIONAL_OR_KEYWORD if one.kind is one.POSITIONAL_ONLY else one.kind
            is_first = one.name in self.positional[:1] and one.kind is not one.VAR_POSITIONAL
            default = _NOT_GIVEN if is_first and one.default is one.empty else one.default
            found.append(one.replace(kind=name_too, default=default))
        return found
