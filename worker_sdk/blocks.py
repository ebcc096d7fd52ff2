"""Blocks for `with` and `async with`. The wrong form raises a TypeError that names the right form."""

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import wraps
from typing import TYPE_CHECKING, Any, Generic, NoReturn, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class WithOnly:
    """The base class of objects for `with`.

    * `other_form`: the advice in the error, for code in an event loop.
    """

    __slots__ = ()

    other_form: str = ""

    if not TYPE_CHECKING:  # hidden from type checkers, which would otherwise accept the wrong form

        def __aenter__(self) -> NoReturn:
            raise _wrong_form(self, "with")

        def __aexit__(self, *exc: object) -> NoReturn:
            raise _wrong_form(self, "with")


class AsyncWithOnly:
    """The base class of objects for `async with`.

    * `other_form`: the advice in the error, for code without an event loop.
    """

    __slots__ = ()

    other_form: str = ""

    if not TYPE_CHECKING:

        def __enter__(self) -> NoReturn:
            raise _wrong_form(self, "async with")

        def __exit__(self, *exc: object) -> NoReturn:
            raise _wrong_form(self, "async with")


class NoBlock:
    """The base class of objects that cannot be used with `with` or `async with`.

    * `other_form`: the advice in the error.
    """

    __slots__ = ()

    other_form: str = ""

    if not TYPE_CHECKING:

        def __enter__(self) -> NoReturn:
            raise _wrong_form(self, "")

        def __exit__(self, *exc: object) -> NoReturn:
            raise _wrong_form(self, "")

        __aenter__ = __enter__
        __aexit__ = __exit__


def _wrong_form(block: Any, needed: str) -> TypeError:
    name = getattr(block, "name", None) or type(block).__name__
    what = f"{name} needs `{needed}`" if needed else f"{name} is not a block"
    return TypeError(f"{what}; {block.other_form}" if block.other_form else what)


class Block(contextlib.ContextDecorator, AbstractContextManager[T_co], AbstractAsyncContextManager[T_co]):
    """A block that needs no event loop. `with` and `async with` do the same with it. It is also a decorator."""

    def __init__(self, make: Callable[[], AbstractContextManager[T_co]]) -> None:
        self._make = make
        # Call make() now, so that errors in its arguments are raised here and not inside the `with` block.
        self._manager = make()

    def _recreate_cm(self) -> "Block[T_co]":
        return Block(self._make)

    def __enter__(self) -> T_co:
        return self._manager.__enter__()

    def __exit__(self, *exc: Any) -> bool | None:
        return self._manager.__exit__(*exc)

    async def __aenter__(self) -> T_co:
        return self._manager.__enter__()

    async def __aexit__(self, *exc: Any) -> bool | None:
        return self._manager.__exit__(*exc)


class _SyncBlock(WithOnly, contextlib.ContextDecorator, Generic[T_co]):
    def __init__(self, make: Callable[[], AbstractContextManager[T_co]], name: str, other_form: str) -> None:
        self._make = make
        self._manager = make()
        self.name = name
        self.other_form = other_form

    def _recreate_cm(self) -> "_SyncBlock[T_co]":
        return _SyncBlock(self._make, self.name, self.other_form)

    def __enter__(self) -> T_co:
        return self._manager.__enter__()

    def __exit__(self, *exc: Any) -> bool | None:
        return self._manager.__exit__(*exc)


class _AsyncBlock(AsyncWithOnly, Generic[T_co]):
    def __init__(
        self, make: Callable[[], AbstractAsyncContextManager[T_co]], name: str, other_form: str
    ) -> None:
        self._manager = make()
        self.name = name
        self.other_form = other_form

    async def __aenter__(self) -> T_co:
        return await self._manager.__aenter__()

    async def __aexit__(self, *exc: Any) -> bool | None:
        return await self._manager.__aexit__(*exc)


def either_with(function: Callable[P, Iterator[T]]) -> Callable[P, Block[T]]:
    """Decorate a generator function that yields once, as `contextlib.contextmanager` does. Both `with` and `async with`
    accept the objects that the decorated function returns."""
    manager = contextlib.contextmanager(function)

    @wraps(function)
    def make(*args: P.args, **kwargs: P.kwargs) -> Block[T]:
        return Block(lambda: manager(*args, **kwargs))

    return make


def with_only(
    other_form: str,
) -> Callable[[Callable[P, Iterator[T]]], Callable[P, AbstractContextManager[T]]]:
    """Decorate a generator function that yields once, as `contextlib.contextmanager` does. The returned objects raise
    TypeError in `async with`.

    * `other_form`: the advice in the error, for code in an event loop.
    """

    def decorate(function: Callable[P, Iterator[T]]) -> Callable[P, AbstractContextManager[T]]:
        manager = contextlib.contextmanager(function)

        @wraps(function)
        def make(*args: P.args, **kwargs: P.kwargs) -> Any:
            return _SyncBlock(lambda: manager(*args, **kwargs), f"{function.__name__}()", other_form)

        return make

    return decorate


def async_with_only(
    other_form: str,
) -> Callable[[Callable[P, AsyncIterator[T]]], Callable[P, AbstractAsyncContextManager[T]]]:
    """Decorate an async generator function that yields once, as `contextlib.asynccontextmanager` does. The returned
    objects raise TypeError in `with`.

    * `other_form`: the advice in the error, for code without an event loop.
    """

    def decorate(function: Callable[P, AsyncIterator[T]]) -> Callable[P, AbstractAsyncContextManager[T]]:
        manager = contextlib.asynccontextmanager(function)

        @wraps(function)
        def make(*args: P.args, **kwargs: P.kwargs) -> Any:
            return _AsyncBlock(lambda: manager(*args, **kwargs), f"{function.__name__}()", other_form)

        return make

    return decorate
