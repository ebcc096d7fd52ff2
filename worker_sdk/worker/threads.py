"""Threads for sync handlers. They pass the ends of runs to the event loop in batches."""

import asyncio
import logging
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from worker_sdk import forked

logger = logging.getLogger(__name__)


class HandlerThreads:
    """A pool of at most `size` threads, made when needed. They are daemons: a handler that never returns must not keep
    the process from ending, as the threads of `concurrent.futures` would.

    Call `submit` from the event loop only; `done(value, error)` is called there, too.
    """

    def __init__(self, size: int, loop: asyncio.AbstractEventLoop) -> None:
        self._size = size
        self._loop = loop
        self._queue: queue.SimpleQueue[
            tuple[Callable[[], Any], Callable[[Any, BaseException | None], None]] | None
        ]
        self._queue = queue.SimpleQueue()
        self._threads = 0
        self._native_ids: list[int] = []
        self._outstanding = 0
        self._ended: deque[tuple[Callable[[Any, BaseException | None], None], Any, BaseException | None]] = (
            deque()
        )
        self._is_wake_pending = False
        self._is_copy = False
        # Held while a thread calls `_deliver` itself, because the event loop is closed.
        self._late = threading.Lock()
        forked.renew_in_child(self)

    def resize(self, size: int) -> None:
        """Start threads only up to `size` from now on. Threads that exist already stay for further work."""
        self._size = size

    def renew(self) -> None:
        self._is_copy = True

    @property
    def native_ids(self) -> list[int]:
        """Return the system's IDs of the existing threads."""
        return list(self._native_ids)

    def submit(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        self._outstanding += 1
        if self._threads < min(self._size, self._outstanding):
            self._threads += 1
            threading.Thread(target=self._main, name=f"jq-handler-{self._threads}", daemon=True).start()
        self._queue.put((work, done))

    def close(self) -> None:
        """Let each thread end after its current work, without waiting for it."""
        for _ in range(self._threads):
            self._queue.put(None)

    def _main(self) -> None:
        self._native_ids.append(threading.get_native_id())
        while (item := self._queue.get()) is not None:
            work, done = item
            try:
                ending = (done, work(), None)
            except BaseException as exc:
                ending = (done, None, exc)  # type: ignore[assignment]
            if self._is_copy:
                forked.end_copy()
            self._ended.append(ending)
            if not self._is_wake_pending:
                self._is_wake_pending = True
                try:
                    self._loop.call_soon_threadsafe(self._deliver)
                except RuntimeError:
                    # The event loop is closed, but the process continues, so report the end of the job from this
                    # thread.
                    with self._late:
                        self._deliver()
                    return
            del item, work, done, ending  # an idle thread would keep the last argument and result alive

    def _deliver(self) -> None:
        # Clear the flag first, so that an end that another thread adds from now on wakes the loop again.
        self._is_wake_pending = False
        while self._ended:
            done, value, error = self._ended.popleft()
            self._outstanding -= 1
            try:
                done(value, error)
            except Exception:  # one failure must not block the ends behind it
                logger.exception("the end of a run could not be processed")
