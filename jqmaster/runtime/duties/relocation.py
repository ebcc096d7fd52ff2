"""Move waiting jobs from the lanes of older constraints to the lanes of the present constraints, in small steps."""

import logging
from collections import deque
from collections.abc import AsyncIterator
from typing import Final

from jqmaster.store.constraints.constraints import ConstraintSnapshot
from jqmaster.store.constraints.lanes import LaneStore, OldLane
from jqmaster.store.link.pages import MAX_PER_CALL

logger = logging.getLogger(__name__)

# Number of jobs in a step: enough to match some jobs while the store moves others.
JOBS_PER_STEP: Final = 16 * MAX_PER_CALL
# After this many passes in a row that moved no job, the relocation ends. Both halves of a pass miss a job that becomes
# ready between them, and the next pass finds the job.
MAX_IDLE_PASSES: Final = 3


class Relocation:
    """Move waiting jobs to the lanes of one edition.

    A pass first adopts whole lanes whose gates follow from the names of their jobs. Then it moves the ready jobs of the
    other lanes, beginning with those that would start next. Finally it moves the jobs that wait for a time, and removes
    empty lanes.
    """

    def __init__(self, store: LaneStore, epoch: str, constraints: ConstraintSnapshot) -> None:
        self._store = store
        self._epoch = epoch
        self._constraints = constraints
        self.edition = constraints.constraint_set.edition
        self.is_over = False
        self._all: list[OldLane] = []
        self._left: deque[OldLane] = deque()
        self._walk: AsyncIterator[list[str]] | None = None
        self._moved: int | None = None
        self._idle_passes = 0

    async def step(self) -> int:
        """Move some jobs and return their number. Raise StaleEpochError."""
        if self._walk is not None:
            return await self._walk_on(self._walk)
        if self._left:
            return await self._empty_some()
        older = await self._store.older_lanes(self.edition)
        self._all, adopted = await self._store.adopt(self._epoch, self._constraints, older)
        self._idle_passes = self._idle_passes + 1 if self._moved == 0 else 0
        if not self._all or self._idle_passes == MAX_IDLE_PASSES:
            if self._all:
                logger.error(
                    "%d lanes of older constraints cannot be emptied; see `jqmaster fsck`", len(self._all)
                )
            self.is_over = True
        self._left.extend(self._all)
        self._moved = adopted
        return adopted

    async def _empty_some(self) -> int:
        lanes = [self._left.popleft() for _ in range(min(MAX_PER_CALL, len(self._left)))]
        count = max(1, JOBS_PER_STEP // len(lanes))
        found: dict[str, OldLane] = {}
        unfinished = []
        for lane, ids in zip(lanes, await self._store.ready_in(lanes, count), strict=True):
            found.update(dict.fromkeys(ids, lane))
            if len(ids) == count:
                unfinished.append(lane)
        self._left.extendleft(reversed(unfinished))
        moved = await self._move(list(found), found) if found else 0
        if found and moved <= 0:
            # The jobs of these lanes cannot be moved, so this pass skips the lanes.
            self._left = deque(lane for lane in self._left if lane not in unfinished)
        if not self._left:
            self._walk = self._store.waiting_not_ready()
        return max(moved, 0)

    async def _walk_on(self, walk: AsyncIterator[list[str]]) -> int:
        ids = await anext(walk, None)
        moved = -1 if ids is None else await self._move(ids, {})
        if moved < 0:
            self._walk = None
            await self._store.prune(self._epoch, [lane.id for lane in self._all])
        return max(moved, 0)

    async def _move(self, job_ids: list[str], lanes: dict[str, OldLane]) -> int:
        """Return the number of moved jobs; -1 if the constraints changed in the meantime."""
        moved = await self._store.move(self._epoch, self._constraints, job_ids, lanes)
        self._moved = (self._moved or 0) + max(moved.jobs, 0)
        return moved.jobs
