"""Histograms of call durations, cheap enough for every request."""

from bisect import bisect_left
from typing import Final, Generic, TypeVar

KeyT = TypeVar("KeyT")

# Upper bounds of the buckets in seconds. The last bucket has no bound.
BOUNDS_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Latency:
    """Durations of one kind of call."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.sum_s = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.sum_s += seconds

    def merge(self, other: "Latency") -> None:
        self.counts = [a + b for a, b in zip(self.counts, other.counts, strict=True)]
        self.sum_s += other.sum_s


class Latencies(dict[KeyT, Latency], Generic[KeyT]):
    """Durations by kind of call. A new kind is added on first use. The caller must keep the number of kinds small."""

    def __missing__(self, key: KeyT) -> Latency:
        found = self[key] = Latency()
        return found


class RouteTraffic:
    """Requests of one method on one route: answers by status, and how long they took."""

    __slots__ = ("answers", "latency")

    def __init__(self) -> None:
        self.answers: dict[int, int] = {}
        self.latency = Latency()

    def add(self, status: int, seconds: float) -> None:
        self.answers[status] = self.answers.get(status, 0) + 1
        self.latency.add(seconds)

    def merge(self, other: "RouteTraffic") -> None:
        for status, count in other.answers.items():
            self.answers[status] = self.answers.get(status, 0) + count
        self.latency.merge(other.latency)


class Traffic:
    """HTTP requests that this process answered, by method and route. Routes are templates, so there are few."""

    __slots__ = ("routes",)

    def __init__(self) -> None:
        self.routes: dict[tuple[str, str], RouteTraffic] = {}

    def of(self, method: str, route: str) -> RouteTraffic:
        """Return the counts of this method and route, to add to."""
        return self.routes.setdefault((method, route), RouteTraffic())

    def merge(self, other: "Traffic") -> None:
        for (method, route), traffic in other.routes.items():
            self.of(method, route).merge(traffic)
