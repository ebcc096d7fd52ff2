"""Which connections a server keeps when it cannot keep all of them."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from jqmaster.domain.identity.caller import TrustedProxies, caller_of
from jqmaster.live_value import LiveValue

# This part of the connections, on top of all, is for workers: however many pushers there are, who runs jobs can say so.
WORKERS_RESERVE: Final = 32
# The key in the scope of a request on an unproven connection for what is called, with `is_worker`, once its credential
# was found valid. It raises OverloadedError where there is no room for more callers.
PROVE: Final = "jqmaster.prove"
# A browser alone opens half a dozen connections before it has proved anything.
_LEAST_UNPROVEN: Final = 8


class Guest(Protocol):
    """A connection."""

    @property
    def peer(self) -> str:
        """The address at its other end; "" for a unix socket."""
        ...

    @property
    def is_answering(self) -> bool:
        """Return whether a whole request is here whose answer is not complete."""
        ...

    def give_way(self) -> None:
        """Close at once."""
        ...


@dataclass(frozen=True, slots=True)
class RoomLimits:
    """The most connections: of callers, at all (with the reserve for workers), that are unproven, and of one
    address."""

    most: int
    most_at_all: int
    most_unproven: int
    most_of_address: int

    @classmethod
    def of(cls, *, most: int, unproven_share: float, address_share: float) -> "RoomLimits":
        return cls(
            most,
            most + most // WORKERS_RESERVE,
            min(most, max(_LEAST_UNPROVEN, int(most * unproven_share))),
            max(_LEAST_UNPROVEN, int(most * address_share)),
        )


class ConnectionRoom:
    """All connections of one server.

    A connection is *unproven* until a request on it carried a valid credential. Unproven connections have a share of
    their own, and whenever room is needed, the one that has been idle for the longest makes it: nobody can hold a
    connection against others without a credential. Those with one, other than workers, are refused at the cap.
    """

    def __init__(self, trusted_proxies: TrustedProxies, limits: LiveValue[RoomLimits]) -> None:
        self._trusted_proxies = trusted_proxies
        self._limits = limits
        # All of them, and those of each address; the one that has been idle for the longest comes first.
        self._unproven: dict[Guest, None] = {}
        self._unproven_of: dict[str, dict[Guest, None]] = {}
        self._proven: set[Guest] = set()
        self._workers: set[Guest] = set()
        # Proven connections by address. Workers are left out: a machine may run as many as it likes.
        self._of_address: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._unproven) + len(self._proven) + len(self._workers)

    def is_full_for(self, guest: Guest) -> bool:
        """Return whether an unproven connection has no room among the callers; workers have their reserve."""
        if len(self._proven) + len(self._workers) >= self._limits.current.most:
            return True
        return self._of_address[
            caller_of(guest.peer)
        ] >= self._limits.current.most_of_address and not self._is_proxy(guest)

    def is_unproven(self, guest: Guest) -> bool:
        """Return whether no request on it carried a valid credential so far."""
        return guest in self._unproven

    def enter(self, guest: Guest) -> bool:
        """Take a new connection in, for which another one may have to go. Return False where there is no room."""
        address = caller_of(guest.peer)
        has_room = (
            len(self._unproven) < self._limits.current.most_unproven
            and len(self) < self._limits.current.most_at_all + _LEAST_UNPROVEN
        )
        if not (has_room or self._evict(self._hogged(address)) or self._evict(self._unproven)):
            return False
        self._unproven[guest] = self._unproven_of.setdefault(address, {})[guest] = None
        return True

    def prove(self, guest: Guest, *, is_worker: bool) -> bool:
        """Record that a request carried a valid credential. Return False where it has no room: it stays unproven."""
        if guest not in self._unproven:
            return True
        if is_worker:
            if len(self._proven) + len(self._workers) >= self._limits.current.most_at_all:
                return False
            self._workers.add(guest)
        elif self.is_full_for(guest):
            return False
        else:
            self._proven.add(guest)
            self._of_address[caller_of(guest.peer)] += 1
        self._drop_unproven(guest)
        return True

    def rest(self, guest: Guest) -> None:
        """Record that the connection has just become idle."""
        if guest in self._unproven:
            for order in (self._unproven, self._unproven_of[caller_of(guest.peer)]):
                del order[guest]
                order[guest] = None

    def leave(self, guest: Guest) -> None:
        """Forget a connection, if it is here."""
        if guest in self._unproven:
            self._drop_unproven(guest)
        elif guest in self._proven:
            self._proven.remove(guest)
            address = caller_of(guest.peer)
            self._of_address[address] -= 1
            if not self._of_address[address]:
                del self._of_address[address]
        else:
            self._workers.discard(guest)

    def _hogged(self, address: str) -> dict[Guest, None]:
        """The unproven connections of an address that has more than an even part: its flood shall meet itself first."""
        mine = self._unproven_of.get(address, {})
        return mine if len(mine) * len(self._unproven_of) > self._limits.current.most_unproven else {}

    def _evict(self, order: Iterable[Guest]) -> bool:
        idle = next((guest for guest in order if not guest.is_answering), None)
        if idle is None:
            return False
        self.leave(idle)
        idle.give_way()
        return True

    def _drop_unproven(self, guest: Guest) -> None:
        address = caller_of(guest.peer)
        del self._unproven[guest]
        del self._unproven_of[address][guest]
        if not self._unproven_of[address]:
            del self._unproven_of[address]

    def _is_proxy(self, guest: Guest) -> bool:
        # A client on a unix socket is on this machine; as a rule it is a proxy.
        return not guest.peer or guest.peer in self._trusted_proxies
