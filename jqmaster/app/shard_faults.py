"""The faults of one shard: its background loops that fail, and the reason for which it is no longer served."""

from collections.abc import Callable

from jqmaster.clock import Clock
from jqmaster.lifecycle import LoopFailures


class ShardFaults:
    """The faults of one shard.

    * `reason`: why this process no longer serves the shard. None: it serves it.
    * `loops`: failures of the shard's own loops, so that a loop that fails here says nothing about other shards.
      `on_fail` is called with the reason.
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
