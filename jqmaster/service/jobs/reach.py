"""The jobs and batches that exist for a caller whose token is restricted to job names."""

from collections.abc import Sequence
from typing import Final

from jqmaster.domain.batches.batch import Batch
from jqmaster.domain.identity.access import Principal
from jqmaster.domain.ids import is_id
from jqmaster.domain.jobs.job import JobSpec
from jqmaster.errors import ForbiddenError
from jqmaster.store.batches.batches import BatchStore
from jqmaster.store.jobs.records import RecordStore
from jqmaster.store.link.pages import RECORDS_PER_READ, pages

# Maximum number of members of another caller's batch that are searched for a job name that the caller may use. The jobs
# of most batches have one name, so the first page suffices.
MAX_MEMBERS: Final = 500


class CallerReach:
    """Decides which jobs and batches a caller may name. A token without a restriction to job names may name all of
    them, and so may the master itself (the caller None).

    A token that is restricted to job names may name these jobs and batches:

    * jobs of these names,
    * batches that it made,
    * batches with a job of these names, because the handler of such a job may add to its batch.

    Other jobs and batches are reported as not found.

    Methods raise what the store raises.
    """

    def __init__(self, records: RecordStore, batches: BatchStore) -> None:
        self._records = records
        self._batches = batches

    def check_names(self, caller: Principal | None, specs: Sequence[JobSpec]) -> None:
        """Raise ForbiddenError if the caller may not push jobs of one of these names."""
        allows = caller.allows_name if caller else None
        if allows is not None and not all(map(allows, {spec.name for spec in specs})):
            raise ForbiddenError("the token may not push jobs of this name", code="name_forbidden")

    async def has_job(self, caller: Principal | None, job_id: str) -> bool:
        """Return whether the caller may use the job."""
        allows = caller.allows_name if caller else None
        if allows is None:
            return True
        names = await self._names_of([job_id])
        return job_id in names and allows(names[job_id])

    def made_batch(self, caller: Principal | None, batch: Batch) -> bool:
        """Return whether the caller may seal and cancel the batch."""
        return caller is None or caller.allows_name is None or batch.spec.owner == caller.identity

    async def hidden_batches(self, caller: Principal | None, batch_ids: set[str]) -> set[str]:
        """Return the IDs of the existing batches among these that the caller may not name."""
        if caller is None or caller.allows_name is None:
            return set()
        found: dict[str, Batch] = {}
        for page in pages(sorted(filter(is_id, batch_ids)), RECORDS_PER_READ):
            found |= await self._batches.get_all(page)
        foreign = [batch_id for batch_id, one in found.items() if one.spec.owner != caller.identity]
        return {batch_id for batch_id in foreign if not await self._holds_job_of(caller, batch_id)}

    async def hidden_predecessors(self, caller: Principal | None, specs: Sequence[JobSpec]) -> dict[int, str]:
        """Return, by the position of a job, the ID of a predecessor in `after` that the caller may not name. Jobs that
        are already accepted are not checked again."""
        allows = caller.allows_name if caller else None
        if allows is None or not any(spec.after for spec in specs):
            return {}
        own = {spec.id for spec in specs}
        asked = {job_id for spec in specs if spec.after for job_id in spec.after.jobs} - own
        if not asked:
            return {}
        names = await self._names_of(asked | own)
        return {
            n: job_id
            for n, spec in enumerate(specs)
            if spec.after and spec.id not in names
            for job_id in reversed(spec.after.jobs)
            if job_id in asked and not (job_id in names and allows(names[job_id]))
        }

    async def _holds_job_of(self, caller: Principal, batch_id: str) -> bool:
        assert caller.allows_name is not None
        members = await self._batches.members(batch_id, "", MAX_MEMBERS)
        for page in pages(members, RECORDS_PER_READ):
            jobs = await self._records.get_without_argument(page)
            if any(caller.allows_name(job.name) for job in jobs.values()):
                return True
        return False

    async def _names_of(self, job_ids: Sequence[str] | set[str]) -> dict[str, str]:
        """Return the names of the jobs that exist."""
        found: dict[str, str] = {}
        for page in pages([job_id for job_id in job_ids if is_id(job_id)], RECORDS_PER_READ):
            jobs = await self._records.get_without_argument(page)
            found |= {job_id: job.name for job_id, job in jobs.items()}
        return found
