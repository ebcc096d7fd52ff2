"""Jobs and their results, for pushers and operators."""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from jqmaster.clock import Clock
from jqmaster.domain.ids import id_match, is_id
from jqmaster.domain.jobs.job import CONTINUED, FINISHED, HOLDS_SLOTS, LISTED, Attempt, Job, JobState
from jqmaster.domain.jobs.job_filter import JobFilter
from jqmaster.domain.jobs.predecessors import Links
from jqmaster.domain.jobs.progress import Progress
from jqmaster.domain.jobs.steps import JobStep, steps_of
from jqmaster.errors import NotFoundError
from jqmaster.service.jobs.waiters import FinishWaiters
from jqmaster.store.health.inspect import Inspector, SelectionCount
from jqmaster.store.jobs.listing import JobLists, Page
from jqmaster.store.jobs.predecessors import PredecessorStore
from jqmaster.store.jobs.progress import ProgressStore
from jqmaster.store.jobs.records import RecordStore
from jqmaster.store.jobs.results import ResultStore

# Maximum number of job views that are read at a time, including the views in answers to operators' commands. If
# hundreds of views waited for connections, the leader's duties would get no connection and would consider the store
# unreachable.
VIEWS_AT_A_TIME: Final = 16
# Interval at which a waiting call reads the store again, because the message about the end of a job can be lost.
LOOK_AGAIN_S: Final = 5.0
# Maximum time for reading one page. If few jobs match the filter, the page may end early, and the next call continues.
PAGE_WITHIN_S: Final = 0.15
COUNT_WITHIN_S: Final = 0.5

ListOrder = Literal["oldest", "newest"]


@dataclass(frozen=True, slots=True)
class JobDetail:
    """A job with its attempts, the current one last.

    * `events`: entries of the history that do not end an attempt.
    * `result`: the encoded Result that is kept for the job's pusher. None: there is none.
    """

    job: Job
    attempts: list[Attempt]
    events: list[Attempt]
    result: bytes | None = None
    progress: Progress | None = None
    links: Links | None = None
    steps: Sequence[JobStep] = ()


@dataclass(frozen=True, slots=True)
class ListedJobs:
    """A page of a list, and the number of all jobs by state, whatever the filter selects."""

    page: Page
    counts: dict[JobState, int]


class JobReader:
    """Reads jobs and results. Methods raise what the store raises."""

    def __init__(
        self,
        records: RecordStore,
        results: ResultStore,
        progress: ProgressStore,
        waiters: FinishWaiters,
        clock: Clock,
        *,
        predecessors: PredecessorStore,
        inspector: Inspector,
        lists: JobLists,
    ) -> None:
        self._records = records
        self._results = results
        self._progress = progress
        self._predecessors = predecessors
        self._inspector = inspector
        self._lists = lists
        self._waiters = waiters
        self._clock = clock
        self._views = asyncio.Semaphore(VIEWS_AT_A_TIME)

    async def view(self, job_id: str) -> JobDetail:
        """Return a job with all facts that a job view shows. Raise NotFoundError."""
        async with self._views:
            return await self._view(job_id)

    async def _view(self, job_id: str) -> JobDetail:
        job = await existing_job(self._records, job_id)
        history = await self._records.history(job_id)
        attempts = [entry for entry in history if entry.outcome != CONTINUED]
        events = [entry for entry in history if entry.outcome == CONTINUED]
        # The history contains neither a running attempt nor a successful one, so add them here.
        if job.state in (*HOLDS_SLOTS, JobState.SUCCEEDED):
            outcome = "success" if job.state is JobState.SUCCEEDED else None
            attempts.append(
                Attempt(
                    job.attempt, job.worker_id, job.started_at_ms, job.finished_at_ms, outcome, None, None
                )
            )
        result = await self._results.look_at_result(job_id) if job.state in FINISHED else None
        told = await self._progress.of([job])
        links = await self._predecessors.links(job)
        steps = steps_of(await self._progress.checkpoint(job))
        return JobDetail(job, attempts, events, result, told.get(job.id), links, steps)

    async def page(
        self, wanted: JobFilter, *, limit: int, cursor: str | None, order: ListOrder | None
    ) -> ListedJobs:
        """Return a page of jobs. Raise InvalidError for a cursor of another list.

        `order`: None sorts the jobs by state, and within a state in the order in which they are processed.
        """
        late_at_s = self._clock.monotonic_s() + PAGE_WITHIN_S
        if order is None:
            found = await self._inspector.scan(wanted, limit=limit, cursor=cursor)
            page = Page(found.jobs, found.cursor, found.looked_at, False)
        else:
            page = await self._lists.page(
                wanted,
                limit=limit,
                cursor=cursor,
                is_backward=order == "newest",
                is_late=lambda: self._clock.monotonic_s() >= late_at_s,
            )
        return ListedJobs(page, await self._inspector.counts())

    async def count(self, wanted: JobFilter) -> dict[JobState, SelectionCount]:
        """Return the number of selected jobs in each state that the filter allows."""
        late_at_s = self._clock.monotonic_s() + COUNT_WITHIN_S
        if wanted.batch is not None:
            return await self._inspector.count_members(
                wanted, is_late=lambda: self._clock.monotonic_s() >= late_at_s
            )
        states = [state for state in LISTED if wanted.may_select_state(state)]
        return {
            state: await self._inspector.count(
                wanted, [state], is_late=lambda: self._clock.monotonic_s() >= late_at_s
            )
            for state in states
        }

    async def result(self, job_id: str, *, wait_s: float) -> bytes | JobState | None:
        """Return the encoded Result of a job. None: the job is over and has no Result. If the job is not over after
        `wait_s`, return its state."""
        if not id_match(job_id):
            return None
        left_s, ends_at_s = wait_s, self._clock.monotonic_s() + wait_s
        with self._waiters.listening(job_id) as ended:
            while True:
                ended.clear()
                result = await self._results.fetch_result(job_id, watch=left_s > 0)
                if not isinstance(result, JobState) or left_s <= 0:
                    return result
                # Wait inline instead of calling `wait_for_event`. Every call for a result passes here, and a further
                # function call would slow it down.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(left_s, LOOK_AGAIN_S)):
                        await ended.wait()
                left_s = ends_at_s - self._clock.monotonic_s()


async def existing_job(records: RecordStore, job_id: str) -> Job:
    """Return a job. Raise NotFoundError."""
    job = await records.get(job_id) if is_id(job_id) else None
    if job is None:
        raise unknown_job(job_id)
    return job


def unknown_job(job_id: str) -> NotFoundError:
    """Return the error for a job that does not exist."""
    return NotFoundError(f"no job {job_id[:64]}", code="unknown_job")
