"""One accepted offer, from its acceptance until a master has confirmed its end."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from worker_sdk.worker.context import Context
from worker_sdk.worker.isolated import IsolatedProcess
from worker_sdk.worker.job_log import RunLog
from worker_sdk.worker.registry import Handler

if TYPE_CHECKING:
    from worker_sdk.protocol import Dispatch, JobInput


class Stop(Enum):
    """Why a job is being stopped."""

    TIMEOUT = "timeout"
    CANCELED = "canceled"
    HANDED_BACK = "handed_back"
    LOST = "lost"  # the worker has lost the right to settle the job, or may have


# The number of fields that every job of a push has. A larger map also has some of the optional fields.
_PLAIN_FIELDS: Final = 11


class JobRun:
    """One run of a job. The heartbeat thread sets `lease_end_s` and `is_named`, and the event loop everything else.
    `is_named`: a heartbeat that named the run was answered. Instants are by the clock `lease.now_s`."""

    # These defaults are class attributes: setting all of them for each run would take most of the time that creating a
    # run takes.
    checkpoint: bytes | None = None
    batch: str | None = None
    inputs: "Sequence[JobInput]" = ()
    # The callbacks that have come, if the phase is `callback`.
    callbacks: Sequence[Mapping[str, Any]] = ()
    deadline_s = float("inf")  # infinite until the job is accepted
    begin_by_s = float("inf")  # finite while this run waits for an earlier run of the job
    stop_due_s = float("inf")
    stopping: Stop | None = None
    is_named = False
    is_settled = False
    has_begun = False
    is_last_saved = False  # whether the last checkpoint was already sent before the end
    ctx: Context | None = None
    task: asyncio.Task[None] | None = None
    process: IsolatedProcess | None = None
    # Opens the log of this run, given its job ID and token. None: the worker keeps no logs.
    open_log: Callable[[str, str], RunLog] | None = None
    _log: RunLog | None = None
    # The failure to report after a master has received lines of the log.
    failure: dict[str, Any] | None = None

    def __init__(self, dispatch: "Dispatch", handler: Handler, lease_end_s: float) -> None:
        self.job_id = dispatch["job_id"]
        self.token = dispatch["token"]
        self.name = handler.name
        self.attempt = dispatch["attempt"]
        self.fence = dispatch["fence"]
        self.argument: Any = dispatch["argument"]
        self.headers: Mapping[str, str] = dispatch["headers"]
        self.timeout_s = dispatch["timeout"]
        self.handler = handler
        self.lease_end_s = lease_end_s
        if len(dispatch) > _PLAIN_FIELDS:
            self.checkpoint = dispatch.get("checkpoint")
            self.batch = dispatch.get("batch")
            self.inputs = dispatch.get("inputs") or ()
            callback = dispatch.get("callback")
            self.callbacks = dispatch.get("callbacks") or ([callback] if callback else [])

    @property
    def log(self) -> RunLog | None:
        """Return the log of this run, or None if the worker keeps no logs. The log is opened at its first use, because
        most runs write nothing."""
        if self._log is None and self.open_log is not None:
            # If several threads of the handler get here at once, only one log is kept.
            self.__dict__.setdefault("_log", self.open_log(self.job_id, self.token))
        return self._log

    def write(self, at_s: float, level: str, text: str) -> None:
        """Write a line to the log, if one is kept. See `LogLines`."""
        if (log := self.log) is not None:
            log.write(at_s, level, text)

    @property
    def due_s(self) -> float:
        """Return when the run must be checked next. It is checked at its timeout, at the end of its lease, at the end
        of its time to stop, and at the end of its wait for an earlier run.
        """
        if self.is_settled:
            return float("inf")
        if self.stopping is not None:
            return min(self.stop_due_s, self.lease_end_s)
        return min(self.deadline_s, self.lease_end_s, self.begin_by_s)
