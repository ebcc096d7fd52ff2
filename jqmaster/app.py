"""The composition root: builds everything of a master, starts it in the order of need, stops it in reverse."""

import asyncio
import contextlib
import logging
import os
import socket
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from jqmaster import __version__
from jqmaster.api.app import build_app
from jqmaster.api.http.auth import AccessPolicy, configured_tokens
from jqmaster.api.http.server import MasterServer
from jqmaster.api.operations.live_feed import LiveFeed
from jqmaster.api.services import Condition, Services
from jqmaster.clock import Clock, SystemClock
from jqmaster.config import Durability, Settings
from jqmaster.domain.content import full_access, no_access
from jqmaster.domain.latency import Traffic
from jqmaster.domain.master import MasterRecord, Pace
from jqmaster.domain.tally import Tally
from jqmaster.embedded import EmbeddedValkey
from jqmaster.errors import JqmasterError, StoreUnavailableError, StoreUnfitError
from jqmaster.lifecycle import Component, LoopFailures, running
from jqmaster.net import descriptors
from jqmaster.net.egress import EgressGuard
from jqmaster.net.store_url import StoreUrl
from jqmaster.net.tls import LiveContext, client_context
from jqmaster.runtime import tuning
from jqmaster.runtime.duties.audit_exporter import AuditExporter
from jqmaster.runtime.duties.backlog_sampler import BacklogSampler
from jqmaster.runtime.duties.bulk_actions import BulkActions
from jqmaster.runtime.duties.constraint_keeper import RuleKeeper
from jqmaster.runtime.duties.delivery import Delivery
from jqmaster.runtime.duties.dispatcher import Dispatcher
from jqmaster.runtime.duties.failure_detector import Attendance
from jqmaster.runtime.duties.fleet import Fleet
from jqmaster.runtime.duties.grace import Grace
from jqmaster.runtime.duties.promoter import Promoter
from jqmaster.runtime.duties.quarantine import AloneRuns
from jqmaster.runtime.duties.reaper import Reaper
from jqmaster.runtime.duties.repair import Mender
from jqmaster.runtime.duties.sweeper import Sweeper
from jqmaster.runtime.leadership.leader import Leader
from jqmaster.runtime.leadership.local_leader import LocalLead, LocalLeader
from jqmaster.runtime.leadership.master_client import MasterClient
from jqmaster.runtime.leadership.membership import Membership
from jqmaster.runtime.leadership.own_address import at_port, own_url
from jqmaster.runtime.leadership.sub_leader import SubLeader
from jqmaster.runtime.outbound.line_sink import LineSink
from jqmaster.runtime.outbound.orders import CancelOrders, WorkerOrders
from jqmaster.runtime.outbound.worker_client import WorkerClient
from jqmaster.runtime.wake_router import WakeRouter
from jqmaster.runtime.watch.history_keeper import HistoryKeeper
from jqmaster.runtime.watch.progress import Progress
from jqmaster.runtime.watch.store_health import StoreGauge
from jqmaster.runtime.watch.watchdog import Watchdog
from jqmaster.service.constraints.cache import RuleCache
from jqmaster.service.constraints.constraints import ConstraintService
from jqmaster.service.identity.audit_writer import AuditWriter
from jqmaster.service.identity.identity import IdentityService
from jqmaster.service.jobs.bulk_actions import BulkActionService
from jqmaster.service.jobs.failures import FailureReader
from jqmaster.service.jobs.intake import Intake
from jqmaster.service.jobs.jobs import JobService
from jqmaster.service.jobs.push_pace import PushPace
from jqmaster.service.jobs.waiters import FinishWaiters
from jqmaster.service.jobs.waiting_places import WaitingPlaces
from jqmaster.service.jobs.why import WhyService
from jqmaster.service.operations.live_settings import LiveSettings
from jqmaster.service.operations.metrics import Metrics, OwnFacts
from jqmaster.service.operations.stats import StatsService, StoreState
from jqmaster.service.operations.store_facts import StoreFactsReader
from jqmaster.service.workers.masters import MasterService
from jqmaster.service.workers.owners import WorkerOwners
from jqmaster.service.workers.polls import PollDesk
from jqmaster.service.workers.registrations import Registrations
from jqmaster.service.workers.workers import WorkerService
from jqmaster.spec.openapi import master_document
from jqmaster.store.constraints.constraints import RuleStore
from jqmaster.store.constraints.usage import UsageStore
from jqmaster.store.constraints.why import WhyStore
from jqmaster.store.health import generation
from jqmaster.store.health.inspect import Inspector
from jqmaster.store.health.probe import StoreReport, probe, require
from jqmaster.store.health.repair import Repair
from jqmaster.store.identity.audit import AuditStore
from jqmaster.store.identity.audit_export import AuditExportStore
from jqmaster.store.identity.identity import IdentityStore
from jqmaster.store.jobs.claims import ClaimStore
from jqmaster.store.jobs.enqueue import AcceptanceStore
from jqmaster.store.jobs.leases import LeaseStore
from jqmaster.store.jobs.operator_actions import SteeringStore
from jqmaster.store.jobs.records import RecordStore
from jqmaster.store.jobs.results import ResultStore
from jqmaster.store.jobs.retention import RetentionStore
from jqmaster.store.jobs.settlements import SettlementStore
from jqmaster.store.jobs.timers import DueStore
from jqmaster.store.keys import Keys
from jqmaster.store.leadership.leadership import Leadership, LeadershipStore
from jqmaster.store.leadership.masters import MasterStore
from jqmaster.store.link.client import StoreAccess, StoreClient
from jqmaster.store.link.events import EventListener
from jqmaster.store.link.shard import Shard
from jqmaster.store.link.wake import JobsReady, WorkersChanged
from jqmaster.store.operations.bulk_actions import ActionStore
from jqmaster.store.operations.history import HistoryStore
from jqmaster.store.operations.live import LiveStore
from jqmaster.store.operations.settings import SettingsStore
from jqmaster.store.workers.polls import PollStore
from jqmaster.store.workers.workers import WorkerStore
from jqmaster.tracing import Tracing

