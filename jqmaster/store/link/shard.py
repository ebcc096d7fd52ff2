"""A shard: one hash tag, its keys, its connection, and the path to its leader."""

from collections.abc import Callable
from dataclasses import dataclass

from jqmaster.store.keys import Keys
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.leader_port import LEADER_ELSEWHERE, LeaderPort


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard of the store. On a Cluster, `client` must use the shard's node (`bound`).

    `now` is `None` in production: scripts read the store's own clock. Tests give milliseconds.

    `mark` is the mark of the data at the start (see `generation`). Scripts compare it, so that nothing is enqueued into
    other data.
    """

    client: StoreClient
    keys: Keys
    now: Callable[[], int] | None = None
    leader: LeaderPort = LEADER_ELSEWHERE
    mark: str = ""

    @classmethod
    def bound(
        cls, client: StoreClient, keys: Keys, *, leader: LeaderPort = LEADER_ELSEWHERE, mark: str = ""
    ) -> "Shard":
        """Return the shard, and let the client use the node of a Cluster that holds it."""
        client.bind(keys.tag)
        return cls(client, keys, leader=leader, mark=mark)

    @property
    def now_arg(self) -> int | str:
        return "" if self.now is None else self.now()

    async def now_ms(self) -> int:
        """Return the time of the store."""
        if self.now is not None:
            return self.now()
        seconds, microseconds = await self.client.command("TIME")
        return int(seconds) * 1000 + int(microseconds) // 1000

    @property
    def wake_channel(self) -> str:
        """The channel on which a script wakes the leader after its write; empty if the leader is this process."""
        return "" if self.leader.is_here else self.keys.wake_channel
