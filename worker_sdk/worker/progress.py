"""Send progress and checkpoints to the masters, as part of the heartbeats."""

import math
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from worker_sdk import forked
from worker_sdk.errors import CheckpointNotSaved
from worker_sdk.worker.lease import StoreClock, now_s

if TYPE_CHECKING:
    from worker_sdk.worker.observations import ObservedRoom

MAX_CHECKPOINT_BYTES: Final = 16 * 1024
MAX_MESSAGE_CHARS: Final = 200
# Minimum time after a heartbeat before progress alone causes the next heartbeat, because progress is only
# informational.
PROGRESS_EVERY_S: Final = 1.0
# The minimum time between two heartbeats if the second one reports the last progress of a job.
LAST_EVERY_S: Final = 0.05
# Size at which a heartbeat takes no more reports. The remaining reports go with the next heartbeat, which follows at
# once.
MAX_BYTES_PER_BEAT: Final = 1024 * 1024

# Some services, such as models, count a call when it arrives, and answer much later. So a call counts from its answer,
# but at the latest this long after the start of the handler.
COUNTED_WITHIN_S: Final = 2.0

_NEVER: Final = float("inf")


class Observer(Protocol):
    """The sender of observations. It may be called from any thread."""

    def observe(self, observation: "ObservedRoom") -> None: ...


class Emitter(Protocol):
    """The sender of partial results. It may be called from any thread."""

    def emit(self, job_id: str, token: str, value: bytes, deadline_s: float) -> "Future[None]":
        """Send an encoded value. The future completes when a master has the value, or fails with PartNotKept."""
        ...


class Reports(Protocol):
    """The receiver of handlers' reports about their claims, by token. It may be called from any thread."""

    def add_progress(self, token: str, fraction: float | None, message: str) -> None:
        """Report progress with a later heartbeat."""
        ...

    def save(self, token: str, checkpoint: bytes) -> "Future[None]":
        """Save a checkpoint. The future completes when a master has the checkpoint, or fails with
        CheckpointNotSaved."""
        ...

    def emit(self, job_id: str, token: str, value: bytes, deadline_s: float) -> "Future[None]":
        """Emit a partial result. The future completes when a master has the result, or fails with PartNotKept."""
        ...

    def add_used(self, token: str, used: "Mapping[str, float]") -> None:
        """Record units that the attempt has used, to report them at its end. The last number of each unit counts. This
        also records that the service has answered the attempt's call by now."""
        ...

    def observe(self, token: str, observation: "ObservedRoom") -> None:
        """Report to masters soon how many units a service still accepts. This also records that the service has
        answered the attempt's call by now."""
        ...


class RunReports(Reports, Protocol):
    """The reports of a worker's runs.

    * `told`: the tokens of claims with progress that masters may not have yet.
    * `used`: by token, the units that attempts have used so far.
    * `answered_s`: by token, when a service answered the last call of the attempt. This map has all attempts that are
      in `used`.
    """

    told: set[str]
    used: dict[str, dict[str, float]]
    answered_s: dict[str, float]

    def flush(self, token: str) -> "Future[None] | None":
        """Send the last progress of a claim soon. Return a future that completes when masters have it or refuse it, or
        None if they already have it."""
        ...

    def take_used(self, token: str, begun_s: float) -> Mapping[str, Any]:
        """Return report fields: the units that an attempt has used, and a time when the service had certainly counted
        its last call. `begun_s`: when the handler began."""
        ...

    def end(self, token: str, why: str) -> None:
        """Drop the reports about a claim that is over. `why`: the reason that waiting handlers get."""
        ...


@dataclass(slots=True)
class PendingReport:
    """Unsent reports of one claim. `savers` are futures. Each waits for this checkpoint, for an older checkpoint that
    it replaces, or for the last progress of a job that ends (`is_last`).
    """

    progress: tuple[float | None, str] | None = None
    checkpoint: bytes | None = None
    savers: "list[Future[None]]" = field(default_factory=list)
    is_last: bool = False
    is_ended: bool = False

    def fields(self, seq: int | None) -> dict[str, Any]:
        """Return the fields of the claim's entry in a heartbeat. `seq`: number of the report. None: the masters do not
        support numbers."""
        fields: dict[str, Any] = {} if seq is None else {"seq": seq}
        if self.progress is not None:
            fields["progress"] = {"fraction": self.progress[0], "message": self.progress[1]}
        if self.checkpoint is not None:
            fields["checkpoint"] = self.checkpoint
        return fields

    def end(self, error: CheckpointNotSaved | None) -> None:
        # Set the flag before the savers end: a saver that another thread adds now sees the flag, and ends itself.
        self.is_ended = True
        while self.savers:
            saver = self.savers.pop(0)
            if error is None:
                saver.set_result(None)
            else:
                saver.set_exception(error)


def refuse(taken: Mapping[str, PendingReport], why: str) -> None:
    """End the reports with an error, because no master will save them."""
    for report in taken.values():
        report.end(CheckpointNotSaved(why))


