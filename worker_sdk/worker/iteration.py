"""Iteration over many items, with progress and checkpoints. The next attempt continues from the last checkpoint."""

import itertools
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sized
from typing import Any, Generic, Protocol, TypeVar

from worker_sdk.errors import Interrupted
from worker_sdk.worker.lease import now_s

T = TypeVar("T")
Items = Iterable[T] | AsyncIterable[T]
Source = Items[T] | Callable[[int], Items[T]]


class LongJob(Protocol):
    """The part of a job's context that an iteration uses."""

    unsaved: int | None

    @property
    def cancelled(self) -> object:
        """Return an object that is true when the job is to stop."""
        ...

    @property
    def checkpoint(self) -> Any: ...

    def progress(self, fraction: float | None, message: str = "") -> None: ...

    def save(self, value: Any) -> Awaitable[None]: ...

    def save_and_wait(self, value: Any) -> None: ...


class Iteration(Generic[T]):
    """The items of a source, for `for` and `async for`. See `Context.iterate` and `Context.track`."""

    def __init__(
        self, ctx: LongJob, source: "Source[T]", *, every_s: float, total: int | None, saves: bool
    ) -> None:
        self._ctx = ctx
        self._source = source
        self._every_s = every_s
        self._total = len(source) if total is None and isinstance(source, Sized) else total
        self._saves = saves

    def __repr__(self) -> str:
        return f"<Iteration, {'with' if self._saves else 'without'} checkpoints>"

    def __iter__(self) -> Iterator[T]:
        done = self._start()
        items = self._items(done)
        if not isinstance(items, Iterable):
            raise TypeError("the source is asynchronous: use `async for`")
        due_s = now_s() + self._every_s
        for item in items:
            if self._ctx.cancelled:
                raise Interrupted
            yield item
            done += 1
            self._reached(done)
            if now_s() >= due_s:
                self._tell(done)
                if self._saves:
                    self._ctx.save_and_wait(done)
                due_s = now_s() + self._every_s
        self._tell(done)
        if self._saves:
            # Saving the last position also reports the final progress. After the job has ended, no progress is sent.
            self._ctx.save_and_wait(done)

    async def __aiter__(self) -> AsyncIterator[T]:
        done = self._start()
        due_s = now_s() + self._every_s
        async for item in _as_async(self._items(done)):
            yield item
            done += 1
            self._reached(done)
            if now_s() >= due_s:
                self._tell(done)
                if self._saves:
                    await self._ctx.save(done)
                due_s = now_s() + self._every_s
        self._tell(done)
        if self._saves:
            await self._ctx.save(done)

    def _start(self) -> int:
        if not self._saves:
            return 0
        position = self._ctx.checkpoint
        if position is None:
            return 0
        if type(position) is not int or position < 0:
            raise TypeError("the checkpoint of this job is not a position: use either iterate or save")
        return position

    def _items(self, done: int) -> "Items[T]":
        """Return the items after the first `done` items."""
        source = self._source
        if not isinstance(source, Iterable | AsyncIterable):
            return source(done)
        if isinstance(source, AsyncIterable):
            return _without_first(source, done)
        return itertools.islice(source, done, None)

    def _reached(self, done: int) -> None:
        if self._saves:
            self._ctx.unsaved = done

    def _tell(self, done: int) -> None:
        if self._total:
            self._ctx.progress(min(1.0, done / self._total), f"{done:,} of {self._total:,}")
        else:
            self._ctx.progress(None, f"{done:,}")


async def _without_first(items: AsyncIterable[T], count: int) -> AsyncIterator[T]:
    async for item in items:
        if count > 0:
            count -= 1
        else:
            yield item


async def _as_async(items: "Items[Any]") -> AsyncIterator[Any]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item
