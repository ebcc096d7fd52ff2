"""Remove the data of idle gates, a page at a time, so that claims never wait for it."""

from collections import deque
from typing import Final

from jqmaster.store.constraints.gates import GATES_PER_PRUNING, GateStore

# If at least this many gates of a page were idle, the next pages likely have idle ones, too.
MANY: Final = GATES_PER_PRUNING // 2


class GatePruning:
    """Prunes one page of each constraint in turn. A constraint with much to remove stays first. A constraint with
    nothing to remove gets only one page per turn, however many gates it has."""

    def __init__(self, store: GateStore, epoch: str) -> None:
        self._store = store
        self._epoch = epoch
        self._line: deque[str] = deque()
        self._cursors: dict[str, str] = {}
        # True: no constraint has data of gates, so there is nothing to prune.
        self.is_idle = False

    async def step(self) -> bool:
        """Prune one page, and return whether there was much to remove. Raise StaleEpochError."""
        if not self._line:
            self._line.extend(await self._store.counted())
            self._cursors = {cid: self._cursors.get(cid, "0") for cid in self._line}
            self.is_idle = not self._line
            if self.is_idle:
                return False
        cid = self._line[0]
        removed, cursor = await self._store.prune(self._epoch, cid, self._cursors[cid])
        self._cursors[cid] = cursor
        if removed >= MANY:
            return True
        self._line.popleft()
        return False
