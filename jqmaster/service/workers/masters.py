"""Lists the masters of a store, and demotes the leader."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from jqmaster.domain.operations.master import MasterRole, Pace, SeenMaster, role_of, sub_leader
from jqmaster.errors import ConflictError, NotFoundError
from jqmaster.live_value import LiveValue
from jqmaster.store.identity.audit import encode_entry
from jqmaster.store.leadership.leadership import Demotion, LeadershipStore
from jqmaster.store.leadership.masters import MasterStore


@dataclass(frozen=True, slots=True)
class ListedMaster:
    """A master in a list. `is_fresh`: whether the master is live."""

    seen: SeenMaster
    role: MasterRole
    is_fresh: bool


class MasterService:
    """Lists and demotes masters. Methods raise what `StoreClient.run` raises. `order`: takes IDs of masters, and
    returns them in the order in which they should lead. An empty result means that there is no such order."""

    def __init__(
        self,
        store: MasterStore,
        leadership: LeadershipStore,
        pace: LiveValue[Pace],
        *,
        order: Callable[[Collection[str]], Sequence[str]] = lambda master_ids: (),
    ) -> None:
        self._store = store
        self._leadership = leadership
        self._pace = pace
        self._order = order

    async def all(self) -> tuple[list[ListedMaster], int]:
        """Return every registered master, the longest-running first. Also return the newest epoch."""
        masters = await self._store.look()
        fresh_since_ms = masters.now_ms - self._pace.current.fresh_ms
        leader_id = masters.leadership.master_id if masters.leadership else None
        next_id = sub_leader(
            masters.seen,
            leader_id,
            fresh_since_ms=fresh_since_ms,
            demoted_id=masters.demoted_id,
            order=self._order([m.record.id for m in masters.seen if m.last_seen_ms >= fresh_since_ms]),
        )
        listed = [
            ListedMaster(m, role_of(m.record.id, leader_id, next_id), m.last_seen_ms >= fresh_since_ms)
            for m in sorted(masters.seen, key=lambda m: (m.record.started_at_ms, m.record.id))
        ]
        return listed, masters.epoch

    async def demote(self, master_id: str, who: str) -> int:
        """Tell the leader to hand over the lead, and return the epoch that ends. The other masters then quickly elect a
        new leader. `who`: the caller's name for the audit log.

        Raise NotFoundError, and ConflictError with code `not_leader` or `no_other_master`.
        """
        masters = await self._store.look()
        leadership = masters.leadership
        if leadership is None or leadership.master_id != master_id:
            if masters.get(master_id) is None:
                raise NotFoundError(f"no master {master_id[:64]}")
            raise ConflictError("this master does not lead", code="not_leader")
        entry = encode_entry(
            who=who,
            action="master.demote",
            target=master_id,
            before={"leader": master_id, "epoch": leadership.number},
            after={"leader": None},
        )
        demotion = await self._leadership.demote(
            leadership,
            fresh_ms=self._pace.current.fresh_ms,
            hold_ms=self._pace.current.hold_ms,
            audit_entry=entry,
        )
        match demotion:
            case Demotion.NOT_LEADER:
                raise ConflictError("this master does not lead", code="not_leader")
            case Demotion.ALONE:
                raise ConflictError("no other master is alive to take over the lead", code="no_other_master")
            case Demotion.TOLD:
                return leadership.number
