"""Durations counted in buckets whose width grows with them."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

# Upper bounds of the buckets in ms: 1, 2, 3, 4, 6, 8, 12, 16, 24 … 12.4 days. The bounds double every two
# buckets, so an estimate is off by less than half of its value.
BOUNDS_MS: Final = tuple(sorted({2**n for n in range(31)} | {3 * 2**n for n in range(29)}))
# The last bucket has no bound.
BUCKETS: Final = len(BOUNDS_MS) + 1


class Histogram:
    """Counts of durations by bucket, and the longest duration. Adding a duration costs a search in a short list."""

    __slots__ = ("counts", "max_ms", "sum_ms")

    def __init__(self) -> None:
        self.counts = [0] * BUCKETS
        self.max_ms = 0
        self.sum_ms = 0

    def add(self, ms: int, times: int = 1) -> None:
        """Add a duration `times` times. A negative duration counts as zero: a clock that was set back can give one."""
        self.counts[bisect_left(BOUNDS_MS, ms)] += times
        if ms > 0:
            self.sum_ms += ms * times
            self.max_ms = max(self.max_ms, ms)

    def add_all(self, durations_ms: Iterable[int]) -> None:
        """Add each duration. Equal durations are added in one step: those of one call are often equal."""
        for ms, count in Counter(durations_ms).items():
            self.add(ms, count)

    def merge(self, other: "Histogram") -> None:
        self.counts = [a + b for a, b in zip(self.counts, other.counts, strict=True)]
        self.max_ms = max(self.max_ms, other.max_ms)
        self.sum_ms += other.sum_ms

    def add_span(self, span: Sequence[int], max_ms: int) -> None:
        """Add the counts that `span` returned, and their longest duration."""
        if span:
            counts = self.counts
            for n, count in enumerate(span[1:], span[0]):
                counts[n] += count
            self.max_ms = max(self.max_ms, max_ms)

    def span(self) -> list[int]:
        """Return the number of the first bucket that is not empty. Then return the counts from this bucket to the last
        one that is not empty. Return [] if all buckets are empty.
        """
        used = [n for n, count in enumerate(self.counts) if count]
        return [used[0], *self.counts[used[0] : used[-1] + 1]] if used else []

    @property
    def count(self) -> int:
        return sum(self.counts)

    def quantiles_ms(self, *shares: float) -> list[int]:
        """Return estimates of the quantiles at these shares (0 to 1, ascending). No estimate is above the longest
        duration. If nothing was counted, all are 0.
        """
        total = self.count
        found: list[int] = []
        before, n = 0, 0
        for share in shares:
            rank = max(share * total, min(1.0, total))
            while n < BUCKETS - 1 and before + self.counts[n] < rank:
                before += self.counts[n]
                n += 1
            least = BOUNDS_MS[n - 1] if n else 0
            most = min(BOUNDS_MS[n], self.max_ms) if n < len(BOUNDS_MS) else self.max_ms
            within = (rank - before) / self.counts[n] if self.counts[n] else 0.0
            found.append(min(self.max_ms, round(least + max(0, most - least) * min(1.0, within))))
        return found

    def distribution(self) -> dict[str, int] | None:
        """Return the figures for statistics, or None if nothing was counted."""
        count = self.count
        if not count:
            return None
        p50_ms, p95_ms, p99_ms = self.quantiles_ms(0.5, 0.95, 0.99)
        return {
            "count": count,
            "p50_ms": p50_ms,
            "p95_ms": p95_ms,
            "p99_ms": p99_ms,
            "max_ms": self.max_ms,
        }

    def buckets(self) -> list[tuple[int | None, int]]:
        """Return (upper bound in ms or None, count) for each bucket that is not empty."""
        return [
            (BOUNDS_MS[n] if n < len(BOUNDS_MS) else None, count)
            for n, count in enumerate(self.counts)
            if count
        ]
