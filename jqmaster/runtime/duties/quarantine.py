"""Run suspects alone on a worker. A suspect is a job whose workers were lost. If it kills a worker, no other job is
lost."""

import logging
from collections.abc import Callable
from typing import Final

from jqmaster.clock import Clock
from jqmaster.domain.jobs.job import Job, JobState
from jqmaster.runtime.duties.fleet import Fleet, Member
from jqmaster.runtime.periodic_loop import LeaderLoop
from jqmaster.service.constraints.cache import ConstraintCache
from jqmaster.store.jobs.claims import Claim, ClaimStore, NotClaimed
from jqmaster.store.jobs.records import RecordStore
from jqmaster.store.leadership.leadership import Leadership
from jqmaster.store.operations.looks import Look

logger = logging.getLogger(__name__)

POLL_S: Final = 0.5
MAX_LOOKED_AT: Final = 100
# At most one worker in this many runs a suspect alone. So the other workers keep working if one accident made many jobs
# suspects.
WORKERS_PER_ALONE_RUN: Final = 4


class Quarantine(LeaderLoop):
    """A duty of one leadership: runs suspects alone. It gives one worker at a time no new jobs until that worker is
    empty, and then gives it the next suspect. A suspect waits for such a worker in the state `retrying`, for a bounded
    time. Then it becomes ready, and runs alongside other jobs.

    `polls_here`: whether the open poll of a worker that pulls is at this master.
    """

    is_vital = True
    poll_s = POLL_S

    def __init__(
        self,
        leadership: Leadership,
        constraints: ConstraintCache,
        fleet: Fleet,
        clock: Clock,
        *,
        claims: ClaimStore,
        records: RecordStore,
        give: Callable[[Member, Claim, float], None],
        polls_here: Callable[[str], bool] = lambda _: False,
        on_stale: Callable[[], None],
    ) -> None:
        super().__init__(
            "quarantine",
            clock,
            complaint="cannot run a job alone on a worker",
            on_stale=on_stale,
            retry_s=POLL_S,
        )
        self._epoch = leadership.epoch
        self._claims = claims
        self._records = records
        self._constraints = constraints
        self._fleet = fleet
        self._give = give
        self._polls_here = polls_here

    async def start(self) -> None:
        self._fleet.reserved = None
        await super().start()

    def _failed(self, error: Exception, complaint: str) -> None:
        self._fleet.reserved = None
        super()._failed(error, complaint)

    def has_some(self, look: Look) -> bool:
        """Return whether suspects wait, or a worker is kept free although no suspect waits any more."""
        return look.has_suspects or self._fleet.reserved is not None

    async def _round(self) -> float:
        # Repeat at once, because several jobs may be ready to be given to workers.
        while await self._give_one():
            pass
        return POLL_S

    async def _give_one(self) -> bool:
        """Return whether a job was given to a worker."""
        job_ids = await self._claims.suspects(MAX_LOOKED_AT)
        if not job_ids:
            self._fleet.reserved = None
            return False
        found = await self._records.get_without_argument(job_ids)
        waiting = {job_id: job for job_id, job in found.items() if job.state is JobState.RETRYING}
        over = [job_id for job_id in job_ids if job_id not in waiting]
        if over:
            await self._claims.drop_suspects(self._epoch, over)
        if await self._has_room():
            for job in sorted(waiting.values(), key=lambda job: (job.priority, job.id)):
                # None means that this job cannot start now; the next job may.
                if (is_given := await self._try(job)) is not None:
                    return is_given
        self._fleet.reserved = None
        return False

    async def _has_room(self) -> bool:
        workers = self._fleet.fresh()
        holders = {worker.alone_with: worker.id for worker in workers if worker.alone_with and worker.busy}
        running = await self._records.get_without_argument(list(holders))
        count = sum(
            job.state is JobState.RUNNING and job.worker_id == holders[job_id]
            for job_id, job in running.items()
        )
        return count < max(1, len(workers) // WORKERS_PER_ALONE_RUN)

    async def _try(self, job: Job) -> bool | None:
        """Return True if the job was given, False if its worker is still busy with other jobs, and None if the job
        cannot start now."""
        member = self._fleet.least_busy(job.queue)
        if member is None:
            return None
        worker_id = member.worker.id
        self._fleet.reserved = worker_id
        if member.busy or member.pushes or member.claims:
            return False
        sent_at_s = self._clock.monotonic_s()
        claim = await self._claims.claim_alone(
            self._epoch,
            worker_id,
            job.id,
            self._constraints.current.constraint_set.edition,
            polls_here=self._polls_here(worker_id),
        )
        match claim:
            case NotClaimed.BUSY:
                member.busy = max(member.busy, 1)
                return False
            case NotClaimed.GONE:
                self._fleet.forget(worker_id)
            case NotClaimed.NO_POLL:
                member.polls_until_s = 0.0
            case Claim():
                logger.warning(
                    "job %s, under which %d workers were lost, runs alone on worker %s",
                    job.id,
                    job.losses,
                    worker_id,
                )
                self._fleet.note_run_alone(member, job.id)
                self._give(member, claim, sent_at_s)
                self._fleet.reserved = None
                return True
        return None