logger = logging.getLogger(__name__)

READY_WITHIN_S = 2.0
# To renew the lock, and to give it back while that is under way.
RESERVED_CONNECTIONS = 2
STALLED_S = 5.0

# What tells a part its settings, and which of them; see `tuning`.
Tuned = tuple[Callable[..., None], Callable[[Settings], tuning.Values]]


class Master:
    """One master process on one store. Built when the store serves; see `running_master`.

    First what it is made of, from the store up to the server, then how the larger parts are built, then what they ask it.
    """

    def __init__(
        self,
        settings: Settings,
        client: StoreClient,
        store_url: str,
        mark: str,
        clock: Clock,
        *,
        report: StoreReport,
        reserve: StoreClient,
        embedded: EmbeddedValkey | None = None,
        own_tokens: Sequence[str] = (),
    ) -> None:
        self.settings = settings
        self.id = str(uuid.uuid4())
        self.failure: str | None = None
        self.failed = asyncio.Event()
        self._clock = clock
        self._embedded = embedded
        self._store_url = store_url
        # What happens by this process; the metrics read it, too.
        self.tally = Tally()
        self._tracing = Tracing.from_settings(settings, self.id, __version__)

        # The store, and what is known of it.
        self._local_leader = LocalLeader()
        self._shard = shard = Shard(client, Keys(settings.shard), leader=self._local_leader, mark=mark)
        self._stores = stores = _Stores.on(shard, settings, self.tally, master_id=self.id)
        self._gauge = StoreGauge(client, clock, settings, report, quorum_of=(client, reserve))
        self.live = LiveSettings(settings, SettingsStore(shard))
        self._history_keeper = HistoryKeeper(self.tally, stores.history, clock)

        # Whom it calls.
        to_masters, to_workers = _call_contexts(settings)
        self.guard = EgressGuard(settings.allowed_worker_networks, StoreUrl.parse(store_url).endpoints)
        client.on_located(self.guard.forbid)
        self._master_client = MasterClient(to_masters)
        self._worker_client = WorkerClient(self.guard, tls=to_workers, **tuning.worker_client(settings))
        self._registrations = Registrations(self._worker_client, clock, **tuning.registrations(settings))

        # Its place among the masters.
        self.leader = self._make_leader(reserve)
        self._sub_leader = self._make_sub_leader()
        self._membership = Membership(
            stores.masters, clock, describe=self._describe, **tuning.masters(settings)
        )
        self._duties: _Duties | None = None

        # What requests and the leader's duties share.
        self._rules = RuleCache(stores.rules)
        self._fleet = Fleet(clock, **tuning.fleet(settings))
        self._desk = PollDesk(stores.polls, stores.leases)
        self._waiters = FinishWaiters()
        self._waiting = WaitingPlaces(
            lambda: min(self.live.current.max_connections, descriptors.for_clients())
        )
        self.intake = Intake(PushPace(stores.inspector.load, clock), **tuning.intake(settings))
        self._job_service = self._make_job_service()
        self._worker_service = WorkerService(
            stores.workers,
            self._rules,
            self._registrations,
            settlements=stores.settlements,
            records=stores.records,
            tell=WorkerOrders(stores.workers, stores.polls, stores.leadership, self._worker_client),
        )
        # What watches over the leader's work.
        self._progress = Progress(
            stores.inspector, stores.workers, self._fleet, clock, dispatcher=self._present_dispatcher
        )
        self._store_id = mark
        self.loop_failures = LoopFailures(clock)

        async def rebuild() -> None:
            for one in (client, reserve):
                await one.reset()

        self._watchdog = Watchdog(
            shard,
            clock,
            mark=mark,
            stall=self._progress.stall,
            failures=self.loop_failures,
            rebuild=rebuild,
            fail=self._fail,
        )

        # What only requests use, and the server that takes them.
        configured = configured_tokens(settings, own_tokens)
        self._identity = IdentityService(
            IdentityStore(shard),
            clock,
            configured,
            **tuning.identity(settings),
            is_exposed=settings.public_url is not None,
        )
        self._router = WakeRouter(
            identity=self._identity,
            settings=self.live,
            polls=self._desk,
            waiters=self._waiters,
            leader=self.leader,
            duties=self._present_duties,
        )
        self._events = EventListener(
            shard,
            on_wake=self._router.route,
            on_finished=self._waiters.finished,
            on_gap=self._router.on_gap,
        )
        self._master_service = MasterService(stores.masters, stores.leadership, **tuning.masters(settings))
        self._why = self._make_why_service()
        self.stats = self._make_stats_service()
        self._feed = self._make_feed()
        self.server = MasterServer(
            build_app(
                self._make_services(clients=(client, reserve)),
                AccessPolicy.from_settings(settings, configured=configured, credentials=self._identity),
            ),
            settings,
        )

        self.live.follow(self._obey)

    def components(self) -> list[Component]:
        """In the order of need: the server comes after all that it uses, so that nobody is answered before it can
        work, and stops before it; only the polls and streams that hang there must end first. The lead comes last, and goes first:
        another master may have it while requests here still come to their ends, as those of any follower."""
        return [
            *([self._tracing] if self._tracing else []),
            self._worker_client,
            self._master_client,
            self.live,
            self._events,
            self._gauge,
            self.intake.pace,
            self._job_service,
            self._watchdog,
            # Stops after all that counts.
            self._history_keeper,
            self._identity,
            self.server,
            self._feed,
            self._desk,
            self._membership,
            self._sub_leader,
            self.leader,
        ]

    def _tuned(self) -> list[Tuned]:
        """All that keep a copy of settings which change at run time."""
        stores = self._stores
        return [
            (stores.claims.tune, tuning.claims),
            (stores.leases.tune, tuning.leases),
            (stores.settlements.tune, tuning.settlements),
            (stores.results.tune, tuning.results),
            (stores.workers.tune, tuning.claims),
            (stores.polls.tune, tuning.polls),
            (self.intake.tune, tuning.intake),
            (self._fleet.tune, tuning.fleet),
            (self.leader.tune, tuning.leader),
            (self._sub_leader.tune, tuning.masters),
            (self._membership.tune, tuning.masters),
            (self._master_service.tune, tuning.masters),
            (self._why.tune, tuning.why),
            (self.stats.tune, tuning.stats),
            (self._worker_client.tune, tuning.worker_client),
            (self._identity.tune, tuning.identity),
            (self._registrations.tune, tuning.registrations),
            *(self._duties.tuned if self._duties else ()),
        ]

    def _obey(self, settings: Settings) -> None:
        """Settings that changed at run time, told to all that keep a copy."""
        for tune, values in self._tuned():
            tune(**values(settings))
        self.server.tune(settings)

    # --- its place among the masters

    def _make_leader(self, reserve: StoreClient) -> Leader:
        return Leader(
            # Connections of its own: whoever holds up all the others must not make it lose its lock.
            LeadershipStore(Shard(reserve, self._shard.keys)),
            self._clock,
            master_id=self.id,
            **tuning.leader(self.settings),
            make_duties=self._make_duties,
            goes_first=lambda: self._sub_leader.is_standby,
        )

    def _make_sub_leader(self) -> SubLeader:
        return SubLeader(
            self._stores.masters,
            self.leader,
            self._clock,
            master_id=self.id,
            **tuning.masters(self.settings),
            answers=self._master_client.answers,
        )

    async def _describe(self, started_at_ms: int) -> MasterRecord:
        s = self.settings
        server = self.server
        url = s.advertised_url
        if url is None:
            url = await asyncio.to_thread(own_url, server.own_url, self._store_url)
        elif server.own_port != server.port:
            # Whoever asks whether this master lives must not be answered by one that shares its port.
            url = at_port(url, server.own_port)
        node_id = s.node_id or socket.gethostname()
        return MasterRecord(self.id, node_id, os.getpid(), url, __version__, started_at_ms)

    # --- what answers requests

    def _make_job_service(self) -> JobService:
        stores = self._stores
        return JobService(
            stores.inspector,
            self._waiters,
            self._clock,
            self._rules,
            acceptance=stores.acceptance,
            steering=stores.steering,
            records=stores.records,
            results=stores.results,
            tell_worker=CancelOrders(stores.workers, stores.leadership, self._worker_client),
            admit=self._admit,
            tracing=self._tracing,
            pace=self.intake.pace,
        )

    def _make_why_service(self) -> WhyService:
        return WhyService(
            WhyStore(self._shard, self._stores.records),
            self._stores.workers,
            self._rules,
            **tuning.why(self.settings),
            reach=lambda: self._fleet.reach() if self.leader.leadership else None,
        )

    def _make_stats_service(self) -> StatsService:
        return StatsService(
            self._stores.history,
            self._stores.inspector,
            self._stores.workers,
            self._master_service,
            self._clock,
            failures=FailureReader(self._stores.history, self._stores.records),
            **tuning.stats(self.settings),
            store_state=self._store_state,
        )

    def _make_feed(self) -> LiveFeed:
        return LiveFeed(
            LiveStore(self._shard, silence_ms=self._silence_ms),
            self._stores.actions,
            self._clock,
            stats=self.stats.now,
            counts=self._stores.inspector.counts,
            max_streams=lambda: self.live.current.max_streams,
            access=lambda: no_access(self.live.current.redact_paths),
            waiting=self._waiting,
        )

    def _make_services(self, *, clients: Sequence[StoreClient]) -> Services:
        stores, clock = self._stores, self._clock
        audit = AuditStore(self._shard)
        traffic = Traffic()
        constraints = ConstraintService(
            stores.rules,
            self._rules,
            UsageStore(self._shard, stores.records),
            clock,
            self._store_time_ms,
            audience=lambda: full_access(self.live.current.redact_paths),
        )
        facts = StoreFactsReader(
            stores.inspector,
            stores.workers,
            constraints,
            stores.leadership,
            stores.history,
            stale_ms=lambda: round(self.live.current.worker_stale_s * 1000),
        )
        return Services(
            live=self.live,
            jobs=self._job_service,
            feed=self._feed,
            intake=self.intake,
            actions=BulkActionService(
                stores.actions, stores.records, stores.inspector, clock, self._store_time_ms
            ),
            why=self._why,
            workers=self._worker_service,
            owners=WorkerOwners(stores.workers),
            polls=self._desk,
            waiting=self._waiting,
            constraints=constraints,
            audit=audit,
            audit_writer=AuditWriter(audit),
            identity=self._identity,
            masters=self._master_service,
            stats=self.stats,
            master_id=self.id,
            store_id=self._store_id,
            admit_url=self._admit_url,
            condition=self._condition,
            breakers=lambda: self._fleet.breaker_states() if self.leader.leadership else {},
            store_time_ms=self._store_time_ms,
            contract=master_document,
            traffic=traffic,
            metrics=Metrics(self.tally, traffic, clients, own=self._own_facts, ask_store=facts.read),
        )

    # --- the lead

    def _make_duties(self, leadership: Leadership) -> Sequence[Component]:
        """What runs under one leadership, in the order of need."""
        s, clock, stale, stores = self.live.current, self._clock, self.leader.step_down, self._stores
        delivery = Delivery(
            leadership,
            leases=stores.leases,
            fleet=self._fleet,
            desk=self._desk,
            client=self._worker_client,
            report=self._worker_service.results,
            clock=clock,
            on_stale=stale,
            is_trusted=self.leader.is_trusted,
            tracing=self._tracing,
        )
        dispatcher = Dispatcher(
            leadership,
            delivery,
            claims=stores.claims,
            workers=stores.workers,
            rules=self._rules,
            fleet=self._fleet,
            desk=self._desk,
            clock=clock,
            **tuning.dispatcher(s),
            on_stale=stale,
            notify=self._router.route,
            is_trusted=self.leader.is_trusted,
        )

        def on_ready() -> None:
            dispatcher.wake(JobsReady())

        keeper = RuleKeeper(
            leadership,
            stores.rules,
            self._rules,
            clock,
            on_ready=on_ready,
            on_stale=stale,
        )
        promoter = Promoter(leadership, stores.due, clock, on_ready=on_ready, on_stale=stale)
        grace = Grace(clock, **tuning.grace(s))
        reaper = Reaper(
            leadership,
            stores.leases,
            stores.workers,
            grace,
            **tuning.reaper(s),
            on_ready=on_ready,
            on_stale=stale,
        )
        alone = AloneRuns(
            leadership,
            self._rules,
            self._fleet,
            clock,
            claims=stores.claims,
            records=stores.records,
            give=dispatcher.give,
            polls_here=self._desk.holds,
            on_stale=stale,
        )
        attendance = Attendance(
            leadership,
            stores.workers,
            self._worker_client,
            clock,
            grace,
            **tuning.attendance(s),
            on_detached=lambda: dispatcher.wake(WorkersChanged()),
            on_stale=stale,
        )
        sweeper = Sweeper(
            leadership,
            stores.retention,
            clock,
            **tuning.sweeper(s),
            on_stale=stale,
        )
        bulk = BulkActions(
            leadership,
            stores.actions,
            clock,
            records=stores.records,
            inspector=stores.inspector,
            service=self._job_service,
            history=stores.history,
            store_time_ms=self._store_time_ms,
            is_trusted=self.leader.is_trusted,
            on_stale=stale,
        )
        repair = Repair(self._shard, leadership.epoch, who=f"master {self.id}", **tuning.repair(s))
        mender = Mender(repair, clock, on_stale=stale, left_lying=self._progress.left_lying)
        self._duties = _Duties(
            dispatcher=dispatcher,
            promoter=promoter,
            keeper=keeper,
            bulk=bulk,
            grace=grace,
            tuned=[
                (dispatcher.tune, tuning.dispatcher),
                (grace.tune, tuning.grace),
                (reaper.tune, tuning.reaper),
                (attendance.tune, tuning.attendance),
                (sweeper.tune, tuning.sweeper),
                (repair.tune, tuning.repair),
            ],
        )
        # The wake-up comes last and so goes first: a new leader elsewhere hears of what is written here at once.
        return [
            dispatcher,
            keeper,
            promoter,
            alone,
            reaper,
            attendance,
            sweeper,
            mender,
            BacklogSampler(leadership, stores.history, self.tally, clock, on_stale=stale),
            bulk,
            *self._make_exporter(leadership, stale),
            LocalLead(self._local_leader, self._router.route, dispatcher.claim_with),
        ]

    def _make_exporter(self, leadership: Leadership, on_stale: Callable[[], None]) -> list[Component]:
        target = self.settings.audit_export
        if target is None:
            return []
        store = AuditExportStore(self._shard)
        return [AuditExporter(leadership, store, LineSink(target), self._clock, on_stale=on_stale)]

    def _present_duties(self) -> "_Duties | None":
        """None where this master does not lead."""
        return self._duties if self.leader.leadership else None

    def _present_dispatcher(self) -> Dispatcher | None:
        duties = self._present_duties()
        return duties.dispatcher if duties else None

    # --- what happens elsewhere

    def _fail(self, reason: str) -> None:
        logger.critical("%s", reason)
        self.failure = reason
        self.failed.set()

    # --- what its parts ask of it

    def _admit(self, durability: Durability | None) -> int:
        if self.failure:
            raise StoreUnavailableError(self.failure, code="store_unfit", retry_after_s=5)
        if self._embedded and (status := self._embedded.status()).state == "rewriting":
            raise StoreUnavailableError(status.detail, retry_after_s=1)
        return self._gauge.admit(durability)

    async def _admit_url(self, url: str) -> str:
        target = self.guard.parse(url)
        # What a name stands for is not told; the call that has the address proven resolves it.
        if target.is_address:
            await self.guard.resolve(target)
        return target.url

    def _silence_ms(self) -> tuple[int, int]:
        """Of a worker, and of a master, that does not count as fresh any more."""
        s = self.live.current
        return round(s.worker_stale_s * 1000), Pace(s.leader_ttl_s).fresh_ms

    async def _store_time_ms(self) -> int:
        seconds, microseconds = await self._shard.client.command("TIME")
        return int(seconds) * 1000 + int(microseconds) // 1000

    def _own_facts(self) -> OwnFacts:
        s = self.settings
        return OwnFacts(
            is_leader=self.leader.leadership is not None,
            times_led=self.leader.times_led,
            connections=self.server.connections,
            faults=[*self._gauge.faults, *(["process"] if self.failure else [])],
            memory_used_bytes=self._gauge.report.memory_used_bytes,
            memory_max_bytes=self._gauge.report.memory_max_bytes,
            settings_version=self.live.version,
            labels={
                "version": __version__,
                "master_id": self.id,
                "node_id": s.node_id or socket.gethostname(),
            },
        )

    async def _condition(self) -> Condition:
        faults = {**({"process": self.failure} if self.failure else {}), **self._gauge.faults}
        store = "serving"
        try:
            async with asyncio.timeout(READY_WITHIN_S):
                if await self._stores.leadership.current() is None:
                    faults["leader"] = "no master leads"
        except (JqmasterError, TimeoutError) as exc:
            store = exc.detail if isinstance(exc, JqmasterError) else "it does not answer in time"
            if self._embedded and (detail := self._embedded.status().detail):
                store = detail  # it knows why: a full disk, a damaged file
            faults["store"] = f"store: {store}"
        if self._progress.round_s() > STALLED_S:
            faults["dispatcher"] = "the dispatcher stands still"
        return Condition(
            self.leader.leadership is not None,
            store,
            faults,
            self._gauge.durability,
            self._gauge.durability_available,
        )

    def _store_state(self) -> StoreState:
        report = self._gauge.report
        return StoreState(
            server=f"{report.kind} {'.'.join(map(str, report.version))}",
            durability=self._gauge.durability,
            durability_available=report.durability,
            used_memory_bytes=report.memory_used_bytes,
            max_memory_bytes=report.memory_max_bytes,
            faults=list(self._gauge.faults.values()),
        )


