"""Writes the page of metrics for Prometheus. The page covers one namespace, or all namespaces that this process serves.
With several namespaces, each sample has the name of its namespace as a label."""

import asyncio
import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from prometheus_client import GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from jqmaster.domain.operations.tally import OTHER, NameCounts
from jqmaster.service.operations.metric_catalog import FROM_LEADER, SAME_EVERYWHERE
from jqmaster.service.operations.metric_families import gauge
from jqmaster.service.operations.metrics import (
    ASK_WITHIN_S,
    MAX_NAMES,
    Metrics,
    StoreFacts,
    values_by_name,
)
from jqmaster.service.operations.process_metrics import OwnFacts, ProcessCounts, of_process

LABEL: Final = "namespace"
# Maximum number of namespaces of one store that are read at the same time. The limit leaves connections for jobs.
READ_TOGETHER: Final = 8

# Maps each namespace that this process should serve to its metrics. None: the process does not serve it now.
Served = Mapping[str, Metrics | None]


@dataclass(frozen=True, slots=True)
class _Scrape:
    """One namespace at the time of a scrape. `facts`: None if another master reports the facts, or if they are
    unknown."""

    metrics: Metrics
    own: OwnFacts
    facts: StoreFacts | None
    is_up: bool


class MetricsPage:
    """Writes the page of metrics. `served`: returns all namespaces of this process if the installation has several, and
    otherwise an empty map. For an empty map, the page has the metrics `own`, without a label for the namespace."""

    def __init__(self, own: Metrics, served: Callable[[], Served] = dict) -> None:
        self._own = own
        self._served = served
        self._names = NamePool()
        self._counts = ProcessCounts()
        self._writing = asyncio.Lock()

    async def text(self, readable: Set[str] | None = None) -> bytes:
        """Return the metrics in the text format of Prometheus. `readable`: the namespaces that the caller may read.
        None: all."""
        served = self._served()
        known = {name: metrics for name, metrics in served.items() if metrics}
        present = [self._own, *known.values()]
        self._counts.update(
            (one.traffic for one in present), (meter for one in present for meter in one.meters)
        )
        if not served:
            facts, own = await self._own.facts(), self._own.own()
            return await asyncio.to_thread(self._write, lambda: self._alone(own, facts))
        visible = [name for name in served if readable is None or name in readable]
        parts = await _read({name: known[name] for name in visible if name in known})
        # Write only one page at a time, because only one thread may use the pool of names.
        async with self._writing:
            return await asyncio.to_thread(self._write, lambda: self._of_all(visible, known, parts))

    @cached_property
    def _process(self) -> CollectorRegistry:
        # Use a separate registry for this master: a process may have several masters, and its other code may also use
        # the library.
        registry = CollectorRegistry(auto_describe=False)
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=registry)
        return registry

    def _write(self, collect: Callable[[], Iterable[Metric]]) -> bytes:
        # This function runs in a thread. With many names, it takes tens of milliseconds, and would block the event
        # loop.
        return generate_latest(self._process) + generate_latest(_Collected(collect()))

    def _alone(self, own: OwnFacts, facts: StoreFacts | None) -> list[Metric]:
        counts = self._own.tally.since_start()
        return [*self._own.families(own, facts, counts, is_up=facts is not None), *self._of_process(own)]

    def _of_all(
        self, visible: Sequence[str], known: Mapping[str, Metrics], parts: Mapping[str, _Scrape]
    ) -> list[Metric]:
        # Label the names of all namespaces, including those that the caller may not read. Then a name has the same
        # label for all callers.
        counts = self._names.labeled({name: metrics.tally.since_start() for name, metrics in known.items()})
        places = shared_places({name: part.facts for name, part in parts.items() if part.facts})
        found: dict[str, Metric] = {}
        for name in visible:
            part = parts.get(name)
            up = gauge("jqmaster_namespace_up", {(): float(part is not None and part.is_up)})
            _add(found, name, [up])
            if part:
                families = part.metrics.families(
                    part.own, part.facts, counts[name], places[name], is_up=part.is_up
                )
                _add(found, name, families)
        return [*found.values(), *self._of_process(self._own.own())]

    def _of_process(self, own: OwnFacts) -> Iterable[Metric]:
        return of_process(own, self._counts.meters, self._counts.traffics)


