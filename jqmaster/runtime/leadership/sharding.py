"""Choose how this master publishes on a Cluster: to all nodes, or only to the node of the shard."""

from jqmaster.clock import Clock
from jqmaster.domain.operations.master import Pace
from jqmaster.live_value import LiveValue
from jqmaster.runtime.periodic_loop import PeriodicLoop
from jqmaster.store.leadership.masters import MasterStore
from jqmaster.store.link.client import StoreClient


class Sharding(PeriodicLoop):
    """Component of a master on a Cluster: chooses between PUBLISH and SPUBLISH.

    PUBLISH costs every node of the Cluster. SPUBLISH costs only the nodes of the shard, but reaches only listeners that
    subscribed with SSUBSCRIBE. Masters of older releases do not use SSUBSCRIBE. So every master listens both ways and
    states this in the list of masters. It publishes with SPUBLISH if all masters in that list state it.

    An older master that joins is noticed within a heartbeat. Until then, it finds work by polling, as after any lost
    message. Other programs always use PUBLISH.
    """

    # Messages only make this loop react faster: its rounds find the same changes later.
    is_vital = False

    def __init__(
        self, masters: MasterStore, client: StoreClient, clock: Clock, *, pace: LiveValue[Pace]
    ) -> None:
        super().__init__("sharding", clock, complaint="cannot ask how other masters listen")
        self._masters = masters
        self._client = client
        self._pace = pace

    async def _round(self) -> float:
        is_sharded = await self._masters.all_listen_sharded()
        if is_sharded != self._client.publishes_sharded:
            self._logger.info("messages now go to %s", "the node of the shard" if is_sharded else "all nodes")
            self._client.publishes_sharded = is_sharded
        return self._pace.current.beat_s
