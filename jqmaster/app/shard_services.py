"""The stores of one shard, and the services that requests and the leader's duties share."""

import contextlib
from collections.abc import Awaitable, Callable, Mapping

from jqmaster.api.encoding.answers import RawMsgpack, encode
from jqmaster.api.encoding.content import ContentReader
from jqmaster.api.encoding.negotiation import Encoding
from jqmaster.app.served_store import AdmissionWatch, ServedStore
from jqmaster.app.shard_faults import ShardFaults
from jqmaster.app.shared import Shared
from jqmaster.app.stores import Stores
from jqmaster.config import Durability
from jqmaster.domain.namespaces.troubles import NO_TROUBLES, Troubles
from jqmaster.domain.operations.latency import Traffic
from jqmaster.domain.operations.tally import Tally
from jqmaster.errors import RateLimitedError, StoreUnavailableError
from jqmaster.live_value import LiveValue
from jqmaster.net.trace_collector import TraceCollector
from jqmaster.runtime.duties.fleet import Fleet
from jqmaster.runtime.duties.messenger import Messenger
from jqmaster.runtime.outbound.carriers import carriers_of
from jqmaster.runtime.outbound.commands import CancelCommands, WorkerCommands
from jqmaster.runtime.targets.deliveries import TargetDeliveries
from jqmaster.runtime.targets.delivery import Conversions
from jqmaster.runtime.targets.target_worker import TargetServices
from jqmaster.runtime.watch.outside_check import OutsideCheck
from jqmaster.service.batches.batches import BatchService
from jqmaster.service.batches.follow_ups import BatchExpiry, BatchFollowUps
from jqmaster.service.challenges.challenges import ChallengeService
from jqmaster.service.challenges.request_ids import RequestIds
from jqmaster.service.constraints.cache import ConstraintCache
from jqmaster.service.constraints.editor import ConstraintEditor
from jqmaster.service.constraints.key_values import KeyValues
from jqmaster.service.constraints.preview import Previews, PreviewTurns
from jqmaster.service.constraints.reader import ConstraintReader
from jqmaster.service.definitions.firing import DefinitionFiring
from jqmaster.service.events.grouping import EventGrouping
from jqmaster.service.events.intake import EventIntake
from jqmaster.service.fireworq.gateway import FireworqGateway
from jqmaster.service.fireworq.pushes import FireworqPushes
from jqmaster.service.fireworq.queues import FireworqQueues
from jqmaster.service.jobs.enqueue import EnqueueService
from jqmaster.service.jobs.flows import FlowReader
from jqmaster.service.jobs.follow_ups import FollowUps
from jqmaster.service.jobs.intake import Intake
from jqmaster.service.jobs.operator_actions import JobActions
from jqmaster.service.jobs.parts import PartService
from jqmaster.service.jobs.predecessors import PredecessorFollowUps
from jqmaster.service.jobs.push_pace import PushPace
from jqmaster.service.jobs.reach import CallerReach
from jqmaster.service.jobs.reader import JobReader
from jqmaster.service.jobs.waiters import FinishWaiters
from jqmaster.service.logs.archived import ArchivedLogs
from jqmaster.service.logs.archiving import LogArchiving
from jqmaster.service.logs.gone import GoneLogs
from jqmaster.service.logs.logs import LogService
from jqmaster.service.namespaces.quotas_in_force import QuotasInForce
from jqmaster.service.namespaces.room import NamespaceRoom
from jqmaster.service.notices.evaluation import NoticeEvaluation
from jqmaster.service.notices.lasting_conditions import LastingConditions
from jqmaster.service.notices.letters import Letters
from jqmaster.service.notices.momentary_conditions import MomentaryConditions
from jqmaster.service.notices.reader import NoticeReader
from jqmaster.service.notices.sending import NoticeSender
from jqmaster.service.notices.webhooks import WebhookFollowUps
from jqmaster.service.operations.metrics import ProcessFigures
from jqmaster.service.operations.timeline import TimelineService
from jqmaster.service.targets.editor import TargetEditor
from jqmaster.service.workers.contracts import ContractService
from jqmaster.service.workers.operator_actions import WorkerActions
from jqmaster.service.workers.polls import HeldPolls
from jqmaster.service.workers.registrations import Registrations
from jqmaster.service.workers.reports import ReportService
from jqmaster.service.workers.schema_judge import SchemaJudge
from jqmaster.service.workers.workers import WorkerService
from jqmaster.store.constraints.usage import UsageStore
from jqmaster.store.fireworq.fireworq import FireworqStore
from jqmaster.store.health.store_report import LEVELS
from jqmaster.store.identity.audit import AuditStore
from jqmaster.store.jobs.parts import PartStore
from jqmaster.store.link.shard import Shard
from jqmaster.store.logs.archive import ArchiveAddress, LogArchive
from jqmaster.store.logs.archiving import LogArchivingStore
from jqmaster.store.notices.failed_jobs import FailedJobStore
from jqmaster.store.notices.waiting_challenges import WaitingChallengeStore
from jqmaster.store.operations.timeline import TimelineStore
from jqmaster.store.operations.waiting_size import WaitingSize


