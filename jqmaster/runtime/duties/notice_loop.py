"""Look for events that people want to be notified of, and have the notices sent."""

from collections.abc import Callable
from typing import Final

from jqmaster.clock import Clock
from jqmaster.runtime.periodic_loop import LeaderLoop
from jqmaster.service.notices.evaluation import POLL_S, NoticeEvaluation
from jqmaster.store.leadership.leadership import Leadership

RETRY_S: Final = 2.0


class NoticeLoop(LeaderLoop):
    """A duty of one leadership: checks the conditions of notices, and enqueues the messages that are due."""

    is_vital = False
    poll_s = POLL_S

    def __init__(
        self,
        leadership: Leadership,
        evaluation: NoticeEvaluation,
        clock: Clock,
        *,
        on_stale: Callable[[], None],
    ) -> None:
        super().__init__(
            "notices", clock, complaint="cannot look at notices", on_stale=on_stale, retry_s=RETRY_S
        )
        self._epoch = leadership.epoch
        self._evaluation = evaluation

    async def _round(self) -> float:
        return await self._evaluation.round(self._epoch)
