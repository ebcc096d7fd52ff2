"""Delete constraints whose time is over, such as a pause for an hour."""

from collections.abc import Awaitable, Callable
from typing import Final

from jqmaster.clock import Clock
from jqmaster.runtime.periodic_loop import LeaderLoop
from jqmaster.service.constraints.editor import ConstraintEditor

# A constraint ends at most this late. A check costs nothing while no constraint has an end.
POLL_S: Final = 1.0


class ConstraintExpiry(LeaderLoop):
    """Component of one leadership. `who` appears in the audit log."""

    is_vital = False
    poll_s = POLL_S

    def __init__(
        self,
        editor: ConstraintEditor,
        clock: Clock,
        *,
        who: str,
        store_time_ms: Callable[[], Awaitable[int]],
        on_stale: Callable[[], None],
    ) -> None:
        super().__init__(
            "constraint_expiry", clock, complaint="cannot delete expired constraints", on_stale=on_stale
        )
        self._editor = editor
        # Whether the last round found constraints that have an end.
        self.has_found = True
        self._who = who
        self._store_time_ms = store_time_ms

    async def _round(self) -> float:
        next_ms = await self._editor.delete_expired(self._who)
        self.has_found = next_ms is not None
        if next_ms is None:
            return POLL_S
        return min(POLL_S, max(0.0, (next_ms - await self._store_time_ms()) / 1000))
