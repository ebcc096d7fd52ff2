"""Metrics for Prometheus: counters of this process, and the state of the store that all masters share.

Label values are job names within the bound of the tally, names of constraints and scripts, and route
templates, so their number is bounded, whatever callers send.
"""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final, Protocol, TypeVar

from prometheus_client import GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from jqmaster.domain.batches.batch import BatchCallback, BatchFigures
from jqmaster.domain.challenges.challenge import CallbackAnswer, ChallengeFigures
from jqmaster.domain.definitions.run import FiringFigures, RunOutcome
from jqmaster.domain.events.event import Effect, EventFigures
from jqmaster.domain.histogram import BOUNDS_MS, Histogram
from jqmaster.domain.jobs.job import OUTCOMES, JobState
from jqmaster.domain.logs.lines import ArchiveFigures, LogFigures
from jqmaster.domain.notices.delivery import (
    MAIL_NAME,
    SLACK_NAME,
    WEBHOOK_NAME,
    DeliveryFigures,
    DeliveryOutcome,
)
from jqmaster.domain.notices.incident import MessageKind
from jqmaster.domain.operations.latency import BOUNDS_S, Latencies, Latency, Traffic
from jqmaster.domain.operations.tally import OTHER, Tally
from jqmaster.domain.targets.answer import DeliveryResult
from jqmaster.domain.targets.figures import TargetFigures
from jqmaster.errors import JqmasterError
from jqmaster.service.operations.metric_catalog import METRICS

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4
# The store is asked only once within this time, however many scrapers there are.
KEEP_S: Final = 1.0
# A store that is away must not prevent reading this process's counters.
ASK_WITHIN_S: Final = 3.0
# Maximum number of names that get a gauge of their own, those with the largest values first.
MAX_NAMES: Final = 500

LabelsT = TypeVar("LabelsT", bound=tuple[str, ...])


# The bounds are coarser than those of the counts, because each bound costs a line for each name.
JOB_BOUNDS_MS: Final = tuple(bound for bound in BOUNDS_MS if bound in {4**n for n in range(1, 12)})
_JOB_SLICES: Final = tuple(BOUNDS_MS.index(bound) + 1 for bound in JOB_BOUNDS_MS)


@dataclass(frozen=True, slots=True)
class Saturation:
    """Figures of one constraint. None: unknown, or not limited."""

    constraint: str
    running: int | None
    limit: int | None
    waiting: int | None


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """Facts in the store. `ready`: by name, the number of ready jobs, and the wait of the first one in ms (None:
    unknown). `startable_wait_ms`: by name, the longest wait of those that no limit holds back. `running` and
    `slots_by_name`: by name, running jobs, and slots that may run such jobs."""

    jobs: Mapping[JobState, int]
    ready: Mapping[str, tuple[int, int | None]]
    startable_wait_ms: Mapping[str, int]
    running: Mapping[str, int]
    slots_by_name: Mapping[str, int]
    constraints: Sequence[Saturation]
    workers: Mapping[str, int]
    slots: Mapping[str, int]
    epoch: int
    log_bytes: int
    log_archive_lag_ms: int


@dataclass(frozen=True, slots=True)
class OwnFacts:
    """Facts of this process, without the store. `certificate_ends_s` reads files, so metrics call it in their
    thread."""

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


@dataclass(slots=True)
class _Look:
    at_s: float = float("-inf")
    facts: StoreFacts | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(frozen=True, slots=True)
class ProcessFigures:
    """Counts of the services and duties of this process, for its metrics."""

    firing: FiringFigures = field(default_factory=FiringFigures)
    events: EventFigures = field(default_factory=EventFigures)
    batches: BatchFigures = field(default_factory=BatchFigures)
    logs: LogFigures = field(default_factory=LogFigures)
    archive: ArchiveFigures = field(default_factory=ArchiveFigures)
    challenges: ChallengeFigures = field(default_factory=ChallengeFigures)
    deliveries: DeliveryFigures = field(default_factory=DeliveryFigures)
    targets: dict[str, TargetFigures] = field(default_factory=dict)


