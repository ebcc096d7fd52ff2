"""Follow-ups after a job's end: its dependents start, are skipped, or wait again."""

import functools
from collections.abc import Sequence
from typing import Final

from jqmaster.domain.ids import is_id
from jqmaster.service.constraints.cache import ConstraintCache
from jqmaster.service.jobs.follow_ups import CarryOut
from jqmaster.store.jobs.predecessors import PredecessorStore
from jqmaster.store.jobs.records import RecordStore
from jqmaster.store.link.pages import RECORDS_PER_READ, pages

# One call handles at most this many pages of dependents, so that other follow-ups need not wait for long.
PAGES_AT_ONCE: Final = 20


class PredecessorFollowUps:
    """Carries out the follow-ups of predecessors on one shard. Each follow-up may be carried out again at any time."""

    def __init__(self, store: PredecessorStore, records: RecordStore, constraints: ConstraintCache) -> None:
        self._store = store
        self._records = records
        self._constraints = constraints
        # Maps each job to the cursor in the list of its dependents. The map is not stored, so a new leader begins with
        # the first dependent.
        self._cursors: dict[str, str] = {}

    def kinds(self) -> dict[str, CarryOut]:
        """Return the function that carries out each kind of entry."""
        return {"order": self._release_all}

    async def _release_all(self, job_ids: Sequence[str], epoch: str) -> Sequence[str]:
        """Start, skip or revive the dependents of these jobs, depending on the states of the jobs. Return the jobs with
        more dependents than one call handles."""
        return [job_id for job_id in filter(is_id, job_ids) if not await self._release(job_id, epoch)]

    async def _release(self, job_id: str, epoch: str) -> bool:
        for _ in range(PAGES_AT_ONCE):
            released = await self._store.release(job_id, self._cursors.get(job_id, "0"), epoch)
            await self._revive(released.revivable)
            if released.cursor is None:
                self._cursors.pop(job_id, None)
                return True
            self._cursors[job_id] = released.cursor
        return False

    async def _revive(self, job_ids: Sequence[str]) -> None:
        for some in pages(job_ids, RECORDS_PER_READ):
            jobs = list((await self._records.get_all(some)).values())
            if jobs:
                await self._constraints.under(functools.partial(self._store.revive, jobs))
