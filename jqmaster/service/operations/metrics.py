"""What Prometheus is told: counters of this process, and the state of the store that all masters share.

Label values are job names within the bound of the tally, names of constraints and scripts, templates of routes: their
number is bounded, whatever callers send.
"""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, TypeVar

from prometheus_client import GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from jqmaster.domain.histogram import BOUNDS_MS, Histogram
from jqmaster.domain.job import JobState
from jqmaster.domain.latency import BOUNDS_S, Latencies, Latency, Traffic
from jqmaster.domain.tally import OTHER, Tally
from jqmaster.errors import JqmasterError

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4
# However many scrape, the store is asked once within this.
KEEP_S: Final = 1.0
# A store that is away must not keep the counters of this process from being read.
ASK_WITHIN_S: Final = 3.0
# Names with ready jobs that are told apart, those with the most first.
MAX_READY_NAMES: Final = 500

LabelsT = TypeVar("LabelsT", bound=tuple[str, ...])
Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class MetricInfo:
    """`name` without the suffixes that its kind gives: `_total`, `_bucket`, `_sum`, `_count`."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    text: str


METRICS: Final = {
    info.name: info
    for info in (
        MetricInfo("jqmaster_jobs_pushed", "counter", ("name",), "Jobs that this master accepted."),
        MetricInfo("jqmaster_jobs_ended", "counter", ("name", "outcome"), "Jobs that ended at this master: succeeded, failed, canceled, skipped."),
        MetricInfo("jqmaster_attempts_ended", "counter", ("name", "outcome"), "Attempts that ended while their job goes on: retried, deferred, handed_back; lost: with their worker, whatever became of the job."),
        MetricInfo("jqmaster_job_wait_seconds", "histogram", ("name",), "From when a job became ready to when it was claimed, for each attempt."),
        MetricInfo("jqmaster_job_run_seconds", "histogram", ("name",), "How long each attempt ran that ended by itself."),
        MetricInfo("jqmaster_offers_returned", "counter", (), "Claims that were undone: refused by a worker, or never delivered."),
        MetricInfo("jqmaster_jobs_in_state", "gauge", ("state",), "Jobs in the store; the same at every master."),
        MetricInfo("jqmaster_ready_jobs", "gauge", ("name",), "Jobs that are ready and wait for a worker; the same at every master."),
        MetricInfo("jqmaster_oldest_wait_seconds", "gauge", ("name",), "How long the first of the ready jobs waits; the same at every master."),
        MetricInfo("jqmaster_constraint_running", "gauge", ("constraint",), "Running jobs that a constraint counts."),
        MetricInfo("jqmaster_constraint_limit", "gauge", ("constraint",), "Jobs that it lets run at once; of one with a key: for each of its values."),
        MetricInfo("jqmaster_constraint_waiting", "gauge", ("constraint",), "Ready jobs that lie behind it."),
        MetricInfo("jqmaster_workers", "gauge", ("state",), "Registered workers: fresh, stale, draining, detached."),
        MetricInfo("jqmaster_worker_slots", "gauge", ("state",), "Slots of the fresh workers: busy, free."),
        MetricInfo("jqmaster_is_leader", "gauge", (), "1 where this master leads."),
        MetricInfo("jqmaster_leader_epoch", "gauge", (), "Of the newest leadership; each change is another leader, or the same one elected anew."),
        MetricInfo("jqmaster_times_led", "counter", (), "How often this master was elected."),
        MetricInfo("jqmaster_http_requests", "counter", ("method", "route", "status"), "Requests that were answered."),
        MetricInfo("jqmaster_http_request_seconds", "histogram", ("method", "route"), "How long their answers took, waiting for jobs and results included."),
        MetricInfo("jqmaster_http_connections", "gauge", (), "Connections that are open."),
        MetricInfo("jqmaster_store_round_trip_seconds", "histogram", ("script",), "How long the store took for a script, or several in one round trip, waiting for a connection included."),
        MetricInfo("jqmaster_store_script_calls", "counter", ("script",), "Calls of scripts."),
        MetricInfo("jqmaster_store_failures", "counter", ("script",), "Round trips that failed."),
        MetricInfo("jqmaster_store_up", "gauge", (), "1 where the store answers this master."),
        MetricInfo("jqmaster_store_memory_bytes", "gauge", (), "Memory that the store uses."),
        MetricInfo("jqmaster_store_memory_max_bytes", "gauge", (), "Memory that the store may use; missing where nothing bounds it."),
        MetricInfo("jqmaster_faults", "gauge", ("check",), "1 for each check of /readyz that fails."),
        MetricInfo("jqmaster_settings_version", "gauge", (), "Of the settings that were changed at run time; 0: none."),
        MetricInfo("jqmaster_info", "gauge", ("version", "master_id", "node_id"), "1; what this master is."),
    )
}  # fmt: skip

# Coarser than what is counted: each is a line for each name.
JOB_BOUNDS_MS: Final = tuple(bound for bound in BOUNDS_MS if bound in {4**n for n in range(1, 12)})
_JOB_SLICES: Final = tuple(BOUNDS_MS.index(bound) + 1 for bound in JOB_BOUNDS_MS)


@dataclass(frozen=True, slots=True)
class Saturation:
    """Of one constraint; None: not known, or not limited."""

    constraint: str
    running: int | None
    limit: int | None
    waiting: int | None


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """What the store says. `ready` by name: how many wait, and for how long the first, in ms (None: not known)."""

    jobs: Mapping[JobState, int]
    ready: Mapping[str, tuple[int, int | None]]
    constraints: Sequence[Saturation]
    workers: Mapping[str, int]
    slots: Mapping[str, int]
    epoch: int


@dataclass(frozen=True, slots=True)
class OwnFacts:
    """What this process knows of itself without asking anybody."""

    is_leader: bool
    times_led: int
    connections: int
    faults: Sequence[str]
    memory_used_bytes: int
    memory_max_bytes: int
    settings_version: int
    labels: Mapping[str, str]


@dataclass(slots=True)
class _Look:
    at_s: float = float("-inf")
    facts: StoreFacts | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Metrics(Collector):
    """`ask_store` raises what the store raises; `store_meters` are the clients whose calls are counted."""

    def __init__(
        self,
        tally: Tally,
        traffic: Traffic,
        store_meters: Sequence["StoreMeter"],
        *,
        own: Callable[[], OwnFacts],
        ask_store: Callable[[], Awaitable[StoreFacts]],
    ) -> None:
        self._tally = tally
        self._traffic = traffic
        self._store_meters = store_meters
        self._own = own
        self._ask_store = ask_store
        self._look = _Look()
        # Of this master alone: several may live in one process, and others use the library too.
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._registry)

    async def text(self) -> bytes:
        """In Prometheus' text format."""
        await self._refresh()
        # With many names that is some 10 ms of work, which must not hold up the event loop.
        return await asyncio.to_thread(generate_latest, self._registry)

    async def _refresh(self) -> None:
        look = self._look
        async with look.lock:
            if time.monotonic() - look.at_s < KEEP_S:
                return
            try:
                async with asyncio.timeout(ASK_WITHIN_S):
                    look.facts = await self._ask_store()
            except (JqmasterError, TimeoutError):
                look.facts = None
            look.at_s = time.monotonic()

    def collect(self) -> Iterator[Metric]:
        yield from self._jobs()
        yield from self._http()
        yield from self._store()
        yield from self._process()
        if facts := self._look.facts:
            yield from _shared(facts)

    def describe(self) -> Iterator[Metric]:
        """Nothing: whoever registers must not have the store asked."""
        return iter(())

    def _jobs(self) -> Iterator[Metric]:
        pushed, ended = _counter("jqmaster_jobs_pushed"), _counter("jqmaster_jobs_ended")
        attempts = _counter("jqmaster_attempts_ended")
        wait, run = _histogram("jqmaster_job_wait_seconds"), _histogram("jqmaster_job_run_seconds")
        for name, counts in self._tally.since_start().items():
            pushed.add_metric((name,), counts.pushed)
            for outcome in ("succeeded", "failed", "canceled", "skipped"):
                ended.add_metric((name, outcome), getattr(counts, outcome))
            for outcome in ("retried", "deferred", "handed_back", "lost"):
                attempts.add_metric((name, outcome), getattr(counts, outcome))
            _add_durations(wait, name, counts.wait)
            _add_durations(run, name, counts.run)
        returned = _counter("jqmaster_offers_returned")
        returned.add_metric((), self._tally.returned_offers)
        yield from (pushed, ended, attempts, wait, run, returned)

    def _http(self) -> Iterator[Metric]:
        requests = _counter("jqmaster_http_requests")
        used = {labels: traffic for labels, traffic in list(self._traffic.routes.items()) if traffic.answers}
        for (method, route), traffic in used.items():
            for status, count in list(traffic.answers.items()):
                requests.add_metric((method, route, str(int(status))), count)
        yield requests
        seconds = _histogram("jqmaster_http_request_seconds")
        _add_latencies(seconds, {labels: traffic.latency for labels, traffic in used.items()})
        yield seconds

    def _store(self) -> Iterator[Metric]:
        seconds = _histogram("jqmaster_store_round_trip_seconds")
        calls, failures = _counter("jqmaster_store_script_calls"), _counter("jqmaster_store_failures")
        called: dict[str, int] = {}
        failed: dict[str, int] = {}
        trips: Latencies[tuple[str]] = Latencies()
        for meter in self._store_meters:
            for sums, counts in ((called, meter.script_calls), (failed, meter.failed_round_trips)):
                for script, count in list(counts.items()):
                    sums[script] = sums.get(script, 0) + count
            for script, latency in list(meter.round_trips.items()):
                whole = trips[(script,)]
                whole.counts = [a + b for a, b in zip(whole.counts, latency.counts, strict=True)]
                whole.sum_s += latency.sum_s
        _add_latencies(seconds, trips)
        for family, sums in ((calls, called), (failures, failed)):
            for script, count in sums.items():
                family.add_metric((script,), count)
        yield from (seconds, calls, failures)
        yield _gauge("jqmaster_store_up", {(): float(self._look.facts is not None)})

    def _process(self) -> Iterator[Metric]:
        own = self._own()
        yield _gauge("jqmaster_is_leader", {(): float(own.is_leader)})
        led = _counter("jqmaster_times_led")
        led.add_metric((), own.times_led)
        yield led
        yield _gauge("jqmaster_http_connections", {(): own.connections})
        yield _gauge("jqmaster_faults", {(check,): 1 for check in own.faults})
        yield _gauge("jqmaster_store_memory_bytes", {(): own.memory_used_bytes})
        most = own.memory_max_bytes
        yield _gauge("jqmaster_store_memory_max_bytes", {(): most} if most else {})
        yield _gauge("jqmaster_settings_version", {(): own.settings_version})
        info = METRICS["jqmaster_info"]
        yield _gauge(info.name, {tuple(own.labels[label] for label in info.labels): 1})


