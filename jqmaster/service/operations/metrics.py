"""Metrics of one namespace: counters of this process, and figures from the store that all masters share.

Whatever callers send, the number of label values is bounded. The values are names of constraints and scripts, route
templates, and a limited number of job names (see `Tally`)."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import Metric

from jqmaster.domain.batches.batch import BatchCallback, BatchFigures
from jqmaster.domain.challenges.challenge import CallbackAnswer, ChallengeFigures
from jqmaster.domain.definitions.run import FiringFigures, RunOutcome
from jqmaster.domain.events.event import Effect, EventFigures
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
from jqmaster.domain.operations.latency import Traffic
from jqmaster.domain.operations.tally import OTHER, NameCounts, Tally
from jqmaster.domain.targets.answer import DeliveryResult
from jqmaster.domain.targets.figures import TargetFigures
from jqmaster.errors import JqmasterError
from jqmaster.service.operations.metric_families import (
    add_durations,
    counter,
    gauge,
    histogram,
)
from jqmaster.service.operations.process_metrics import OwnFacts, StoreMeter

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4
# Time for which facts from the store are reused, however many scrapers there are.
KEEP_S: Final = 1.0
# Maximum wait for the store. The counters of this process must be readable even if the store is unreachable.
ASK_WITHIN_S: Final = 3.0
# Maximum number of names with separate gauges. The names with the largest values come first.
MAX_NAMES: Final = 500


@dataclass(frozen=True, slots=True)
class Saturation:
    """Figures of one constraint. None: the figure is unknown, or there is no such limit."""

    constraint: str
    running: int | None
    limit: int | None
    waiting: int | None


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """Facts in the store.

    * `ready`: by job name, the number of ready jobs and the longest wait in ms. None: the wait is unknown.
    * `startable_wait_ms`: by job name, the longest wait of a ready job that no limit holds back.
    * `running`: by job name, the number of running jobs.
    * `slots_by_name`: by job name, the number of slots of live workers that serve the name.
    """

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


@dataclass(slots=True)
class _StoreReading:
    at_s: float = float("-inf")
    facts: StoreFacts | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(frozen=True, slots=True)
class ProcessFigures:
    """Counters that the services and duties of this process keep for its metrics."""

    firing: FiringFigures = field(default_factory=FiringFigures)
    events: EventFigures = field(default_factory=EventFigures)
    batches: BatchFigures = field(default_factory=BatchFigures)
    logs: LogFigures = field(default_factory=LogFigures)
    archive: ArchiveFigures = field(default_factory=ArchiveFigures)
    challenges: ChallengeFigures = field(default_factory=ChallengeFigures)
    deliveries: DeliveryFigures = field(default_factory=DeliveryFigures)
    targets: dict[str, TargetFigures] = field(default_factory=dict)


class Metrics:
    """The metrics of one namespace.

    * `ask_store`: reads the facts from the store. It raises the store's errors.

    * `meters`: the store clients whose calls are counted.
    * `is_away`: returns whether the store was found unreachable.
    """

    def __init__(
        self,
        tally: Tally,
        traffic: Traffic,
        meters: Sequence[StoreMeter],
        *,
        figures: ProcessFigures,
        own: Callable[[], OwnFacts],
        ask_store: Callable[[], Awaitable[StoreFacts]],
        is_away: Callable[[], bool],
    ) -> None:
        self.tally = tally
        self.traffic = traffic
        self.meters = meters
        self.own = own
        self.is_away = is_away
        self._figures = figures
        self._ask_store = ask_store
        self._reading = _StoreReading()

    async def facts(self) -> StoreFacts | None:
        """Return the facts in the store, or None if it does not answer."""
        reading = self._reading
        async with reading.lock:
            if time.monotonic() - reading.at_s < KEEP_S:
                return reading.facts
            try:
                async with asyncio.timeout(ASK_WITHIN_S):
                    reading.facts = await self._ask_store()
            except (JqmasterError, TimeoutError):
                reading.facts = None
            reading.at_s = time.monotonic()
        return reading.facts

    def families(
        self,
        own: OwnFacts,
        facts: StoreFacts | None,
        counts: Mapping[str, NameCounts],
        places: Mapping[str, int] | None = None,
        *,
        is_up: bool,
    ) -> Iterator[Metric]:
        """Return the metrics of the namespace.

        * `counts`: the counts of the tally, by label. A label is a job name, or stands for several names.
        * `places`: see `of_store`.
        * `is_up`: whether the store answers.
        """
        yield from _jobs(counts, self.tally.returned_offers)
        yield from self._definitions()
        yield from self._event_counts()
        yield from self._log_counts()
        for count, value in asdict(self._figures.archive).items():
            family = counter(f"jqmaster_log_archive_{count}")
            family.add_metric((), value)
            yield family
        yield from self._challenge_counts()
        yield from self._webhook_counts()
        yield from self._target_counts()
        yield self._http()
        yield gauge("jqmaster_store_up", {(): float(is_up)})
        yield from _condition(own)
        if facts:
            yield from of_store(facts, places)

    def _definitions(self) -> Iterator[Metric]:
        instants = counter("jqmaster_definition_instants")
        for outcome in RunOutcome:
            instants.add_metric((str(outcome),), self._figures.firing.outcomes[outcome])
        lateness = histogram("jqmaster_definition_lateness_seconds")
        add_durations(lateness, (), self._figures.firing.lateness)
        yield from (instants, lateness)

    def _event_counts(self) -> Iterator[Metric]:
        events = counter("jqmaster_events")
        for outcome, is_duplicate in (("accepted", False), ("duplicate", True)):
            events.add_metric((outcome,), self._figures.events.events[is_duplicate])
        matches = counter("jqmaster_event_matches")
        for effect in Effect:
            matches.add_metric((str(effect),), self._figures.events.effects[effect])
        groups = counter("jqmaster_event_groups")
        groups.add_metric((), self._figures.events.groups)
        yield from (events, matches, groups)
        made = counter("jqmaster_batches")
        made.add_metric((), self._figures.batches.made)
        expired = counter("jqmaster_batches_expired")
        expired.add_metric((), self._figures.batches.expired)
        callbacks = counter("jqmaster_batch_callbacks")
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
            family = counter(f"jqmaster_log_lines{what}")
            family.add_metric((), count)
            yield family

    def _challenge_counts(self) -> Iterator[Metric]:
        opened, expired = counter("jqmaster_challenges_opened"), counter("jqmaster_challenges_expired")
        opened.add_metric((), self._figures.challenges.opened)
        expired.add_metric((), self._figures.challenges.expired)
        callbacks = counter("jqmaster_callbacks")
        for answer in CallbackAnswer:
            callbacks.add_metric((str(answer),), self._figures.challenges.callbacks[answer])
        wait = histogram("jqmaster_callback_wait_seconds")
        add_durations(wait, (), self._figures.challenges.waits)
        yield from (opened, expired, callbacks, wait)

    def _webhook_counts(self) -> Iterator[Metric]:
        calls = counter("jqmaster_webhook_calls")
        for outcome in DeliveryOutcome:
            calls.add_metric((str(outcome),), self._figures.deliveries.outcomes[WEBHOOK_NAME, outcome])
        messages = counter("jqmaster_notice_messages")
        for kind in MessageKind:
            messages.add_metric((str(kind),), self._figures.deliveries.messages[str(kind)])
        deliveries = counter("jqmaster_notice_deliveries")
        for channel, name in (("mail", MAIL_NAME), ("slack", SLACK_NAME)):
            for outcome in DeliveryOutcome:
                deliveries.add_metric(
                    (channel, str(outcome)), self._figures.deliveries.outcomes[name, outcome]
                )
        yield from (calls, messages, deliveries)

    def _target_counts(self) -> Iterator[Metric]:
        requests = counter("jqmaster_target_requests")
        seconds = histogram("jqmaster_target_request_seconds")
        for target, figures in list(self._figures.targets.items()):
            for result in DeliveryResult:
                requests.add_metric((target, str(result)), figures.results[result])
            add_durations(seconds, (target,), figures.took)
        yield from (requests, seconds)

    def _http(self) -> Metric:
        requests = counter("jqmaster_http_requests")
        for (method, route), traffic in list(self.traffic.routes.items()):
            for status, count in list(traffic.answers.items()):
                requests.add_metric((method, route, str(int(status))), count)
        return requests


def _jobs(counts_by_name: Mapping[str, NameCounts], returned_offers: int) -> Iterator[Metric]:
    pushed, ended = counter("jqmaster_jobs_pushed"), counter("jqmaster_jobs_ended")
    attempts = counter("jqmaster_attempts_ended")
    wait, run = histogram("jqmaster_job_wait_seconds"), histogram("jqmaster_job_run_seconds")
    for name, counts in counts_by_name.items():
        pushed.add_metric((name,), counts.pushed)
        for outcome in OUTCOMES:
            ended.add_metric((name, str(outcome)), getattr(counts, outcome))
        for ending in ("retried", "deferred", "handed_back", "lost"):
            attempts.add_metric((name, ending), getattr(counts, ending))
        add_durations(wait, (name,), counts.wait)
        add_durations(run, (name,), counts.run)
    returned = counter("jqmaster_offers_returned")
    returned.add_metric((), returned_offers)
    yield from (pushed, ended, attempts, wait, run, returned)


def _condition(own: OwnFacts) -> Iterator[Metric]:
    yield gauge("jqmaster_is_leader", {(): float(own.is_leader)})
    yield gauge("jqmaster_settings_version", {(): own.settings_version})
    led = counter("jqmaster_times_led")
    led.add_metric((), own.times_led)
    yield led
    yield gauge("jqmaster_faults", {(check,): 1 for check in own.faults})
    yield gauge("jqmaster_duty_faults", {(duty,): 1 for duty in own.duty_faults})
    yield gauge("jqmaster_store_memory_bytes", {(): own.memory_used_bytes})
    most = own.memory_max_bytes
    yield gauge("jqmaster_store_memory_max_bytes", {(): most} if most else {})


def bounded(
    ready: Mapping[str, tuple[int, int | None]], most: int = MAX_NAMES
) -> dict[str, tuple[int, int | None]]:
    """Return the names with the most ready jobs, and one entry that combines all other names."""
    ordered = sorted(ready.items(), key=lambda item: (-item[1][0], item[0]))
    found = dict(ordered[:most])
    if rest := [of_name for _, of_name in ordered[most:]]:
        waits = [wait_ms for _, wait_ms in rest if wait_ms is not None]
        found[OTHER] = (sum(count for count, _ in rest), max(waits, default=None))
    return found


def bounded_sums(by_name: Mapping[str, int], most: int = MAX_NAMES) -> dict[tuple[str], int]:
    """Return the labels and values of the names with the largest values, and one entry with the sum of all other
    values."""
    ordered = sorted(by_name.items(), key=lambda item: (-item[1], item[0]))
    found = {(name,): value for name, value in ordered[:most]}
    if rest := ordered[most:]:
        found[(OTHER,)] = sum(value for _, value in rest)
    return found


def values_by_name(facts: StoreFacts) -> dict[str, Mapping[str, int]]:
    """Return, by metric and job name, the values of the metrics with a sample per job name. The number of these samples
    is bounded."""
    return {
        "jqmaster_ready_jobs": {name: count for name, (count, _) in facts.ready.items()},
        "jqmaster_running_jobs": facts.running,
        "jqmaster_slots": facts.slots_by_name,
    }


def of_store(facts: StoreFacts, places: Mapping[str, int] | None = None) -> Iterator[Metric]:
    """Return the metrics of facts from the store. `places`: for each metric of `values_by_name`, the number of names
    that may have separate samples. None: `MAX_NAMES`."""
    most = places or dict.fromkeys(values_by_name(facts), MAX_NAMES)
    yield gauge("jqmaster_jobs_in_state", {(str(state),): count for state, count in facts.jobs.items()})
    ready = bounded(facts.ready, most["jqmaster_ready_jobs"])
    yield gauge("jqmaster_ready_jobs", {(name,): count for name, (count, _) in ready.items()})
    waits = {(name,): wait_ms / 1000 for name, (_, wait_ms) in ready.items() if wait_ms is not None}
    yield gauge("jqmaster_oldest_wait_seconds", waits)
    yield gauge("jqmaster_running_jobs", bounded_sums(facts.running, most["jqmaster_running_jobs"]))
    yield gauge("jqmaster_slots", bounded_sums(facts.slots_by_name, most["jqmaster_slots"]))
    startable: dict[tuple[str], float] = {}
    for name, wait_ms in facts.startable_wait_ms.items():
        label = name if name in ready else OTHER
        startable[label,] = max(wait_ms / 1000, startable.get((label,), 0.0))
    yield gauge("jqmaster_oldest_startable_wait_seconds", startable)
    for what in ("running", "limit", "waiting"):
        known = {(c.constraint,): getattr(c, what) for c in facts.constraints}
        values = {labels: value for labels, value in known.items() if value is not None}
        yield gauge(f"jqmaster_constraint_{what}", values)
    yield gauge("jqmaster_workers", {(state,): count for state, count in facts.workers.items()})
    yield gauge("jqmaster_worker_slots", {(state,): count for state, count in facts.slots.items()})
    yield gauge("jqmaster_leader_epoch", {(): facts.epoch})
    yield gauge("jqmaster_log_bytes", {(): facts.log_bytes})
    yield gauge("jqmaster_log_archive_lag_seconds", {(): facts.log_archive_lag_ms / 1000})
