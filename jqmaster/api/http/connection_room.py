"""Decide which connections a server keeps when it cannot keep all of them."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from jqmaster.domain.identity.caller import TrustedProxies, caller_of
from jqmaster.live_value import LiveValue

# Number of connections per extra connection that is reserved for workers. The reserve lets workers connect
# regardless of the number of pushers.
WORKERS_RESERVE: Final = 32
# Key of a function in the scope of a request on an unproven connection. The endpoint calls it with `is_worker`
# after it has found the credential valid. The function raises OverloadedError if there is no room for more
# callers.
PROVE: Final = "jqmaster.prove"
# Number of unproven connections that are always allowed. A single browser opens about six connections before it
# sends a credential.
_MIN_UNPROVEN: Final = 8


class CountedConnection(Protocol):
    """A connection that the room counts and may close."""

    @property
    def peer(self) -> str:
        """The peer's address; "" for a unix socket."""
        ...

    @property
    def is_answering(self) -> bool:
        """Return whether a request has arrived completely and its answer is not complete."""
        ...

    def close_now(self) -> None:
        """Close the connection at once."""
        ...


@dataclass(frozen=True, slots=True)
class RoomLimits:
    """Maximum numbers of connections.

    * `max_clients`: from callers other than workers.
    * `max_clients_and_workers`: from callers of both kinds.
    * `max_total`: `max_clients_and_workers`, plus the reserve for workers.
    * `most_unproven`: unproven connections.
    * `most_of_address`: per address.
    """

    max_clients: int
    max_clients_and_workers: int
    max_total: int
    most_unproven: int
    most_of_address: int

    @classmethod
    def of(
        cls,
        *,
        max_clients: int,
        unproven_share: float,
        address_share: float,
        max_clients_and_workers: int = 0,
    ) -> "RoomLimits":
        """Return the limits for at most `max_clients` connections from callers other than workers.
        `max_clients_and_workers`: the number of connections that the process can have open. It is used if it
        exceeds `max_clients`."""
        together = max(max_clients, max_clients_and_workers)
        return cls(
            max_clients,
            together,
            together + together // WORKERS_RESERVE,
            min(max_clients, max(_MIN_UNPROVEN, int(max_clients * unproven_share))),
            max(_MIN_UNPROVEN, int(max_clients * address_share)),
        )


class ConnectionRoom:
    """All connections of one server.

    A connection is *unproven* until a request on it carries a valid credential. Unproven connections have a
    separate share. When the server needs room, it closes the unproven connection that has been idle longest. So a
    caller without a credential cannot block others. When the limit is reached, no further connection can become
    proven, except connections of workers.
    """

    def __init__(self, trusted_proxies: TrustedProxies, limits: LiveValue[RoomLimits]) -> None:
        self._trusted_proxies = trusted_proxies
        self._limits = limits
        # Unproven connections, in total and per address. The connection that has been idle longest comes first.
        self._unproven: dict[CountedConnection, None] = {}
        self._unproven_of: dict[str, dict[CountedConnection, None]] = {}
        self._proven: set[CountedConnection] = set()
        self._workers: set[CountedConnection] = set()
        # Proven connections by address. Workers are not counted, because a machine may run any number of them.
        self._of_address: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._unproven) + len(self._proven) + len(self._workers)

    def is_full_for(self, connection: CountedConnection) -> bool:
        """Return whether the share of callers other than workers has no room for an unproven connection."""
        limits = self._limits.current
        if (
            len(self._proven) >= limits.max_clients
            or len(self._proven) + len(self._workers) >= limits.max_clients_and_workers
        ):
            return True
        return self._of_address[
            caller_of(connection.peer)
        ] >= self._limits.current.most_of_address and not self._is_proxy(connection)

    def enter(self, connection: CountedConnection) -> bool:
        """Admit a new connection, and evict another one if necessary. Return False if there is no room."""
        address = caller_of(connection.peer)
        has_room = (
            len(self._unproven) < self._limits.current.most_unproven
            and len(self) < self._limits.current.max_total + _MIN_UNPROVEN
        )
        if not (has_room or self._evict(self._over_even_share(address)) or self._evict(self._unproven)):
            return False
        self._unproven[connection] = self._unproven_of.setdefault(address, {})[connection] = None
        return True

    def prove(self, connection: CountedConnection, *, is_worker: bool) -> bool:
        """Record that a request carried a valid credential. Return False if there is no room. The connection then
        stays unproven."""
        if connection not in self._unproven:
            return True
        if is_worker:
            if len(self._proven) + len(self._workers) >= self._limits.current.max_total:
                return False
            self._workers.add(connection)
        elif self.is_full_for(connection):
            return False
        else:
            self._proven.add(connection)
            self._of_address[caller_of(connection.peer)] += 1
        self._drop_unproven(connection)
        return True

    def rest(self, connection: CountedConnection) -> None:
        """Record that the connection has just become idle."""
        if connection in self._unproven:
            for order in (self._unproven, self._unproven_of[caller_of(connection.peer)]):
                del order[connection]
                order[connection] = None

    def leave(self, connection: CountedConnection) -> None:
        """Forget a connection, if it is known."""
        if connection in self._unproven:
            self._drop_unproven(connection)
        elif connection in self._proven:
            self._proven.remove(connection)
            address = caller_of(connection.peer)
            self._of_address[address] -= 1
            if not self._of_address[address]:
                del self._of_address[address]
        else:
            self._workers.discard(connection)

    def _over_even_share(self, address: str) -> dict[CountedConnection, None]:
        """Return the unproven connections of an address that has more than an even share. So a flood from one
        address evicts its own connections first."""
        mine = self._unproven_of.get(address, {})
        return mine if len(mine) * len(self._unproven_of) > self._limits.current.most_unproven else {}

    def _evict(self, order: Iterable[CountedConnection]) -> bool:
        idle = next((connection for connection in order if not connection.is_answering), None)
        if idle is None:
            return False
        self.leave(idle)
        idle.close_now()
        return True

    def _drop_unproven(self, connection: CountedConnection) -> None:
        address = caller_of(connection.peer)
        del self._unproven[connection]
        del self._unproven_of[address][connection]
        if not self._unproven_of[address]:
            del self._unproven_of[address]

    def _is_proxy(self, connection: CountedConnection) -> bool:
        # Treat a client on a unix socket as a proxy. It runs on this machine, and it is usually a proxy.
        return not connection.peer or connection.peer in self._trusted_proxies
