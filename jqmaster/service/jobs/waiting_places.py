"""A limit on calls that wait for an event, because each holds a connection and pushes need connections, too."""

import contextlib
from collections.abc import Iterator
from typing import Final

from jqmaster.live_value import LiveValue

# Shares of all connections.
CLIENTS_SHARE: Final = 3 / 4
# The share of clients and pulling workers together. Pulling workers may also use the places that clients leave free.
ALL_SHARE: Final = 7 / 8


class WaitingPlaces:
    """`most_connections`: how many there may be."""

    def __init__(self, most_connections: LiveValue[int]) -> None:
        self._most_connections = most_connections
        self.taken = 0

    @contextlib.contextmanager
    def take(self, *, is_worker: bool = False) -> Iterator[bool]:
        """Hold a place while the context lasts, and yield whether there was one. If not, the caller has to be answered
        at once."""
        share = ALL_SHARE if is_worker else CLIENTS_SHARE
        has_place = self.taken < max(1, int(self._most_connections.current * share))
        self.taken += has_place
        try:
            yield has_place
        finally:
            self.taken -= has_place
