"""Which worker takes the next jobs, and how many."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Candidate:
    """A worker that may take jobs now; `busy` of its `max_jobs` slots are taken."""

    worker_id: str
    max_jobs: int
    busy: int

    @property
    def free(self) -> int:
        return self.max_jobs - self.busy

    @property
    def load(self) -> float:
        return self.busy / self.max_jobs


@dataclass(frozen=True, slots=True)
class Assignment:
    worker_id: str
    limit: int


def next_assignment(candidates: Iterable[Candidate], *, max_jobs_per_push: int) -> Assignment | None:
    """The least loaded worker, and how many jobs it may take before another one is less loaded.

    Alone it may take all that it has room for: one full push is cheaper than many. Beside others it takes what
    brings it level with the next, plus an eighth of its slots, so that small loads spread and large ones still
    travel in batches.
    """
    free = sorted((c for c in candidates if c.free > 0), key=lambda c: (c.load, c.worker_id))
    if not free:
        return None
    first = free[0]
    limit = first.free
    if len(free) > 1:
        level = int(free[1].load * first.max_jobs) - first.busy
        limit = min(limit, max(1, level + first.max_jobs // 8))
    return Assignment(first.worker_id, min(limit, max_jobs_per_push))
