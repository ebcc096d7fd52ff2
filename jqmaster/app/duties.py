"""The duties of a leader, which are built again for each leadership."""

import os
import socket
from collections.abc import Awaitable, Callable, Sequence

from jqmaster.app.shard_services import ShardServices
from jqmaster.app.shared import Shared
from jqmaster.lifecycle import Component
from jqmaster.runtime.duties.audit_exporter import AuditExporter
from jqmaster.runtime.duties.backlog_sampler import BacklogSampler
from jqmaster.runtime.duties.bulk_actions import BulkActions
from jqmaster.runtime.duties.challenge_expiry import ChallengeExpiry
from jqmaster.runtime.duties.claim_offers import ClaimOffers
from jqmaster.runtime.duties.constraint_expiry import ConstraintExpiry
from jqmaster.runtime.duties.constraint_keeper import ConstraintKeeper
from jqmaster.runtime.duties.dispatcher import Dispatcher
from jqmaster.runtime.duties.due_loop import DueLoop
from jqmaster.runtime.duties.failure_detector import FailureDetector
from jqmaster.runtime.duties.gateway_hosts import GatewayHosts
from jqmaster.runtime.duties.grace import Grace
from jqmaster.runtime.duties.log_archiver import LogArchiver
from jqmaster.runtime.duties.log_keeper import LogKeeper
from jqmaster.runtime.duties.notice_loop import NoticeLoop
from jqmaster.runtime.duties.promoter import Promoter
from jqmaster.runtime.duties.quarantine import Quarantine
from jqmaster.runtime.duties.reaper import Reaper
from jqmaster.runtime.duties.repair import RepairLoop
from jqmaster.runtime.duties.shard_look import FollowedDuty, ShardLook
from jqmaster.runtime.duties.sweeper import Sweeper
from jqmaster.runtime.duties.timeline_keeper import TimelineKeeper
from jqmaster.runtime.leadership.leader import Leader
from jqmaster.runtime.leadership.local_leader import LocalLead, LocalLeader
from jqmaster.runtime.outbound.line_sink import LineSink
from jqmaster.runtime.watch.progress import ProgressWatch
from jqmaster.store.health.repair import Repair
from jqmaster.store.identity.audit_export import AuditExportStore
from jqmaster.store.leadership.leadership import Leadership
from jqmaster.store.link.wake import JobsReady, WakeMessage, WorkersChanged
from jqmaster.store.operations.looks import LookStore