class Metrics(Collector):
    """Collects all metrics. `ask_store` raises the store's errors; `store_meters` are the store clients whose
    calls are counted."""

    def __init__(
        self,
        tally: Tally,
        traffic: Traffic,
        store_meters: Sequence["StoreMeter"],
        *,
        figures: ProcessFigures,
        own: Callable[[], OwnFacts],
        ask_store: Callable[[], Awaitable[StoreFacts]],
    ) -> None:
        self._tally = tally
        self._figures = figures
        self._traffic = traffic
        self._store_meters = store_meters
        self._own = own
        self._ask_store = ask_store
        self._look = _Look()
        # A registry of this master only: several masters may live in one process, and other code uses the library, too.
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._registry)

    async def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        await self._refresh()
        # With many names this takes some 10 ms, which must not block the event loop.
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
        yield from self._definitions()
        yield from self._event_counts()
        yield from self._log_counts()
        for count, value in asdict(self._figures.archive).items():
            family = _counter(f"jqmaster_log_archive_{count}")
            family.add_metric((), value)
            yield family
        yield from self._challenge_counts()
        yield from self._webhook_counts()
        yield from self._target_counts()
        yield from self._http()
        yield from self._store()
        yield from self._process()
        if facts := self._look.facts:
            yield from _shared(facts)

    def describe(self) -> Iterator[Metric]:
        """Yield nothing: registering the collector must not query the store."""
        return iter(())

    def _jobs(self) -> Iterator[Metric]:
        pushed, ended = _counter("jqmaster_jobs_pushed"), _counter("jqmaster_jobs_ended")
        attempts = _counter("jqmaster_attempts_ended")
        wait, run = _histogram("jqmaster_job_wait_seconds"), _histogram("jqmaster_job_run_seconds")
        for name, counts in self._tally.since_start().items():
            pushed.add_metric((name,), counts.pushed)
            for outcome in OUTCOMES:
                ended.add_metric((name, str(outcome)), getattr(counts, outcome))
            for ending in ("retried", "deferred", "handed_back", "lost"):
                attempts.add_metric((name, ending), getattr(counts, ending))
            _add_durations(wait, (name,), counts.wait)
            _add_durations(run, (name,), counts.run)
        returned = _counter("jqmaster_offers_returned")
        returned.add_metric((), self._tally.returned_offers)
        yield from (pushed, ended, attempts, wait, run, returned)

    def _definitions(self) -> Iterator[Metric]:
        instants = _counter("jqmaster_definition_instants")
        for outcome in RunOutcome:
            instants.add_metric((str(outcome),), self._figures.firing.outcomes[outcome])
        lateness = _histogram("jqmaster_definition_lateness_seconds")
        _add_durations(lateness, (), self._figures.firing.lateness)
        yield from (instants, lateness)

    def _event_counts(self) -> Iterator[Metric]:
        events = _counter("jqmaster_events")
        for outcome, is_duplicate in (("accepted", False), ("duplicate", True)):
            events.add_metric((outcome,), self._figures.events.events[is_duplicate])
        matches = _counter("jqmaster_event_matches")
        for effect in Effect:
            matches.add_metric((str(effect),), self._figures.events.effects[effect])
        groups = _counter("jqmaster_event_groups")
        groups.add_metric((), self._figures.events.groups)
        yield from (events, matches, groups)
        made = _counter("jqmaster_batches")
        made.add_metric((), self._figures.batches.made)
        expired = _counter("jqmaster_batches_expired")
        expired.add_metric((), self._figures.batches.expired)
        callbacks = _counter("jqmaster_batch_callbacks")
        for callback in BatchCallback:
            callbacks.add_metric((str(callback),), self._figures.batches.callbacks[str(callback)])
        yield from (made, expired, callbacks)

    def _log_counts(self) -> Iterator[Metric]:
        counts = {
            "": self._figures.logs.kept,
            "_dropped": self._figures.logs.dropped,
            "_stale": self._figures.logs.stale,
        }
        for what, count in counts.items():
            family = _counter(f"jqmaster_log_lines{what}")
            family.add_metric((), count)
            yield family

    def _challenge_counts(self) -> Iterator[Metric]:
        opened, expired = _counter("jqmaster_challenges_opened"), _counter("jqmaster_challenges_expired")
        opened.add_metric((), self._figures.challenges.opened)
        expired.add_metric((), self._figures.challenges.expired)
        callbacks = _counter("jqmaster_callbacks")
        for answer in CallbackAnswer:
            callbacks.add_metric((str(answer),), self._figures.challenges.callbacks[answer])
        wait = _histogram("jqmaster_callback_wait_seconds")
        _add_durations(wait, (), self._figures.challenges.waits)
        yield from (opened, expired, callbacks, wait)

    def _webhook_counts(self) -> Iterator[Metric]:
        calls = _counter("jqmaster_webhook_calls")
        for outcome in DeliveryOutcome:
            calls.add_metric((str(outcome),), self._figures.deliveries.outcomes[WEBHOOK_NAME, outcome])
        messages = _counter("jqmaster_notice_messages")
        for kind in MessageKind:
            messages.add_metric((str(kind),), self._figures.deliveries.messages[str(kind)])
        deliveries = _counter("jqmaster_notice_deliveries")
        for channel, name in (("mail", MAIL_NAME), ("slack", SLACK_NAME)):
            for outcome in DeliveryOutcome:
                deliveries.add_metric(
                    (channel, str(outcome)), self._figures.deliveries.outcomes[name, outcome]
                )
        yield from (calls, messages, deliveries)

    def _target_counts(self) -> Iterator[Metric]:
        requests = _counter("jqmaster_target_requests")
        seconds = _histogram("jqmaster_target_request_seconds")
        for target, figures in list(self._figures.targets.items()):
            for result in DeliveryResult:
                requests.add_metric((target, str(result)), figures.results[result])
            _add_durations(seconds, (target,), figures.took)
        yield from (requests, seconds)

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
        yield _gauge("jqmaster_duty_faults", {(duty,): 1 for duty in own.duty_faults})
        yield _gauge("jqmaster_store_memory_bytes", {(): own.memory_used_bytes})
        most = own.memory_max_bytes
        yield _gauge("jqmaster_store_memory_max_bytes", {(): most} if most else {})
        ends_s = own.certificate_ends_s()
        yield _gauge(
            "jqmaster_certificate_expiry_timestamp_seconds",
            {(setting,): end_s for setting, end_s in ends_s.items()},
        )
        yield _gauge("jqmaster_settings_version", {(): own.settings_version})
        info = METRICS["jqmaster_info"]
        yield _gauge(info.name, {tuple(own.labels[label] for label in info.labels): 1})


