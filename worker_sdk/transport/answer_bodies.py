"""Limits on the bodies of answers: for each call, and for all calls of a client together."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

# A body up to this size needs no room of `BodyRoom`. Connections with such a room read no more at a time.
SMALL_BODY_BYTES: Final = 16 * 1024


@dataclass(frozen=True, slots=True)
class BodyLimit:
    """The part of an answer's body that a caller wants: at most `max_bytes`. A longer body is cut there if `is_cut`;
    otherwise it is an error."""

    max_bytes: int
    is_cut: bool = False


class Reader(Protocol):
    """A connection that stops reading until there is room."""

    def enter(self, reserved: int) -> None:
        """Go on reading: `reserved` more bytes have room."""
        ...


class BodyRoom:
    """Room for the bodies that the calls of one client receive at the same time. Each body takes room for what it has
    received, piece by piece. A body that finds none is read later: its connection stops reading until others have
    ended. The last one that is still read may exceed the total; otherwise bodies that fill the room together would wait
    for each other for ever."""

    def __init__(self, total_bytes: int) -> None:
        self._left = total_bytes
        self._reading: set[Reader] = set()
        self._waiting: deque[tuple[int, Reader]] = deque()

    @property
    def waiting(self) -> int:
        """Return the number of bodies that wait."""
        return len(self._waiting)

    def take(self, wanted: int, reader: Reader) -> bool:
        """Reserve bytes for a body. Return False if there is no room: `reader` waits, and `enter` is called later."""
        self._reading.discard(reader)
        if (self._waiting or wanted > self._left) and self._reading:
            self._waiting.append((wanted, reader))
            return False
        self._left -= wanted
        self._reading.add(reader)
        return True

    def leave(self, reserved: int, reader: Reader) -> None:
        """Give back the bytes that are reserved for a body, and end its wait."""
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
    """The body of an answer that arrives under limits. `limit_of`: returns the limit by the status. `reserved`: the
    bytes that it has of `room`; `is_waiting`: it waits for more."""

    limit_of: Callable[[int], BodyLimit]
    room: BodyRoom | None
    limit: BodyLimit = BodyLimit(0)
    received: int = 0
    reserved: int = 0
    is_waiting: bool = False
