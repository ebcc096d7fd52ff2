"""Jobs that were sent with the answers to workers' reports, until it is known whether they arrived."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from jqmaster.clock import Clock
from jqmaster.runtime.duties.fleet import Fleet, Member
from jqmaster.store.jobs.claims import Claim

# How long to wait for the next report of a worker before its jobs are pushed. The worker may report to another master,
# or only when these jobs have ended.
HEARD_WITHIN_S: Final = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class _GivenClaim:
    claim: Claim
    claimed_at_s: float


class GivenJobs:
    """Tracks the jobs that were sent with answers to workers' reports, and pushes those that did not arrive. Part of
    the dispatcher of one leadership.

    `push(member, claim, claimed_at_s, is_in_doubt)` begins the push of a claim. `is_in_doubt`: the worker may already
    have these jobs, so no other worker may get them if the push fails. A job that the worker already has is not started
    again, because it comes with the same token.
    """

    def __init__(
        self, fleet: Fleet, clock: Clock, push: Callable[[Member, Claim, float, bool], None]
    ) -> None:
        self._fleet = fleet
        self._clock = clock
        self._push = push
        self._by_worker: dict[str, _GivenClaim] = {}
        # The workers that were given jobs and have not reported since.
        self.silent = self._by_worker.keys()

    def note(self, worker_id: str, claim: Claim, claimed_at_s: float) -> None:
        """Note that a claim goes with the answer to the worker's report."""
        self._by_worker[worker_id] = _GivenClaim(claim, claimed_at_s)

    def heard(self, worker_id: str, newest_fence: int) -> None:
        """Take the next report of a worker. The report names the newest fence among the jobs that came with answers.
        Push the jobs that the worker does not have."""
        given = self._by_worker.pop(worker_id, None)
        if given is not None and given.claim.jobs[-1].fence > newest_fence:
            self._push_to(worker_id, given, is_in_doubt=True)

    def unanswered(self, worker_ids: Iterable[str]) -> None:
        """Push the jobs that these workers were to get, because their reports get no answer."""
        for worker_id in worker_ids:
            if (given := self._by_worker.pop(worker_id, None)) is not None:
                self._push_to(worker_id, given, is_in_doubt=False)

    def push_overdue(self) -> None:
        """Push the jobs of workers that have not reported for so long that the answer may be lost."""
        before_s = self._clock.monotonic_s() - HEARD_WITHIN_S
        for worker_id in [w for w, given in self._by_worker.items() if given.claimed_at_s <= before_s]:
            self.heard(worker_id, newest_fence=0)

    def _push_to(self, worker_id: str, given: _GivenClaim, *, is_in_doubt: bool) -> None:
        # Skip a worker that is gone: its claims have ended.
        if (member := self._fleet.get(worker_id)) is not None:
            self._push(member, given.claim, given.claimed_at_s, is_in_doubt)
