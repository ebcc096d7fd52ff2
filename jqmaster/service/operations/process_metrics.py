"""Metrics of the whole process: requests, calls to stores, connections of clients, and certificates."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from prometheus_client.metrics_core import Metric

from jqmaster.domain.operations.latency import Latencies, Traffic
from jqmaster.service.operations.metric_catalog import METRICS
from jqmaster.service.operations.metric_families import add_latencies, counter, gauge, histogram


@dataclass(frozen=True, slots=True)
class OwnFacts:
    """Facts about this process that need no read of the store. `certificate_ends_s`: returns the expiry of each
    certificate, in Unix seconds. It reads files, so call it only in the thread that writes the metrics."""

    is_leader: bool
    times_led: int
    connections: int
    faults: Sequence[str]
    duty_faults: Sequence[str]
    memory_used_bytes: int
    memory_max_bytes: int
    settings_version: int
    labels: Mapping[str, str]
    certificate_ends_s: Callable[[], Mapping[str, float]] = dict


class StoreMeter(Protocol):
    """Counters of a store client; see `StoreClient`."""

    round_trips: Latencies[str]
    script_calls: dict[str, int]
    failed_round_trips: dict[str, int]


class ProcessCounts:
    """Collects the counts of the namespaces of this process. The counts of a closed namespace stay, because counters
    must not decrease."""

    def __init__(self) -> None:
        self._closed = Traffic()
        self._traffics: dict[int, Traffic] = {}
        self._meters: dict[int, StoreMeter] = {}

    def update(self, traffics: Iterable[Traffic], meters: Iterable[StoreMeter]) -> None:
        """Take the counts of the namespaces that are open now. The meters of stores stay, because stores stay open."""
        present = {id(one): one for one in traffics}
        for key, one in self._traffics.items():
            if key not in present:
                self._closed.merge(one)
        self._traffics = present
        self._meters |= {id(one): one for one in meters}

    @property
    def traffics(self) -> list[Traffic]:
        return [self._closed, *self._traffics.values()]

    @property
    def meters(self) -> list[StoreMeter]:
        return list(self._meters.values())


def of_process(own: OwnFacts, meters: Iterable[StoreMeter], traffics: Iterable[Traffic]) -> Iterator[Metric]:
    """Return the metrics of the whole process: the sums of all `meters` and `traffics`, and the facts in `own`."""
    yield _request_seconds(traffics)
    yield from _store_calls(meters)
    yield gauge("jqmaster_http_connections", {(): own.connections})
    ends_s = own.certificate_ends_s()
    yield gauge(
        "jqmaster_certificate_expiry_timestamp_seconds",
        {(setting,): end_s for setting, end_s in ends_s.items()},
    )
    info = METRICS["jqmaster_info"]
    yield gauge(info.name, {tuple(own.labels[label] for label in info.labels): 1})


def _request_seconds(traffics: Iterable[Traffic]) -> Metric:
    sums: Latencies[tuple[str, str]] = Latencies()
    for traffic in traffics:
        for labels, of_route in list(traffic.routes.items()):
            if of_route.answers:
                sums[labels].merge(of_route.latency)
    seconds = histogram("jqmaster_http_request_seconds")
    add_latencies(seconds, sums)
    return seconds


def _store_calls(meters: Iterable[StoreMeter]) -> Iterator[Metric]:
    seconds = histogram("jqmaster_store_round_trip_seconds")
    calls, failures = counter("jqmaster_store_script_calls"), counter("jqmaster_store_failures")
    called: dict[str, int] = {}
    failed: dict[str, int] = {}
    trips: Latencies[tuple[str]] = Latencies()
    for meter in meters:
        for sums, counts in ((called, meter.script_calls), (failed, meter.failed_round_trips)):
            for script, count in list(counts.items()):
                sums[script] = sums.get(script, 0) + count
        for script, latency in list(meter.round_trips.items()):
            trips[(script,)].merge(latency)
    add_latencies(seconds, trips)
    for family, sums in ((calls, called), (failures, failed)):
        for script, count in sums.items():
            family.add_metric((script,), count)
    yield from (seconds, calls, failures)
