"""State that belongs to one event loop, for objects that outlive a loop or serve several at a time."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from worker_sdk import forked

T = TypeVar("T")


class PerLoop(dict[asyncio.AbstractEventLoop, T]):
    """The state of each event loop. Look up the running one: `state[asyncio.get_running_loop()]`; a loop that was
    inherited by a fork raises RuntimeError. `make` returns the state for a new loop. State of a closed loop is dropped
    when the next loop asks.

    `abandon` is called in a forked process with each state that was the parent's. It must not call the event loop:
    parent and child share its selector.
    """

    def __init__(self, make: Callable[[], T], *, abandon: Callable[[T], object] = lambda state: None) -> None:
        super().__init__()
        self._make = make
        self._abandon = abandon
        # These are kept, because the destructors of the parent's transports would call the parent's loop.
        self._of_parent: dict[asyncio.AbstractEventLoop, T] = {}
        forked.renew_in_child(self)

    # Objects are compared by identity, because `forked` keeps a set of those that it renews.
    __eq__ = object.__eq__

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)

    def all(self) -> list[tuple[asyncio.AbstractEventLoop, T]]:
        return list(self.items())

    def renew(self) -> None:
        for state in self.values():
            self._abandon(state)
        self._of_parent |= self
        self.clear()

    def __missing__(self, loop: asyncio.AbstractEventLoop) -> T:
        if loop in self._of_parent:
            raise RuntimeError(
                "this event loop was made before the process was forked, and is the parent's; "
                "make a new one in the child, as asyncio.run does"
            )
        for other, _ in self.all():
            if other.is_closed():
                self.pop(other, None)
        state = self[loop] = self._make()
        return state
