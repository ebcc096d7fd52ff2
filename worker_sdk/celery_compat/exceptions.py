"""The exceptions of `celery.exceptions` that a module of tasks raises and catches."""

from typing import Final, NoReturn

from worker_sdk.celery_compat.guide import missing
from worker_sdk.errors import Discard, Fail, Retry

__all__ = [
    "CeleryError",
    "Ignore",
    "MaxRetriesExceededError",
    "Reject",
    "Retry",
    "SoftTimeLimitExceeded",
    "TaskError",
    "TimeoutError",
]

_MISSING: Final = {
    "TimeLimitExceeded": "the worker ends such an attempt with the cause timeout, and no handler sees it",
    "WorkerLostError": "the master runs the job of a lost worker again",
    "TaskRevokedError": "catch JobCanceled of worker_sdk",
    "NotRegistered": "catch KeyError",
    "ImproperlyConfigured": "raise an exception of your own",
    "OperationalError": "catch UnavailableError of worker_sdk",
    "ChordError": "the callback of a chord whose header failed is skipped",
    "Backend": "results are kept by the master",
}

# This is Python's built-in class, so callers may catch it under either name.
TimeoutError = TimeoutError  # noqa: A001, PLW0127


class CeleryError(Exception):
    """The base of the exceptions of Celery. Nothing here raises it itself."""


class TaskError(CeleryError):
    """The base of Celery's exceptions about tasks. Nothing here raises it itself."""


class SoftTimeLimitExceeded(Exception):  # noqa: N818  Celery's name
    """Raised inside a task that runs for longer than its `soft_time_limit`."""


class MaxRetriesExceededError(Fail):
    """`self.retry` was called after the last retry."""


class Ignore(Discard):
    """Raise it in a task when nothing is left to do. The job ends as `discarded`."""

    def __init__(self, message: str = "ignored by the task") -> None:
        super().__init__(message)


class Reject(Exception):  # noqa: N818  Celery's name
    """Raise it in a task to refuse the job.

    * `reason`: the reason, for people.
    * `requeue`: True runs the job again a moment later without counting a retry. Otherwise the job fails for good.
    """

    def __init__(self, reason: object = None, requeue: bool = False) -> None:
        super().__init__(reason, requeue)
        self.reason = reason
        self.requeue = requeue


def __getattr__(name: str) -> NoReturn:
    missing(__name__, name, _MISSING)
