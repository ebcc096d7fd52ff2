"""Assignment of the next jobs to workers."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

# While claims leave jobs behind, the next round assigns twice as many jobs. The number is doubled at most this many
# times.
MAX_DOUBLINGS: Final = 8


@dataclass(frozen=True, slots=True)
class Candidate:
    """A worker that may take jobs now. `busy` of its `max_jobs` slots are taken.

    * `names`: the names that it serves.
    * `plenty`: how many rounds of claims in a row have left jobs of exactly these names behind.
    """

    worker_id: str
    max_jobs: int
    busy: int
    names: tuple[str, ...] = ()
    plenty: int = 0

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


def next_assignments(
    candidates: Iterable[Candidate], *, max_jobs_per_push: int, max_jobs: int = 1_000_000
) -> list[Assignment]:
    """Return each worker with the number of jobs that it may take, the least loaded first. A worker gets no further
    jobs once another worker is less loaded. The sum is at most `max_jobs`, except that the first worker may always take
    its share.

    A single worker may take as many as it has room for, because one full push is cheaper than many. If there are
    several workers, each takes enough jobs to reach the load of the next worker, plus an eighth of its own slots. So
    small loads spread over workers, and large ones still go in few pushes.

    The number of waiting jobs is unknown. So at first only one of the workers with the same names takes jobs, because
    claims for the others might find none. Each further round that leaves jobs behind doubles the number of these
    workers and the extra share of their slots.
    """
    free = sorted([(c.load, c.worker_id, c) for c in candidates if c.busy < c.max_jobs])
    found: list[Assignment] = []
    asking: Counter[tuple[str, ...]] = Counter()
    left = max_jobs
    least_given: float | None = None
    for n, (_, worker_id, candidate) in enumerate(free, start=1):
        doublings = min(candidate.plenty, MAX_DOUBLINGS)
        if asking[candidate.names] >> doublings:
            continue
        others = [free[n][0]] if n < len(free) else []
        if least_given is not None:
            others.append(least_given)
        room = candidate.free
        limit = min(room, max_jobs_per_push)
        if others:
            level = int(min(others) * candidate.max_jobs) - candidate.busy
            limit = min(limit, max(1, max(0, level) + (candidate.max_jobs << doublings) // 8))
        if found:
            limit = min(limit, left)
        if limit <= 0:
            break
        found.append(Assignment(worker_id, limit))
        asking[candidate.names] += 1
        left -= limit
        if limit < room:
            load = (candidate.busy + limit) / candidate.max_jobs
            least_given = load if least_given is None else min(least_given, load)
    return found
