"""The executor and the admission for one namespace of a worker that works in several."""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from worker_sdk.worker.admission import Admission
from worker_sdk.worker.executor import Executor
from worker_sdk.worker.run import JobRun
from worker_sdk.worker.shared_slots import SlotShare

if TYPE_CHECKING:
    from worker_sdk.protocol import Dispatch, PushAnswer

logger = logging.getLogger(__name__)


class SharingExecutor(Executor):
    """Runs the jobs of one namespace in slots that several namespaces share."""

    def __init__(self, *, share: SlotShare, **parts: Any) -> None:
        super().__init__(max_jobs=share.total, **parts)
        self._share = share
        share.occupying = self.occupying
        share.on_room = self._look_for_room

    @property
    def free(self) -> int:
        return min(super().free, self._share.room())

    def resize(self, max_jobs: int) -> None:
        """Apply the number of slots that a master allows. An operator may allow this namespace fewer slots than the
        worker offered."""
        most = self._share.total if max_jobs >= self._share.last_offered else max_jobs
        if most != self._max_jobs:
            logger.info("the masters allow at most %d of %d slots in this namespace", most, self._share.total)
            self._max_jobs = most
            self._look_for_room()

    def _release(self, *runs: JobRun) -> None:
        super()._release(*runs)
        self._share.released()


class SharingAdmission(Admission):
    """Records offers that were refused for lack of slots, so that the next free slots are reserved for this
    namespace."""

    def __init__(self, *parts: Any, share: SlotShare, **others: Any) -> None:
        super().__init__(*parts, **others)
        self.share = self._own_share = share

    def _take(self, epoch: int, offers: "Sequence[Dispatch]") -> "PushAnswer":
        answer = super()._take(epoch, offers)
        self._own_share.want(sum(one["reason"] == "busy" for one in answer["rejected"]))
        return answer
