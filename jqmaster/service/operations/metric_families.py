"""Builds families of metrics from their entries in the catalog, and the samples of histograms."""

import itertools
from collections.abc import Mapping
from typing import Final, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from jqmaster.domain.histogram import BOUNDS_MS, Histogram
from jqmaster.domain.operations.latency import BOUNDS_S, Latency
from jqmaster.service.operations.metric_catalog import METRICS

LabelsT = TypeVar("LabelsT", bound=tuple[str, ...])

# Upper bounds of the buckets of durations. There are fewer than in `BOUNDS_MS`, because each bound adds a line for each
# job name.
JOB_BOUNDS_MS: Final = tuple(bound for bound in BOUNDS_MS if bound in {4**n for n in range(1, 12)})
_JOB_SLICES: Final = tuple(BOUNDS_MS.index(bound) + 1 for bound in JOB_BOUNDS_MS)


def counter(name: str) -> CounterMetricFamily:
    info = METRICS[name]
    return CounterMetricFamily(info.name, info.text, labels=info.labels)


def histogram(name: str) -> HistogramMetricFamily:
    info = METRICS[name]
    return HistogramMetricFamily(info.name, info.text, labels=info.labels)


def gauge(name: str, values: Mapping[LabelsT, float]) -> GaugeMetricFamily:
    info = METRICS[name]
    family = GaugeMetricFamily(info.name, info.text, labels=info.labels)
    for labels, value in values.items():
        family.add_metric(labels, value)
    return family


def add_durations(family: HistogramMetricFamily, labels: tuple[str, ...], durations: Histogram) -> None:
    total = durations.count
    # Leave out an empty metric that has labels. A metric without labels exists from the beginning, so that queries
    # always find it.
    if labels and not total:
        return
    buckets: list[tuple[str, float]] = []
    below, start = 0, 0
    for bound_ms, end in zip(JOB_BOUNDS_MS, _JOB_SLICES, strict=True):
        below += sum(durations.counts[start:end])
        start = end
        buckets.append((str(bound_ms / 1000), below))
    buckets.append(("+Inf", total))
    family.add_metric(labels, buckets, durations.sum_ms / 1000)


def add_latencies(family: HistogramMetricFamily, latencies: Mapping[LabelsT, Latency]) -> None:
    for labels, latency in list(latencies.items()):
        below = list(itertools.accumulate(latency.counts))
        buckets: list[tuple[str, float]] = [
            (str(bound), count) for bound, count in zip(BOUNDS_S, below, strict=False)
        ]
        family.add_metric(labels, [*buckets, ("+Inf", below[-1])], latency.sum_s)
