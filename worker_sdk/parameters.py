"""Read the parameters of functions. Most functions are read without `inspect`, because importing `inspect` takes as
long as importing a module of tasks."""

from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import inspect

# Marks that a parameter has no default or no annotation.
EMPTY: Final = object()

# Bits in the flags of a code object, under the names that `inspect` gives them.
_VARARGS: Final = 0x04
_VARKEYWORDS: Final = 0x08
_GENERATOR: Final = 0x20
_COROUTINE: Final = 0x80
_ASYNC_GENERATOR: Final = 0x200


class Parameter:
    """One parameter of a function.

    * `default`: default of the parameter. `EMPTY`: it has no default.
    * `is_positional_only`, `is_keyword_only`: whether a call must give it by position, or by name.
    * `is_variable`: it takes any number of arguments: `*args` or `**kwargs`.
    """

    __slots__ = ("default", "is_keyword_only", "is_positional_only", "is_variable", "name")

    def __init__(
        self,
        name: str,
        default: Any = EMPTY,
        *,
        is_positional_only: bool = False,
        is_keyword_only: bool = False,
        is_variable: bool = False,
    ) -> None:
        self.name = name
        self.default = default
        self.is_positional_only = is_positional_only
        self.is_keyword_only = is_keyword_only
        self.is_variable = is_variable


def parameters_of(function: Callable[..., Any]) -> dict[str, Parameter]:
    """Return the parameters of a callable, by name. Raise ValueError if Python does not know them, and TypeError if the
    object is not callable."""
    if not has_plain_signature(function):
        import inspect

        return {name: _converted(one) for name, one in inspect.signature(function).parameters.items()}
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    defaults = function.__defaults__ or ()
    first_default = code.co_argcount - len(defaults)
    by_name = function.__kwdefaults__ or {}
    parameters = {}
    for index, name in enumerate(names):
        if index >= code.co_argcount:
            parameters[name] = Parameter(name, by_name.get(name, EMPTY), is_keyword_only=True)
        else:
            default = defaults[index - first_default] if index >= first_default else EMPTY
            is_positional_only = index < code.co_posonlyargcount
            parameters[name] = Parameter(name, default, is_positional_only=is_positional_only)
    return parameters


def has_plain_signature(function: Callable[..., Any]) -> bool:
    """Return whether the code object of a function describes all its parameters: the function wraps no other function,
    and does not take `*args` or `**kwargs`."""
    return (
        type(function) is FunctionType
        # These tools store attributes in the function: `functools.wraps`, `__signature__` and
        # `inspect.markcoroutinefunction`.
        and not function.__dict__
        and not function.__code__.co_flags & (_VARARGS | _VARKEYWORDS)
    )


def is_coroutine_function(function: Callable[..., Any]) -> bool:
    """Return whether calling the function, or the function that it wraps, returns a coroutine."""
    if has_plain_signature(function):
        return bool(function.__code__.co_flags & _COROUTINE)
    import inspect

    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(inspect.unwrap(function))


def is_generator_function(function: Callable[..., Any]) -> bool:
    """Return whether the function is a sync or async generator function."""
    code = getattr(function, "__code__", None)
    return code is not None and bool(code.co_flags & (_GENERATOR | _ASYNC_GENERATOR))


def _converted(one: "inspect.Parameter") -> Parameter:
    return Parameter(
        one.name,
        EMPTY if one.default is one.empty else one.default,
        is_positional_only=one.kind is one.POSITIONAL_ONLY,
        is_keyword_only=one.kind is one.KEYWORD_ONLY,
        is_variable=one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD),
    )
