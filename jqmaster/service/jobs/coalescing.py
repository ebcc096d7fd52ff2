"""Combines items into calls. Items that arrive during a call wait, and the next call takes all of them. If no call is
in progress, an item starts a call at once."""

import asyncio
import contextvars
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from jqmaster.clock import NOW_S, WakeFlag, wait_for_event
from jqmaster.errors import OverloadedError
from jqmaster.service.jobs.push_pace import PushPace

T = TypeVar("T")
R = TypeVar("R")


class Coalescer(Generic[T, R]):
    """Component: combines items into calls of `flush`. `flush` gets up to `max_batch` items and returns one result for
    each, in the same order. `pace` decides how long to pause after a flush.

    If a caller is cancelled, its item stays, and the request may still be carried out.
    """

    def __init__(
        self,
        flush: Callable[[Sequence[T]], Awaitable[Sequence[R]]],
        *,
        max_batch: int,
        max_waiting: int,
        pace: PushPace | None = None,
    ) -> None:
        self._flush = flush
        self._max_batch = max_batch
        self._max_waiting = max_waiting
        self._waiting: deque[tuple[T, asyncio.Future[R]]] = deque()
        self._worker: asyncio.Task[None] | None = None
        # Whether a caller of `lead` is flushing its own item.
        self._is_led = False
        self._pace = pace
        self._stopping = WakeFlag()

    async def start(self) -> None:
        """Do nothing: no task runs before the first item."""

    async def stop(self) -> None:
        """Wait until all submitted items are answered."""
        self._stopping.set()
        if self._worker:
            await self._worker

    async def submit(self, item: T) -> R:
        """Wait for a flush that takes the item. Return the item's result, or raise the error of the flush. Raise
        OverloadedError if too many items wait."""
        if len(self._waiting) >= self._max_waiting:
            raise OverloadedError("too many requests wait for the store", retry_after_s=1)
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if not self._is_led and (self._worker is None or self._worker.done()):
            self._begin_work()
        return await future

    async def lead(self, item: T) -> R:
        """Do the same as `submit`, but flush the item in the caller's own task if no flush is in progress. Cancelling
        the caller then cancels the flush."""
        if self._is_led or not (self._worker is None or self._worker.done()):
            return await self.submit(item)
        self._is_led = True
        try:
            return (await self._flush([item]))[0]
        finally:
            self._is_led = False
            if self._waiting:
                self._begin_work()

    def _begin_work(self) -> None:
        # Use a new context, because the log lines of a flush concern all its items, not only the request that starts
        # the task.
        self._worker = asyncio.create_task(self._work(), name="coalescer", context=contextvars.Context())

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), self._max_batch))]
            began_s = loop.time()
            try:
                results = await self._flush([item for item, _ in batch])
            except Exception as exc:
                for _, future in batch:
                    if not future.done():
                        future.set_exception(exc)
            else:
                for (_, future), result in zip(batch, results, strict=True):
                    if not future.done():
                        future.set_result(result)
            if (pace := self._pace) is not None:
                pace.due.at_s = NOW_S
                if pace.is_slowed:
                    await wait_for_event(self._stopping, pace.rest_s(loop.time() - began_s))
