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
        """Go on reading."""
        ...


class BodyRoom:
    """Room for the bodies that the calls of one client receive at the same time. A body that finds no room is read
    later: its connection stops reading until others have ended."""

    def __init__(self, total_bytes: int) -> None:
        self._total = self._left = total_bytes
        self._waiting: deque[tuple[int, Reader]] = deque()

    @property
    def waiting(self) -> int:
        """Return the number of bodies that wait."""
        return len(self._waiting)

    def take(self, wanted: int, reader: Reader) -> int:
        """Return the bytes that are reserved now, or 0: `reader` waits, and `enter` is called later."""
        wanted = min(wanted, self._total)
        if self._waiting or wanted > self._left:
            self._waiting.append((wanted, reader))
            return 0
        self._left -= wanted
        return wanted

    def leave(self, reserved: int, reader: Reader) -> None:
        """Give reserved bytes back, or end the wait of `reader`."""
        if reserved:
            self._left += reserved
        else:
            self._waiting = deque(one for one in self._waiting if one[1] is not reader)
        while self._waiting and self._waiting[0][0] <= self._left:
            wanted, first = self._waiting.popleft()
            self._left -= wanted
            first.enter(wanted)


@dataclass(slots=True)
class ReceivedBody:
    """The body of an answer that arrives under limits. `limit_of`: returns the limit by the status. `is_large`: it
    needs room; `reserved`: what it has of that."""

    limit_of: Callable[[int], BodyLimit]
    room: BodyRoom | None
    limit: BodyLimit = BodyLimit(0)
    received: int = 0
    reserved: int = 0
    is_large: bool = False
