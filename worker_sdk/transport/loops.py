"""State that belongs to one event loop, for objects that outlive a loop or serve several at a time."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from worker_sdk import forked

T = TypeVar("T")


class PerLoop(Generic[T]):
    """`make` returns the state for a running loop. State of a closed loop is dropped when the next loop asks.

    `abandon` is called in a forked process with each state that was the parent's. It must not call the event loop:
    parent and child share its selector.
    """

    def __init__(self, make: Callable[[], T], *, abandon: Callable[[T], object] = lambda state: None) -> None:
        self._make = make
        self._abandon = abandon
        self._by_loop: dict[asyncio.AbstractEventLoop, T] = {}
        # These are kept, because the destructors of the parent's transports would call the parent's loop.
        self._of_parent: dict[asyncio.AbstractEventLoop, T] = {}
        forked.renew_in_child(self)

    def get(self) -> T:
        """The running loop's state. Raises RuntimeError for a loop that was inherited by a fork."""
        loop = asyncio.get_running_loop()
        state = self._by_loop.get(loop)
        return self._new(loop) if state is None else state

    def all(self) -> list[tuple[asyncio.AbstractEventLoop, T]]:
        return list(self._by_loop.items())

    def renew(self) -> None:
        for state in self._by_loop.values():
            self._abandon(state)
        self._of_parent |= self._by_loop
        self._by_loop = {}

    def _new(self, loop: asyncio.AbstractEventLoop) -> T:
        if loop in self._of_parent:
            raise RuntimeError(
                "this event loop was made before the process was forked, and is the parent's; "
                "make a new one in the child, as asyncio.run does"
            )
        for other, _ in self.all():
            if other.is_closed():
                self._by_loop.pop(other, None)
        state = self._by_loop[loop] = self._make()
        return state
