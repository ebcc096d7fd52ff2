"""A queue of Fireworq: its terms, its defaults, and the names under which this service knows it."""

import math
import re
from dataclasses import dataclass
from typing import Final, NamedTuple

QUEUE_PATTERN: Final = r"^[A-Za-z0-9_.:-]{1,80}$"
DEFAULT_MAX_WORKERS: Final = 20
DEFAULT_POLLING_INTERVAL_MS: Final = 200
# In Fireworq, a queue with a limit on its dispatches is polled at this interval, whatever interval was requested.
THROTTLED_POLLING_INTERVAL_MS: Final = 100
MAX_WORKERS: Final = 100_000
# Maximum number of queues. Each queue is also a target; the maximum number of targets is a little higher.
MAX_QUEUES: Final = 400
MAX_ROUTINGS: Final = 10_000
MAX_CATEGORY: Final = 200
# Bounds of the rate of a constraint: the most starts, the shortest period and the longest period.
_MAX_STARTS: Final = 100_000
_MIN_PERIOD_S: Final = 0.001
_MAX_PERIOD_S: Final = 31 * 86_400

_QUEUE: Final = re.compile(QUEUE_PATTERN.replace("$", r"\Z"))
_JOB_NAME: Final = "fireworq/"
_OBJECT_NAME: Final = "fireworq:"


class QueueTermsError(ValueError):
    """Terms that no queue can have; the text names the field and the rule."""


class StartLimit(NamedTuple):
    """At most `limit` starts in any `period_s` seconds."""

    limit: int
    period_s: float


@dataclass(frozen=True, slots=True)
class FireworqQueue:
    """A queue as its clients defined it. 0 and None stand for omitted values."""

    name: str
    polling_interval: int = 0
    max_workers: int = 0
    max_dispatches_per_second: float | None = None
    max_burst_size: int | None = None

    def check(self) -> None:
        """Raise QueueTermsError if the service cannot keep such a queue."""
        if not is_queue_name(self.name):
            raise QueueTermsError("the name of a queue must be 1 to 80 of A-Z a-z 0-9 _ . : -")
        if not 0 <= self.max_workers <= MAX_WORKERS:
            raise QueueTermsError(f"max_workers must be 0 to {MAX_WORKERS}")
        if self.polling_interval < 0:
            raise QueueTermsError("polling_interval must be 0 or more")
        if (self.max_dispatches_per_second is None) != (self.max_burst_size is None):
            raise QueueTermsError("give both max_dispatches_per_second and max_burst_size, or neither")
        if self.max_dispatches_per_second is None or self.max_burst_size is None:
            return
        if not (math.isfinite(self.max_dispatches_per_second) and self.max_dispatches_per_second > 0):
            raise QueueTermsError("max_dispatches_per_second must be above 0")
        if self.max_burst_size < 1:
            raise QueueTermsError("max_burst_size must be 1 or more")
        limit, period_s = self._starts(self.max_dispatches_per_second, self.max_burst_size)
        if limit > _MAX_STARTS or period_s > _MAX_PERIOD_S:
            raise QueueTermsError(
                f"max_burst_size must be at most {_MAX_STARTS}, and a burst of this size must take at most 31 days"
            )

    @property
    def workers(self) -> int:
        """Return how many jobs of the queue may run at once."""
        return self.max_workers or DEFAULT_MAX_WORKERS

    @property
    def starts(self) -> StartLimit | None:
        """Return the limit on the starts of its jobs. It allows one burst of jobs within the time that so many
        dispatches take at the rate of the queue."""
        if self.max_dispatches_per_second is None or self.max_burst_size is None:
            return None
        return self._starts(self.max_dispatches_per_second, self.max_burst_size)

    @staticmethod
    def _starts(per_second: float, burst: int) -> StartLimit:
        # Count several bursts together if one burst's period is below the minimum.
        bursts = max(1, math.ceil(_MIN_PERIOD_S * per_second / burst))
        return StartLimit(burst * bursts, burst * bursts / per_second)

    @property
    def document(self) -> dict[str, str | int | float]:
        """Return the queue as its API shows it, with the defaults filled in."""
        shown: dict[str, str | int | float] = {
            "name": self.name,
            "polling_interval": self.polling_interval or DEFAULT_POLLING_INTERVAL_MS,
            "max_workers": self.workers,
        }
        if self.max_dispatches_per_second is not None and self.max_burst_size is not None:
            shown["polling_interval"] = THROTTLED_POLLING_INTERVAL_MS
            shown["max_dispatches_per_second"] = self.max_dispatches_per_second
            shown["max_burst_size"] = self.max_burst_size
        return shown

    @property
    def job_name(self) -> str:
        return job_name_of(self.name)

    @property
    def object_name(self) -> str:
        """Return the name of the constraint and of the target that stand for the queue."""
        return _OBJECT_NAME + self.name


def is_queue_name(text: str) -> bool:
    return _QUEUE.match(text) is not None


def job_name_of(queue: str) -> str:
    """Return the name that all jobs of a queue have."""
    return _JOB_NAME + queue
