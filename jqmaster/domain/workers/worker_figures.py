"""Rates, run times and failures of workers and groups of workers, and marks of those that stand out."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from jqmaster.domain.operations.tally import WorkerCounts
from jqmaster.domain.workers.worker import Worker

Mark = Literal["slow", "failing"]
GroupKind = Literal["node", "version", "label"]

# Minimum time span of a rate. With a shorter span, the rate of a worker that has just registered would be arbitrary.
MIN_SPAN_MS: Final = 10_000
# Figures are compared only if they cover at least this many attempts.
MIN_ATTEMPTS: Final = 20
# A worker is slow if its median run time is more than SLOW_FACTOR times that of its peers, and longer by at least
# SLOW_BY_MS.
SLOW_FACTOR: Final = 2
SLOW_BY_MS: Final = 10
# A worker is failing if at least FAILING_SHARE of its attempts fail, and if this share is more than FAILING_FACTOR
# times the share of its peers.
FAILING_SHARE: Final = 0.05
FAILING_FACTOR: Final = 2


@dataclass(slots=True)
class Figures:
    """Attempts that ended since `since_ms`, and their rate. `marks`: how a worker, or a group, differs from its peers.
    Peers serve the same names.
    """

    since_ms: int
    counts: WorkerCounts = field(default_factory=WorkerCounts)
    per_s: float = 0.0
    marks: tuple[Mark, ...] = ()

    @property
    def attempts(self) -> int:
        return self.counts.succeeded + self.counts.failed

    @property
    def failed_share(self) -> float | None:
        return self.counts.failed / self.attempts if self.attempts else None


@dataclass(slots=True)
class GroupedWorkers:
    """Workers with the same machine, version or label. `label`: the name of that label."""

    kind: GroupKind
    value: str
    label: str | None
    workers: list[Worker]
    figures: Figures


def figures_of(
    workers: Sequence[Worker], counts: Mapping[str, WorkerCounts], *, since_ms: int, now_ms: int
) -> dict[str, Figures]:
    """Return the figures of each worker by its ID. `counts` are of the time since `since_ms`."""
    found = {}
    for worker in workers:
        own_ms = max(since_ms, min(worker.registered_at_ms, now_ms))
        figures = Figures(own_ms, counts.get(worker.id) or WorkerCounts())
        figures.per_s = figures.attempts * 1000 / max(MIN_SPAN_MS, now_ms - own_ms)
        found[worker.id] = figures
    _mark([(frozenset(worker.spec.names), found[worker.id]) for worker in workers])
    return found


def groups_of(
    kind: GroupKind, workers: Sequence[Worker], figures: Mapping[str, Figures], *, now_ms: int
) -> list[GroupedWorkers]:
    """Return the groups of the workers, in the order of their values. A worker without a value is in no group."""
    groups: dict[tuple[str, str], GroupedWorkers] = {}
    for worker in workers:
        own = figures[worker.id]
        for label, value in _values(kind, worker):
            group = groups.get((label, value))
            if group is None:
                group = groups[label, value] = GroupedWorkers(kind, value, label or None, [], Figures(now_ms))
            group.workers.append(worker)
            group.figures.since_ms = min(group.figures.since_ms, own.since_ms)
            group.figures.counts.merge(own.counts)
            group.figures.per_s += own.per_s
    _mark([
        (frozenset(name for worker in group.workers for name in worker.spec.names), group.figures)
        for group in groups.values()
    ])  # fmt: skip
    return [groups[key] for key in sorted(groups)]


def _values(kind: GroupKind, worker: Worker) -> Iterable[tuple[str, str]]:
    spec = worker.spec
    if kind == "label":
        return spec.labels.items()
    value = spec.node_id if kind == "node" else spec.version
    return [("", value)] if value else []


def _mark(served: Sequence[tuple[frozenset[str], Figures]]) -> None:
    peers: dict[frozenset[str], list[Figures]] = {}
    for names, figures in served:
        if figures.attempts >= MIN_ATTEMPTS:
            peers.setdefault(names, []).append(figures)
    for compared in peers.values():
        if len(compared) == 1:
            continue
        medians = [figures.counts.run.quantiles_ms(0.5)[0] for figures in compared]
        ascending = sorted(medians)
        attempts = sum(figures.attempts for figures in compared)
        failed = sum(figures.counts.failed for figures in compared)
        for own_ms, figures in zip(medians, compared, strict=True):
            marks: list[Mark] = []
            others_ms = _median_without(ascending, own_ms)
            if own_ms > SLOW_FACTOR * others_ms and own_ms >= others_ms + SLOW_BY_MS:
                marks.append("slow")
            others_share = (failed - figures.counts.failed) / (attempts - figures.attempts)
            share = figures.failed_share or 0
            if share >= FAILING_SHARE and share > FAILING_FACTOR * others_share:
                marks.append("failing")
            figures.marks = tuple(marks)


def _median_without(ascending: Sequence[int], value: int) -> float:
    """Return the median of the values without one occurrence of `value`, which is among them."""
    gap, others = bisect_left(ascending, value), len(ascending) - 1
    low, high = ((n + (n >= gap)) for n in ((others - 1) // 2, others // 2))
    return (ascending[low] + ascending[high]) / 2
