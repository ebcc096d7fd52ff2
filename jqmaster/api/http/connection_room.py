"""Decide which connections a server keeps when it cannot keep all of them."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from jqmaster.domain.identity.caller import TrustedProxies, caller_of
from jqmaster.live_value import LiveValue

# One connection in this many is added on top for workers, so that they get through however many pushers there are.
WORKERS_RESERVE: Final = 32
# Key in the scope of a request on an unproven connection. Its value is a function to call with `is_worker` once the
# credential was found valid. It raises OverloadedError if there is no room for more callers.
PROVE: Final = "jqmaster.prove"
# A single browser opens half a dozen connections before it has proved anything.
_LEAST_UNPROVEN: Final = 8


class Guest(Protocol):
    """A connection."""

    @property
    def peer(self) -> str:
        """The peer's address; "" for a unix socket."""
        ...

    @property
    def is_answering(self) -> bool:
        """Return whether a request has arrived completely and its answer is not complete."""
        ...

    def give_way(self) -> None:
        """Close the connection at once."""
        ...


@dataclass(frozen=True, slots=True)
class RoomLimits:
    """The maximum numbers of connections: of callers, in total (with the reserve for workers), of unproven ones, and
    per address."""

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

    A connection is *unproven* until a request on it carries a valid credential. Unproven connections have a share of
    their own. When room is needed, the unproven connection that has been idle longest is closed, so nobody can block
    others without a credential. Connections with a credential, other than workers', are refused at the cap.
    """

    def __init__(self, trusted_proxies: TrustedProxies, limits: LiveValue[RoomLimits]) -> None:
        self._trusted_proxies = trusted_proxies
        self._limits = limits
        # Unproven connections: all of them, and those per address. The one that has been idle longest comes first.
        self._unproven: dict[Guest, None] = {}
        self._unproven_of: dict[str, dict[Guest, None]] = {}
        self._proven: set[Guest] = set()
        self._workers: set[Guest] = set()
        # Proven connections by address. Workers are not counted, because a machine may run any number of them.
        self._of_address: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._unproven) + len(self._proven) + len(self._workers)

    def is_full_for(self, guest: Guest) -> bool:
        """Return whether the callers' share has no room for an unproven connection. Workers have their own
        reserve."""
        if len(self._proven) + len(self._workers) >= self._limits.current.most:
            return True
        return self._of_address[
            caller_of(guest.peer)
        ] >= self._limits.current.most_of_address and not self._is_proxy(guest)

    def is_unproven(self, guest: Guest) -> bool:
        """Return whether no request on it carried a valid credential so far."""
        return guest in self._unproven

    def enter(self, guest: Guest) -> bool:
        """Admit a new connection, and evict another one if necessary. Return False if there is no room."""
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
        """Record that a request carried a valid credential. Return False if there is no room; the connection stays
        unproven."""
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
        """Forget a connection, if it is known."""
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
        """Return the unproven connections of an address that has more than an even share, so that a flood evicts its
        own first."""
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
        # A client on a unix socket is on this machine, and is usually a proxy.
        return not guest.peer or guest.peer in self._trusted_proxies
