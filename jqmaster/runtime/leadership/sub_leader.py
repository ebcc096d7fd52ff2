"""Watch the leader, and take over from one that falls silent."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from jqmaster.clock import NOW_S, Clock, DueTime, SharedRests
from jqmaster.domain.operations.master import MasterRecord, Pace, sub_leader
from jqmaster.errors import JqmasterError
from jqmaster.live_value import LiveValue
from jqmaster.runtime.leadership.lead_preference import NamespacePreference
from jqmaster.runtime.leadership.leader import Leader
from jqmaster.runtime.periodic_loop import PeriodicLoop
from jqmaster.store.leadership.masters import BeatAnswer, MasterRegistry, MasterStore

logger = logging.getLogger(__name__)

# How often to look at the leader while the answers to heartbeats show that it is alive.
CALM_LOOK_S: Final = 5.0
# A leader counts as alive for this many intervals after its heartbeat. That is less than `suspect_after_s`.
CALM_BEATS: Final = 1.5


class SubLeader(PeriodicLoop):
    """Component of every master: watches the leader. Only the sub-leader takes over from it. `answers`: asks a master
    whether it is alive.

    A leader is deposed only if it is silent both in the store and to a direct call. A leader that is silent only in the
    store may be cut off from the store, and its lock will expire. If the leader is silent only to this master, this
    master may be cut off.

    The silence in the store is the time, by the clock of this process, for which the leader's record has not changed.
    So neither a step of the store's clock nor an outage of the store makes a live leader look dead.

    The answers to this master's own heartbeats also contain the leader's newest heartbeat (`take`). While each answer
    contains a new one, the sub-leader looks only every `CALM_LOOK_S`. So the followers of a thousand quiet shards
    hardly read their stores.

    `order`: the order in which masters should lead, if the installation has several namespaces. The first master then
    takes a free lock at once. The second one takes it at its next check. The others take it when it has been free for
    its lifetime.

    `has_seen_leader`: whether any check found a leader.

    `leader_faults`: by name, the faults of the leader's side duties; empty if this master leads.
    """

    is_vital = True

    def __init__(
        self,
        store: MasterStore,
        leader: Leader,
        clock: Clock,
        *,
        master_id: str,
        pace: LiveValue[Pace],
        answers: Callable[[MasterRecord], Awaitable[bool]],
        order: NamespacePreference,
        rests: SharedRests | None = None,
    ) -> None:
        super().__init__("sub-leader", clock, complaint="cannot look at the leader")
        self._store = store
        self._leader = leader
        self._master_id = master_id
        self._pace = pace
        self._answers = answers
        self._rests = rests or SharedRests(clock)
        self._order = order
        self._known: tuple[str, int] | None = None
        self._since_s = 0.0
        # When the last answered heartbeat was sent, and until when its answer shows that the leader is alive.
        self._asked_s = clock.monotonic_s()
        self._calm_until_s = self._look_due_s = NOW_S
        # The earlier of `_calm_until_s` and `_look_due_s`.
        self._next_look = DueTime()
        self._free_since_s: float | None = None
        self.is_standby = False
        self.has_seen_leader = False
        self.leader_faults: Mapping[str, str] = {}

    def take(self, answer: BeatAnswer, sent_at_s: float) -> None:
        """Take the answer to a heartbeat that was sent at `sent_at_s`."""
        asked_s, self._asked_s = self._asked_s, sent_at_s
        if self._leader.leadership:
            return
        self._leader.note_write()
        if answer.leader is None:
            self._calm_until_s = self._next_look.at_s = NOW_S
            return
        if answer.leader != self._known:
            now_s = self._clock.monotonic_s()
            # The leader sent its new heartbeat after this master's previous one (`asked_s`). The store's clock shows
            # how long ago.
            age_s = (answer.now_ms - answer.leader[1]) / 1000
            self._known, self._since_s = answer.leader, min(now_s, max(asked_s, now_s - age_s))
        self._calm_until_s = self._since_s + CALM_BEATS * self._pace.current.beat_s
        self._next_look.at_s = min(self._calm_until_s, self._look_due_s)

    async def _round(self) -> float:
        await self._look()
        self._look_due_s = self._clock.monotonic_s() + CALM_LOOK_S
        self._next_look.at_s = min(self._calm_until_s, self._look_due_s)
        return self._pace.current.look_s

    async def _pause(self, seconds: float) -> None:
        if self._leader.leadership:
            await self._rests.wait(
                self._wake, lambda: self._leader.leadership is None, due=self._leader.lead_over
            )
        elif self._is_calm():
            await self._rests.wait(self._wake, lambda: not self._is_calm(), due=self._next_look)
        else:
            # Do not wake early. An early check would find that the leader has not been silent for long enough, and
            # would delay the next check.
            await self._clock.sleep(seconds)

    def _is_calm(self) -> bool:
        return self._clock.monotonic_s() < self._next_look.at_s

    def _retry_after_s(self) -> float:
        return self._pace.current.look_s

    def _failed(self, error: Exception, complaint: str) -> None:
        # Log at debug level, because other components report an outage of the store.
        detail = error.detail if isinstance(error, JqmasterError) else error
        logger.debug("%s: %s", complaint, detail)

    async def _look(self) -> None:
        if self._leader.leadership:
            self._known, self.is_standby, self.leader_faults, self._free_since_s = None, False, {}, None
            self.has_seen_leader = True
            return
        masters = await self._store.look()
        if masters.leadership is None:
            self._known, self.leader_faults = None, {}
            self._look_at_free_lock(masters)
            return
        self._free_since_s, self.has_seen_leader = None, True
        self.is_standby = self._master_id == sub_leader(
            masters.seen,
            masters.leadership.master_id,
            fresh_since_ms=self._fresh_since_ms(masters),
            demoted_id=masters.demoted_id,
            order=self._order.of(self._alive_here(masters)),
        )
        await self._judge(masters)

    def _look_at_free_lock(self, masters: MasterRegistry) -> None:
        now_s, was_free = self._clock.monotonic_s(), self._free_since_s is not None
        if self._free_since_s is None:
            self._free_since_s = now_s
        # The sub-leader goes first. The other masters stand for election after their second check, in case there is no
        # sub-leader or it is gone as well.
        rank = 0 if self.is_standby else 1
        # Include masters known from elsewhere: after the shard's start, or an outage of its store, other masters may
        # not have sent it a heartbeat yet.
        ids = self._alive_here(masters) | self._order.living | {self._master_id}
        order = self._order.of(ids - {masters.demoted_id})
        if rank and self._master_id in order:
            rank = order.index(self._master_id)
        if rank == 0 or (rank == 1 and was_free) or now_s - self._free_since_s >= self._pace.current.ttl_s:
            self._leader.campaign_now()

    @property
    def may_stand(self) -> bool:
        """Return whether this master stands for election although no check has found the lock free. Without an order,
        all masters stand. With an order, only the first one stands.
        """
        order = self._order.of(self._order.living | {self._master_id})
        return not order or order[0] == self._master_id

    def _alive_here(self, masters: MasterRegistry) -> set[str]:
        since_ms = self._fresh_since_ms(masters)
        return {one.record.id for one in masters.seen if one.last_seen_ms >= since_ms}

    def _fresh_since_ms(self, masters: MasterRegistry) -> int:
        return masters.now_ms - self._pace.current.fresh_ms

    async def _judge(self, masters: MasterRegistry) -> None:
        assert masters.leadership
        leader = masters.get(masters.leadership.master_id)
        self.leader_faults = _told(leader.record) if leader else {}
        if leader is None:
            return  # only the leader's lock is known; it expires by itself
        known = masters.leadership.holder, leader.last_seen_ms
        now_s = self._clock.monotonic_s()
        if known != self._known:
            self._known, self._since_s = known, now_s
        elif (
            self.is_standby
            and now_s - self._since_s >= self._pace.current.suspect_after_s
            and not await self._answers(leader.record)
        ):
            self._known = None
            self._leader.take_over(masters.leadership, leader.last_seen_ms)


def _told(leader: MasterRecord) -> dict[str, str]:
    """Return the faults of the leader, each with where to find more information."""
    return {
        name: f"{fault} (at the leader, master {leader.id})" for name, fault in leader.duty_faults.items()
    }
