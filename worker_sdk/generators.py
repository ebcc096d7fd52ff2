"""Generators with one `yield`. The code before the `yield` runs first, then the surrounded call, then the rest of the
generator."""

import inspect
from collections.abc import AsyncGenerator, Generator
from typing import Any


class YieldContext:
    """A generator that has been called, but has not run yet. `what`: name of the generator, for people."""

    __slots__ = ("_generator", "what")

    def __init__(self, generator: Generator[Any, Any, Any], what: str) -> None:
        self._generator = generator
        self.what = what

    def enter(self) -> Any:
        """Run the generator up to its `yield`, and return the yielded value. Raise RuntimeError if it does not
        yield."""
        try:
            return next(self._generator)
        except StopIteration:
            raise RuntimeError(f"{self.what} yields nothing") from None

    def leave(self, exc: BaseException | None) -> None:
        """Run the rest of the generator, with `exc` raised at its `yield`. Return normally if the generator swallows
        `exc`, and also if it lets `exc` pass. Raise any other exception of the generator. Raise RuntimeError if the
        generator yields again."""
        try:
            if exc is None:
                next(self._generator)
            else:
                self._generator.throw(exc)
        except StopIteration:
            return
        except BaseException as raised:
            if _is_the_same(raised, exc):
                return
            raise
        self._generator.close()
        raise RuntimeError(f"{self.what} yields more than once")


class AsyncYieldContext:
    """An async generator that has been called, but has not run yet: see `YieldContext`."""

    __slots__ = ("_generator", "what")

    def __init__(self, generator: AsyncGenerator[Any, Any], what: str) -> None:
        self._generator = generator
        self.what = what

    async def enter(self) -> Any:
        """Do what `YieldContext.enter` does."""
        try:
            return await anext(self._generator)
        except StopAsyncIteration:
            raise RuntimeError(f"{self.what} yields nothing") from None

    async def leave(self, exc: BaseException | None) -> None:
        """Do what `YieldContext.leave` does."""
        try:
            if exc is None:
                await anext(self._generator)
            else:
                await self._generator.athrow(exc)
        except StopAsyncIteration:
            return
        except BaseException as raised:
            if _is_the_same(raised, exc):
                return
            raise
        await self._generator.aclose()
        raise RuntimeError(f"{self.what} yields more than once")


def checked_generator(owner: object, method: str, *, is_async: bool = False) -> Any:
    """Return a method of `owner`, which must be a generator. Raise TypeError if it is not a generator."""
    found = getattr(owner, method)
    is_generator = inspect.isasyncgenfunction(found) if is_async else inspect.isgeneratorfunction(found)
    if not is_generator:
        kind = "an async generator" if is_async else "a generator"
        raise TypeError(f"{type(owner).__name__}.{method} must be {kind} that yields once")
    return found


def _is_the_same(raised: BaseException, exc: BaseException | None) -> bool:
    # Python converts a StopIteration that leaves a generator to a RuntimeError.
    return raised is exc or (
        isinstance(exc, StopIteration | StopAsyncIteration)
        and isinstance(raised, RuntimeError)
        and raised.__cause__ is exc
    )
