"""Give leads to the masters that should have them."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

from jqmaster.clock import Clock
from jqmaster.errors import JqmasterError
from jqmaster.runtime.leadership.lead_preference import LeadPreference
from jqmaster.runtime.leadership.leader import Leader
from jqmaster.runtime.periodic_loop import PeriodicLoop
from jqmaster.store.leadership.masters import MasterStore

LOOK_S: Final = 1.0
# How long a turn lasts. All masters together hand over at most one namespace per turn.
TURN_S: Final = 0.5
# How long the better owner must have been alive before it gets a namespace. Leads must not move to a master that keeps
# failing.
SETTLED_S: Final = 10.0
# Maximum number of namespaces per round whose better owner is checked.
MAX_LOOKS: Final = 8


class LedNamespace(NamedTuple):
    """A namespace that this process leads, with the masters of its shard."""

    leader: Leader
    masters: MasterStore


class _Fit(NamedTuple):
    owner: str
    since_s: float


class HandOver(PeriodicLoop):
    """Component of every master: hands over leads. While there are several namespaces, it follows which masters are
    alive. It resigns the lead of each namespace that another master should lead.

    * `store`: the masters of the installation.
    * `led`: returns the namespaces that this process leads, by name.

    The other master must have been alive for `SETTLED_S`, both in the installation and in the shard of the namespace.
    It may reach one store but not the other. While the store of the installation is away, nobody hands over a lead.
    """

    is_vital = False

    def __init__(
        self,
        store: MasterStore,
        order: LeadPreference,
        clock: Clock,
        *,
        master_id: str,
        led: Callable[[], Mapping[str, LedNamespace]],
    ) -> None:
        super().__init__("hand-over", clock, complaint="cannot look at the masters")
        self._store = store
        self._order = order
        self._master_id = master_id
        self._led = led
        # By namespace: the master that should lead it, and since when that master has been able to lead it.
        self._fit: dict[str, _Fit] = {}
        self._looked_s: dict[str, float] = {}

    async def _pause(self, seconds: float) -> None:
        if self._order.is_in_use:
            await super()._pause(seconds)
        else:
            # A lone namespace is never handed over: wait until there is another one.
            await self._wake.wait()
            self._wake.clear()

    def _failed(self, error: Exception, complaint: str) -> None:
        # Log at debug level, because other components report an outage of the store.
        self._logger.debug("%s: %s", complaint, error.detail if isinstance(error, JqmasterError) else error)

    async def _round(self) -> float:
        if not self._order.is_in_use:
            return LOOK_S
        masters = await self._store.look()
        living = self._order.living
        living.take(masters)
        ids = living.ids | {self._master_id}
        # The other masters that have been alive long enough to take over a namespace.
        settled = {one for one in ids - {self._master_id} if living.alive_s(one) >= SETTLED_S}
        led = self._led() if settled else {}
        misplaced = self._misplaced(led, frozenset(ids), settled)
        self._fit = {name: fit for name, fit in self._fit.items() if misplaced.get(name) == fit.owner}
        self._looked_s = {name: at_s for name, at_s in self._looked_s.items() if name in misplaced}
        if not misplaced:
            return LOOK_S
        await self._look_at_owners(led, misplaced)
        if self._is_own_turn(masters.now_ms):
            self._hand_over_one(led)
        return TURN_S

    def _misplaced(
        self, led: Mapping[str, LedNamespace], ids: frozenset[str], settled: Collection[str]
    ) -> dict[str, str]:
        """Return the namespaces that another, settled master should lead, each with that master."""
        if not led:
            return {}
        owners = self._order.owners_among(ids)
        return {name: owners[name] for name in led if owners.get(name) in settled}

    async def _look_at_owners(self, led: Mapping[str, LedNamespace], misplaced: Mapping[str, str]) -> None:
        """Check which of these masters are able to lead, beginning with the namespaces that were checked longest
        ago."""
        for name in sorted(misplaced, key=lambda name: self._looked_s.get(name, 0.0))[:MAX_LOOKS]:
            owner, now_s = misplaced[name], self._clock.monotonic_s()
            self._looked_s[name] = now_s
            try:
                is_fit = await self._is_fit(owner, led[name].masters)
            except JqmasterError:
                is_fit = False  # the store of that namespace is away
            if not is_fit:
                self._fit.pop(name, None)
            elif name not in self._fit:
                self._fit[name] = _Fit(owner, now_s)

    async def _is_fit(self, owner: str, store: MasterStore) -> bool:
        masters = await store.look()
        known = masters.get(owner)
        return (
            known is not None
            and masters.demoted_id != owner
            and known.last_seen_ms >= masters.now_ms - round(self._order.living.silence_s * 1000)
        )

    def _is_own_turn(self, now_ms: int) -> bool:
        """Return whether it is this master's turn. The turns follow from the store's clock, so that masters need not
        ask one another."""
        ids: Sequence[str] = sorted(self._order.living.ids | {self._master_id})
        return ids[now_ms // round(TURN_S * 1000) % len(ids)] == self._master_id

    def _hand_over_one(self, led: Mapping[str, LedNamespace]) -> None:
        now_s = self._clock.monotonic_s()
        for name, fit in self._fit.items():
            if now_s - fit.since_s >= SETTLED_S and led[name].leader.leadership:
                self._logger.info("handing the lead of namespace %s over to master %s", name, fit.owner)
                led[name].leader.step_down()
                del self._fit[name]
                return
