"""One shard that this process serves: its services, its leadership, and its health checks."""

from collections.abc import Awaitable, Callable, Sequence

from jqmaster.app.duties import LeaderDuties
from jqmaster.app.served_store import ServedStore
from jqmaster.app.shard_faults import ShardFaults
from jqmaster.app.shard_services import ShardServices
from jqmaster.app.shared import Shared
from jqmaster.domain.operations.master import MasterRecord
from jqmaster.lifecycle import Component
from jqmaster.runtime.duties.dispatcher import Dispatcher
from jqmaster.runtime.leadership.hand_over import LedNamespace
from jqmaster.runtime.leadership.lead_preference import NamespacePreference
from jqmaster.runtime.leadership.leader import Leader
from jqmaster.runtime.leadership.local_leader import LocalLeader
from jqmaster.runtime.leadership.membership import Membership
from jqmaster.runtime.leadership.sharding import Sharding
from jqmaster.runtime.leadership.sub_leader import SubLeader
from jqmaster.runtime.wake_router import WakeRouter
from jqmaster.runtime.watch.history_keeper import HistoryKeeper
from jqmaster.runtime.watch.progress import ProgressWatch
from jqmaster.runtime.watch.watchdog import Watchdog
from jqmaster.service.identity.directory import IdentityDirectory
from jqmaster.store.leadership.leadership import Leadership, LeadershipStore
from jqmaster.store.leadership.masters import BeatAnswer
from jqmaster.store.link.listener import ShardChannels
from jqmaster.store.link.shard import Shard


