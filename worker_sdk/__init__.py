"""Write workers for a job queue, and push jobs to it."""

from typing import TYPE_CHECKING, Any

from worker_sdk.errors import (
    AnswerMismatchError,
    Defer,
    Discard,
    NotFinishedError,
    RefusedError,
    Retry,
    UnavailableError,
    WorkerSdkError,
)
from worker_sdk.worker.context import CancelSignal, Context
from worker_sdk.worker.policies import discard_on, retry_on
from worker_sdk.worker.worker import Worker

if TYPE_CHECKING:
    from worker_sdk.pusher.client import JobResult, Pusher, SyncPusher, make_job

__all__ = [
    "AnswerMismatchError",
    "CancelSignal",
    "Context",
    "Defer",
    "Discard",
    "JobResult",
    "NotFinishedError",
    "Pusher",
    "RefusedError",
    "Retry",
    "SyncPusher",
    "UnavailableError",
    "Worker",
    "WorkerSdkError",
    "discard_on",
    "make_job",
    "retry_on",
]

_OF_PUSHER = frozenset({"JobResult", "Pusher", "SyncPusher", "make_job"})


def __getattr__(name: str) -> Any:
    # Pushers bring clients for HTTP, which take their time to import: a process that runs one job does without.
    if name in _OF_PUSHER:
        import worker_sdk.pusher.client

        return getattr(worker_sdk.pusher.client, name)
    raise AttributeError(f"module 'worker_sdk' has no attribute {name!r}")