@dataclass(frozen=True, slots=True)
class _Stores:
    """What reads and writes the store, each with one role: first those along a job's path. Those that one service alone
    uses are with it."""

    acceptance: AcceptanceStore
    due: DueStore
    claims: ClaimStore
    leases: LeaseStore
    settlements: SettlementStore
    steering: SteeringStore
    records: RecordStore
    results: ResultStore
    retention: RetentionStore
    workers: WorkerStore
    polls: PollStore
    rules: RuleStore
    leadership: LeadershipStore
    masters: MasterStore
    actions: ActionStore
    history: HistoryStore
    inspector: Inspector

    @classmethod
    def on(cls, shard: Shard, settings: Settings, tally: Tally, *, master_id: str) -> "_Stores":
        records = RecordStore(shard)
        return cls(
            acceptance=AcceptanceStore(shard, tally),
            due=DueStore(shard, tally),
            claims=ClaimStore(shard, tally, **tuning.claims(settings)),
            leases=LeaseStore(shard, records, tally, **tuning.leases(settings)),
            settlements=SettlementStore(shard, tally, **tuning.settlements(settings)),
            steering=SteeringStore(shard, tally),
            records=records,
            results=ResultStore(shard, **tuning.results(settings)),
            retention=RetentionStore(shard),
            workers=WorkerStore(shard, **tuning.claims(settings)),
            polls=PollStore(shard, **tuning.polls(settings)),
            rules=RuleStore(shard),
            leadership=LeadershipStore(shard),
            masters=MasterStore(shard),
            actions=ActionStore(shard),
            history=HistoryStore(shard, master_id=master_id),
            inspector=Inspector(shard, records),
        )


