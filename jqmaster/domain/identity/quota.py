"""A limit on how often each of many callers may do something within a minute."""

import random
from typing import Final

WINDOW_S: Final = 60.0
MAX_COUNTED: Final = 10_000


class Quota:
    """Counts by key within fixed windows of a minute, in bounded memory.

    If there are too many keys, a random one is forgotten. If new keys were refused instead, a caller that makes up keys
    could lock everybody else out.
    """

    def __init__(self, *, max_counted: int = MAX_COUNTED) -> None:
        self._max_counted = max_counted
        self._counts: dict[str, int] = {}
        self._keys: list[str] = []
        self._began_s = float("-inf")

    def add(self, key: str, now_s: float) -> int:
        """Count one use, and return the count of this window. `now_s`: a monotonic time."""
        if now_s - self._began_s >= WINDOW_S:
            self._counts.clear()
            self._keys.clear()
            self._began_s = now_s
        count = self._counts.get(key)
        if count is None:
            self._make_room()
            self._keys.append(key)
        self._counts[key] = (count or 0) + 1
        return self._counts[key]

    def count(self, key: str, now_s: float) -> int:
        """Return how many uses were counted in this window."""
        return self._counts.get(key, 0) if now_s - self._began_s < WINDOW_S else 0

    def left_s(self, now_s: float) -> float:
        """Return the seconds until the next window."""
        return max(0.0, self._began_s + WINDOW_S - now_s)

    def _make_room(self) -> None:
        if len(self._keys) < self._max_counted:
            return
        index = random.randrange(len(self._keys))  # noqa: S311  nothing depends on its being hard to guess
        self._keys[index], self._keys[-1] = self._keys[-1], self._keys[index]
        del self._counts[self._keys.pop()]