class ServedShard:
    """Serves one shard as a follower or leader. If the shard fails, `faults` has the reason.

    * `describe`: returns this master's entry for the list of masters. Its argument is the store time of the
      start.
    * `identity`: gets notifications about changes of users and tokens, which are in this shard's store.
    """

    def __init__(
        self,
        shared: Shared,
        link: Shard,
        local_leader: LocalLeader,
        store: ServedStore,
        faults: ShardFaults,
        *,
        identity: IdentityDirectory,
        describe: Callable[[int], Awaitable[MasterRecord]],
    ) -> None:
        self._shared = shared
        self._local_leader = local_leader
        self._store = store
        self.services = services = ShardServices(shared, link, store, faults)
        self._history_keeper = HistoryKeeper(
            services.tally, services.stores.history, shared.clock, rests=shared.rests
        )
        self._duties: LeaderDuties | None = None
        self.order = NamespacePreference(shared.leads, shared.namespace)
        self.leader = self._make_leader(store)
        self._sub_leader = self._make_sub_leader()
        self._membership = Membership(
            services.stores.masters,
            shared.clock,
            name=shared.namespace,
            beats=store.heartbeats,
            describe=describe,
            pace=shared.policies.pace,
            duty_faults=services.duty_faults,
            faults=faults.loops.failing,
            on_answer=self._take_answer,
            fresh=shared.live.fresh,
        )
        for check in services.outside_checks:
            check.on_change = self._membership.tell
        self._sharding = Sharding(
            services.stores.masters, link.client, shared.clock, pace=shared.policies.pace
        )
        self._router = WakeRouter(
            identity=identity,
            settings=shared.live,
            polls=services.polls,
            waiters=services.waiters,
            leader=self.leader,
        )
        self._channels = ShardChannels(
            store.listener,
            link.keys,
            on_wake=self._router.route,
            on_finished=services.waiters.finished,
            on_gap=self._router.on_gap,
        )
        self.progress = ProgressWatch(
            services.stores.inspector,
            services.stores.workers,
            services.fleet,
            shared.clock,
            dispatcher=self._present_dispatcher,
        )
        self._watchdog = self._make_watchdog(store, faults)

    def lower_components(self) -> Sequence[Component]:
        """Return the components that requests need. They start before the server and stop after it."""
        return [
            self._channels,
            *([self._sharding] if self.services.link.client.listens_sharded else []),
            self.services.admission,
            self.services.intake.pace,
            self.services.room,
            self.services.quotas,
            self.services.schema_judge,
            self.services.job_actions,
            self.services.enqueue,
            self.services.events,
            self._watchdog,
            *self.services.outside_checks,
            # Stop the history keeper last, after all components that change counts.
            self._history_keeper,
        ]

    def asking_components(self) -> Sequence[Component]:
        """Return the components that start after the server and stop before it. Waiting polls must end before the
        server stops."""
        # The components start in this order and stop in reverse. Deliveries come last because they get their jobs
        # from polls.
        return [self.services.polls, self.services.target_deliveries]

    def leading_components(self) -> Sequence[Component]:
        """Return the components that start last and stop first. So another master can take the lead while this
        process still finishes requests."""
        return [self._membership, self._sub_leader, self.leader]

    def duty_faults(self) -> dict[str, str]:
        """Return the faults of side duties of this master or of the leader, by name."""
        return {**self._sub_leader.leader_faults, **self.services.duty_faults()}

    @property
    def has_seen_leader(self) -> bool:
        """Return whether this master has led, or has seen another master lead."""
        return self.leader.times_led > 0 or self._sub_leader.has_seen_leader

    @property
    def led(self) -> LedNamespace | None:
        """Return the lead that this master may hand over, or None if it does not lead."""
        return LedNamespace(self.leader, self.services.stores.masters) if self.leader.leadership else None

    @property
    def duties(self) -> LeaderDuties | None:
        """Return the duties of the present leadership, or None if this master does not lead."""
        return self._duties if self.leader.leadership else None

    def make_duties(self, leadership: Leadership) -> Sequence[Component]:
        """Build the components of one leadership, in the order of their dependencies."""
        self._duties = self._router.duties = LeaderDuties(
            leadership,
            self._shared,
            self.services,
            self.leader,
            self.progress,
            local_leader=self._local_leader,
            route=self._router.route,
        )
        return self._duties.components()

    def _take_answer(self, answer: BeatAnswer, sent_at_s: float) -> bool:
        """Process the answer to a heartbeat. Return False if data must be read because of the answer."""
        is_known = self._router.take_answer(answer, sent_at_s)
        self._sub_leader.take(answer, sent_at_s)
        return self._watchdog.take_mark(answer.mark) and is_known

    def _present_dispatcher(self) -> Dispatcher | None:
        duties = self.duties
        return duties.dispatcher if duties else None

    def _make_leader(self, store: ServedStore) -> Leader:
        return Leader(
            # Use the separate connections of `reserve`. With them, the leader keeps its lock even if all other
            # connections are blocked.
            LeadershipStore(Shard(store.reserve, self.services.link.keys)),
            self._shared.clock,
            master_id=self._shared.master_id,
            pace=self._shared.policies.pace,
            renewals=store.renewals,
            make_duties=self.make_duties,
            goes_first=lambda: self._sub_leader.is_standby,
            may_stand=lambda: self._sub_leader.may_stand,
        )

    def _make_sub_leader(self) -> SubLeader:
        return SubLeader(
            self.services.stores.masters,
            self.leader,
            self._shared.clock,
            master_id=self._shared.master_id,
            pace=self._shared.policies.pace,
            answers=self._shared.masters.answers,
            rests=self._shared.rests,
            order=self.order,
        )

    async def _rebuild(self) -> None:
        """Replace the connections that only this shard uses."""
        self._store.rebuild(self.services.link.keys.tag)

    def _make_watchdog(self, store: ServedStore, faults: ShardFaults) -> Watchdog:
        return Watchdog(
            self.services.link,
            self._shared.clock,
            mark=self.services.link.mark,
            stall=self.progress.stall,
            failures=faults.loops,
            rebuild=self._rebuild,
            fail=faults.fail,
            is_calm=self.progress.is_calm,
            rests=self._shared.rests,
            fresh=self._shared.live.fresh,
        )
