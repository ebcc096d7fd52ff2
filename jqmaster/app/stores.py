"""The classes that read and write the store of one shard."""

from dataclasses import dataclass

from jqmaster.domain.logs.lines import LogLimits
from jqmaster.domain.operations.tally import Tally
from jqmaster.live_value import LiveValue
from jqmaster.store.batches.batches import BatchStore
from jqmaster.store.calendars.calendars import CalendarStore
from jqmaster.store.constraints.constraints import ConstraintStore
from jqmaster.store.constraints.gates import GateStore
from jqmaster.store.constraints.lanes import LaneStore
from jqmaster.store.definitions.definitions import DefinitionStore
from jqmaster.store.events.events import EventStore
from jqmaster.store.events.groups import EventGroupStore
from jqmaster.store.health.inspect import Inspector
from jqmaster.store.job_times import JobTimes
from jqmaster.store.jobs.challenges import ChallengeStore
from jqmaster.store.jobs.claims import ClaimStore
from jqmaster.store.jobs.enqueue import EnqueueStore
from jqmaster.store.jobs.follow_ups import FollowUpStore
from jqmaster.store.jobs.leases import LeaseStore
from jqmaster.store.jobs.listing import JobLists
from jqmaster.store.jobs.operator_actions import OperatorActionStore
from jqmaster.store.jobs.predecessors import PredecessorStore
from jqmaster.store.jobs.progress import ProgressStore
from jqmaster.store.jobs.records import RecordStore
from jqmaster.store.jobs.results import ResultStore
from jqmaster.store.jobs.retention import RetentionStore
from jqmaster.store.jobs.settlements import SettlementStore
from jqmaster.store.jobs.timers import TimerStore
from jqmaster.store.leadership.leadership import LeadershipStore
from jqmaster.store.leadership.masters import MasterStore
from jqmaster.store.link.shard import Shard
from jqmaster.store.logs.logs import LogStore
from jqmaster.store.notices.notices import NoticeStore
from jqmaster.store.operations.bulk_actions import ActionStore
from jqmaster.store.operations.declarations import DeclarationStore
from jqmaster.store.operations.history import HistoryStore
from jqmaster.store.targets.targets import TargetStore
from jqmaster.store.workers.contracts import ContractStore
from jqmaster.store.workers.polls import PollStore
from jqmaster.store.workers.workers import WorkerStore


@dataclass(frozen=True, slots=True)
class Stores:
    """The stores of one shard. Each has one role. Stores along a job's path come first. If only one service uses
    a store, that service's code builds the store."""

    new_jobs: EnqueueStore
    due: TimerStore
    claims: ClaimStore
    leases: LeaseStore
    settlements: SettlementStore
    operator_actions: OperatorActionStore
    records: RecordStore
    results: ResultStore
    progress: ProgressStore
    logs: LogStore
    challenges: ChallengeStore
    predecessors: PredecessorStore
    retention: RetentionStore
    workers: WorkerStore
    contracts: ContractStore
    polls: PollStore
    constraints: ConstraintStore
    lanes: LaneStore
    gates: GateStore
    definitions: DefinitionStore
    calendars: CalendarStore
    events: EventStore
    event_groups: EventGroupStore
    follow_ups: FollowUpStore
    batches: BatchStore
    notices: NoticeStore
    targets: TargetStore
    declarations: DeclarationStore
    leadership: LeadershipStore
    masters: MasterStore
    actions: ActionStore
    history: HistoryStore
    inspector: Inspector
    lists: JobLists

    @classmethod
    def on(
        cls,
        shard: Shard,
        times: LiveValue[JobTimes],
        tally: Tally,
        *,
        log_limits: LiveValue[LogLimits],
        master_id: str,
    ) -> "Stores":
        records = RecordStore(shard)
        return cls(
            new_jobs=EnqueueStore(shard, tally),
            due=TimerStore(shard, tally),
            claims=ClaimStore(shard, tally, times),
            leases=LeaseStore(shard, records, tally, times),
            settlements=SettlementStore(shard, tally, times),
            operator_actions=OperatorActionStore(shard, tally),
            records=records,
            results=ResultStore(shard, times),
            progress=ProgressStore(shard),
            logs=LogStore(shard, log_limits),
            challenges=ChallengeStore(shard, records, tally, times),
            predecessors=PredecessorStore(shard, tally),
            retention=RetentionStore(shard),
            workers=WorkerStore(shard, times),
            contracts=ContractStore(shard),
            polls=PollStore(shard, times),
            constraints=ConstraintStore(shard),
            lanes=LaneStore(shard),
            gates=GateStore(shard),
            definitions=DefinitionStore(shard, tally),
            calendars=CalendarStore(shard),
            events=EventStore(shard, tally),
            event_groups=EventGroupStore(shard, tally),
            follow_ups=FollowUpStore(shard),
            batches=BatchStore(shard, tally),
            notices=NoticeStore(shard),
            targets=TargetStore(shard),
            declarations=DeclarationStore(shard),
            leadership=LeadershipStore(shard),
            masters=MasterStore(shard),
            actions=ActionStore(shard),
            history=HistoryStore(shard, master_id=master_id),
            inspector=Inspector(shard, records),
            lists=JobLists(shard, records),
        )