class NamePool:
    """Gives job names separate labels, up to `most` in the whole process. If many new names come at once, the most used
    names get labels first. Names that get none share the label OTHER. A name keeps its label, because counters must not
    decrease."""

    def __init__(self, most: int = MAX_NAMES) -> None:
        self._most = most
        self._labels: dict[str, dict[str, str]] = {}

    def labeled(self, counts: Mapping[str, Mapping[str, NameCounts]]) -> dict[str, dict[str, NameCounts]]:
        """Return the counts of each namespace by label. The counts of names that share a label are added up."""
        self._labels = {namespace: self._labels.get(namespace, {}) for namespace in counts}
        own = sum(label != OTHER for labels in self._labels.values() for label in labels.values())
        new = [
            (_use(of_name), namespace, name)
            for namespace, names in counts.items()
            for name, of_name in names.items()
            if name not in self._labels[namespace]
        ]
        for _, namespace, name in sorted(new, key=lambda one: (-one[0], one[1:])):
            has_place = name != OTHER and own < self._most
            self._labels[namespace][name] = name if has_place else OTHER
            own += has_place
        return {namespace: self._of_one(namespace, names) for namespace, names in counts.items()}

    def _of_one(self, namespace: str, names: Mapping[str, NameCounts]) -> dict[str, NameCounts]:
        found: dict[str, NameCounts] = defaultdict(NameCounts)
        for name, of_name in names.items():
            found[self._labels[namespace][name]].merge(of_name)
        return found


def shared_places(facts: Mapping[str, StoreFacts]) -> dict[str, dict[str, int]]:
    """Return, by namespace and metric, how many names may have separate samples. The names with the largest values,
    over all namespaces together, get separate samples."""
    found: dict[str, dict[str, int]] = defaultdict(dict)
    values = {namespace: values_by_name(one) for namespace, one in facts.items()}
    for metric in {metric for by_metric in values.values() for metric in by_metric}:
        largest = heapq.nlargest(
            MAX_NAMES,
            (
                (value, namespace)
                for namespace, by_metric in values.items()
                for value in by_metric[metric].values()
            ),
        )
        most = Counter(namespace for _, namespace in largest)
        for namespace in facts:
            found[namespace][metric] = most[namespace]
    return found


async def _read(served: Mapping[str, Metrics]) -> dict[str, _Scrape]:
    """Read all namespaces at the same time. If the store of a namespace does not answer in time, the namespace has no
    facts."""
    turns: dict[int, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(READ_TOGETHER))
    parts = await asyncio.gather(
        *(_part(metrics, turns[id(metrics.meters[0])]) for metrics in served.values())
    )
    return dict(zip(served, parts, strict=True))


async def _part(metrics: Metrics, turn: asyncio.Semaphore) -> _Scrape:
    own = metrics.own()
    # Let only the leader of the namespace read its facts, so that sums over all masters count them once.
    if not own.is_leader or metrics.is_away():
        return _Scrape(metrics, own, None, not metrics.is_away())
    facts = None
    try:
        async with asyncio.timeout(ASK_WITHIN_S), turn:
            facts = await metrics.facts()
    except TimeoutError:
        pass  # the store does not answer in time
    return _Scrape(metrics, own, facts, facts is not None)


def _add(found: dict[str, Metric], namespace: str, families: Iterable[Metric]) -> None:
    """Add the samples of a namespace, labeled with its name."""
    for family in families:
        text = family.documentation.replace(SAME_EVERYWHERE, FROM_LEADER)
        whole = found.setdefault(family.name, Metric(family.name, text, family.type))
        whole.samples += [
            sample._replace(labels={LABEL: namespace, **sample.labels}) for sample in family.samples
        ]


def _use(counts: NameCounts) -> int:
    return counts.pushed + counts.wait.count + counts.run.count


class _Collected(Collector):
    """Collects the families of a single page."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families
