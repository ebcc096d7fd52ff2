"""The signal that tells a handler to stop."""

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # these are slow to import, and most signals do not need them
    import asyncio
    import threading


class CancelSignal:
    """Tells a handler to stop: at its timeout, when its job was canceled, or when the worker ends.

    The signal is set once. Use `if ctx.cancelled:` or `ctx.cancelled.wait(1.0)` in a `def` handler. An `async def`
    handler is also cancelled (`asyncio.CancelledError`). Another asyncio task can wait for the signal with `await
    ctx.cancelled`. In a process that a handler forks, the signal is never set.

    For example:

        for number in range(3):
            if ctx.cancelled:
                break
    """

    # These attributes belong to the class until a signal needs its own: every job has a signal, but few are used.
    _is_set = False
    _event: "threading.Event | None" = None
    _waiters: "list[asyncio.Future[None]] | None" = None

    def __bool__(self) -> bool:
        return self._is_set

    def __repr__(self) -> str:
        return f"<CancelSignal, {'set' if self._is_set else 'not set'}>"

    def is_set(self) -> bool:
        """Return whether the handler should stop.

        For example:

            print(ctx.cancelled.is_set())
        """
        return self._is_set

    def wait(self, timeout_s: float | None = None) -> bool:
        """Block until the signal is set, for at most `timeout_s`, and return whether the handler should stop.

        For example:

            if ctx.cancelled.wait(0.01):
                print("it was told to stop")
        """
        event = self._event
        if event is None:
            import threading

            from worker_sdk import forked

            event = self.__dict__.setdefault("_event", threading.Event())
            forked.renew_in_child(self)
        # Check the flag after creating the event, because `set` looks for the event after setting the flag. So at least
        # one of the two calls notices the other. Do not use a lock: another thread may hold it when a handler forks.
        return self._is_set or event.wait(timeout_s)

    def renew(self) -> None:
        self.__dict__.pop("_event", None)

    def __await__(self) -> Generator[Any, None, None]:
        """Wait until the signal is set, in an async handler."""
        if not self._is_set:
            import asyncio

            waiter = asyncio.get_running_loop().create_future()
            if self._waiters is None:
                self._waiters = []
            self._waiters.append(waiter)
            yield from waiter.__await__()

    def set(self) -> None:
        """Set the signal; call it from the event loop only."""
        self._is_set = True
        if self._event is not None:
            self._event.set()
        for waiter in self._waiters or ():
            if not waiter.done():
                waiter.set_result(None)