class StoreMeter(Protocol):
    """What a store client counts; see `StoreClient`."""

    round_trips: Latencies[str]
    script_calls: dict[str, int]
    failed_round_trips: dict[str, int]


def bounded(ready: Mapping[str, tuple[int, int | None]]) -> dict[str, tuple[int, int | None]]:
    """The names with the most ready jobs; the rest as one."""
    ordered = sorted(ready.items(), key=lambda item: (-item[1][0], item[0]))
    found = dict(ordered[:MAX_READY_NAMES])
    if rest := [of_name for _, of_name in ordered[MAX_READY_NAMES:]]:
        waits = [wait_ms for _, wait_ms in rest if wait_ms is not None]
        found[OTHER] = (sum(count for count, _ in rest), max(waits, default=None))
    return found


def _shared(facts: StoreFacts) -> Iterator[Metric]:
    yield _gauge("jqmaster_jobs_in_state", {(str(state),): count for state, count in facts.jobs.items()})
    ready = bounded(facts.ready)
    yield _gauge("jqmaster_ready_jobs", {(name,): count for name, (count, _) in ready.items()})
    waits = {(name,): wait_ms / 1000 for name, (_, wait_ms) in ready.items() if wait_ms is not None}
    yield _gauge("jqmaster_oldest_wait_seconds", waits)
    for what in ("running", "limit", "waiting"):
        known = {(c.constraint,): getattr(c, what) for c in facts.constraints}
        values = {labels: value for labels, value in known.items() if value is not None}
        yield _gauge(f"jqmaster_constraint_{what}", values)
    yield _gauge("jqmaster_workers", {(state,): count for state, count in facts.workers.items()})
    yield _gauge("jqmaster_worker_slots", {(state,): count for state, count in facts.slots.items()})
    yield _gauge("jqmaster_leader_epoch", {(): facts.epoch})


