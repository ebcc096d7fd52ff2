"""Progress and checkpoints in tests: they are kept, and no master is asked."""

from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any


class KeptReports:
    """Reports of one job. `checkpoint`, and `parts` of the last attempt, are as a master would keep them."""

    def __init__(self, checkpoint: bytes | None = None) -> None:
        self.progress: tuple[float | None, str] | None = None
        self.checkpoint = checkpoint
        self.parts: list[bytes] = []
        # No report is ever under way to a master.
        self.told: set[str] = set()

    def view(self) -> dict[str, Any] | None:
        """Return the progress as a master shows it. Tests have a virtual clock, so it was always told right now."""
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

    def flush(self, token: str) -> "Future[None] | None":
        """Return None: nothing has to be sent."""
        return None

    def end(self, token: str, why: str) -> None:
        """Do nothing: nothing waits."""