class LeaderDuties:
    """The duties of one leadership. `route` delivers messages to any part of this master."""

    def __init__(
        self,
        leadership: Leadership,
        shared: Shared,
        services: ShardServices,
        leader: Leader,
        progress: ProgressWatch,
        *,
        local_leader: LocalLeader,
        route: Callable[[WakeMessage], None],
    ) -> None:
        self._leadership = leadership
        self._shared = shared
        self._services = services
        self._stores = services.stores
        self._leader = leader
        self._progress = progress
        self._local_leader = local_leader
        self._route = route
        policies = shared.policies
        self.grace = Grace(shared.clock, policies.grace)
        self._offers = self._make_offers()
        self.dispatcher = self._make_dispatcher()
        self._repair = Repair(
            services.link, leadership.epoch, who=f"master {shared.master_id}", times=policies.job_times
        )
        self.keeper = self._make_keeper()
        self.promoter = Promoter(
            leadership, self._stores.due, shared.clock, on_ready=self._on_ready, on_stale=leader.step_down
        )
        self.definitions = self._make_due_loop(
            "definitions", services.definition_firing.fire_due, "cannot fire definitions"
        )
        self.events = self._make_due_loop(
            "events", services.event_grouping.end_due, "cannot end groups of events"
        )
        self.follow_ups = self._make_due_loop("follow-ups", self._follow_up, "cannot carry out follow-ups")
        self.challenges = self._make_challenge_expiry()
        self._reaper = self._make_reaper()
        self.detector = self._make_detector()
        self._sweeper = self._make_sweeper()
        self._sampler = BacklogSampler(
            leadership, self._stores.history, services.tally, shared.clock, on_stale=leader.step_down
        )
        self.bulk = self._make_bulk_actions()
        self._quarantine = self._make_quarantine()
        self._expiry = self._make_constraint_expiry()
        self._notices = self._make_notice_loop()
        self._log_keeper = self._make_log_keeper()
        self.look = self._make_look()

    def components(self) -> Sequence[Component]:
        """Return the duties in the order of their dependencies."""
        return [
            self.dispatcher,
            self.keeper,
            self._expiry,
            self.promoter,
            self.definitions,
            self.events,
            # Start the messenger first, because follow-ups and notices wait for it.
            self._services.messenger,
            self.follow_ups,
            self._notices,
            self.challenges,
            self._quarantine,
            self._reaper,
            self.detector,
            self._sweeper,
            self._log_keeper,
            *self._make_log_archiver(),
            RepairLoop(
                self._repair,
                self._shared.clock,
                on_stale=self._leader.step_down,
                unclaimed_jobs=self._progress.unclaimed_jobs,
                is_calm=self._progress.is_calm,
                rests=self._shared.rests,
            ),
            self._sampler,
            self._make_timeline_keeper(),
            self.bulk,
            *self._make_exporter(),
            *self._make_gateway_hosts(),
            # Start the component that makes the looks after the duties, because it begins their rounds.
            self.look,
            # Start the local lead last and stop it first. After it has stopped, writes of this process notify the
            # new leader, another master, at once.
            LocalLead(self._local_leader, self._route, self.dispatcher.claim_with),
        ]

    def _on_ready(self) -> None:
        self.dispatcher.wake(JobsReady())

    async def _follow_up(self, epoch: str) -> int | None:
        """Carry out the follow-ups of changes of jobs, and end batches that have expired."""
        if await self._services.follow_ups.carry_out(epoch):
            return 0
        return await self._services.batch_expiry.end_due(epoch)

    def _make_due_loop(
        self, name: str, do_due: Callable[[str], Awaitable[int | None]], complaint: str
    ) -> DueLoop:
        return DueLoop(
            name,
            self._leadership,
            do_due,
            self._shared.clock,
            complaint=complaint,
            on_stale=self._leader.step_down,
        )

    def _make_offers(self) -> ClaimOffers:
        services = self._services
        return ClaimOffers(
            self._leadership,
            leases=self._stores.leases,
            settlements=self._stores.settlements,
            progress=self._stores.progress,
            challenges=self._stores.challenges,
            predecessors=self._stores.predecessors,
            fleet=services.fleet,
            held_polls=services.polls,
            client=self._shared.workers,
            report=services.reports.results,
            clock=self._shared.clock,
            on_stale=self._leader.step_down,
            is_trusted=self._leader.is_trusted,
            tracing=self._shared.tracing,
        )

    def _make_dispatcher(self) -> Dispatcher:
        services, stores = self._services, self._stores
        return Dispatcher(
            self._leadership,
            self._offers,
            claims=stores.claims,
            workers=stores.workers,
            constraints=services.constraints,
            fleet=services.fleet,
            held_polls=services.polls,
            clock=self._shared.clock,
            max_push_jobs=self._shared.policies.max_push_jobs,
            on_stale=self._leader.step_down,
            notify=self._route,
            is_trusted=self._leader.is_trusted,
        )

    def _make_keeper(self) -> ConstraintKeeper:
        return ConstraintKeeper(
            self._leadership,
            self._services.constraints,
            self._shared.clock,
            lanes=self._stores.lanes,
            gates=self._stores.gates,
            on_ready=self._on_ready,
            on_stale=self._leader.step_down,
        )

    def _make_challenge_expiry(self) -> ChallengeExpiry:
        return ChallengeExpiry(
            self._leadership,
            self._stores.challenges,
            self.grace,
            self._shared.clock,
            figures=self._services.figures.challenges,
            on_stale=self._leader.step_down,
        )

    def _make_sweeper(self) -> Sweeper:
        return Sweeper(
            self._leadership,
            self._stores.retention,
            self._shared.clock,
            retention=self._shared.policies.retention,
            archives_logs=self._shared.settings.log_archive_url is not None,
            on_stale=self._leader.step_down,
        )

    def _make_reaper(self) -> Reaper:
        return Reaper(
            self._leadership,
            self._stores.leases,
            self._stores.workers,
            self.grace,
            self._shared.clock,
            policy=self._shared.policies.reaper,
            on_ready=self._on_ready,
            on_stale=self._leader.step_down,
        )

    def _make_quarantine(self) -> Quarantine:
        services = self._services
        return Quarantine(
            self._leadership,
            services.constraints,
            services.fleet,
            self._shared.clock,
            claims=self._stores.claims,
            records=self._stores.records,
            give=self.dispatcher.give,
            polls_here=services.polls.holds,
            on_stale=self._leader.step_down,
        )

    def _make_detector(self) -> FailureDetector:
        return FailureDetector(
            self._leadership,
            self._stores.workers,
            self._shared.workers,
            self._shared.clock,
            self.grace,
            policy=self._shared.policies.failure_detector,
            on_detached=lambda: self.dispatcher.wake(WorkersChanged()),
            on_stale=self._leader.step_down,
        )

    def _make_timeline_keeper(self) -> TimelineKeeper:
        services, shared = self._services, self._shared
        keeper = TimelineKeeper(
            self._leadership,
            services.timeline_store,
            shared.clock,
            label=f"{shared.settings.node_id or socket.gethostname()}:{os.getpid()}",
            outages=lambda: services.health.outages,
            backlog=lambda: self._sampler.newest,
            end_of_lead=services.timeline.end_of_lead,
            on_stale=self._leader.step_down,
            rests=shared.rests,
        )
        self.detector.on_look = keeper.look
        return keeper

    def _make_bulk_actions(self) -> BulkActions:
        stores = self._stores
        return BulkActions(
            self._leadership,
            stores.actions,
            self._shared.clock,
            records=stores.records,
            inspector=stores.inspector,
            job_actions=self._services.job_actions,
            history=stores.history,
            store_time_ms=self._services.store_time_ms,
            is_trusted=self._leader.is_trusted,
            on_stale=self._leader.step_down,
        )

    def _make_constraint_expiry(self) -> ConstraintExpiry:
        return ConstraintExpiry(
            self._services.constraint_editor,
            self._services.constraints,
            self._shared.clock,
            who=f"master {self._shared.master_id}",
            store_time_ms=self._services.store_time_ms,
            on_stale=self._leader.step_down,
        )

    def _make_notice_loop(self) -> NoticeLoop:
        return NoticeLoop(
            self._leadership,
            self._services.notice_evaluation(),
            self._shared.clock,
            on_stale=self._leader.step_down,
        )

    def _make_log_keeper(self) -> LogKeeper:
        policies = self._shared.policies
        return LogKeeper(
            self._leadership,
            self._stores.logs,
            self._shared.clock,
            retention_ms=policies.log_retention_ms,
            wait_ms=policies.log_archive_wait_ms if self._shared.settings.log_archive_url else None,
            figures=self._services.figures.archive,
            on_stale=self._leader.step_down,
        )

    def _make_log_archiver(self) -> list[Component]:
        archiving = self._services.log_archiving()
        if archiving is None:
            return []
        return [LogArchiver(self._leadership, archiving, self._shared.clock, on_stale=self._leader.step_down)]

    def _make_look(self) -> ShardLook:
        # As long as there is no notice, failed jobs are reported by mail, if mail is configured.
        mails = bool(self._shared.mail and self._shared.settings.mail_to)
        return ShardLook(
            self._leadership,
            LookStore(self._services.link),
            self.grace,
            self._shared.clock,
            duties=[
                FollowedDuty(self.promoter, lambda look: look.jobs),
                FollowedDuty(
                    self.keeper,
                    self.keeper.due_ms,
                    lambda look: look.has_changed_gates or look.has_counted_gates,
                ),
                FollowedDuty(self._expiry, self._expiry.due_ms),
                FollowedDuty(self.definitions, lambda look: look.definitions),
                FollowedDuty(self.events, lambda look: look.event_groups),
                FollowedDuty(self.follow_ups, lambda look: look.batches, lambda look: look.has_follow_ups),
                FollowedDuty(self._notices, polls=lambda look: look.has_notices or mails),
                FollowedDuty(self.challenges, lambda look: look.callbacks),
                FollowedDuty(self._quarantine, polls=self._quarantine.has_some),
                FollowedDuty(self._reaper, lambda look: 0 if self.grace.was_set_back else look.leases),
                # While a worker is silent (`has_some`), the detector polls. It counts the rounds of silence, so
                # its rounds need a steady interval.
                FollowedDuty(self.detector, self.detector.due_ms, self.detector.has_some),
                FollowedDuty(self._sweeper, self._sweeper.due_ms, self._sweeper.has_some),
                FollowedDuty(self._log_keeper, polls=lambda look: look.has_logs),
                FollowedDuty(self._sampler, polls=lambda look: look.is_ready or self._sampler.has_found),
                FollowedDuty(self.bulk, polls=lambda look: look.has_actions),
            ],
            on_look=self.dispatcher.take_look,
            on_blind=self.dispatcher.be_blind,
            lease_s=self._shared.policies.lease_s,
            on_stale=self._leader.step_down,
            shared=self._services.store.looks,
        )

    def _make_gateway_hosts(self) -> list[Component]:
        gateway = self._services.fireworq
        if gateway is None:
            return []
        return [
            GatewayHosts(
                gateway.queues,
                self._shared.clock,
                who=f"master {self._shared.master_id}",
                on_stale=self._leader.step_down,
            )
        ]

    def _make_exporter(self) -> list[Component]:
        target = self._shared.settings.audit_export
        if target is None:
            return []
        return [
            AuditExporter(
                self._leadership,
                AuditExportStore(self._services.link),
                LineSink(target),
                self._shared.clock,
                on_stale=self._leader.step_down,
            )
        ]
