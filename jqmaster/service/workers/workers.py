"""Use cases of workers: register, send heartbeats, leave."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from jqmaster.domain.ids import is_id, new_id
from jqmaster.domain.instant import iso_ms
from jqmaster.domain.jobs.job import CONTINUED, Job
from jqmaster.domain.jobs.progress import ProgressReport
from jqmaster.domain.jobs.reserved_names import RESERVED_PREFIX
from jqmaster.domain.workers.worker import Worker, WorkerSpec
from jqmaster.errors import unknown_worker
from jqmaster.live_value import LiveValue
from jqmaster.service.workers.registrations import Registrations
from jqmaster.store import codec
from jqmaster.store.jobs.progress import ProgressStore
from jqmaster.store.jobs.records import RecordStore
from jqmaster.store.workers.workers import HeartbeatReply, WorkerQuota, WorkerStore

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Registration:
    worker_id: str
    epoch: int
    store_time_ms: int


class WorkerService:
    """Registers workers, renews their leases, and lets them leave. Methods raise what the store raises."""

    def __init__(
        self,
        workers: WorkerStore,
        registrations: Registrations,
        records: RecordStore,
        progress: ProgressStore,
        *,
        most: LiveValue[int | None] | None = None,
        stale_ms: LiveValue[int] | None = None,
    ) -> None:
        """Take the stores, and the quota of workers.

        * `most`: maximum number of registered workers. None: any number.
        * `stale_ms`: a worker that has been silent for this time does not count.
        """
        self._workers = workers
        self._registrations = registrations
        self._records = records
        self._progress = progress
        self._most = most or LiveValue(None)
        self._stale_ms = stale_ms or LiveValue(0)

    async def register(
        self, spec: WorkerSpec, owner: str = "", *, caller: str = "", companion_of: str = ""
    ) -> Registration:
        """Register a worker, and return its new ID. `owner`: the caller who owns the worker. `caller`: see `caller_of`.
        `companion_of`: see `Worker`.

        Raise AddressRefusedError if the server at the URL does not know the secret. Raise RateLimitedError if too many
        registrations of this owner and caller have failed or are in progress, or if the namespace has reached its quota
        of workers.
        """
        former = ""
        if spec.url is not None:
            # Look up the former worker before checking the secret. If this master is suspended during the check,
            # another worker may register at the URL meanwhile. That newer worker must not count as the former one.
            former = await self._workers.serving(spec.url)
            await self._registrations.check(spec.url, spec.secret, f"{owner}, {caller}")
        worker_id = new_id()
        most = None if owner.startswith(RESERVED_PREFIX) else self._most.current
        quota = None if most is None else WorkerQuota(most, self._stale_ms.current)
        now_ms, epoch = await self._workers.register(
            worker_id, spec, owner, companion_of, former=former, quota=quota
        )
        logger.info(
            "worker %s registered: %s at %s", worker_id, ", ".join(spec.names[:5]), spec.url or "(pulls)"
        )
        if spec.url is not None:
            self._registrations.note(spec.url)
        return Registration(worker_id, epoch, now_ms)

    async def heartbeat(
        self,
        worker_id: str,
        claims: Sequence[tuple[str, str]],
        free: int,
        as_of_ms: int = 0,
        *,
        max_jobs: int | None = None,
        reports: Sequence[ProgressReport] = (),
        asks_to_continue: bool = False,
    ) -> HeartbeatReply:
        """Renew leases, and save the progress reports of valid claims. Raise NotFoundError if the worker is not
        registered.

        * `as_of_ms`: the store time at which the worker listed its claims, or an earlier time.
        * `max_jobs`: the slots that the worker offers from now on. None: unchanged.
        * `asks_to_continue`: whether the worker, if it was detached because it was silent, wants to continue its jobs.
        """
        answer = None
        if is_id(worker_id):
            answer = await self._workers.renew(worker_id, claims, free, as_of_ms, max_jobs=max_jobs)
        if answer is None:
            raise unknown_worker(worker_id)
        if reports:
            refused = await self._progress.save(worker_id, reports)
            # Treat a claim as lost if its reports were refused as stale. It has ended since the leases were renewed.
            lost = answer.lost | (refused.stale - answer.to_cancel)
            answer = replace(answer, lost=lost, outdated=refused.outdated)
        if asks_to_continue and answer.detached_by == "silence":
            return await self._reattach(worker_id, claims, answer)
        return answer

    async def change_target_worker(
        self, worker_id: str, names: Sequence[str], max_jobs: int, unreachable: str
    ) -> None:
        """Change a worker that delivers to a target; see `WorkerStore.change_target_worker`. Raise NotFoundError."""
        if not await self._workers.change_target_worker(worker_id, names, max_jobs, unreachable):
            raise unknown_worker(worker_id)

    async def announce_leave(self, worker_id: str) -> None:
        """Give no more jobs to a worker whose process is ending. Raise NotFoundError."""
        if not (is_id(worker_id) and await self._workers.announce_leave(worker_id)):
            raise unknown_worker(worker_id)
        logger.info("worker %s is ending", worker_id)

    async def leave(self, worker_id: str) -> None:
        """Unregister a worker. The jobs that it still holds wait again when their leases end. Raise NotFoundError."""
        if not (is_id(worker_id) and await self._workers.forget(worker_id)):
            raise unknown_worker(worker_id)
        logger.info("worker %s left", worker_id)

    async def get(self, worker_id: str) -> Worker:
        """Return a worker. Raise NotFoundError."""
        return await existing_worker(self._workers, worker_id)

    async def all(self) -> list[Worker]:
        """Return every registered worker."""
        return await self._workers.all()

    async def held(self, worker_id: str) -> list[Job]:
        """Return the jobs that the worker holds, the oldest first. Jobs with an unreadable record are left out."""
        job_ids = await self._workers.claims(worker_id)
        jobs = await self._records.get_without_argument(job_ids)
        return [jobs[job_id] for job_id in job_ids if job_id in jobs]

    async def _reattach(
        self, worker_id: str, claims: Sequence[tuple[str, str]], answer: HeartbeatReply
    ) -> HeartbeatReply:
        """Let a detached worker that was silent continue its jobs. Its leases have just been renewed, so the jobs run
        nowhere else."""
        held = [claim for claim in claims if claim not in answer.lost and claim not in answer.to_cancel]
        worker = await self._workers.get(worker_id)
        jobs = await self._records.get_without_argument([job_id for job_id, _ in held])
        silent_since = iso_ms(worker.silent_since_ms) if worker and worker.silent_since_ms else "a while ago"
        message = f"its worker was detached, silent since {silent_since}; it came back and continues the job"
        entries = [
            (job_id, token, codec.encode_attempt(jobs[job_id], CONTINUED, message, None))
            for job_id, token in held
            if job_id in jobs
        ]
        if not await self._workers.reattach(worker_id, entries):
            return answer
        logger.warning("worker %s, silent since %s, continues %d jobs", worker_id, silent_since, len(held))
        return replace(answer, detached_by=None)


async def existing_worker(workers: WorkerStore, worker_id: str) -> Worker:
    """Return a worker. Raise NotFoundError."""
    worker = await workers.get(worker_id) if is_id(worker_id) else None
    if worker is None:
        raise unknown_worker(worker_id)
    return worker