@dataclass(frozen=True, slots=True)
class _Duties:
    """Those duties of a leader that others reach, and the settings that its duties are told."""

    dispatcher: Dispatcher
    promoter: Promoter
    keeper: RuleKeeper
    bulk: BulkActions
    grace: Grace
    tuned: Sequence[Tuned]


def _call_contexts(settings: Settings) -> tuple[LiveContext | None, LiveContext | None]:
    """For calls to masters and to workers; None: as the library does it."""
    s = settings
    shown = (s.calls_certfile, s.calls_keyfile)
    to_masters = client_context(None, *shown, verifies=False) if s.calls_certfile else None
    to_workers = client_context(s.calls_cafile, *shown) if s.calls_cafile or s.calls_certfile else None
    return to_masters, to_workers


@contextlib.asynccontextmanager
async def running_master(
    settings: Settings, clock: Clock | None = None, *, own_tokens: Sequence[str] = ()
) -> AsyncIterator[Master]:
    """A master that serves, with its own Valkey where no store is named. `own_tokens`: see `AccessPolicy.from_settings`.

    Raises StoreUnfitError, DataDirInUseError, StoreUnavailableError, DamagedError; ValueError for faulty tokens.
    """
    async with contextlib.AsyncExitStack() as stack:
        embedded = None
        if settings.redis_url is None:
            embedded = EmbeddedValkey(settings.data_dir, mark_key=Keys(settings.shard).generation)
            await stack.enter_async_context(running([embedded]))
            url = embedded.url
        else:
            url = settings.redis_url.get_secret_value()
        client, reserve = (
            StoreClient(
                url,
                timeout_s=settings.store_timeout_s,
                connections=connections,
                access=StoreAccess.of(settings),
            )
            for connections in (settings.store_connections, RESERVED_CONNECTIONS)
        )
        stack.push_async_callback(client.close)
        stack.push_async_callback(reserve.close)
        shard = Shard(client, Keys(settings.shard))
        report = await probe(client.redis, settings)
        require(report, settings)
        client.quorum_replicas = report.replicas_needed if settings.durability == "fsync+quorum" else 0
        mark = await generation.mark(shard, uuid.uuid4().hex)
        master = Master(
            settings,
            client,
            url,
            mark,
            clock or SystemClock(),
            report=report,
            reserve=reserve,
            embedded=embedded,
            own_tokens=own_tokens,
        )
        await stack.enter_async_context(running(master.components(), failures=master.loop_failures))
        # Known only now: the system may have chosen the port.
        master.guard.forbid(settings.host, master.server.port)
        master.guard.forbid(settings.host, master.server.own_port)
        yield master


async def serve(
    settings: Settings,
    *,
    stop: asyncio.Event,
    ready: Callable[[str], None] | None = None,
    own_tokens: Sequence[str] = (),
) -> None:
    """Serves until `stop` is set; `ready` gets the address, `own_tokens` are for this process. Raises as
    `running_master`, and StoreUnfitError when the master had to end by itself."""

    async def until_failure() -> None:
        async with running_master(settings, own_tokens=own_tokens) as master:
            # Of the process, and so of whoever runs it; a master inside another program leaves its logs alone.
            master.live.follow(lambda s: logging.getLogger().setLevel(s.log_level.upper()))
            logging.getLogger().setLevel(master.live.current.log_level.upper())
            if ready:
                ready(master.server.url)
            await master.failed.wait()
        raise StoreUnfitError(master.failure or "")

    # A task of its own, so that `stop` is heard during the start as well: a store may take minutes to load.
    serving = asyncio.create_task(until_failure())
    told = asyncio.create_task(stop.wait())
    await asyncio.wait({serving, told}, return_when=asyncio.FIRST_COMPLETED)
    told.cancel()
    serving.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await serving
