"""Removes log lines of jobs that were kept long enough, in bounded steps."""

from collections.abc import Callable
from typing import Final

from jqmaster.clock import Clock
from jqmaster.live_value import LiveValue
from jqmaster.runtime.periodic_loop import LeaderLoop
from jqmaster.store.leadership.leadership import Leadership
from jqmaster.store.logs.logs import LogStore

POLL_S: Final = 10.0
# While there is more to do.
AGAIN_S: Final = 1.0


class LogKeeper(LeaderLoop):
    """Component of one leadership."""

    def __init__(
        self,
        leadership: Leadership,
        store: LogStore,
        clock: Clock,
        *,
        retention_ms: LiveValue[int],
        on_stale: Callable[[], None],
    ) -> None:
        super().__init__("log_keeper", clock, complaint="cannot remove old log lines", on_stale=on_stale)
        self._epoch = leadership.epoch
        self._store = store
        self._retention_ms = retention_ms

    async def _round(self) -> float:
        _, has_more = await self._store.sweep(self._epoch, self._retention_ms.current)
        return AGAIN_S if has_more else POLL_S
