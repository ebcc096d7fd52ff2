"""Share the slots of a worker among several namespaces: each namespace has a guaranteed share, and idle slots are lent
to other namespaces."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from worker_sdk.transport.namespaces import check_name
from worker_sdk.worker.lease import now_s

MAX_NAMESPACES: Final = 20
# How long a slot is reserved for a namespace if its jobs were refused although it used less than its share. Masters
# offer these jobs again within two seconds.
WANTED_S: Final = 5.0


def slots_by_namespace(shares: Mapping[str, int], max_jobs: int) -> dict[str, int]:
    """Divide all slots of a worker in proportion to the shares, with at least one slot for each namespace.
    Raise ValueError if there are too few."""
    if len(shares) > max_jobs:
        raise ValueError(
            f"max_jobs is {max_jobs}, but each of {len(shares)} namespaces needs at least one slot"
        )
    # Start with one slot for each namespace. Give the other slots, one by one, to the namespace that is furthest below
    # its share.
    slots = dict.fromkeys(shares, 1)
    for _ in range(max_jobs - len(shares)):
        slots[min(slots, key=lambda name: (slots[name] / shares[name], -shares[name]))] += 1
    return slots


def checked_shares(given: Any) -> dict[str, int]:
    """Return the shares of namespaces by name. `given`: a map of shares, or a list of names with equal shares. Raise
    ValueError or TypeError with a text about the argument `namespaces`."""
    if isinstance(given, str):
        raise TypeError(
            f'namespaces: give a map or a list, such as ["{given}"]. For a single namespace, use '
            f'configure(namespace="{given}") instead.'
        )
    names = list(given)
    shares: dict[str, Any] = dict(given) if isinstance(given, Mapping) else dict.fromkeys(names, 1)
    if not shares:
        raise ValueError("namespaces: name at least one namespace")
    if len(shares) < len(names):
        raise ValueError("namespaces: one of them is named twice")
    if len(shares) > MAX_NAMESPACES:
        raise ValueError(
            f"namespaces: {len(shares)} are given, and one worker works in {MAX_NAMESPACES} at most: start another "
            "worker for the others"
        )
    for name, share in shares.items():
        if not isinstance(name, str):
            raise TypeError(f"namespaces: a name is a text, not {name!r}")
        check_name(name)
        if type(share) is not int or not 1 <= share <= 1000:
            raise ValueError(
                f"namespaces: the share of {name} must be an integer from 1 to 1000, not {share!r}"
            )
    return shares


class SharedSlots:
    """All slots of the worker."""

    def __init__(self, total: int, *, now_s: Callable[[], float] = now_s) -> None:
        self.total = total
        self.now_s = now_s
        self.shares: list[SlotShare] = []

    def add(self, guaranteed: int) -> "SlotShare":
        """Add a namespace that gets this many slots whenever it needs them, and return its share."""
        share = SlotShare(self, guaranteed)
        self.shares.append(share)
        return share


class SlotShare:
    """The slots of one namespace. `note_offer`, `want` and `released` are called in the event loop, and everything else
    from any thread.

    * `occupying`: the runs that have slots.
    * `on_room`: called when a slot of another namespace becomes free.
    * `on_pressure`: called when another namespace needs slots that this namespace uses above its share.
    """

    def __init__(self, pool: SharedSlots, guaranteed: int) -> None:
        self._pool = pool
        self.guaranteed = guaranteed
        self.occupying: Mapping[str, object] = {}
        self.on_room: Callable[[], object] = lambda: None
        self.on_pressure: Callable[[], object] = lambda: None
        self.last_offered = pool.total
        self._wanted, self._wanted_until_s = 0, 0.0

    @property
    def total(self) -> int:
        return self._pool.total

    @property
    def wanted(self) -> int:
        """Return how many free slots are reserved for this namespace, because its jobs were refused for lack of
        slots."""
        if not self._wanted or self._pool.now_s() >= self._wanted_until_s:
            return 0
        return max(0, min(self._wanted, self.guaranteed - len(self.occupying)))

    @property
    def has_to_yield(self) -> bool:
        """Return whether the next free slot of this namespace must go to another namespace."""
        return len(self.occupying) > self.guaranteed and any(one.wanted for one in self._others())

    def room(self) -> int:
        """Return how many more jobs may start now."""
        free = self._pool.total - sum(len(one.occupying) for one in self._pool.shares)
        kept = sum(one.wanted for one in self._others())
        return max(0, min(free, max(self.guaranteed - len(self.occupying), free - kept)))

    def offered(self) -> int:
        """Return how many jobs masters may assign: the share, and the slots that other namespaces leave idle. Several
        namespaces may be offered the same idle slot: the first job gets it, and the other jobs are refused as
        `busy`."""
        used = sum(len(one.occupying) + one.wanted for one in self._others())
        self.last_offered = max(self.guaranteed, self._pool.total - used)
        return self.last_offered

    def want(self, count: int, *, within_s: float = WANTED_S) -> None:
        """Reserve up to `count` of the next free slots, within the share, for at most `within_s`. 0: reserve none."""
        was_wanted = self.wanted
        self._wanted, self._wanted_until_s = count, self._pool.now_s() + within_s
        if self.wanted and not was_wanted:
            for one in self._others():
                if len(one.occupying) > one.guaranteed:
                    one.on_pressure()

    def released(self) -> None:
        """Notify the other namespaces that a slot may be free."""
        for one in self._others():
            one.on_room()

    def _others(self) -> "list[SlotShare]":
        return [one for one in self._pool.shares if one is not self]
