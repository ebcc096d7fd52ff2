"""Push the rows of an outbox in a thread, so that no request waits for the pushes."""

import atexit
import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from django.db import close_old_connections, connections

from worker_sdk.outbox.relay import SyncOf
from worker_sdk.outbox.steps import drive

if TYPE_CHECKING:
    from worker_sdk.outbox.base import Outbox

# How long the process waits at its exit for the last pushes. A relay pushes the remaining rows later.
_LAST_PUSH_WITHIN_S: Final = 5.0
# After this long without pushes, the thread ends and closes its connection to the database.
_IDLE_S: Final = 10.0


class BackgroundPushes:
    """Pushes committed transactions of an outbox, in the order of their commits.

    One thread per process pushes. The thread begins with the first push, and ends when it has been idle for a while.
    """

    def __init__(self, outbox: "Outbox") -> None:
        self._outbox = outbox
        self._changed: threading.Condition
        self._waiting: list[tuple[str, float]]
        self._is_running: bool
        self._is_awaited: bool
        self._begin()
        forked = weakref.WeakMethod(self._begin)
        os.register_at_fork(after_in_child=lambda: (begin := forked()) and begin())

    def add(self, transaction: str, began_s: float) -> None:
        """Push a transaction soon.

        * `transaction`: name of the transaction.
        * `began_s`: the instant of its first row, by the monotonic clock.
        """
        with self._changed:
            if not self._is_awaited:
                self._is_awaited = True
                atexit.register(self.wait, _LAST_PUSH_WITHIN_S)
            self._waiting.append((transaction, began_s))
            self._changed.notify_all()
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._run, name="jqmaster outbox", daemon=True).start()

    def wait(self, timeout_s: float) -> bool:
        """Wait until nothing is left to push. Return False if the time runs out first."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting, timeout_s)

    def _begin(self) -> None:
        # A forked child runs this, too. It must not push the parent's transactions, which the parent's thread pushes.
        self._changed = threading.Condition()
        self._waiting = []
        self._is_running = self._is_awaited = False

    def _run(self) -> None:
        try:
            with self._clean_connections():
                while batch := self._next_batch():
                    self._push(batch)
                    with self._changed:
                        del self._waiting[: len(batch)]
                        self._changed.notify_all()
                    close_old_connections()
        except BaseException:
            # The thread ends, for example because closing a connection failed. The next push starts a new thread.
            with self._changed:
                self._is_running = False
            raise

    def _next_batch(self) -> list[tuple[str, float]]:
        """Wait for transactions, and return them. After an empty list, the thread ends."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting, _IDLE_S)
            self._is_running = bool(self._waiting)
            return list(self._waiting)

    def _push(self, batch: list[tuple[str, float]]) -> None:
        try:
            for steps in self._outbox.steps_of_many(batch):
                self._outbox.note(drive(steps, SyncOf(self._outbox)))
        except Exception:
            self._outbox.note_error(", ".join(name for name, _ in batch))

    @contextmanager
    def _clean_connections(self) -> Iterator[None]:
        try:
            close_old_connections()
            yield
        finally:
            # Close the connections of this thread, which no other thread can use.
            connections.close_all()
