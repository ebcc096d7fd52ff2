"""Limits the calls that wait for an event. Each of them holds a connection, and pushes need connections, too."""

import contextlib
from collections.abc import Iterator
from typing import Final

from jqmaster.shared_bound import Portion

# The share of all connections on which clients may wait.
CLIENTS_SHARE: Final = 3 / 4
# The share of all connections on which clients and pulling workers together may wait. Pulling workers may also use the
# places that clients leave free.
ALL_SHARE: Final = 7 / 8


class WaitingPlaces:
    """Limits the waiting calls of a namespace. `portion`: the namespace's share of the connections on which calls may
    wait."""

    def __init__(self, portion: Portion) -> None:
        self._portion = portion

    @property
    def taken(self) -> int:
        """Return the number of waiting calls."""
        return self._portion.taken

    @contextlib.contextmanager
    def take(self, *, is_worker: bool = False) -> Iterator[bool]:
        """Hold a place for the duration of the context, and yield whether a place was free. If no place was free, the
        caller must answer at once."""
        share = ALL_SHARE if is_worker else CLIENTS_SHARE
        portion = self._portion
        most = max(1, int(portion.shared.most.current * share))
        # A namespace with no waiting call gets a place whenever one is free.
        has_place = portion.shared.taken < most and (not portion.taken or portion.has_room(of=share))
        portion.taken += has_place
        portion.shared.taken += has_place
        try:
            yield has_place
        finally:
            portion.taken -= has_place
            portion.shared.taken -= has_place
