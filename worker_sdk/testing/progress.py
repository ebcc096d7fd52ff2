"""Progress and checkpoints in tests: they are kept, and no master is asked."""

from concurrent.futures import Future


class KeptReports:
    """Reports of one job. `checkpoint`: as a master would keep it."""

    def __init__(self, checkpoint: bytes | None = None) -> None:
        self.progress: tuple[float | None, str] | None = None
        self.checkpoint = checkpoint

    def tell(self, token: str, fraction: float | None, message: str) -> None:
        self.progress = (fraction, message)

    def save(self, token: str, checkpoint: bytes) -> "Future[None]":
        self.checkpoint = checkpoint
        saved: Future[None] = Future()
        saved.set_result(None)
        return saved

    def end(self, token: str, why: str) -> None:
        """Nothing waits."""