class StoreMeter(Protocol):
    """Counters of a store client; see `StoreClient`."""

    round_trips: Latencies[str]
    script_calls: dict[str, int]
    failed_round_trips: dict[str, int]


def bounded(ready: Mapping[str, tuple[int, int | None]]) -> dict[str, tuple[int, int | None]]:
    """Return the names with the most ready jobs, and all others as one."""
    ordered = sorted(ready.items(), key=lambda item: (-item[1][0], item[0]))
    found = dict(ordered[:MAX_NAMES])
    if rest := [of_name for _, of_name in ordered[MAX_NAMES:]]:
        waits = [wait_ms for _, wait_ms in rest if wait_ms is not None]
        found[OTHER] = (sum(count for count, _ in rest), max(waits, default=None))
    return found


def bounded_sums(by_name: Mapping[str, int]) -> dict[tuple[str], int]:
    """Return the labels and values of the names with the largest values, and the sum of all others as one."""
    ordered = sorted(by_name.items(), key=lambda item: (-item[1], item[0]))
    found = {(name,): value for name, value in ordered[:MAX_NAMES]}
    if rest := ordered[MAX_NAMES:]:
        found[(OTHER,)] = sum(value for _, value in rest)
    return found


def _shared(facts: StoreFacts) -> Iterator[Metric]:
    yield _gauge("jqmaster_jobs_in_state", {(str(state),): count for state, count in facts.jobs.items()})
    ready = bounded(facts.ready)
    yield _gauge("jqmaster_ready_jobs", {(name,): count for name, (count, _) in ready.items()})
    waits = {(name,): wait_ms / 1000 for name, (_, wait_ms) in ready.items() if wait_ms is not None}
    yield _gauge("jqmaster_oldest_wait_seconds", waits)
    yield _gauge("jqmaster_running_jobs", bounded_sums(facts.running))
    yield _gauge("jqmaster_slots", bounded_sums(facts.slots_by_name))
    startable: dict[tuple[str], float] = {}
    for name, wait_ms in facts.startable_wait_ms.items():
        label = name if name in ready else OTHER
        startable[label,] = max(wait_ms / 1000, startable.get((label,), 0.0))
    yield _gauge("jqmaster_oldest_startable_wait_seconds", startable)
    for what in ("running", "limit", "waiting"):
        known = {(c.constraint,): getattr(c, what) for c in facts.constraints}
        values = {labels: value for labels, value in known.items() if value is not None}
        yield _gauge(f"jqmaster_constraint_{what}", values)
    yield _gauge("jqmaster_workers", {(state,): count for state, count in facts.workers.items()})
    yield _gauge("jqmaster_worker_slots", {(state,): count for state, count in facts.slots.items()})
    yield _gauge("jqmaster_leader_epoch", {(): facts.epoch})
    yield _gauge("jqmaster_log_bytes", {(): facts.log_bytes})
    yield _gauge("jqmaster_log_archive_lag_seconds", {(): facts.log_archive_lag_ms / 1000})


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


def _add_durations(family: HistogramMetricFamily, labels: tuple[str, ...], durations: Histogram) -> None:
    total = durations.count
    # A metric without labels exists from the start, so that queries always find it.
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


def _add_latencies(family: HistogramMetricFamily, latencies: Mapping[LabelsT, Latency]) -> None:
    for labels, latency in list(latencies.items()):
        below = list(itertools.accumulate(latency.counts))
        buckets: list[tuple[str, float]] = [
            (str(bound), count) for bound, count in zip(BOUNDS_S, below, strict=False)
        ]
        family.add_metric(labels, [*buckets, ("+Inf", below[-1])], latency.sum_s)
