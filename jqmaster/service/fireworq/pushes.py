"""Pushes jobs through the Fireworq gateway. Each job gets a number."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgpack

from jqmaster.domain.fireworq.numbers import id_of, number_at
from jqmaster.domain.fireworq.queue import FireworqQueue
from jqmaster.domain.identity.access import Principal
from jqmaster.domain.ids import new_id
from jqmaster.domain.jobs.job import Job, JobSpec, RetryPolicy
from jqmaster.domain.jobs.job_terms import TIMEOUT_S
from jqmaster.errors import ConflictError
from jqmaster.service.jobs.enqueue import EnqueueService

# Maximum number of tries to find a free number. Two masters may choose the same number in the same millisecond.
_CHOICES: Final = 5
_MAX_TAG: Final = 64


@dataclass(frozen=True, slots=True)
class FireworqPush:
    """A job in the form in which clients of Fireworq push it. `payload`: the body of the request to `url`. `timeout_s`:
    0 sets no timeout."""

    category: str
    url: str
    payload: str
    run_after_s: int = 0
    max_retries: int = 0
    retry_delay_s: int = 0
    timeout_s: int = 0

    def to_spec(self, queue: FireworqQueue, number: int) -> JobSpec:
        """Return the job to enqueue. Its argument has all fields that deliveries and the lists of the gateway need."""
        job_id = id_of(number)
        assert job_id is not None, "numbers are made within their bounds"
        argument = {
            "url": self.url,
            "payload": self.payload,
            "category": self.category,
            # Make each argument unique. Then another push with the same number is refused, and does not count as a
            # repeat of this push.
            "push": os.urandom(6).hex(),
        }
        return JobSpec(
            id=job_id,
            name=queue.job_name,
            argument=msgpack.packb(argument),
            max_retry=self.max_retries,
            timeout_ms=round((self.timeout_s or TIMEOUT_S.most) * 1000),
            delay_ms=self.run_after_s * 1000 or None,
            retry=RetryPolicy(self.retry_delay_s, 1.0, self.retry_delay_s, jitter=False),
            # Like Fireworq, run a job of a lost node again.
            rerun_lost=True,
            tags=(self.category,) if len(self.category) <= _MAX_TAG else (),
        )


def timeout_s_of(job: Job) -> int:
    """Return the timeout with which a job was pushed, or 0 if it has no timeout."""
    return 0 if job.timeout_ms >= TIMEOUT_S.most * 1000 else job.timeout_ms // 1000


def parts_of(argument: bytes | None) -> dict[str, Any]:
    """Return `url`, `payload` and `category` of an argument, as texts."""
    found: Any = None
    if argument is not None:
        try:
            found = msgpack.unpackb(argument)
        except (ValueError, msgpack.UnpackException):
            found = None
    fields = found if isinstance(found, dict) else {}
    return {part: str(fields.get(part) or "") for part in ("url", "payload", "category")}


class FireworqPushes:
    """Enqueues jobs with numbers. Within this process, each number is higher than the numbers before. Methods raise
    what `EnqueueService.one` raises."""

    def __init__(self, enqueue: EnqueueService) -> None:
        self._enqueue = enqueue
        self._last = 0

    async def push(
        self,
        push: FireworqPush,
        queue: FireworqQueue,
        *,
        caller: Principal | None,
        check: Callable[[JobSpec], None],
    ) -> int:
        """Enqueue a job, and return its number. `check`: called before the job is enqueued. It raises an error to
        refuse the job."""
        choices = _CHOICES
        while True:
            number = self._next()
            spec = push.to_spec(queue, number)
            check(spec)
            try:
                await self._enqueue.one(spec, caller=caller)
            except ConflictError as exc:
                choices -= 1
                if exc.code != "id_taken" or not choices:
                    raise
            else:
                return number

    def _next(self) -> int:
        # Make the number from the time and the random bits in a new ID.
        bits = int(new_id().replace("-", ""), 16)
        self._last = max(self._last + 1, number_at(bits >> 80, bits >> 64))
        return self._last
