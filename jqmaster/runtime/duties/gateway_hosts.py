"""Apply the setting `fireworq_hosts` to all queues of the Fireworq gateway. It also applies to queues that were made
under another value."""

from collections.abc import Callable
from typing import Final

from jqmaster.clock import Clock
from jqmaster.runtime.periodic_loop import LeaderLoop
from jqmaster.service.fireworq.queues import FireworqQueues

# How often the hosts are applied again. Once is not enough: while masters restart one after the other, a master with
# the former settings may change a queue.
ROUND_S: Final = 30.0


class GatewayHosts(LeaderLoop):
    """A duty of one leadership, on masters with the gateway: applies `fireworq_hosts`. `who`: the author in the audit
    log."""

    is_vital = False

    def __init__(
        self, queues: FireworqQueues, clock: Clock, *, who: str, on_stale: Callable[[], None]
    ) -> None:
        super().__init__(
            "gateway_hosts", clock, complaint="cannot apply fireworq_hosts to all queues", on_stale=on_stale
        )
        self._queues = queues
        self._who = who

    async def _round(self) -> float:
        await self._queues.allow_hosts(self._who)
        return ROUND_S
