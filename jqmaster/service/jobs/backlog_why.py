"""Explains why the ready jobs of the queue, a name, a tag or a batch wait."""

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

# Maximum number of jobs that are read, beginning with those that have waited longest.
MAX_EXAMINED: Final = 2_000
# Maximum number of jobs that are explained: one for each group of jobs with the same lane and gates.
MAX_EXPLAINED: Final = 12
# Maximum number of jobs of one group that are examined, one after another. The next one is needed only if the previous
# one has started meanwhile.
MAX_ASKED: Final = 3


@dataclass(frozen=True, slots=True)
class BacklogExplanation:
    """The causes for which ready jobs wait.

    * `ready`: the number of ready jobs, a lower bound unless `is_exact`.
    * `examined`: how many of them `causes` cover.
    """

    ready: int
    is_exact: bool
    examined: int
    causes: Sequence[WaitCause]

    @property
    def text(self) -> str:
        return summary(self.ready, is_exact=self.is_exact, examined=self.examined, causes=self.causes)


class BacklogWhy:
    """Explains one job of each group of jobs that wait for the same gates and labels, and counts the whole group
    under the job's cause. Methods raise what the store raises."""

    def __init__(
        self, jobs: JobReader, store: WhyStore, why: WhyService, constraints: ConstraintCache
    ) -> None:
        self._jobs = jobs
        self._store = store
        self._why = why
        self._constraints = constraints

    async def explain(self, wanted: JobFilter, access: ContentAccess) -> BacklogExplanation:
        """Explain what the ready jobs that the filter selects wait for. The filter must not name states."""
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
        """Return the jobs in groups of one lane and the same gates, the largest group first."""
        known = await self._constraints.reload()
        is_keyed = any(one.key for one in known.constraint_set.constraints)
        gates = await self._store.keyed_gates([job.id for job in jobs]) if is_keyed else [b""] * len(jobs)
        found: dict[tuple[bytes, bytes], list[Job]] = {}
        for job, keyed in zip(jobs, gates, strict=True):
            found.setdefault((job.lane_id, keyed), []).append(job)
        return sorted(found.values(), key=len, reverse=True)

    async def _causes(self, groups: Sequence[Sequence[Job]], access: ContentAccess) -> list[WaitCause]:
        """Return for each group why it waits. A group is left out if the jobs that were tried have started meanwhile.
        The last jobs of a group are tried, because its first jobs start first."""
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
