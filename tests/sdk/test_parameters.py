"""Parameters are read without `inspect`, but match its results."""

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from worker_sdk.parameters import (
    EMPTY,
    has_plain_signature,
    is_coroutine_function,
    is_generator_function,
    parameters_of,
)


def none() -> None: ...


def plain(a: int, b: str = "b", *, c: int, d: int = 4) -> None: ...


def positional(a: int, b: int = 2, /, c: int = 3) -> None: ...


def variable(a: int, *args: int, b: int = 2, **kwargs: int) -> None: ...


def with_locals(a: int) -> int:
    b = a + 1
    return b * a


async def asynchronous(a: int) -> None: ...


def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> AsyncIterator[int]:
    yield 1


@functools.wraps(plain)
def wrapping(*args: Any, **kwargs: Any) -> None: ...


@functools.wraps(asynchronous)
def wrapping_asynchronous(*args: Any, **kwargs: Any) -> Any:
    return asynchronous(*args, **kwargs)


class Callback:
    def __call__(self, a: int, *, b: int = 2) -> None: ...


FUNCTIONS: list[Callable[..., Any]] = [
    none,
    plain,
    positional,
    variable,
    with_locals,
    asynchronous,
    generator,
    async_generator,
    wrapping,
    wrapping_asynchronous,
    Callback(),
    Callback,
    functools.partial(plain, 1, c=2),
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=[str(n) for n in range(len(FUNCTIONS))])
def test_parameters_are_those_that_inspect_tells(function: Callable[..., Any]) -> None:
    expected = inspect.signature(function).parameters
    found = parameters_of(function)
    assert list(found) == list(expected)
    for name, one in expected.items():
        assert found[name].default is (EMPTY if one.default is one.empty else one.default)
        assert found[name].is_positional_only == (one.kind is one.POSITIONAL_ONLY)
        assert found[name].is_keyword_only == (one.kind is one.KEYWORD_ONLY)
        assert found[name].is_variable == (one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD))


def test_a_function_that_wraps_a_coroutine_function_is_one() -> None:
    found = [function for function in FUNCTIONS if is_coroutine_function(function)]
    assert found == [asynchronous, wrapping_asynchronous]


def test_generators_of_both_kinds_are_found() -> None:
    assert [function for function in FUNCTIONS if is_generator_function(function)] == [
        generator,
        async_generator,
    ]


def test_only_functions_that_nothing_wraps_are_read_without_inspect() -> None:
    assert [function for function in FUNCTIONS if has_plain_signature(function)] == [
        none,
        plain,
        positional,
        with_locals,
        asynchronous,
        generator,
        async_generator,
    ]


def test_a_class_whose_parameters_python_cannot_tell_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="no signature found"):
        parameters_of(type)