class ShardServices:
    """One shard, its stores, and the services that do not depend on the leadership. `ServedShard` starts those
    services that are components."""

    def __init__(self, shared: Shared, link: Shard, store: ServedStore, faults: ShardFaults) -> None:
        clock, policies = shared.clock, shared.policies
        self._shared = shared
        # Returns the problems of the installation in the default namespace, and no problems in other namespaces.
        self.troubles: Callable[[], Awaitable[Troubles]] = _no_troubles
        self.store = store
        self.faults = faults
        self.health = store.health
        self.link = link
        # These objects are attributes because the metrics also read them.
        self.traffic, self.tally, self.figures = Traffic(), Tally(), ProcessFigures()
        self.stores = stores = Stores.on(
            link, policies.job_times, self.tally, log_limits=policies.logs, master_id=shared.master_id
        )
        self.usage = UsageStore(link, stores.records)
        # The number of replicas that must hold a new job, by level of durability. Refused levels are missing.
        self.admitted: LiveValue[Mapping[Durability | None, int]] = LiveValue({})
        self.room = self._make_room()
        self.quotas = QuotasInForce(shared.registry, shared.namespace)
        self.admission = AdmissionWatch(store, self.judge_admission)
        self.judge_admission()
        self._archive = self._make_archive()
        self.outside_checks = self._outside_checks()
        self.fleet = Fleet(
            clock, stale_ms=policies.stale_ms, breaker=policies.breaker, master_id=shared.master_id
        )
        self.polls = HeldPolls(
            stores.polls, stores.leases, stores.progress, stores.challenges, stores.predecessors
        )
        self.waiters = FinishWaiters()
        self.constraints = ConstraintCache(stores.constraints)
        self.key_values = KeyValues(self.usage, stores.lanes, clock)
        self.constraint_editor = self._make_constraint_editor()
        self.definition_firing = DefinitionFiring(
            stores.definitions, self.constraints, kept=policies.kept_runs, figures=self.figures.firing
        )
        self.event_grouping = EventGrouping(
            stores.event_groups, self.constraints, kept=policies.kept_runs, figures=self.figures.events
        )
        self.intake = self._make_intake()
        self.reach = CallerReach(stores.records, stores.batches)
        self.enqueue = self._make_enqueue()
        self.events = self._make_event_intake()
        self.jobs = self._make_job_reader()
        self.job_parts = PartService(PartStore(link, policies.parts), self.waiters, clock, policies.parts)
        self.job_logs = self._make_logs()
        self.job_actions = self._make_job_actions()
        self.batches = self._make_batches()
        self.batch_expiry = BatchExpiry(
            stores.batches, retention_ms=policies.batch_retention_ms, figures=self.figures.batches
        )
        self.flows = FlowReader(stores.records, stores.predecessors, stores.batches)
        self.schema_judge = SchemaJudge(clock)
        self.contracts = ContractService(
            stores.contracts, stores.workers, self.schema_judge, clock, policies.stale_ms
        )
        self.workers = self._make_workers()
        self.worker_actions = self._make_worker_actions()
        self.reports = self._make_reports()
        self.request_ids = RequestIds(clock)
        self.challenges = ChallengeService(
            stores.challenges, self.request_ids, self.figures.challenges, stores.records
        )
        self.target_deliveries = self._make_target_deliveries()
        self.fireworq = self._make_fireworq() if shared.settings.fireworq_prefix else None
        self.notices = NoticeReader(stores.notices)
        self.timeline_store = TimelineStore(link)
        self.timeline = TimelineService(self.timeline_store, AuditStore(link), stores.history)
        self.messenger = self._make_messenger()
        self.follow_ups = self._make_follow_ups()

    def _make_intake(self) -> Intake:
        shared = self._shared
        pace = PushPace(self.stores.inspector.load, shared.clock, rests=shared.rests)
        return Intake(pace, shared.portions.intake)

    def _make_room(self) -> NamespaceRoom:
        return NamespaceRoom(
            self._shared.registry,
            self._shared.namespace,
            self._shared.clock,
            count=self.stores.inspector.waiting,
            size=WaitingSize(self.link).bytes,
            on_change=self.judge_admission,
        )

    def _make_constraint_editor(self) -> ConstraintEditor:
        return ConstraintEditor(
            self.stores.constraints,
            self.constraints,
            self.usage,
            self.store_time_ms,
            self.key_values,
            audience=self._shared.policies.audience,
        )

    def _make_fireworq(self) -> FireworqGateway:
        settings = self._shared.settings
        queues = FireworqQueues(
            FireworqStore(self.link),
            self.constraint_editor,
            TargetEditor(self.stores.targets, self.store_time_ms),
            self.stores.targets,
            self._shared.clock,
            default_queue=settings.fireworq_default_queue or None,
            hosts=settings.fireworq_hosts,
        )
        return FireworqGateway(queues, FireworqPushes(self.enqueue))

    def _make_enqueue(self) -> EnqueueService:
        return EnqueueService(
            self.stores.new_jobs,
            self.constraints,
            admit=self.admit,
            reach=self.reach,
            tracing=self._shared.tracing,
            pace=self.intake.pace,
            can_notify=self._shared.webhooks.can_sign,
            admitted=self.admitted,
            most_per_s=self.quotas.pushes_per_s,
        )

    def _make_archive(self) -> LogArchive | None:
        address = ArchiveAddress.of(self._shared.settings)
        return LogArchive(address, self.link.keys.shard) if address else None

    def _make_event_intake(self) -> EventIntake:
        return EventIntake(
            self.stores.events,
            self.constraints,
            admit=self.admit,
            kept=self._shared.policies.kept_events,
            figures=self.figures.events,
            argument_quota=self.quotas.argument_bytes,
            pace=self.intake.pace,
        )

    def _make_job_reader(self) -> JobReader:
        stores = self.stores
        return JobReader(
            stores.records,
            stores.results,
            stores.progress,
            self.waiters,
            self._shared.clock,
            predecessors=stores.predecessors,
            inspector=stores.inspector,
            lists=stores.lists,
        )

    def _make_job_actions(self) -> JobActions:
        stores = self.stores
        tell_worker = CancelCommands(stores.workers, stores.leadership, self._shared.workers)
        return JobActions(stores.operator_actions, stores.records, self.constraints, tell_worker=tell_worker)

    def _make_batches(self) -> BatchService:
        return BatchService(
            self.stores.batches,
            self.stores.records,
            self.enqueue,
            self.store_time_ms,
            reach=self.reach,
            life_ms=self._shared.policies.batch_life_ms,
            figures=self.figures.batches,
        )

    def _make_workers(self) -> WorkerService:
        shared, stores = self._shared, self.stores
        registrations = Registrations(
            shared.workers, shared.clock, failures_per_minute=shared.policies.failed_registrations
        )
        return WorkerService(
            stores.workers,
            registrations,
            stores.records,
            stores.progress,
            most=self.quotas.workers,
            stale_ms=shared.policies.stale_ms,
        )

    def _make_worker_actions(self) -> WorkerActions:
        stores = self.stores
        tell = WorkerCommands(stores.workers, stores.polls, stores.leadership, self._shared.workers)
        return WorkerActions(stores.workers, tell=tell)

    def _make_reports(self) -> ReportService:
        stores = self.stores
        return ReportService(
            stores.workers,
            self.constraints,
            settlements=stores.settlements,
            challenges=stores.challenges,
            records=stores.records,
        )

    def _make_target_deliveries(self) -> TargetDeliveries:
        shared, stores = self._shared, self.stores
        reader = ContentReader(shared.policies.content)
        services = TargetServices(
            shared.targets,
            Conversions(_to_json, reader.from_json, reader.checked, shared.policies.max_result_bytes),
            shared.clock,
            workers=self.workers,
            contracts=self.contracts,
            polls=self.polls,
            reports=self.reports,
            challenges=self.challenges,
            heartbeat_s=shared.policies.heartbeat_s,
            lease_s=shared.policies.lease_s,
            breaker=shared.policies.breaker,
            callback_base=shared.callback_base,
        )
        return TargetDeliveries(
            stores.targets,
            stores.masters,
            stores.workers,
            services,
            master_id=shared.master_id,
            version=lambda: shared.live.targets_version,
            follow=shared.live.follow_targets,
            pace=shared.policies.pace,
            figures=self.figures.targets,
            grace_s=shared.settings.target_grace_s,
        )

    def _make_messenger(self) -> Messenger:
        shared = self._shared
        return Messenger(
            carriers_of(shared.webhooks, shared.mail, self.notices.destination),
            shared.clock,
            workers=self.workers,
            contracts=self.contracts,
            polls=self.polls,
            reports=self.reports,
            heartbeat_s=shared.policies.heartbeat_s,
            figures=self.figures.deliveries,
        )

    def _make_follow_ups(self) -> FollowUps:
        stores, constraints = self.stores, self.constraints
        of_batches = BatchFollowUps(
            stores.batches, stores.records, self.job_actions, constraints, self.figures.batches
        )
        of_predecessors = PredecessorFollowUps(stores.predecessors, stores.records, constraints)
        of_webhooks = WebhookFollowUps(
            stores.new_jobs, stores.records, stores.results, constraints, prepare=self.messenger.prepare
        )
        return FollowUps(
            stores.follow_ups, of_batches.kinds() | of_predecessors.kinds() | of_webhooks.kinds()
        )

    def _make_logs(self) -> LogService:
        stores, policies, clock = self.stores, self._shared.policies, self._shared.clock
        archived = ArchivedLogs(self._archive, clock) if self._archive else None
        gone = GoneLogs(LogArchivingStore(self.link), archived, policies.audience) if archived else None
        return LogService(
            stores.logs,
            self.waiters,
            clock,
            limits=policies.logs,
            figures=self.figures.logs,
            archived=archived,
            gone=gone,
        )

    def _outside_checks(self) -> list[OutsideCheck]:
        """Return the checks of all other systems that are configured."""
        clock, endpoint = self._shared.clock, self._shared.settings.traces_endpoint
        checks = []
        if self._archive:
            kept = "logs of jobs stay in the store until it is repaired"
            checks.append(
                OutsideCheck(
                    "log_archive", self._archive, clock, what="the archive of job logs", until_then=kept
                )
            )
        if endpoint is not None:
            lost = "spans are lost until it is repaired"
            checks.append(
                OutsideCheck(
                    "traces", TraceCollector(endpoint), clock, what="the collector of traces", until_then=lost
                )
            )
        return checks

    def duty_faults(self) -> dict[str, str]:
        """Return the faults of side duties, by name."""
        faults = self.faults.loops.side_faults()
        if not self.outside_checks:
            return faults
        return {**faults, **{check.name: check.fault for check in self.outside_checks if check.fault}}

    def log_archiving(self) -> LogArchiving | None:
        """Return the service that moves logs to the archive, or None if there is no archive."""
        if self._archive is None:
            return None
        policies = self._shared.policies
        return LogArchiving(
            LogArchivingStore(self.link),
            self._archive,
            retention_ms=policies.log_retention_ms,
            audience=policies.audience,
            figures=self.figures.archive,
        )

    async def _log_due_ms(self) -> int | None:
        if self._archive is None:
            return None
        return await self.stores.logs.due_since_ms(self._shared.policies.log_retention_ms.current)

    def notice_evaluation(self) -> NoticeEvaluation:
        """Return a new evaluation of notices, for one leadership."""
        shared, stores = self._shared, self.stores
        turns = PreviewTurns(shared.clock, shared.portions.previews)
        previews = Previews(stores.lanes, self.usage, shared.clock, turns)
        waiting = WaitingChallengeStore(self.link, stores.records, stores.challenges)
        return NoticeEvaluation(
            stores.notices,
            MomentaryConditions(
                FailedJobStore(self.link, stores.records),
                stores.records,
                stores.history,
                definitions=stores.definitions,
                workers=stores.workers,
                leadership=stores.leadership,
                access=shared.policies.audience,
                waiting=waiting,
            ),
            LastingConditions(
                stores.history,
                ConstraintReader(self.constraints, self.usage, stores.gates, previews),
                lambda: self.health.faults,
                self._log_due_ms,
                shared.clock,
                duty_faults=self.duty_faults,
                quotas=self.room.nearly_used,
                calendars=stores.calendars,
                troubles=self.troubles,
            ),
            NoticeSender(
                stores.new_jobs,
                stores.records,
                self.constraints,
                Letters(shared.public_url, shared.settings.link_templates),
                prepare=self.messenger.prepare,
                waiting=waiting,
            ),
            shared.clock,
            figures=self.figures.deliveries,
            mail_to=shared.settings.mail_to if shared.mail else (),
        )

    def admit(self, durability: Durability | None) -> int:
        """Return the number of replicas that must hold a new job of this level.

        Raises StoreUnavailableError while new jobs are refused, and RateLimitedError while the namespace is full.
        """
        if reason := self.faults.reason:
            raise StoreUnavailableError(reason, code="store_unfit", retry_after_s=5)
        self.room.check()
        return self.store.admit(durability)

    def judge_admission(self) -> None:
        """Decide again which new jobs are admitted. Call this when the facts that `admit` reads may have changed."""
        admitted: dict[Durability | None, int] = {}
        for level in (None, *LEVELS):
            with contextlib.suppress(StoreUnavailableError, RateLimitedError):
                admitted[level] = self.admit(level)
        self.admitted.current = admitted

    async def store_time_ms(self) -> int:
        seconds, microseconds = await self.link.client.command("TIME")
        return int(seconds) * 1000 + int(microseconds) // 1000


async def _no_troubles() -> Troubles:
    return NO_TROUBLES


def _to_json(packed: bytes) -> bytes:
    return encode(RawMsgpack(packed), Encoding.JSON)
