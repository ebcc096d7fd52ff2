"""Limits of a process that its namespaces share, so that no namespace can take everything."""

from typing import Final
from weakref import WeakSet

from jqmaster.live_value import LiveValue

# A namespace may hold up to this many times the free amount. So a single busy namespace gets three quarters, and
# two busy namespaces get three sevenths each, regardless of the number of namespaces. A namespace that holds
# little always finds room.
FREE_FACTOR: Final = 3


class SharedBound:
    """A limit on a scarce resource of this process, such as bytes or places.

    * `most`: the total amount.
    * `taken`: the amount that all namespaces together hold.
    * Each namespace takes its part through a separate `Portion`.
    """

    __slots__ = ("__weakref__", "_portions", "most", "taken")

    def __init__(self, most: LiveValue[int]) -> None:
        self.most = most
        self.taken = 0
        self._portions: WeakSet[Portion] = WeakSet()

    def portion(self) -> "Portion":
        """Return the portion of a further namespace."""
        portion = Portion(self)
        self._portions.add(portion)
        return portion

    @property
    def is_shared(self) -> bool:
        """Return whether several namespaces share the resource. A single namespace may take all of it."""
        return len(self._portions) > 1


class Portion:
    """One namespace's portion of a bound. `taken`: the amount that the namespace holds."""

    __slots__ = ("__weakref__", "shared", "taken")

    def __init__(self, shared: SharedBound) -> None:
        self.shared = shared
        self.taken = 0

    def has_room(self, size: int = 1, *, of: float = 1.0) -> bool:
        """Return whether the namespace may take `size` more. `of`: the fraction of the bound that may be used. A
        namespace that holds nothing may take all that is free."""
        free = max(1, int(self.shared.most.current * of)) - self.shared.taken - size
        return free >= 0 and (
            not self.taken or self.taken + size <= FREE_FACTOR * free or not self.shared.is_shared
        )

    def take(self, size: int = 1) -> None:
        self.taken += size
        self.shared.taken += size

    def give(self, size: int = 1) -> None:
        self.take(-size)
