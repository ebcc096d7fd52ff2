"""Build the services of a shard for the API's handlers."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from jqmaster.api.operations.live_feed import LiveFeed
from jqmaster.api.operations.published_document import PublishedDocument
from jqmaster.api.services import (
    FailureServices,
    FlowServices,
    NamespaceServices,
    PersonalDataServices,
    Services,
)
from jqmaster.app.readiness import ReadinessCheck
from jqmaster.app.shard import ServedShard
from jqmaster.app.shared import Shared
from jqmaster.domain.namespaces.namespace import DEFAULT
from jqmaster.service.calendars.editor import CalendarEditor
from jqmaster.service.calendars.sources import CalendarSources
from jqmaster.service.challenges.forms import ChallengeForms
from jqmaster.service.challenges.reader import ChallengeReader
from jqmaster.service.constraints.pauses import Pauses
from jqmaster.service.constraints.preview import Previews, PreviewTurns
from jqmaster.service.constraints.reader import ConstraintReader
from jqmaster.service.constraints.replay import PastJobs, Replays
from jqmaster.service.definitions.editor import DefinitionEditor
from jqmaster.service.definitions.reader import DefinitionReader
from jqmaster.service.events.reader import EventReader
from jqmaster.service.identity.audit_writer import AuditWriter
from jqmaster.service.identity.identity import Identity
from jqmaster.service.jobs.backlog_why import BacklogWhy
from jqmaster.service.jobs.bulk_actions import BulkActionService
from jqmaster.service.jobs.excerpts import JobExcerpts
from jqmaster.service.jobs.failure_actions import FailureActions
from jqmaster.service.jobs.failure_triage import FailureTriage
from jqmaster.service.jobs.failure_values import FailureValues
from jqmaster.service.jobs.failures import FailureReader
from jqmaster.service.jobs.flow_texts import FlowTextReader
from jqmaster.service.jobs.waiting_places import WaitingPlaces
from jqmaster.service.jobs.why import WhyService
from jqmaster.service.notices.editor import NoticeEditor
from jqmaster.service.notices.webhooks import DeliveryReader
from jqmaster.service.operations.agent_turns import AgentTurns
from jqmaster.service.operations.demand import DemandService
from jqmaster.service.operations.health import HealthService
from jqmaster.service.operations.metrics import Metrics
from jqmaster.service.operations.metrics_page import MetricsPage, Served
from jqmaster.service.operations.search_turns import SearchTurns
from jqmaster.service.operations.stats import StatsService
from jqmaster.service.personal_data.erasure import PersonalDataErasure
from jqmaster.service.personal_data.search import PersonalDataSearch
from jqmaster.service.targets.editor import TargetEditor
from jqmaster.service.targets.reader import TargetReader
from jqmaster.service.targets.samples import TargetSamples
from jqmaster.service.workers.figures import FiguresCache
from jqmaster.service.workers.masters import MasterService
from jqmaster.service.workers.owners import WorkerOwners
from jqmaster.service.workers.worker_sets import WorkerSets
from jqmaster.store.constraints.why import WhyStore
from jqmaster.store.identity.audit import AuditStore
from jqmaster.store.operations.demand import DemandStore
from jqmaster.store.operations.failure_triage import FailureTriageStore
from jqmaster.store.operations.live import LiveStore
from jqmaster.store.personal_data.erasure import ErasureStore
from jqmaster.store.personal_data.holdings import HoldingStore


class RequestServices:
    """The services that only requests use.

    * `admit_url`: checks the address of a worker.
    * `registry_faults`: returns the faults of the registry of namespaces.
    * `others`: returns the reasons why other namespaces are not served, by name.
    * `serves_others`: returns whether this process serves another namespace.
    * `namespaces`: the services for all namespaces. Only the default namespace has them.
    * `measured`: see `served` of `MetricsPage`.
    """

    def __init__(
        self,
        shared: Shared,
        shard: ServedShard,
        *,
        identity: Identity,
        admit_url: Callable[[str], Awaitable[str]],
        metrics: Metrics,
        registry_faults: Callable[[], dict[str, str]] = dict,
        others: Callable[[], dict[str, str]] = dict,
        serves_others: Callable[[], bool] = lambda: False,
        namespaces: NamespaceServices | None = None,
        measured: Callable[[], Served] = dict,
    ) -> None:
        self._shared = shared
        self._shard = shard
        self._services = shard.services
        self._stores = shard.services.stores
        self._demand_store = DemandStore(shard.services.link)
        self._identity = identity
        self._admit_url = admit_url
        self._metrics = metrics
        self._namespaces = namespaces
        self._readiness = ReadinessCheck(shared, shard, registry_faults, others, serves_others)
        self._measured = measured
        self.waiting = WaitingPlaces(shared.portions.waiting)
        self.masters = MasterService(
            self._stores.masters, self._stores.leadership, shared.policies.pace, order=shard.order.of
        )
        why_store = WhyStore(self._services.link, self._stores.records)
        self.why = WhyService(
            why_store,
            self._stores.workers,
            self._services.constraints,
            policy=shared.policies.why,
            reach=lambda: self._services.fleet.reach() if shard.leader.leadership else None,
        )
        self.backlog_why = BacklogWhy(self._services.jobs, why_store, self.why, self._services.constraints)
        self._excerpts = JobExcerpts(self._stores.records, self._stores.workers, self._stores.progress)
        self._failures = FailureReader(self._stores.history, self._stores.records)
        self.stats = StatsService(
            self._stores.history,
            self._stores.inspector,
            self._stores.workers,
            self.masters,
            shared.clock,
            failures=self._failures,
            stale_ms=shared.policies.stale_ms,
            store_state=self._readiness.store_state,
        )
        self.targets = TargetReader(self._stores.targets, self._stores.workers, self._stores.masters)
        self._definitions = DefinitionReader(self._stores.definitions, self._services.store_time_ms)
        self.feed = self._make_feed()

    def bundle(self, *, is_alone: bool = False) -> Services:
        """Return all services for the handlers. `is_alone`: for the default namespace, whether `/readyz` reports
        only on this namespace and not on the process."""
        services, stores, clock = self._services, self._stores, self._shared.clock
        audit, turns = AuditStore(services.link), PreviewTurns(clock, self._shared.portions.previews)
        constraints, audit_writer = self._make_reader(turns), AuditWriter(audit)
        return self._of_process(is_alone=is_alone)(
            enqueue=services.enqueue,
            reach=services.reach,
            jobs=services.jobs,
            excerpts=self._excerpts,
            job_parts=services.job_parts,
            job_logs=services.job_logs,
            job_actions=services.job_actions,
            feed=self.feed,
            intake=services.intake,
            quotas=services.quotas,
            bulk_actions=self._make_bulk_actions(),
            why=self.why,
            backlog_why=self.backlog_why,
            workers=services.workers,
            worker_figures=FiguresCache(stores.history, stores.workers, clock),
            contracts=services.contracts,
            reports=services.reports,
            worker_actions=services.worker_actions,
            worker_sets=WorkerSets(stores.workers, services.worker_actions),
            owners=WorkerOwners(stores.workers),
            polls=services.polls,
            waiting=self.waiting,
            calls=self._shared.portions.calls,
            constraints=constraints,
            replays=self._make_replays(turns),
            pauses=self._make_pauses(),
            constraint_editor=services.constraint_editor,
            definitions=self._definitions,
            definition_editor=self._make_definition_editor(audit),
            calendars=stores.calendars,
            calendar_editor=self._make_calendar_editor(),
            event_intake=services.events,
            events=EventReader(stores.events),
            fireworq=services.fireworq,
            batches=services.batches,
            flows=FlowServices(services.flows, FlowTextReader(stores.records, self._excerpts)),
            challenges=services.challenges,
            challenge_forms=self._make_challenge_forms(audit_writer),
            challenge_reader=ChallengeReader(stores.challenges, stores.records),
            deliveries=DeliveryReader(stores.records, services.job_actions),
            notices=services.notices,
            notice_editor=self._make_notice_editor(audit),
            targets=self.targets,
            target_editor=TargetEditor(stores.targets, services.store_time_ms),
            target_samples=TargetSamples(self.targets, services.target_deliveries.send_sample),
            declarations=stores.declarations,
            audit=audit,
            audit_writer=audit_writer,
            masters=self.masters,
            stats=self.stats,
            timeline=services.timeline,
            health=self._make_health(constraints),
            demand=self._make_demand(),
            failures=self._make_failures(),
            personal_data=self._make_personal_data(),
            breakers=lambda: services.fleet.breaker_states() if self._shard.leader.leadership else {},
            store_time_ms=services.store_time_ms,
            traffic=services.traffic,
            metrics=MetricsPage(self._metrics, self._measured if not is_alone else dict),
        )

    def _of_process(self, *, is_alone: bool) -> partial[Services]:
        """Return the bundle with the parts that identify the process and the namespace."""
        shared = self._shared
        return partial(
            Services,
            live=shared.live,
            job_times=shared.policies.job_times,
            identity=self._identity,
            namespaces=self._namespaces,
            agent_turns=AgentTurns(shared.clock),
            search_turns=SearchTurns(),
            master_id=shared.master_id,
            store_id=self._services.link.mark,
            prefix=shared.prefix,
            admit_url=self._admit_url,
            condition=self._readiness.condition if is_alone else self._readiness.of_process,
            openapi=PublishedDocument(_openapi_document),
        )

    def _make_failures(self) -> FailureServices:
        services, stores, reader = self._services, self._stores, self._failures
        return FailureServices(
            FailureActions(stores.history, reader),
            FailureTriage(FailureTriageStore(services.link), reader),
            FailureValues(reader, services.jobs, stores.records),
            reader,
        )

    def _make_personal_data(self) -> PersonalDataServices:
        services, stores = self._services, self._stores
        search = PersonalDataSearch(
            HoldingStore(services.link, stores.logs),
            self._shared.clock,
            events=stores.events,
            failures=self._failures,
            notices=stores.notices,
            inspector=stores.inspector,
        )
        erasure = PersonalDataErasure(ErasureStore(services.link), stores.history)
        return PersonalDataServices(search, erasure)

    def _make_reader(self, turns: PreviewTurns) -> ConstraintReader:
        stores = self._stores
        previews = Previews(stores.lanes, self._services.usage, self._shared.clock, turns)
        return ConstraintReader(self._services.constraints, self._services.usage, stores.gates, previews)

    def _make_definition_editor(self, audit: AuditStore) -> DefinitionEditor:
        services, stores = self._services, self._stores
        return DefinitionEditor(
            stores.definitions, services.definition_firing, audit, services.store_time_ms, stores.calendars
        )

    def _make_calendar_editor(self) -> CalendarEditor:
        services = self._services
        return CalendarEditor(
            self._stores.calendars, CalendarSources(), services.definition_firing, services.store_time_ms
        )

    def _make_challenge_forms(self, audit_writer: AuditWriter) -> ChallengeForms:
        services = self._services
        return ChallengeForms(
            self._stores.challenges, services.request_ids, services.figures.challenges, audit_writer
        )

    def _make_bulk_actions(self) -> BulkActionService:
        stores, clock = self._stores, self._shared.clock
        return BulkActionService(
            stores.actions, stores.records, stores.inspector, clock, self._services.store_time_ms
        )

    def _make_pauses(self) -> Pauses:
        services = self._services
        return Pauses(
            services.constraints, services.constraint_editor, services.key_values, services.store_time_ms
        )

    def _make_replays(self, turns: PreviewTurns) -> Replays:
        stores = self._stores
        past_jobs = PastJobs(stores.lists, self._services.usage, self._shared.clock)
        return Replays(past_jobs, stores.inspector, stores.history, turns)

    def _make_notice_editor(self, audit: AuditStore) -> NoticeEditor:
        return NoticeEditor(
            self._stores.notices,
            audit,
            self._services.store_time_ms,
            can_sign=self._shared.webhooks.can_sign,
            can_mail=self._shared.mail is not None,
            is_of_installation=self._shared.namespace == DEFAULT,
        )

    def _make_health(self, constraints: ConstraintReader) -> HealthService:
        return HealthService(
            self.stats,
            self._stores.history,
            self._shared.clock,
            workers=self._stores.workers,
            masters=self.masters,
            constraints=constraints,
            definitions=self._definitions,
            calendars=self._stores.calendars,
            why=self.why,
            stale_ms=self._shared.policies.stale_ms,
        )

    def _make_demand(self) -> DemandService:
        stale_ms = self._shared.policies.stale_ms
        return DemandService(
            self._demand_store, self._stores.workers, self._services.constraints, stale_ms=stale_ms
        )

    def _make_feed(self) -> LiveFeed:
        policies = self._shared.policies
        return LiveFeed(
            LiveStore(self._services.link, stale_ms=policies.stale_ms, pace=policies.pace),
            self._stores.actions,
            self._shared.clock,
            stats=self.stats.now,
            counts=self._stores.inspector.counts,
            streams=self._shared.portions.streams,
            quota=self._services.quotas.streams,
            access=policies.listeners,
            waiting=self.waiting,
        )


def _openapi_document() -> dict[str, Any]:
    # Import the generator only when the document is requested: the import takes a twentieth of a master's start,
    # and most masters never get this request.
    from jqmaster.spec.openapi import master_document

    return master_document()
