"""Which master should lead which namespace: rendezvous hashing with bounded load."""

import math
from collections import Counter
from collections.abc import Collection, Iterable
from hashlib import blake2b
from typing import Final

# A master should lead at most this many times the mean number of namespaces.
BOUND: Final = 1.25


def preference(namespace: str, master_ids: Collection[str]) -> list[str]:
    """Return the masters in the order in which they should lead this namespace, regardless of other namespaces. The
    order of two masters never depends on a third one."""
    return sorted(master_ids, key=lambda master_id: (_score(namespace, master_id), master_id))


def owners(namespaces: Iterable[str], master_ids: Collection[str]) -> dict[str, str]:
    """Return the ID of the master that should lead each namespace: the first master with room in the namespace's order
    of preference.

    Masters agree if they know the same namespaces and masters. Few leads move when a master joins or leaves.
    """
    names = sorted(namespaces, key=lambda name: (_score(name, ""), name))
    if not master_ids:
        return {}
    most = most_leads(len(names), len(master_ids))
    led: Counter[str] = Counter()
    chosen = {}
    for name in names:
        master_id = next(one for one in preference(name, master_ids) if led[one] < most)
        led[master_id] += 1
        chosen[name] = master_id
    return chosen


def most_leads(namespaces: int, masters: int) -> int:
    """Return the most namespaces that one master should lead."""
    mean = namespaces / masters
    # Allow at least the mean, rounded up: with few namespaces, a quarter of the mean is less than one namespace.
    return max(math.ceil(mean), math.floor(BOUND * mean))


def _score(namespace: str, master_id: str) -> bytes:
    return blake2b(f"{namespace} {master_id}".encode(), digest_size=8).digest()
