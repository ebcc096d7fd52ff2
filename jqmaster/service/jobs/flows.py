"""Reads flows: the jobs that are linked to a job because they wait for one another, up to a limit."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from jqmaster.domain.ids import is_id
from jqmaster.domain.jobs.job import FINISHED, Cause, Job, JobState
from jqmaster.errors import NotFoundError
from jqmaster.store.batches.batches import BatchStore
from jqmaster.store.jobs.predecessors import Dependents, PredecessorStore
from jqmaster.store.jobs.records import RecordStore
from jqmaster.store.link.pages import MAX_PER_CALL, pages

MAX_JOBS: Final = 1_000
# Maximum number of links that are shown. It also limits the dependents that are read at each step.
MAX_LINKS: Final = 10_000
# Maximum number of members of a batch that are checked for links to other jobs.
MAX_MEMBERS: Final = 2_000
# Maximum number of flows that are read at a time. A flow takes up to a few dozen reads. Many flows at once would keep
# other callers of the store waiting.
FLOWS_AT_A_TIME: Final = 2


@dataclass(frozen=True, slots=True)
class FlowNode:
    """A job of a flow.

    * `job`: None if it was deleted.
    * `after`: its predecessors in the flow.
    * `more_before`, `more_behind`: the number of its predecessors and of its dependents that are left out.
    """

    id: str
    job: Job | None
    after: list[str]
    more_before: int
    more_behind: int


@dataclass(frozen=True, slots=True)
class FlowGraph:
    """The jobs of a flow in order. `is_complete`: False if the flow has further jobs."""

    jobs: list[FlowNode]
    is_complete: bool


@dataclass(frozen=True, slots=True)
class Revival:
    """The effect of a job's retry on the jobs that were skipped because of the job.

    * `jobs`: how many would wait again.
    * `held`: how many would stay skipped, because they also need other jobs that did not succeed.
    * `gone`: how many were deleted.
    * `is_complete`: False if further jobs exist that were not read.
    """

    jobs: int
    held: int
    gone: int
    is_complete: bool


class FlowReader:
    """Reads flows. Methods raise what the store raises."""

    def __init__(self, records: RecordStore, predecessors: PredecessorStore, batches: BatchStore) -> None:
        self._records = records
        self._predecessors = predecessors
        self._batches = batches
        self._reads = asyncio.Semaphore(FLOWS_AT_A_TIME)

    async def of_job(self, job_id: str, limit: int) -> FlowGraph:
        """Return the flow of a job, the nearest jobs first. Raise NotFoundError."""
        async with self._reads:
            if not is_id(job_id) or not await self._jobs([job_id]):
                raise NotFoundError(f"no job {job_id[:64]}", code="unknown_job")
            return _flow(await self._around([job_id], limit))

    async def of_batch(self, batch_id: str, limit: int) -> FlowGraph:
        """Return the flow of a batch: its members that have predecessors or dependents, and the jobs linked to them."""
        async with self._reads:
            linked: list[str] = []
            after, looked_at, is_whole = "", 0, True
            while page := await self._batches.members(batch_id, after):
                jobs = await self._jobs(page)
                behind = await self._predecessors.dependents(page, 0)
                linked += [one for one in page if behind[one].total or _before(jobs.get(one))]
                looked_at += len(page)
                after = page[-1]
                if len(linked) > limit or looked_at >= MAX_MEMBERS:
                    is_whole = len(linked) <= limit and not await self._batches.members(batch_id, after, 1)
                    break
            return _flow(await self._around(linked[:limit], limit), is_whole=is_whole)

    async def revival(self, job_id: str) -> Revival:
        """Return the effect of a job's retry on the jobs that were skipped because of the job."""
        async with self._reads:
            skipped: dict[str, Job] = {}
            seen, gone, is_complete, wave = {job_id}, 0, True, [job_id]
            while wave:
                behind = await self._predecessors.dependents(wave, MAX_LINKS)
                met = [
                    one for one in dict.fromkeys(other for place in wave for other in behind[place].first)
                    if one not in seen
                ]  # fmt: skip
                near = met[: MAX_JOBS - len(seen)]
                is_whole = all(len(place.first) == place.total for place in behind.values())
                is_complete = is_complete and is_whole and len(near) == len(met)
                seen.update(near)
                found = await self._jobs(near)
                gone += len(near) - len(found)
                wave = [one for one, job in found.items() if _is_skipped_for_another(job)]
                skipped |= {one: found[one] for one in wave}
            others = {one for job in skipped.values() for one in _before(job)} - {job_id, *skipped}
            known = await self._jobs(sorted(others))
        revived = _revived(skipped, {job_id, *(one for one, job in known.items() if _may_succeed(job))})
        return Revival(revived, len(skipped) - revived, gone, is_complete)

    async def _around(self, seeds: Sequence[str], limit: int) -> list[FlowNode]:
        """Return the given jobs and all jobs linked to them, the nearest first. A link may have either direction, and
        may pass through other jobs."""
        shown: dict[str, Job | None] = {}
        behind: dict[str, Dependents] = {}
        wave = list(seeds)
        while wave:
            jobs = await self._jobs(wave)
            behind |= await self._predecessors.dependents(wave, MAX_LINKS)
            met: dict[str, None] = {}
            for one in wave:
                shown[one] = jobs.get(one)
                met |= dict.fromkeys([*_before(shown[one]), *behind[one].first])
            wave = [one for one in met if one not in shown][: limit - len(shown)]
        return list(_linked(shown, behind))

    async def _jobs(self, job_ids: Sequence[str]) -> dict[str, Job]:
        found: dict[str, Job] = {}
        for page in pages(job_ids, MAX_PER_CALL):
            found |= await self._records.get_without_argument(page)
        return found


def _is_skipped_for_another(job: Job) -> bool:
    """Return whether a job was skipped because another one did not succeed."""
    return job.state is JobState.SKIPPED and job.cause is Cause.DEPENDENCY


def _may_succeed(job: Job) -> bool:
    return job.state is JobState.SUCCEEDED or job.state not in FINISHED


def _revived(skipped: Mapping[str, Job], hopeful: set[str]) -> int:
    """Return how many of the skipped jobs would wait again. A job would wait again if each of its predecessors is
    `hopeful` or would wait again, too. Add the IDs of the jobs that would wait again to `hopeful`."""
    left, count = dict(skipped), -1
    while count != len(left):
        count = len(left)
        for one, job in list(left.items()):
            if hopeful.issuperset(_before(job)):
                hopeful.add(one)
                del left[one]
    return len(skipped) - len(left)


def _before(job: Job | None) -> Sequence[str]:
    return job.after.jobs if job and job.after else ()


def _linked(shown: Mapping[str, Job | None], behind: Mapping[str, Dependents]) -> Iterator[FlowNode]:
    """Yield the jobs with the links among them, up to `MAX_LINKS` links in all."""
    # The record of a deleted job is gone, and with it the list of its predecessors. So the links come from the lists of
    # dependents of the other jobs.
    known = {one: {other for other in behind[one].first if other in shown} for one in shown}
    for one, job in shown.items():
        for other in _before(job):
            if other in shown:
                known[other].add(one)
    left = MAX_LINKS
    for one, job in shown.items():
        before = _before(job)
        inside = [other for other in before if other in shown][:left]
        left -= len(inside)
        more_behind = max(0, behind[one].total - len(known[one]))
        yield FlowNode(one, job, inside, len(before) - len(inside), more_behind)


def _flow(jobs: list[FlowNode], *, is_whole: bool = True) -> FlowGraph:
    return FlowGraph(jobs, is_whole and not any(one.more_before or one.more_behind for one in jobs))
