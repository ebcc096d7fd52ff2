"""Write workers for a job queue, and push jobs to it."""

from typing import TYPE_CHECKING, Any, Final

from worker_sdk.errors import RENAMED as _RENAMED
from worker_sdk.errors import (
    AnswerMismatchError,
    Challenged,
    CheckpointNotSaved,
    CodedError,
    Defer,
    Discard,
    Duplicate,
    EnqueueRefused,
    Fail,
    InputMissing,
    Interrupted,
    InvalidArgument,
    InvalidFlow,
    IsolatedHandlerError,
    JobCanceled,
    JobDiscarded,
    JobFailed,
    JobSkipped,
    NoResultError,
    NotFinished,
    PartNotKept,
    RefusedError,
    ResultGone,
    ResultNotKept,
    Retry,
    SealError,
    UnavailableError,
    UnreadableResult,
    WorkerSdkError,
)
from worker_sdk.errors import renamed as _renamed

if TYPE_CHECKING:
    from worker_sdk.api_limits import ApiLimits, Room
    from worker_sdk.approval import Approval
    from worker_sdk.conditions import (
        DefinitionRan,
        HttpOk,
        JobIs,
        OutstandingBelow,
        SinceLastRun,
        ready_when,
    )
    from worker_sdk.dependencies.depends import Depends
    from worker_sdk.environment import configure
    from worker_sdk.errors import NotFinishedError as NotFinishedError
    from worker_sdk.errors import NotKept as NotKept
    from worker_sdk.forms import Choice, Form, FormAnswer
    from worker_sdk.middleware.base import Middleware
    from worker_sdk.outside import OutsideWork, Ready
    from worker_sdk.pusher.after import After
    from worker_sdk.pusher.client import Pusher
    from worker_sdk.pusher.events import Event, SentEvent
    from worker_sdk.pusher.jobs import make_job
    from worker_sdk.pusher.logs import JobLogLine
    from worker_sdk.pusher.parts import JobPart
    from worker_sdk.pusher.results import JobProgress, JobResult
    from worker_sdk.pusher.sync_client import SyncPusher
    from worker_sdk.pusher.unique import Debounce, Unique, is_duplicate, is_replaced
    from worker_sdk.sealing import Seal
    from worker_sdk.tasks.batch import Batch
    from worker_sdk.tasks.collection import Tasks
    from worker_sdk.tasks.command import CommandOutput
    from worker_sdk.tasks.flow import Flow, FlowHandles, chain, chord, group
    from worker_sdk.tasks.handle import JobHandle
    from worker_sdk.tasks.log_stream import LogStream
    from worker_sdk.tasks.parts import PartStream
    from worker_sdk.tasks.signature import INJECTED, INPUT, INPUTS
    from worker_sdk.tasks.task import Task, TaskJob
    from worker_sdk.tasks.waiting import await_all, wait_all
    from worker_sdk.worker.cancel_signal import CancelSignal
    from worker_sdk.worker.challenge import Callback, Challenge
    from worker_sdk.worker.context import Context
    from worker_sdk.worker.gather import Gather, GatherContext
    from worker_sdk.worker.inputs import Input, Inputs
    from worker_sdk.worker.policies import discard_on, retry_on
    from worker_sdk.worker.worker import Worker

__all__ = [
    "INJECTED",
    "INPUT",
    "INPUTS",
    "After",
    "AnswerMismatchError",
    "ApiLimits",
    "Approval",
    "Batch",
    "Callback",
    "CancelSignal",
    "Challenge",
    "Challenged",
    "CheckpointNotSaved",
    "Choice",
    "CodedError",
    "CommandOutput",
    "Context",
    "Debounce",
    "Defer",
    "DefinitionRan",
    "Depends",
    "Discard",
    "Duplicate",
    "EnqueueRefused",
    "Event",
    "Fail",
    "Flow",
    "FlowHandles",
    "Form",
    "FormAnswer",
    "Gather",
    "GatherContext",
    "HttpOk",
    "Input",
    "InputMissing",
    "Inputs",
    "Interrupted",
    "InvalidArgument",
    "InvalidFlow",
    "IsolatedHandlerError",
    "JobCanceled",
    "JobDiscarded",
    "JobFailed",
    "JobHandle",
    "JobIs",
    "JobLogLine",
    "JobPart",
    "JobProgress",
    "JobResult",
    "JobSkipped",
    "LogStream",
    "Middleware",
    "NoResultError",
    "NotFinished",
    "OutsideWork",
    "OutstandingBelow",
    "PartNotKept",
    "PartStream",
    "Pusher",
    "Ready",
    "RefusedError",
    "ResultGone",
    "ResultNotKept",
    "Retry",
    "Room",
    "Seal",
    "SealError",
    "SentEvent",
    "SinceLastRun",
    "SyncPusher",
    "Task",
    "TaskJob",
    "Tasks",
    "UnavailableError",
    "Unique",
    "UnreadableResult",
    "Worker",
    "WorkerSdkError",
    "await_all",
    "chain",
    "chord",
    "configure",
    "discard_on",
    "group",
    "is_duplicate",
    "is_replaced",
    "make_job",
    "ready_when",
    "retry_on",
    "wait_all",
]

