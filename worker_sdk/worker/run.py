"""One accepted offer, from acceptance until a master has answered for its end."""

import asyncio
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

from worker_sdk.worker.context import Context
from worker_sdk.worker.isolated import IsolatedProcess
from worker_sdk.worker.job_log import RunLog
from worker_sdk.worker.registry import Handler

if TYPE_CHECKING:
    from worker_sdk.protocol import Dispatch


class Stop(Enum):
    """Why a job is being stopped."""

    TIMEOUT = "timeout"
    CANCELED = "canceled"
    HANDED_BACK = "handed_back"
    LOST = "lost"  # the right to settle is gone, or may be


class JobRun:
    """`lease_end_s` and `is_named` (a heartbeat that named it was answered) are set by the heartbeat thread, the rest
    by the event loop. Instants are of `lease.now_s`."""

    __slots__ = (
        "argument",
        "attempt",
        "batch",
        "begin_by_s",
        "callbacks",
        "checkpoint",
        "ctx",
        "deadline_s",
        "failure",
        "fence",
        "handler",
        "has_begun",
        "headers",
        "inputs",
        "is_given_up",
        "is_named",
        "is_settled",
        "job_id",
        "lease_end_s",
        "log",
        "name",
        "process",
        "stop_due_s",
        "stopping",
        "task",
        "timeout_s",
        "token",
    )

    def __init__(self, dispatch: "Dispatch", handler: Handler, lease_end_s: float) -> None:
        self.job_id = dispatch["job_id"]
        self.token = dispatch["token"]
        self.name = handler.name
        self.attempt = dispatch["attempt"]
        self.fence = dispatch["fence"]
        self.argument: Any = dispatch["argument"]
        self.headers: Mapping[str, str] = dispatch["headers"]
        self.checkpoint = dispatch.get("checkpoint")
        self.batch = dispatch.get("batch")
        self.inputs = dispatch.get("inputs") or ()
        # In the phase `callback`: all that came, or the only one.
        callback = dispatch.get("callback")
        self.callbacks = dispatch.get("callbacks") or ([callback] if callback else [])
        self.timeout_s = dispatch["timeout"]
        self.handler = handler
        self.lease_end_s = lease_end_s
        self.deadline_s = float("inf")  # until it is taken up
        self.begin_by_s = float("inf")  # set while an earlier run of the job keeps it waiting
        self.is_given_up = False  # it kept a newer claim of its job waiting for too long
        self.stop_due_s = float("inf")
        self.stopping: Stop | None = None
        self.is_named = False
        self.is_settled = False
        self.has_begun = False
        self.ctx: Context | None = None
        self.task: asyncio.Task[None] | None = None
        self.process: IsolatedProcess | None = None
        self.log: RunLog | None = None
        # The failure of its handler, while its lines go to a master.
        self.failure: dict[str, Any] | None = None

    @property
    def due_s(self) -> float:
        """Return when the run must be checked next: at its timeout, at the end of its lease, when its time to stop is
        over, or when its wait for an earlier run is over."""
        if self.is_settled:
            return float("inf")
        if self.stopping is not None:
            return min(self.stop_due_s, self.lease_end_s)
        return min(self.deadline_s, self.lease_end_s, self.begin_by_s)
