"""Judges, for health checks and statistics, whether a master can do its work on a shard."""

import asyncio
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from jqmaster.api.services import MasterCondition
from jqmaster.app.shard import ServedShard
from jqmaster.app.shared import Shared
from jqmaster.domain.namespaces.namespace import DEFAULT, OTHER_NAMESPACES
from jqmaster.errors import JqmasterError
from jqmaster.service.operations.stats import StoreState

READY_WITHIN_S: Final = 2.0
STALLED_S: Final = 5.0
# Number of lock lifetimes for which a missing leader counts as a normal change of leaders. During this time,
# masters stay ready.
CHANGE_OF_LEADERS_TTLS: Final = 2

# The names of the checks that concern the whole process.
_OF_PROCESS: Final = frozenset({"process", "stopping"})


class ReadinessCheck:
    """Answers from facts of this process. Only `condition` reads the store.

    * `registry_faults`: returns the faults of the registry of namespaces. They do not make this master unready.
    * `others`: returns the reasons why other namespaces are not served, by name. They do not make this master
      unready.
    * `serves_others`: returns whether this process serves another namespace.
    """

    def __init__(
        self,
        shared: Shared,
        shard: ServedShard,
        registry_faults: Callable[[], dict[str, str]] = dict,
        others: Callable[[], dict[str, str]] = dict,
        serves_others: Callable[[], bool] = lambda: False,
    ) -> None:
        self._registry_faults = registry_faults
        self._others = others
        self._serves_others = serves_others
        self._shared = shared
        self._shard = shard
        self._health = shard.services.health
        # Time since which there has been no leader. None: the last check found a leader, or there has been no
        # check yet.
        self._leaderless_since_s: float | None = None

    async def of_process(self) -> MasterCondition:
        """Return the condition for callers who ask whether this process is useful. A process that serves other
        namespaces is useful even if the default namespace cannot work."""
        condition = await self.condition()
        faults = condition.faults
        own = {name: fault for name, fault in faults.items() if name not in _OF_PROCESS}
        if not own or not self._serves_others():
            return condition
        return replace(
            condition,
            faults={name: faults[name] for name in faults if name in _OF_PROCESS},
            duty_faults={
                **{f"{DEFAULT}.{name}": f"{DEFAULT}: {own[name]}" for name in own},
                **condition.duty_faults,
            },
        )

    async def condition(self) -> MasterCondition:
        """Return the condition of this namespace."""
        reason = self._shard.services.faults.reason
        faults = {**({"process": reason} if reason else {}), **self._health.faults}
        if self._shared.departure.is_begun.current:
            faults["stopping"] = "this master was told to stop"
        store = "serving"
        try:
            async with asyncio.timeout(READY_WITHIN_S):
                if await self._is_leaderless():
                    faults["leader"] = "no master leads"
                if refusal := self._shard.leader.refusal:
                    # The store accepts reads but refuses writes.
                    store = refusal
                    faults["store"] = f"store: {store}"
        except (JqmasterError, TimeoutError) as exc:
            store = exc.detail if isinstance(exc, JqmasterError) else "it does not answer in time"
            if (embedded := self._shard.services.store.embedded) and (detail := embedded.status().detail):
                store = detail  # the embedded store knows the reason, for example a full disk
            faults["store"] = f"store: {store}"
        if self._shard.progress.round_s() > STALLED_S:
            faults["dispatcher"] = "the dispatcher stands still"
        return MasterCondition(
            self._shard.leader.leadership is not None,
            store,
            faults,
            self._health.durability,
            self._health.durability_available,
            self._own_duty_faults(),
            self._others(),
        )

    async def _is_leaderless(self) -> bool:
        """Return whether there has been no leader for longer than a change of leaders takes.

        All masters notice a missing leader at the same time. If all of them became unready at once, a load
        balancer would have no endpoint left.

        If this master has never seen a leader, a missing leader counts at once.
        """
        if await self._shard.services.stores.leadership.current() is not None:
            self._leaderless_since_s = None
            return False
        now_s = self._shared.clock.monotonic_s()
        if self._leaderless_since_s is None:
            self._leaderless_since_s = now_s if self._shard.has_seen_leader else -math.inf
        change_s = CHANGE_OF_LEADERS_TTLS * self._shared.settings.leader_ttl_s
        return now_s - self._leaderless_since_s >= change_s

    def _own_duty_faults(self) -> dict[str, str]:
        return {**self._shard.duty_faults(), **self._registry_faults()}

    def _duty_faults(self) -> dict[str, str]:
        """Return the faults without names of other namespaces. All readers get this answer, and some of them may
        not know these names."""
        fault = (
            "this master does not serve some other namespaces; `jqmaster namespaces` shows them with "
            "the reasons"
        )
        return {**self._own_duty_faults(), **({OTHER_NAMESPACES: fault} if self._others() else {})}

    def store_state(self) -> StoreState:
        report = self._health.report
        return StoreState(
            server=f"{report.kind} {'.'.join(map(str, report.version))}",
            durability=self._health.durability,
            durability_available=report.durability,
            used_memory_bytes=report.memory_used_bytes,
            max_memory_bytes=report.memory_max_bytes,
            faults=list(self._health.faults.values()),
            duty_faults=list(self._duty_faults().values()),
        )
