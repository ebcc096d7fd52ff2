"""The services that handlers use, assembled by the composition root."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from jqmaster.api.operations.live_feed import LiveFeed
from jqmaster.api.operations.published_document import PublishedDocument
from jqmaster.config import Durability, Settings
from jqmaster.domain.operations.latency import Traffic
from jqmaster.live_value import LiveValue
from jqmaster.service.batches.batches import BatchService
from jqmaster.service.calendars.editor import CalendarEditor
from jqmaster.service.challenges.challenges import ChallengeService
from jqmaster.service.challenges.forms import ChallengeForms
from jqmaster.service.challenges.reader import ChallengeReader
from jqmaster.service.constraints.editor import ConstraintEditor
from jqmaster.service.constraints.pauses import Pauses
from jqmaster.service.constraints.reader import ConstraintReader
from jqmaster.service.constraints.replay import Replays
from jqmaster.service.definitions.editor import DefinitionEditor
from jqmaster.service.definitions.reader import DefinitionReader
from jqmaster.service.events.intake import EventIntake
from jqmaster.service.events.reader import EventReader
from jqmaster.service.fireworq.gateway import FireworqGateway
from jqmaster.service.identity.audit_writer import AuditWriter
from jqmaster.service.identity.identity import Identity
from jqmaster.service.jobs.backlog_why import BacklogWhy
from jqmaster.service.jobs.bulk_actions import BulkActionService
from jqmaster.service.jobs.enqueue import EnqueueService
from jqmaster.service.jobs.excerpts import JobExcerpts
from jqmaster.service.jobs.failure_actions import FailureActions
from jqmaster.service.jobs.failure_triage import FailureTriage
from jqmaster.service.jobs.failure_values import FailureValues
from jqmaster.service.jobs.failures import FailureReader
from jqmaster.service.jobs.flow_texts import FlowTextReader
from jqmaster.service.jobs.flows import FlowReader
from jqmaster.service.jobs.intake import Intake
from jqmaster.service.jobs.operator_actions import JobActions
from jqmaster.service.jobs.parts import PartService
from jqmaster.service.jobs.reach import CallerReach
from jqmaster.service.jobs.reader import JobReader
from jqmaster.service.jobs.waiting_places import WaitingPlaces
from jqmaster.service.jobs.why import WhyService
from jqmaster.service.logs.logs import LogService
from jqmaster.service.namespaces.editor import NamespaceEditor
from jqmaster.service.namespaces.moves import MoveService
from jqmaster.service.namespaces.overview import NamespaceOverview
from jqmaster.service.namespaces.places import Places
from jqmaster.service.namespaces.quotas_in_force import QuotasInForce
from jqmaster.service.namespaces.registry import NamespaceRegistry
from jqmaster.service.namespaces.slot_moves import SlotMoves
from jqmaster.service.notices.editor import NoticeEditor
from jqmaster.service.notices.reader import NoticeReader
from jqmaster.service.notices.webhooks import DeliveryReader
from jqmaster.service.operations.agent_turns import AgentTurns
from jqmaster.service.operations.demand import DemandService
from jqmaster.service.operations.health import HealthService
from jqmaster.service.operations.live_settings import LiveSettings
from jqmaster.service.operations.metrics_page import MetricsPage
from jqmaster.service.operations.search_turns import SearchTurns
from jqmaster.service.operations.stats import StatsService
from jqmaster.service.operations.timeline import TimelineService
from jqmaster.service.personal_data.erasure import PersonalDataErasure
from jqmaster.service.personal_data.search import PersonalDataSearch
from jqmaster.service.targets.editor import TargetEditor
from jqmaster.service.targets.reader import TargetReader
from jqmaster.service.targets.samples import TargetSamples
from jqmaster.service.workers.contracts import ContractService
from jqmaster.service.workers.figures import FiguresCache
from jqmaster.service.workers.masters import MasterService
from jqmaster.service.workers.operator_actions import WorkerActions
from jqmaster.service.workers.owners import WorkerOwners
from jqmaster.service.workers.polls import HeldPolls
from jqmaster.service.workers.reports import ReportService
from jqmaster.service.workers.worker_sets import WorkerSets
from jqmaster.service.workers.workers import WorkerService
from jqmaster.shared_bound import Portion
from jqmaster.store.calendars.calendars import CalendarStore
from jqmaster.store.identity.audit import AuditStore
from jqmaster.store.job_times import JobTimes
from jqmaster.store.operations.declarations import DeclarationStore


@dataclass(frozen=True, slots=True)
class FlowServices:
    """The services that show flows."""

    reader: FlowReader
    texts: FlowTextReader


@dataclass(frozen=True, slots=True)
class FailureServices:
    """The services of failure groups, except the list of groups."""

    actions: FailureActions
    triage: FailureTriage
    values: FailureValues
    reader: FailureReader


@dataclass(frozen=True, slots=True)
class PersonalDataServices:
    """The services that find data about a person, and erase values."""

    search: PersonalDataSearch
    erasure: PersonalDataErasure


@dataclass(frozen=True, slots=True)
class MasterCondition:
    """State of this master's work.

    * `faults`: its problems, by the name of the check: `process`, `stopping`, `space`, `fitness`, `durability`,
      `leader`, `store` or `dispatcher`. The texts may name paths and addresses.
    * `durability_available`: the highest level that the store provides.
    * `durability`: the level in force.
    * `duty_faults`: failures of side duties at this master or at the leader, by name.
    * `other_faults`: the reasons why other namespaces are not served, by name.
    """

    is_leader: bool
    store: str
    faults: dict[str, str]
    durability: Durability
    durability_available: Durability
    duty_faults: Mapping[str, str]
    other_faults: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NamespaceServices:
    """Services that an installation has once, for all its namespaces."""

    registry: NamespaceRegistry
    editor: NamespaceEditor
    overview: NamespaceOverview
    places: Places
    moves: MoveService
    slots: SlotMoves


@dataclass(frozen=True, slots=True)
class Services:
    """The services of one namespace.

    * `master_id`: identifies this process.
    * `store_id`: identifies the store.

    * `prefix`: `/ns/NAME` for a namespace. Empty for the default paths.
    * `job_times`: the durations in force in the namespace.
    * `quotas`: the quotas of the namespace.
    * `namespaces`: None below the path of a namespace.
    * `admit_url`: returns the normalised URL of a worker, or raises AddressRefusedError.
    * `fireworq`: None while the gateway is off.
    * `breakers`: returns the circuit breaker of each worker if this master leads.
    * `openapi`: returns the OpenAPI document.
    """

    live: LiveSettings
    job_times: LiveValue[JobTimes]
    enqueue: EnqueueService
    reach: CallerReach
    jobs: JobReader
    excerpts: JobExcerpts
    job_parts: PartService
    job_logs: LogService
    job_actions: JobActions
    feed: LiveFeed
    intake: Intake
    quotas: QuotasInForce
    bulk_actions: BulkActionService
    why: WhyService
    backlog_why: BacklogWhy
    workers: WorkerService
    worker_figures: FiguresCache
    contracts: ContractService
    reports: ReportService
    worker_actions: WorkerActions
    worker_sets: WorkerSets
    owners: WorkerOwners
    polls: HeldPolls
    waiting: WaitingPlaces
    # This namespace's share of the calls that may be in progress at once.
    calls: Portion
    constraints: ConstraintReader
    replays: Replays
    pauses: Pauses
    constraint_editor: ConstraintEditor
    definitions: DefinitionReader
    definition_editor: DefinitionEditor
    calendars: CalendarStore
    calendar_editor: CalendarEditor
    event_intake: EventIntake
    events: EventReader
    fireworq: FireworqGateway | None
    batches: BatchService
    flows: FlowServices
    challenges: ChallengeService
    challenge_reader: ChallengeReader
    challenge_forms: ChallengeForms
    deliveries: DeliveryReader
    notices: NoticeReader
    notice_editor: NoticeEditor
    targets: TargetReader
    target_editor: TargetEditor
    target_samples: TargetSamples
    declarations: DeclarationStore
    namespaces: NamespaceServices | None
    audit: AuditStore
    audit_writer: AuditWriter
    masters: MasterService
    stats: StatsService
    timeline: TimelineService
    health: HealthService
    agent_turns: AgentTurns
    demand: DemandService
    failures: FailureServices
    personal_data: PersonalDataServices
    identity: Identity
    master_id: str
    store_id: str
    prefix: str
    admit_url: Callable[[str], Awaitable[str]]
    condition: Callable[[], Awaitable[MasterCondition]]
    breakers: Callable[[], dict[str, str]]
    store_time_ms: Callable[[], Awaitable[int]]
    openapi: PublishedDocument
    search_turns: SearchTurns
    traffic: Traffic
    metrics: MetricsPage

    @property
    def settings(self) -> Settings:
        """Return the settings in force now. Do not store the result, because settings may change."""
        return self.live.current
