"""Explains why ready jobs wait: those of the queue, a name, a tag or a batch."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from jqmaster.domain.content.content import ContentAccess
from jqmaster.domain.jobs.job import Job, JobState
from jqmaster.domain.jobs.job_filter import JobFilter
from jqmaster.domain.why.causes import WaitCause, merged, summary
from jqmaster.service.constraints.cache import ConstraintCache
from jqmaster.service.jobs.reader import JobReader
from jqmaster.service.jobs.why import WhyService
from jqmaster.store.constraints.why import WhyStore

# Maximum number of jobs that are read, the longest-waiting first.
MAX_EXAMINED: Final = 2_000
# Maximum number of groups that are explained, by one job each. Jobs of a group have the same lane and gates.
MAX_EXPLAINED: Final = 12
# Maximum number of jobs of one group that are tried, one after another. A further job is tried only if the previous job
# started before it was explained.
MAX_ASKED: Final = 3


@dataclass(frozen=True, slots=True)
class BacklogExplanation:
    """The causes for which ready jobs wait.

    * `ready`: the number of ready jobs. If `is_exact` is False, there may be more.
    * `examined`: the number of ready jobs that `causes` cover.
    """

    ready: int
    is_exact: bool
    examined: int
    causes: Sequence[WaitCause]

    @property
    def text(self) -> str:
        return summary(self.ready, is_exact=self.is_exact, examined=self.examined, causes=self.causes)


class BacklogWhy:
    """Explains why ready jobs wait. Jobs with the same lane and gates form a group. One job of each group is explained,
    and its cause counts for the whole group. Methods raise what the store raises."""

    def __init__(
        self, jobs: JobReader, store: WhyStore, why: WhyService, constraints: ConstraintCache
    ) -> None:
        self._jobs = jobs
        self._store = store
        self._why = why
        self._constraints = constraints

    async def explain(self, wanted: JobFilter, access: ContentAccess) -> BacklogExplanation:
        """Explain why the ready jobs that match the filter wait. The filter must not name states."""
        ready = replace(wanted, state=JobState.READY)
        listed = await self._jobs.page(ready, limit=MAX_EXAMINED, cursor=None, order="oldest")
        jobs = listed.page.jobs
        count, is_exact = len(jobs), True
        if listed.page.cursor is not None or listed.page.is_partial:
            counted = (await self._jobs.count(ready)).get(JobState.READY)
            if counted is not None:
                count, is_exact = max(counted.count, count), counted.is_exact
        groups = await self._groups(jobs)
        causes = merged(await self._causes(groups[:MAX_EXPLAINED], access))
        return BacklogExplanation(count, is_exact, sum(one.count for one in causes), causes)

    async def _groups(self, jobs: Sequence[Job]) -> list[list[Job]]:
        """Return the jobs by group, the largest group first. Jobs of a group have the same lane and gates."""
        known = await self._constraints.reload()
        is_keyed = any(one.key for one in known.constraint_set.constraints)
        gates = await self._store.keyed_gates([job.id for job in jobs]) if is_keyed else [b""] * len(jobs)
        found: dict[tuple[bytes, bytes], list[Job]] = {}
        for job, keyed in zip(jobs, gates, strict=True):
            found.setdefault((job.lane_id, keyed), []).append(job)
        return sorted(found.values(), key=len, reverse=True)

    async def _causes(self, groups: Sequence[Sequence[Job]], access: ContentAccess) -> list[WaitCause]:
        """Return the cause of each group's wait. The last jobs of a group are tried, because its first jobs start
        first. If all tried jobs have started meanwhile, the group is left out."""
        found: dict[int, WaitCause] = {}
        for turn in range(1, MAX_ASKED + 1):
            asked = {
                n: group[-turn] for n, group in enumerate(groups) if n not in found and len(group) >= turn
            }
            if not asked:
                break
            told = await self._why.why_each([job.id for job in asked.values()], access)
            for n, job in asked.items():
                one = told[job.id]
                if one is not None and one.state is JobState.READY and one.verdicts:
                    found[n] = WaitCause(len(groups[n]), one.verdicts[0], job.id, (job.name,))
        return [found[n] for n in sorted(found)]
