"""Write workers for a job queue, and push jobs to it."""

from typing import TYPE_CHECKING, Any, Final

from worker_sdk.errors import (
    AnswerMismatchError,
    Defer,
    Discard,
    Fail,
    NotFinishedError,
    RefusedError,
    Retry,
    UnavailableError,
    WorkerSdkError,
)

if TYPE_CHECKING:
    from worker_sdk.pusher.client import JobResult, Pusher, SyncPusher, make_job
    from worker_sdk.worker.context import CancelSignal, Context
    from worker_sdk.worker.policies import discard_on, retry_on
    from worker_sdk.worker.worker import Worker

__all__ = [
    "AnswerMismatchError",
    "CancelSignal",
    "Context",
    "Defer",
    "Discard",
    "Fail",
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

# Each is imported when it is first used: a program that only pushes brings no worker, one that only declares handlers
# no client for HTTP, and the server, which shares `worker_sdk.transport`, neither.
_MODULES: Final = {
    "CancelSignal": "worker_sdk.worker.context",
    "Context": "worker_sdk.worker.context",
    "JobResult": "worker_sdk.pusher.client",
    "Pusher": "worker_sdk.pusher.client",
    "SyncPusher": "worker_sdk.pusher.client",
    "Worker": "worker_sdk.worker.worker",
    "discard_on": "worker_sdk.worker.policies",
    "make_job": "worker_sdk.pusher.client",
    "retry_on": "worker_sdk.worker.policies",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'worker_sdk' has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
