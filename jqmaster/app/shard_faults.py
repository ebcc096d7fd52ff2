"""The faults of one shard: failing background loops, and the reason why this process no longer serves the shard."""

from collections.abc import Callable

from jqmaster.clock import Clock
from jqmaster.lifecycle import LoopFailures


class ShardFaults:
    """The faults of one shard.

    * `reason`: why this process no longer serves the shard. None: it serves it.
    * `loops`: failures of the shard's own loops. They do not concern other shards.
    * `on_fail`: called with the reason.
    * `beneath`: failures of the loops of the shard's store.
    """

    def __init__(
        self, clock: Clock, *, on_fail: Callable[[str], None], beneath: LoopFailures | None = None
    ) -> None:
        self.loops = LoopFailures(clock, beneath=beneath)
        self.reason: str | None = None
        self._on_fail = on_fail

    def fail(self, reason: str) -> None:
        """Stop serving the shard for this reason. Only the first reason counts."""
        if self.reason is None:
            self.reason = reason
            self._on_fail(reason)