class PendingReports:
    """Collects reports until a heartbeat takes them. `on_report`: called in the handler's thread when a heartbeat may
    be due sooner than before."""

    def __init__(self) -> None:
        self.on_report: Callable[[], object] = lambda: None
        # Sends partial results, which do not wait for heartbeats.
        self.parts: Emitter | None = None
        self.observer: Observer | None = None
        # The store's clock. Without it, reports do not say when services counted calls.
        self.clock: StoreClock | None = None
        self._lock = threading.Lock()
        self._reports: dict[str, PendingReport] = {}
        self._under_way: dict[str, PendingReport] = {}
        self.told: set[str] = set()
        self.used: dict[str, dict[str, float]] = {}
        self.answered_s: dict[str, float] = {}
        self._taken_at_s = -_NEVER
        self._is_copy = False
        forked.renew_in_child(self)

    def renew(self) -> None:
        # A forked process sends nothing to masters, because it has no claims and no thread that sends.
        self._lock = threading.Lock()
        self._is_copy = True

    def add_progress(self, token: str, fraction: float | None, message: str) -> None:
        if self._is_copy:
            return
        with self._lock:
            self._reports.setdefault(token, PendingReport()).progress = (fraction, message)
            self.told.add(token)
        self.on_report()

    def save(self, token: str, checkpoint: bytes) -> "Future[None]":
        saver: Future[None] = Future()
        # Keep the caller from canceling the future: several callers may wait for one checkpoint.
        saver.set_running_or_notify_cancel()
        if self._is_copy:
            saver.set_exception(CheckpointNotSaved("a process that a handler forked cannot save checkpoints"))
            return saver
        with self._lock:
            report = self._reports.setdefault(token, PendingReport())
            report.checkpoint = checkpoint
            report.savers.append(saver)
        self.on_report()
        return saver

    def emit(self, job_id: str, token: str, value: bytes, deadline_s: float) -> "Future[None]":
        assert self.parts is not None
        return self.parts.emit(job_id, token, value, deadline_s)

    def add_used(self, token: str, used: Mapping[str, float]) -> None:
        if not self._is_copy:
            self.used.setdefault(token, {}).update(used)
            self.answered_s[token] = now_s()

    def observe(self, token: str, observation: "ObservedRoom") -> None:
        assert self.observer is not None
        self.observer.observe(observation)
        self.answered_s[token] = now_s()

    def take_used(self, token: str, begun_s: float) -> Mapping[str, Any]:
        used, answered_s = self.used.pop(token, None), self.answered_s.pop(token, None)
        fields: dict[str, Any] = {"used": used} if used else {}
        if answered_s is not None and self.clock is not None:
            called_at_ms = self.clock.latest_ms(min(answered_s, begun_s + COUNTED_WITHIN_S))
            if called_at_ms is not None:
                fields["called_at_ms"] = math.ceil(called_at_ms)
        return fields

    def flush(self, token: str) -> "Future[None] | None":
        """Send the last progress of a claim soon. Return a future that completes when masters have it or refuse it, or
        None if they already have it."""
        flushed: Future[None] = Future()
        flushed.set_running_or_notify_cancel()
        with self._lock:
            self.told.discard(token)
            report = self._reports.get(token) or self._under_way.get(token)
            if report is None:
                return None
            report.is_last = True
            report.savers.append(flushed)
        if report.is_ended:  # the heartbeat with it was answered in the meantime
            report.end(None)
        self.on_report()
        return flushed

    def due_s(self) -> float:
        """Return when the next heartbeat should take the reports, by the clock `now_s`."""
        if not self._reports:
            return _NEVER
        with self._lock:
            if any(report.checkpoint is not None for report in self._reports.values()):
                return -_NEVER
            is_last = any(report.is_last for report in self._reports.values())
        return self._taken_at_s + (LAST_EVERY_S if is_last else PROGRESS_EVERY_S)

    def take(self) -> dict[str, PendingReport]:
        """Remove and return waiting reports, by token, up to the size that a heartbeat should have."""
        if not self._reports:
            self._under_way = {}
            return {}
        taken: dict[str, PendingReport] = {}
        size = 0
        with self._lock:
            for token in list(self._reports):
                if size >= MAX_BYTES_PER_BEAT:
                    break
                taken[token] = self._reports.pop(token)
                size += len(taken[token].checkpoint or b"") + MAX_MESSAGE_CHARS
            self._taken_at_s = now_s()
            self._under_way = taken
        return taken

    def put_back(self, taken: Mapping[str, PendingReport]) -> None:
        """Put back reports that no master has confirmed. The next heartbeat takes them again, if no newer reports
        replace them."""
        with self._lock:
            for token, older in taken.items():
                newer = self._reports.setdefault(token, PendingReport())
                newer.progress = newer.progress or older.progress
                newer.checkpoint = newer.checkpoint or older.checkpoint
                newer.savers[:0] = older.savers
                newer.is_last = newer.is_last or older.is_last

    def refuse_all(self, why: str) -> None:
        """Refuse all reports, because they cannot be sent."""
        if self._reports:
            with self._lock:
                refused, self._reports = self._reports, {}
            refuse(refused, why)

    def end(self, token: str, why: str) -> None:
        """Drop the reports about a claim that is over. `why`: the reason that waiting handlers get."""
        self.told.discard(token)
        self.used.pop(token, None)
        self.answered_s.pop(token, None)
        if token in self._reports:
            with self._lock:
                report = self._reports.pop(token, None)
            if report is not None:
                report.end(CheckpointNotSaved(why))
