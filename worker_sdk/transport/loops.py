"""State that belongs to one event loop, for objects that outlive a loop or serve several loops at a time."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from worker_sdk import forked

T = TypeVar("T")


class PerLoop(dict[asyncio.AbstractEventLoop, T]):
    """The state of each event loop. Look up the state of the running loop with `state[asyncio.get_running_loop()]`,
    which raises RuntimeError if the loop was inherited through a fork. `make` returns the state for a new loop. The
    state of a closed loop is dropped at the next look-up of a new loop.

    In a forked process, `abandon` is called with each state of the parent. `abandon` must not call the event loop,
    because parent and child share the selector of the loop.
    """

    def __init__(self, make: Callable[[], T], *, abandon: Callable[[T], object] = lambda state: None) -> None:
        super().__init__()
        self._make = make
        self._abandon = abandon
        # In a forked child, the states of the parent's loops. Keep them: the destructors of their transports would call
        # those loops.
        self._of_parent: dict[asyncio.AbstractEventLoop, T] = {}
        forked.renew_in_child(self)

    # Compare objects by identity, because `forked` stores them in a set.
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
                "this event loop was made before the fork, and belongs to the parent process; "
                "make a new one in the child, as asyncio.run does"
            )
        for other, _ in self.all():
            if other.is_closed():
                self.pop(other, None)
        state = self[loop] = self._make()
        return state
