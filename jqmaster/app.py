"""The composition root: builds everything of a master, starts it in the order of need, stops it in reverse."""

import asyncio
import contextlib
import logging
import os
import socket
import uuid
from collections.abc import AsyncIterator, Callable, Collection, Sequence

from jqmaster import __version__
from jqmaster.api.app import build_app
from jqmaster.api.auth import AccessPolicy, configured_tokens
from jqmaster.api.http_server import MasterServer
from jqmaster.api.live_feed import LiveFeed
from jqmaster.api.openapi import master_document
from jqmaster.api.services import Condition, Services
from jqmaster.clock import Clock, SystemClock
from jqmaster.config import Durability, Settings
from jqmaster.domain.latency import Traffic
from jqmaster.domain.master import MasterRecord, Pace
from jqmaster.domain.tally import Tally
from jqmaster.egress import EgressGuard
from jqmaster.embedded import EmbeddedValkey
from jqmaster.errors import JqmasterError, StoreUnavailableError, StoreUnfitError
from jqmaster.lifecycle import Component, running
from jqmaster.runtime import tuning
from jqmaster.runtime.alone import AloneRuns
from jqmaster.runtime.attendance import Attendance
from jqmaster.runtime.backlog_sampler import BacklogSampler
from jqmaster.runtime.bulk_actions import BulkActions
from jqmaster.runtime.dispatcher import Dispatcher
from jqmaster.runtime.fleet import Fleet
from jqmaster.runtime.grace import Grace
from jqmaster.runtime.history_keeper import HistoryKeeper
from jqmaster.runtime.leader import Leader
from jqmaster.runtime.master_client import MasterClient
from jqmaster.runtime.membership import Membership
from jqmaster.runtime.mender import Mender
from jqmaster.runtime.orders import CancelOrders, WorkerOrders
from jqmaster.runtime.own_address import at_port, own_url
from jqmaster.runtime.progress import Progress
from jqmaster.runtime.promoter import Promoter
from jqmaster.runtime.reaper import Reaper
from jqmaster.runtime.rule_keeper import RuleKeeper
from jqmaster.runtime.store_gauge import StoreGauge
from jqmaster.runtime.sub_leader import SubLeader
from jqmaster.runtime.sweeper import Sweeper
from jqmaster.runtime.watchdog import Watchdog
from jqmaster.runtime.worker_client import WorkerClient
from jqmaster.service.bulk_actions import BulkActionService
from jqmaster.service.constraints import ConstraintService
from jqmaster.service.identity import IdentityService
from jqmaster.service.intake import Intake
from jqmaster.service.jobs import JobService
from jqmaster.service.live_settings import LiveSettings
from jqmaster.service.masters import MasterService
from jqmaster.service.metrics import Metrics, OwnFacts
from jqmaster.service.polls import PollDesk
from jqmaster.service.push_pace import PushPace
from jqmaster.service.rules import RuleCache
from jqmaster.service.stats import StatsService, StoreState
from jqmaster.service.store_facts import StoreFactsReader
from jqmaster.service.waiters import FinishWaiters
from jqmaster.service.why import WhyService
from jqmaster.service.workers import WorkerService
from jqmaster.store import generation
from jqmaster.store.actions import ActionStore
from jqmaster.store.audit import AuditStore
from jqmaster.store.client import Along, StoreAccess, StoreClient
from jqmaster.store.events import EventListener
from jqmaster.store.history import HistoryStore
from jqmaster.store.identity import IdentityStore
from jqmaster.store.inspect import Inspector
from jqmaster.store.jobs import JobStore
from jqmaster.store.keys import Keys
from jqmaster.store.leadership import Leadership, LeadershipStore
from jqmaster.store.live import LiveStore
from jqmaster.store.masters import MasterStore
from jqmaster.store.polls import PollStore
from jqmaster.store.probe import StoreReport, probe, require
from jqmaster.store.repair import Repair
from jqmaster.store.rules import RuleStore
from jqmaster.store.settings import SettingsStore
from jqmaster.store.shard import Shard
from jqmaster.store.usage import UsageStore
from jqmaster.store.why import WhyStore
from jqmaster.store.workers import WorkerStore
from jqmaster.store_url import StoreUrl
from jqmaster.tls import LiveContext, client_context
from jqmaster.tracing import Tracing

