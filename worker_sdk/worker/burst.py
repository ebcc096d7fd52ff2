"""A worker that runs until nothing is left to do."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from worker_sdk.worker.endings import Settlements
from worker_sdk.worker.lease import now_s
from worker_sdk.worker.outcomes import Fields, success

if TYPE_CHECKING:
    from worker_sdk.worker.membership import WorkerMembership

_LOOK_S: Final = 0.05
# The worker gives up if no master has registered it within this time.
JOIN_WITHIN_S: Final = 30.0


class Burst:
    """Decides when a worker ends because it has had nothing to do for `idle_s`.

    * `failed`: IDs of the jobs that failed in their last attempt here.
    * `has_joined`: masters registered the worker in each namespace.
    """

    def __init__(self, idle_s: float) -> None:
        self._idle_s = idle_s
        self._active_s = now_s()
        self.failed: set[str] = set()
        self.has_joined = False

    def counting(self, settlements: Settlements) -> Settlements:
        """Return settlements that count the reports and pass them on."""
        return _Counting(settlements, self)

    def note(self, job_id: str, fields: Fields) -> None:
        """Record the end of an attempt."""
        self._active_s = now_s()
        match fields["type"]:
            case "failure":
                self.failed.add(job_id)
            case "success" | "discarded":
                self.failed.discard(job_id)

    async def over(self, members: "Sequence[WorkerMembership]") -> None:
        """Wait until no job has run for `idle_s` and all reports are delivered, or until some namespace has no master
        that registers the worker."""
        began_s = now_s()
        while True:
            await asyncio.sleep(_LOOK_S)
            now = now_s()
            if any(one.identity.worker_id is None for one in members):
                if not self.has_joined and now - began_s >= JOIN_WITHIN_S:
                    return
                self._active_s = now
                continue
            self.has_joined = True
            if any(one.executor.occupying or len(one.report_queue) for one in members):
                self._active_s = now
            elif now - self._active_s >= self._idle_s:
                return


class _Counting:
    def __init__(self, settlements: Settlements, burst: Burst) -> None:
        self._settlements = settlements
        self._burst = burst

    @property
    def is_full(self) -> bool:
        return self._settlements.is_full

    def put(self, job_id: str, token: str, fields: Fields) -> None:
        self._burst.note(job_id, fields)
        self._settlements.put(job_id, token, fields)

    def put_successes(self, ends: Iterable[tuple[str, str, Any]]) -> None:
        for job_id, token, value in ends:
            self.put(job_id, token, success(value))