# Each name is imported when it is first used. A program that only pushes does not import the worker. A program that
# only declares handlers does not import an HTTP client. The server imports `worker_sdk.transport` without the worker
# and the clients of this package.
_MODULES: Final = {
    "INJECTED": "worker_sdk.tasks.signature",
    "INPUT": "worker_sdk.tasks.signature",
    "INPUTS": "worker_sdk.tasks.signature",
    "After": "worker_sdk.pusher.after",
    "ApiLimits": "worker_sdk.api_limits",
    "Approval": "worker_sdk.approval",
    "Batch": "worker_sdk.tasks.batch",
    "Callback": "worker_sdk.worker.challenge",
    "CancelSignal": "worker_sdk.worker.cancel_signal",
    "Challenge": "worker_sdk.worker.challenge",
    "Choice": "worker_sdk.forms",
    "CommandOutput": "worker_sdk.tasks.command",
    "Context": "worker_sdk.worker.context",
    "Debounce": "worker_sdk.pusher.unique",
    "DefinitionRan": "worker_sdk.conditions",
    "Depends": "worker_sdk.dependencies.depends",
    "Event": "worker_sdk.pusher.events",
    "Flow": "worker_sdk.tasks.flow",
    "FlowHandles": "worker_sdk.tasks.flow",
    "Form": "worker_sdk.forms",
    "FormAnswer": "worker_sdk.forms",
    "Gather": "worker_sdk.worker.gather",
    "GatherContext": "worker_sdk.worker.gather",
    "HttpOk": "worker_sdk.conditions",
    "Input": "worker_sdk.worker.inputs",
    "Inputs": "worker_sdk.worker.inputs",
    "JobHandle": "worker_sdk.tasks.handle",
    "JobIs": "worker_sdk.conditions",
    "JobLogLine": "worker_sdk.pusher.logs",
    "JobPart": "worker_sdk.pusher.parts",
    "JobProgress": "worker_sdk.pusher.results",
    "JobResult": "worker_sdk.pusher.results",
    "LogStream": "worker_sdk.tasks.log_stream",
    "Middleware": "worker_sdk.middleware.base",
    "OutsideWork": "worker_sdk.outside",
    "OutstandingBelow": "worker_sdk.conditions",
    "PartStream": "worker_sdk.tasks.parts",
    "Pusher": "worker_sdk.pusher.client",
    "Ready": "worker_sdk.outside",
    "Room": "worker_sdk.api_limits",
    "Seal": "worker_sdk.sealing",
    "SentEvent": "worker_sdk.pusher.events",
    "SinceLastRun": "worker_sdk.conditions",
    "SyncPusher": "worker_sdk.pusher.sync_client",
    "Task": "worker_sdk.tasks.task",
    "TaskJob": "worker_sdk.tasks.task",
    "Tasks": "worker_sdk.tasks.collection",
    "Unique": "worker_sdk.pusher.unique",
    "Worker": "worker_sdk.worker.worker",
    "await_all": "worker_sdk.tasks.waiting",
    "chain": "worker_sdk.tasks.flow",
    "chord": "worker_sdk.tasks.flow",
    "configure": "worker_sdk.environment",
    "discard_on": "worker_sdk.worker.policies",
    "group": "worker_sdk.tasks.flow",
    "is_duplicate": "worker_sdk.pusher.unique",
    "is_replaced": "worker_sdk.pusher.unique",
    "make_job": "worker_sdk.pusher.jobs",
    "ready_when": "worker_sdk.conditions",
    "retry_on": "worker_sdk.worker.policies",
    "wait_all": "worker_sdk.tasks.waiting",
}


def __getattr__(name: str) -> Any:
    if name in _RENAMED:
        return _renamed(name)
    if name not in _MODULES:
        raise AttributeError(f"module 'worker_sdk' has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
