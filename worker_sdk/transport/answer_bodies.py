"""Limits on the bodies of answers: for each call, and for all calls of a client together."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

# The size up to which a body takes nothing from `BodyRoom`. A connection with a larger limit reads at most this much at
# a time.
SMALL_BODY_BYTES: Final = 16 * 1024


@dataclass(frozen=True, slots=True)
class BodyLimit:
    """The limit of an answer's body: `max_bytes`. If `is_cut` is true, a longer body is cut off. Otherwise, a longer
    body is an error."""

    max_bytes: int
    is_cut: bool = False


class Reader(Protocol):
    """A connection that stops reading until there is memory for its body."""

    def enter(self, reserved: int) -> None:
        """Continue to read: `reserved` more bytes are reserved for the body."""
        ...


class BodyRoom:
    """Limits the memory for the bodies that the calls of one client receive at the same time. Each body reserves the
    bytes that it has received, piece by piece. If no bytes are left, the body's connection stops reading until other
    bodies have ended.

    The last body that is still being read may exceed the total. Otherwise, bodies that fill the total together would
    wait for each other forever.
    """

    def __init__(self, total_bytes: int) -> None:
        self._left = total_bytes
        self._reading: set[Reader] = set()
        self._waiting: deque[tuple[int, Reader]] = deque()

    @property
    def waiting(self) -> int:
        """Return the number of bodies that wait for memory."""
        return len(self._waiting)

    def take(self, wanted: int, reader: Reader) -> bool:
        """Reserve bytes for a body. Return False if none are left: `reader` must wait, and its `enter` is called
        later."""
        self._reading.discard(reader)
        if (self._waiting or wanted > self._left) and self._reading:
            self._waiting.append((wanted, reader))
            return False
        self._left -= wanted
        self._reading.add(reader)
        return True

    def leave(self, reserved: int, reader: Reader) -> None:
        """Release the bytes that are reserved for a body, and end its wait."""
        self._left += reserved
        self._reading.discard(reader)
        self._waiting = deque(one for one in self._waiting if one[1] is not reader)
        while self._waiting and (self._waiting[0][0] <= self._left or not self._reading):
            wanted, first = self._waiting.popleft()
            self._left -= wanted
            self._reading.add(first)
            first.enter(wanted)


@dataclass(slots=True)
class ReceivedBody:
    """The body of an answer that arrives under limits.

    * `limit_of`: returns the limit for a status.
    * `reserved`: the bytes of `room` that are reserved for this body.
    * `is_waiting`: the body waits for more bytes of `room`.
    """

    limit_of: Callable[[int], BodyLimit]
    room: BodyRoom | None
    limit: BodyLimit = BodyLimit(0)
    received: int = 0
    reserved: int = 0
    is_waiting: bool = False
