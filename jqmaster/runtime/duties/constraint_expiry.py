"""Delete constraints that have expired, such as a pause for an hour."""

from collections.abc import Awaitable, Callable
from typing import Final

from jqmaster.clock import Clock
from jqmaster.runtime.periodic_loop import LeaderLoop
from jqmaster.service.constraints.cache import ConstraintCache
from jqmaster.service.constraints.editor import ConstraintEditor
from jqmaster.store.operations.looks import Look

# A constraint is removed at most this long after it expires. While no constraint has an expiry, a check costs nothing.
POLL_S: Final = 1.0


class ConstraintExpiry(LeaderLoop):
    """A duty of one leadership: deletes expired constraints. `who`: the author in the audit log."""

    is_vital = False
    poll_s = POLL_S

    def __init__(
        self,
        editor: ConstraintEditor,
        constraints: ConstraintCache,
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
        self._constraints = constraints
        self._who = who
        self._store_time_ms = store_time_ms

    async def _round(self) -> float:
        next_ms = await self._editor.delete_expired(self._who)
        if next_ms is None:
            return POLL_S
        return min(POLL_S, max(0.0, (next_ms - await self._store_time_ms()) / 1000))

    def due_ms(self, look: Look) -> int:
        """Return the milliseconds until a constraint ends, as far as is known. -1: none does."""
        known = self._constraints.current
        if look.edition != known.editions:
            return 0
        end_ms = known.first_end_ms
        return -1 if end_ms is None else max(0, end_ms - look.now_ms)
