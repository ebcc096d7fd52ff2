"""Remember recent tokens and nonces, so that a repeated offer or call has no effect."""

from collections import deque
from collections.abc import Collection, Mapping
from typing import Final, Generic, TypeVar

Value = TypeVar("Value")


class RecentMap(Generic[Value]):
    """Remembers each key for at least `ttl_s`, and at most a quarter longer. The caller passes the current time."""

    _SLICES: Final = 4

    def __init__(self, ttl_s: float) -> None:
        self._slice_s = ttl_s / self._SLICES
        self._slices: deque[dict[str, Value]] = deque([{}], maxlen=self._SLICES + 1)
        self._turn_s = float("-inf")

    def keep_for(self, ttl_s: float) -> None:
        """Set a longer time to live. A shorter time is ignored, because known keys must be remembered for their full
        time."""
        self._slice_s = max(self._slice_s, ttl_s / self._SLICES)

    def known(self, keys: Collection[str], now_s: float) -> dict[str, Value]:
        """Return the values of the remembered `keys`."""
        self._turn(now_s)
        found: dict[str, Value] = {}
        for one in self._slices:
            if not one.keys().isdisjoint(keys):
                found |= {key: one[key] for key in keys if key in one}
        return found

    def put(self, values: Mapping[str, Value], now_s: float) -> None:
        self._turn(now_s)
        self._slices[-1].update(values)

    def _turn(self, now_s: float) -> None:
        if now_s < self._turn_s:
            return
        if self._turn_s != float("-inf"):
            # Start a new slice for each slice of time that has passed. After a long time, all slices are replaced.
            for _ in range(min(int((now_s - self._turn_s) / self._slice_s) + 1, self._SLICES + 1)):
                self._slices.append({})
        self._turn_s = now_s + self._slice_s


class NonceCache:
    """The nonces of one time window, up to a maximum number. When the cache is full, it drops the oldest nonces. It
    then refuses all calls that are as old as a dropped nonce, or older."""

    def __init__(self, window_s: float, *, max_nonces: int = 200_000) -> None:
        self._window_ms = int(window_s * 1000)
        self._bucket_ms = self._window_ms // 10
        self._max_nonces = max_nonces
        self._count = 0
        self._floor_ms = 0
        self._buckets: dict[int, set[str]] = {}

    def is_fresh(self, nonce: str, timestamp_ms: int, now_ms: int) -> bool:
        """Return whether a call is new, and remember it. Its timestamp must be within the window."""
        index = timestamp_ms // self._bucket_ms
        bucket = self._buckets.get(index)
        if timestamp_ms < self._floor_ms or (bucket is not None and nonce in bucket):
            return False
        if bucket is None:
            self._drop_before(now_ms - self._window_ms)
            bucket = self._buckets[index] = set()
        bucket.add(nonce)
        self._count += 1
        if self._count > self._max_nonces:
            self._floor_ms = (min(self._buckets) + 1) * self._bucket_ms
            self._drop_before(self._floor_ms)
        return True

    def _drop_before(self, oldest_ms: int) -> None:
        for index in [i for i in self._buckets if (i + 1) * self._bucket_ms <= oldest_ms]:
            self._count -= len(self._buckets.pop(index))
