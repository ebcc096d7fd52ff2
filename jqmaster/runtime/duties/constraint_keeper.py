"""Follow up on changes of the constraints. Give running jobs their slots and waiting jobs their lanes, and open gates
when it is time."""

import logging
from collections.abc import Callable, Sequence
from typing import Final

from jqmaster.clock import TICK_S, Clock, until_tick_s
from jqmaster.runtime.duties.gate_pruning import GatePruning
from jqmaster.runtime.duties.relocation import Relocation
from jqmaster.runtime.periodic_loop import WokenLoop
from jqmaster.service.constraints.cache import ConstraintCache
from jqmaster.store.constraints.gates import GateStore
from jqmaster.store.constraints.lanes import LaneStore
from jqmaster.store.leadership.leadership import Leadership
from jqmaster.store.operations.looks import Look

logger = logging.getLogger(__name__)

POLL_MS: Final = 1_000
RETRY_S: Final = 0.2
# How often to remove empty lanes. They are cheap, so this can be rare.
PRUNE_EVERY_S: Final = 60.0
# How often to prune some pages of gates. Thousands of gates may appear each second, so this is often.
PRUNE_GATES_EVERY_S: Final = 1.0
PAGES_AT_ONCE: Final = 4
# The editions of a shard that never had constraints.
_NO_CONSTRAINTS: Final = (0, 0, 0)


class ConstraintKeeper(WokenLoop):
    """A duty of one leadership: applies changes of the constraints.

    * `on_ready`: called when jobs may start that could not before.
    * `on_stale`: called when the store has a newer epoch.

    After a change, no job is claimed before every running job holds the slots that the new edition demands. Waiting
    jobs are moved to their new lanes, beginning with the jobs that start next. They can be claimed once they are
    moved."""

    is_vital = True
    poll_s = POLL_MS / 1000

    def __init__(
        self,
        leadership: Leadership,
        constraints: ConstraintCache,
        clock: Clock,
        *,
        lanes: LaneStore,
        gates: GateStore,
        on_ready: Callable[[], None],
        on_stale: Callable[[], None],
    ) -> None:
        super().__init__(
            "constraint_keeper",
            clock,
            complaint="cannot apply changes of the constraints",
            on_stale=on_stale,
            retry_s=RETRY_S,
        )
        self._epoch = leadership.epoch
        self._lanes = lanes
        self._gates = gates
        self._constraints = constraints
        self._on_ready = on_ready
        self._relocation: Relocation | None = None
        self._pruned_at_s = self._gates_pruned_at_s = clock.monotonic_s()
        self._gate_pruning = GatePruning(gates, self._epoch)
        self._known_edition = -1
        # The editions that the last complete round applied. The constraints in this process's memory may be newer. In a
        # shard that never had constraints, there is nothing to apply.
        self._followed = _NO_CONSTRAINTS
        # Whether there may be empty lanes, such as those that an earlier leader left.
        self._may_have_lanes = True
        self._finished: Sequence[int] = ()

    def due_ms(self, look: Look) -> int:
        """Return the milliseconds until there is a change to follow, a gate to open, or a lane to remove. -1: nothing
        of this is known."""
        if look.edition != self._followed:
            return 0
        finished = [count for count, _ in look.finished.values()]
        if look.is_ready or look.leases >= 0 or look.jobs >= 0 or finished != self._finished:
            self._may_have_lanes, self._finished = True, finished
        if not self._may_have_lanes:
            return look.gates
        prune_ms = int(PRUNE_EVERY_S * 1000)
        return prune_ms if look.gates < 0 else min(prune_ms, look.gates)

    async def _round(self) -> float:
        return await self._follow() / 1000

    async def _follow(self) -> int:
        """Return the milliseconds until there is something to do."""
        constraints = await self._constraints.reload()
        if constraints.settled_edition != constraints.constraint_set.edition:
            if not await self._lanes.settle(self._epoch, constraints):
                return 0
            constraints = await self._constraints.reload()
            logger.info("constraints of edition %d are in force", constraints.constraint_set.edition)
            self._known_edition = -1
        if constraints.constraint_set.edition != self._known_edition:
            # Notify the dispatcher even if another leader put the edition in force: the dispatcher may have claimed
            # with an older one.
            self._known_edition = constraints.constraint_set.edition
            self._on_ready()
        for cid, version in await self._gates.reopened():
            if await self._gates.reopen(self._epoch, cid, version):
                self._on_ready()
        next_ms, has_opened = await self._gates.open(self._epoch)
        if has_opened:
            self._on_ready()
        if self._relocation is None or self._relocation.edition != constraints.constraint_set.edition:
            self._relocation = Relocation(self._lanes, self._epoch, constraints)
        if not self._relocation.is_over:
            if await self._relocation.step():
                self._on_ready()
            return 0
        if await self._prune():
            return 0
        self._followed = constraints.editions
        poll_ms = POLL_MS
        if not self._follows_looks:
            poll_ms = int(until_tick_s(self._clock.monotonic_s(), POLL_MS / 1000) * 1000)
        return poll_ms if next_ms < 0 else min(poll_ms, next_ms)

    async def _prune(self) -> bool:
        """Remove data of empty lanes and idle gates from time to time. Return whether much more is left."""
        now_s = self._clock.monotonic_s()
        if now_s - self._gates_pruned_at_s >= PRUNE_GATES_EVERY_S - TICK_S:
            for _ in range(PAGES_AT_ONCE):
                if await self._gate_pruning.step():
                    return True
                if self._gate_pruning.is_idle:
                    break
            self._gates_pruned_at_s = now_s
        if now_s - self._pruned_at_s >= PRUNE_EVERY_S:
            self._pruned_at_s = now_s
            # Start the relocation again. The last one could not move some jobs, and others returned to an older lane
            # after it.
            self._relocation = None
            # Constraints can leave gates behind even if there are no lanes.
            has_some = self._constraints.current.editions != _NO_CONSTRAINTS
            async for lanes in self._lanes.lane_pages():
                has_some = True
                await self._lanes.prune(self._epoch, lanes)
            self._may_have_lanes = has_some
            if has_some:
                self._wake.set()
        return False