logger = logging.getLogger(__name__)

READY_WITHIN_S = 2.0
# To renew the lock, and to give it back while that is under way.
RESERVED_CONNECTIONS = 2
STALLED_S = 5.0

Tune = Callable[..., None]


class Master:
    """One master process on one store. Built when the store serves; see `running_master`."""

    def __init__(  # noqa: PLR0915  all parts, one after the other
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
        self._shard = shard = Shard(client, Keys(settings.shard))
        # What happens by this process; the metrics read it, too.
        self.tally = Tally()
        self._jobs = JobStore(shard, **tuning.jobs(settings), tally=self.tally)
        self._workers = WorkerStore(shard, **tuning.leases(settings))
        polls = PollStore(shard, **tuning.polls(settings))
        self._desk = PollDesk(polls, self._jobs)
        self._rule_store = RuleStore(shard)
        self._rules = RuleCache(self._rule_store)
        self._fleet = Fleet(clock, **tuning.fleet(settings))
        self._dispatcher: Dispatcher | None = None
        self._promoter: Promoter | None = None
        self._keeper: RuleKeeper | None = None
        self._bulk: BulkActions | None = None
        self._grace: Grace | None = None
        self._leadership = LeadershipStore(shard)
        self.leader = Leader(
            # Connections of its own: whoever holds up all the others must not make it lose its lock.
            LeadershipStore(Shard(reserve, shard.keys)),
            clock,
            master_id=self.id,
            **tuning.leader(settings),
            make_duties=self._make_duties,
            goes_first=lambda: self._sub_leader.is_standby,
        )
        masters = MasterStore(shard)
        to_masters, to_workers = _call_contexts(settings)
        self._master_client = MasterClient(to_masters)
        self._sub_leader = SubLeader(
            masters,
            self.leader,
            clock,
            master_id=self.id,
            **tuning.masters(settings),
            answers=self._master_client.answers,
        )
        self._membership = Membership(masters, clock, describe=self._describe, **tuning.masters(settings))
        self.guard = guard = EgressGuard(
            settings.allowed_worker_networks, StoreUrl.parse(store_url).endpoints
        )
        client.on_located(guard.forbid)
        self._worker_client = WorkerClient(
            guard.connector(ssl=to_workers.context if to_workers else True),
            tls=to_workers,
            **tuning.worker_client(settings),
        )
        waiters = FinishWaiters()
        orders = CancelOrders(self._workers, self._leadership, self._worker_client)
        self._gauge = StoreGauge(client, clock, settings, report, quorum_of=(client, reserve))
        self._inspector = inspector = Inspector(shard, self._jobs)
        self._action_store = ActionStore(shard)
        self._tracing = Tracing.from_settings(settings, self.id, __version__)
        self.intake = Intake(PushPace(inspector.load, clock), **tuning.intake(settings))
        self._job_service = JobService(
            self._jobs,
            inspector,
            waiters,
            clock,
            self._rules,
            tell_worker=orders,
            admit=self._admit,
            tracing=self._tracing,
            pace=self.intake.pace,
        )
        self._events = EventListener(
            shard, on_wake=self._wake, on_finished=waiters.finished, on_gap=lambda: self._on_gap(waiters)
        )
        self._progress = Progress(
            inspector,
            self._workers,
            self._fleet,
            clock,
            dispatcher=lambda: self._dispatcher if self.leader.leadership else None,
        )
        self._watchdog = Watchdog(shard, clock, mark=mark, stall=self._progress.stall, fail=self._fail)
        configured = configured_tokens(settings, own_tokens)
        self._identity = IdentityService(
            IdentityStore(shard),
            clock,
            configured,
            **tuning.identity(settings),
            is_exposed=settings.public_url is not None,
        )
        self.live = LiveSettings(settings, SettingsStore(shard))
        self._history = HistoryStore(shard, master_id=self.id)
        master_service = MasterService(masters, self._leadership, **tuning.masters(settings))
        self.stats = StatsService(
            self._history,
            inspector,
            self._workers,
            master_service,
            clock,
            **tuning.stats(settings),
            store_state=self._store_state,
        )
        self._feed = LiveFeed(
            LiveStore(shard, silence_ms=self._silence_ms),
            self._action_store,
            clock,
            stats=self.stats.now,
            counts=inspector.counts,
            max_streams=lambda: self.live.current.max_streams,
        )
        traffic = Traffic()
        constraints = ConstraintService(
            self._rule_store, self._rules, UsageStore(shard, self._jobs), clock, self._store_time_ms
        )
        services = Services(
            live=self.live,
            jobs=self._job_service,
            feed=self._feed,
            intake=self.intake,
            actions=BulkActionService(self._action_store, self._jobs, inspector, clock, self._store_time_ms),
            why=WhyService(
                WhyStore(shard, self._jobs),
                self._workers,
                self._rules,
                **tuning.why(settings),
                reach=lambda: self._fleet.reach() if self.leader.leadership else None,
            ),
            workers=WorkerService(
                self._workers,
                self._jobs,
                self._rules,
                self._worker_client,
                tell=WorkerOrders(self._workers, polls, self._leadership, self._worker_client),
            ),
            polls=self._desk,
            constraints=constraints,
            audit=AuditStore(shard),
            identity=self._identity,
            masters=master_service,
            stats=self.stats,
            master_id=self.id,
            admit_url=self._admit_url,
            condition=self._condition,
            breakers=lambda: self._fleet.breaker_states() if self.leader.leadership else {},
            store_time_ms=self._store_time_ms,
            contract=master_document,
            traffic=traffic,
            metrics=self._make_metrics(traffic, constraints, (client, reserve)),
        )
        self._tuned: list[tuple[Tune, Callable[[Settings], tuning.Values]]] = [
            (self._jobs.tune, tuning.jobs),
            (self._workers.tune, tuning.leases),
            (polls.tune, tuning.polls),
            (self.intake.tune, tuning.intake),
            (self._fleet.tune, tuning.fleet),
            (self.leader.tune, tuning.leader),
            (self._sub_leader.tune, tuning.masters),
            (self._membership.tune, tuning.masters),
            (services.masters.tune, tuning.masters),
            (services.why.tune, tuning.why),
            (self.stats.tune, tuning.stats),
            (self._worker_client.tune, tuning.worker_client),
            (self._identity.tune, tuning.identity),
        ]
        self._tuned_duties: list[tuple[Tune, Callable[[Settings], tuning.Values]]] = []
        self._history_keeper = HistoryKeeper(self.tally, self._history, clock)
        self.server = MasterServer(
            build_app(
                services,
                AccessPolicy.from_settings(settings, configured=configured, credentials=self._identity),
            ),
            settings,
        )

        self.live.follow(self._obey)

    def _obey(self, settings: Settings) -> None:
        """Settings that changed at run time, told to all that keep a copy."""
        for tune, values in (*self._tuned, *self._tuned_duties):
            tune(**values(settings))
        self.server.tune(settings)

    def _silence_ms(self) -> tuple[int, int]:
        """Of a worker, and of a master, that does not count as fresh any more."""
        s = self.live.current
        return round(s.worker_stale_s * 1000), Pace(s.leader_ttl_s).fresh_ms

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

    def _make_duties(self, leadership: Leadership) -> Sequence[Component]:
        s, clock, stale = self.live.current, self._clock, self.leader.step_down
        self._dispatcher = Dispatcher(
            leadership,
            jobs=self._jobs,
            workers=self._workers,
            rules=self._rules,
            fleet=self._fleet,
            desk=self._desk,
            client=self._worker_client,
            clock=clock,
            **tuning.dispatcher(s),
            on_stale=stale,
            on_gates=self._wake,
            is_trusted=self.leader.is_trusted,
            tracing=self._tracing,
        )
        dispatcher = self._dispatcher
        self._keeper = RuleKeeper(
            leadership,
            self._rule_store,
            self._rules,
            clock,
            on_ready=lambda: dispatcher.wake("ready"),
            on_stale=stale,
        )
        self._promoter = Promoter(
            leadership, self._jobs, clock, on_ready=lambda: dispatcher.wake("ready"), on_stale=stale
        )
        self._grace = grace = Grace(clock, **tuning.grace(s))
        reaper = Reaper(
            leadership,
            self._jobs,
            self._workers,
            grace,
            **tuning.reaper(s),
            on_ready=lambda: dispatcher.wake("ready"),
            on_stale=stale,
        )
        alone = AloneRuns(
            leadership,
            self._jobs,
            self._rules,
            self._fleet,
            clock,
            give=dispatcher.give,
            polls_here=self._desk.holds,
            on_stale=stale,
        )
        attendance = Attendance(
            leadership,
            self._workers,
            self._worker_client,
            clock,
            grace,
            **tuning.attendance(s),
            on_detached=lambda: dispatcher.wake("workers"),
            on_stale=stale,
        )
        sweeper = Sweeper(
            leadership,
            self._jobs,
            clock,
            **tuning.sweeper(s),
            on_stale=stale,
        )
        self._bulk = BulkActions(
            leadership,
            self._action_store,
            clock,
            jobs=self._jobs,
            inspector=self._inspector,
            service=self._job_service,
            history=self._history,
            store_time_ms=self._store_time_ms,
            is_trusted=self.leader.is_trusted,
            on_stale=stale,
        )
        repair = Repair(self._shard, leadership.epoch, who=f"master {self.id}", **tuning.repair(s))
        mender = Mender(repair, clock, on_stale=stale)
        self._tuned_duties = [
            (dispatcher.tune, tuning.dispatcher),
            (grace.tune, tuning.grace),
            (reaper.tune, tuning.reaper),
            (attendance.tune, tuning.attendance),
            (sweeper.tune, tuning.sweeper),
            (repair.tune, tuning.repair),
        ]
        # The wake-up comes last and so goes first: a new leader elsewhere hears of what is written here at once.
        return [
            self._dispatcher,
            self._keeper,
            self._promoter,
            alone,
            reaper,
            attendance,
            sweeper,
            mender,
            BacklogSampler(leadership, self._history, self.tally, clock, on_stale=stale),
            self._bulk,
            _LocalWake(self._shard, self._wake, self._dispatcher.along),
        ]

    def _admit(self, durability: Durability | None) -> int:
        if self.failure:
            raise StoreUnavailableError(self.failure, code="store_unfit", retry_after_s=5)
        return self._gauge.admit(durability)

    async def _admit_url(self, url: str) -> str:
        target = self.guard.parse(url)
        await self.guard.resolve(target)
        return target.url

    def _wake(self, message: str) -> None:
        if message == "identity":
            self._identity.wake()
            return
        self._desk.wake(message)
        self.live.wake(message)
        self.leader.wake(message)
        if self.leader.leadership and self._dispatcher and self._promoter and self._keeper:
            self._dispatcher.wake(message)
            self._promoter.wake(message)
            self._keeper.wake(message)
            if self._bulk:
                self._bulk.wake(message)

    def _on_gap(self, waiters: FinishWaiters) -> None:
        waiters.wake_all()
        self._desk.look_all()
        self._identity.wake()
        for message in ("workers", "due", "rules", "resigned", "settings"):
            self._wake(message)

    async def _store_time_ms(self) -> int:
        seconds, microseconds = await self._shard.client.command("TIME")
        return int(seconds) * 1000 + int(microseconds) // 1000

    def _make_metrics(
        self, traffic: Traffic, constraints: ConstraintService, clients: Sequence[StoreClient]
    ) -> Metrics:
        facts = StoreFactsReader(
            self._inspector,
            self._workers,
            constraints,
            self._leadership,
            self._history,
            stale_ms=lambda: round(self.live.current.worker_stale_s * 1000),
        )
        return Metrics(self.tally, traffic, clients, own=self._own_facts, ask_store=facts.read)

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
                if await self._leadership.current() is None:
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

    def _fail(self, reason: str) -> None:
        logger.critical("%s", reason)
        self.failure = reason
        self.failed.set()


class _LocalWake:
    """While this process leads, its own writes wake it without a message through the store, and its claims go with them."""

    def __init__(
        self,
        shard: Shard,
        wake: Callable[[str], None],
        follow: Callable[[str, Collection[str]], Along | None],
    ) -> None:
        self._shard = shard
        self._wake = wake
        self._follow = follow

    async def start(self) -> None:
        self._shard.wake_leader = self._wake
        self._shard.follow = self._follow

    async def stop(self) -> None:
        self._shard.wake_leader = self._shard.follow = None


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
            embedded = EmbeddedValkey(settings.data_dir)
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
        await stack.enter_async_context(running(master.components()))
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
