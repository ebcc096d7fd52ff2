"""Keep progress, checkpoints and partial results in tests, without a master."""

from collections.abc import Mapping
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any

from worker_sdk.worker.observations import ObservedRoom


class KeptReports:
    """Reports of one job. `checkpoint`, and `parts` of the last attempt, have the form in which a master keeps them."""

    def __init__(self, checkpoint: bytes | None = None) -> None:
        self.progress: tuple[float | None, str] | None = None
        self.checkpoint = checkpoint
        self.parts: list[bytes] = []
        self.used: dict[str, float] = {}
        self.observed: list[ObservedRoom] = []

    def view(self) -> dict[str, Any] | None:
        """Return the progress as a master shows it. Tests have a virtual clock, so the time of the report is always
        now."""
        if self.progress is None:
            return None
        fraction, message = self.progress
        return {"fraction": fraction, "message": message, "at": datetime.now(UTC).isoformat()}

    def add_progress(self, token: str, fraction: float | None, message: str) -> None:
        self.progress = (fraction, message)

    def save(self, token: str, checkpoint: bytes) -> "Future[None]":
        self.checkpoint = checkpoint
        saved: Future[None] = Future()
        saved.set_result(None)
        return saved

    def emit(self, job_id: str, token: str, value: bytes, deadline_s: float) -> "Future[None]":
        self.parts.append(value)
        kept: Future[None] = Future()
        kept.set_result(None)
        return kept

    def add_used(self, token: str, used: Mapping[str, float]) -> None:
        self.used.update(used)

    def observe(self, token: str, observation: ObservedRoom) -> None:
        self.observed.append(observation)


class ReportsByToken:
    """The reports of several jobs, kept separately for each job."""

    def __init__(self, kept: Mapping[str, KeptReports]) -> None:
        self._kept = kept
        # The jobs with progress that is on its way to a master. Always empty here, because reports are recorded at
        # once.
        self.told: set[str] = set()
        self.used: dict[str, dict[str, float]] = {}
        # When services answered calls, by token. Always empty here, because no master learns this.
        self.answered_s: dict[str, float] = {}

    def add_progress(self, token: str, fraction: float | None, message: str) -> None:
        self._kept[token].add_progress(token, fraction, message)

    def save(self, token: str, checkpoint: bytes) -> "Future[None]":
        return self._kept[token].save(token, checkpoint)

    def emit(self, job_id: str, token: str, value: bytes, deadline_s: float) -> "Future[None]":
        return self._kept[token].emit(job_id, token, value, deadline_s)

    def add_used(self, token: str, used: Mapping[str, float]) -> None:
        self._kept[token].add_used(token, used)
        self.used.setdefault(token, {}).update(used)
        self.answered_s[token] = 0.0

    def observe(self, token: str, observation: ObservedRoom) -> None:
        self._kept[token].observe(token, observation)

    def flush(self, token: str) -> "Future[None] | None":
        """Return None, because nothing has to be sent."""
        return None

    def take_used(self, token: str, begun_s: float) -> Mapping[str, Any]:
        """Return the units that an attempt has used. Calls are not counted, because there is no master."""
        used = self.used.pop(token, None)
        return {"used": used} if used else {}

    def end(self, token: str, why: str) -> None:
        """Do nothing, because no report waits."""