def _counter(name: str) -> CounterMetricFamily:
    info = METRICS[name]
    return CounterMetricFamily(info.name, info.text, labels=info.labels)


def _histogram(name: str) -> HistogramMetricFamily:
    info = METRICS[name]
    return HistogramMetricFamily(info.name, info.text, labels=info.labels)


def _gauge(name: str, values: Mapping[LabelsT, float]) -> GaugeMetricFamily:
    info = METRICS[name]
    family = GaugeMetricFamily(info.name, info.text, labels=info.labels)
    for labels, value in values.items():
        family.add_metric(labels, value)
    return family


def _add_durations(family: HistogramMetricFamily, name: str, durations: Histogram) -> None:
    total = durations.count
    if not total:
        return
    buckets: list[tuple[str, float]] = []
    below, start = 0, 0
    for bound_ms, end in zip(JOB_BOUNDS_MS, _JOB_SLICES, strict=True):
        below += sum(durations.counts[start:end])
        start = end
        buckets.append((str(bound_ms / 1000), below))
    buckets.append(("+Inf", total))
    family.add_metric((name,), buckets, durations.sum_ms / 1000)


def _add_latencies(family: HistogramMetricFamily, latencies: Mapping[LabelsT, Latency]) -> None:
    for labels, latency in list(latencies.items()):
        below = list(itertools.accumulate(latency.counts))
        buckets: list[tuple[str, float]] = [
            (str(bound), count) for bound, count in zip(BOUNDS_S, below, strict=False)
        ]
        family.add_metric(labels, [*buckets, ("+Inf", below[-1])], latency.sum_s)
