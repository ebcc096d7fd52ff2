"""Enqueues webhooks about the ends of jobs. Each delivery is a job that masters run themselves."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from jqmaster.domain.ids import is_id
from jqmaster.domain.jobs.job import FINISHED, Attempt, Job, JobSpec, JobState
from jqmaster.domain.notices.delivery import WEBHOOK_NAME
from jqmaster.domain.notices.webhook import (
    JobEnd,
    body_of,
    delivery_ids,
    delivery_job,
    read_end,
)
from jqmaster.errors import ConflictError, NotFoundError
from jqmaster.lifecycle import EntriesApart
from jqmaster.service.constraints.cache import ConstraintCache
from jqmaster.service.jobs.follow_ups import CarryOut
from jqmaster.service.jobs.operator_actions import JobActions
from jqmaster.service.jobs.reader import existing_job
from jqmaster.store.jobs.enqueue import EnqueueStore
from jqmaster.store.jobs.enqueue_outcomes import BacklogFull
from jqmaster.store.jobs.records import RecordStore
from jqmaster.store.jobs.results import ResultStore

logger = logging.getLogger(__name__)

# Maximum number of deliveries that a list of a job's deliveries reads, beginning with the newest.
MAX_LISTED: Final = 100


class WebhookFollowUps:
    """Enqueues a delivery for each end of a job that has to be reported. A follow-up may be carried out again at any
    time, because the delivery of an end always has the same ID. `prepare`: returns once a worker that runs deliveries
    is registered."""

    def __init__(
        self,
        new_jobs: EnqueueStore,
        records: RecordStore,
        results: ResultStore,
        constraints: ConstraintCache,
        *,
        prepare: Callable[[], Awaitable[None]],
    ) -> None:
        self._new_jobs = new_jobs
        self._records = records
        self._results = results
        self._constraints = constraints
        self._prepare = prepare
        self._apart = EntriesApart("webhooks")

    def kinds(self) -> dict[str, CarryOut]:
        """Return the function that carries out each kind of entry."""
        return {"notify": self.enqueue}

    async def enqueue(self, subjects: Sequence[str], epoch: str) -> Sequence[str]:
        """Enqueue the deliveries of ends. Return the subjects that must be carried out again, because the call failed
        or a backlog limit refused the delivery."""
        del epoch  # not needed: the ID of a delivery prevents a second one
        ends = {subject: end for subject in subjects if (end := read_end(subject))}
        jobs = await self._records.get_without_argument([end.job_id for end in ends.values()])
        specs: dict[str, JobSpec] = {}
        failed = set(ends)
        for subject, end in ends.items():
            with self._apart.alone(subject):
                # Skip jobs that have been deleted meanwhile.
                if (job := jobs.get(end.job_id)) and (spec := await self._delivery(job, end)):
                    specs[subject] = spec
                failed.discard(subject)
        if not specs:
            return tuple(failed)
        await self._prepare()
        outcomes = await self._constraints.under(
            lambda constraints: self._new_jobs.enqueue(list(specs.values()), constraints)
        )
        # If an ID is taken, do not repeat it: the delivery was enqueued earlier, before the job could run again and
        # lose its result.
        return [
            *failed,
            *(
                subject
                for subject, outcome in zip(specs, outcomes, strict=True)
                if isinstance(outcome, BacklogFull)
            ),
        ]

    async def _delivery(self, job: Job, end: JobEnd) -> JobSpec | None:
        if job.notify is None:
            return None
        result = None
        if job.notify.with_result and job.finished_at_ms == end.finished_at_ms:
            result = await self._results.look_at_result(job.id)
        return delivery_job(job, end, job.notify, body_of(job, end, result))


@dataclass(frozen=True, slots=True)
class WebhookDelivery:
    """The delivery of an end of a job. `attempts`: its attempts that have ended, without a successful one."""

    job: Job
    attempts: Sequence[Attempt]


class DeliveryReader:
    """Reads and repeats the deliveries about a job. Methods raise what the store raises."""

    def __init__(self, records: RecordStore, actions: JobActions) -> None:
        self._records = records
        self._actions = actions

    async def of_job(self, job_id: str) -> list[WebhookDelivery]:
        """Return the stored deliveries about a job, the newest first. Raise NotFoundError."""
        job = await existing_job(self._records, job_id)
        history = await self._records.history(job_id)
        ids = delivery_ids(job, (attempt.finished_at_ms for attempt in history))[:MAX_LISTED]
        found = await self._records.get_all(ids)
        return [
            WebhookDelivery(found[one], await self._records.history(one))
            for one in ids
            if one in found and found[one].name == WEBHOOK_NAME
        ]

    async def resend(self, job_id: str, delivery_id: str) -> WebhookDelivery:
        """Repeat a delivery. If it waits for its next attempt, start the attempt now. Raise NotFoundError, and
        ConflictError if an attempt is in progress."""
        known = next((one for one in await self.of_job(job_id) if one.job.id == delivery_id), None)
        if not is_id(delivery_id) or known is None:
            raise NotFoundError("the job has no such delivery", code="unknown_delivery")
        if known.job.state in FINISHED:
            await self._actions.retry(delivery_id)
        elif known.job.state in (JobState.RETRYING, JobState.SCHEDULED):
            await self._actions.run_now(delivery_id)
        else:
            conflict = known.job
            raise ConflictError(f"the delivery is {conflict.state}", code=f"job_{conflict.state}")
        return WebhookDelivery(await existing_job(self._records, delivery_id), known.attempts)
