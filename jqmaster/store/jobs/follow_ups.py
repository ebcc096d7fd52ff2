"""Follow-ups: work that a change of a job causes later. The scripts that make the changes write them."""

from collections.abc import Collection
from typing import Final, NamedTuple

from jqmaster.store.link.pages import MAX_PER_CALL
from jqmaster.store.link.scripts import Arg
from jqmaster.store.link.shard import Shard

# Maximum number of follow-ups that the leader carries out in one round.
PER_READ: Final = MAX_PER_CALL // 5


class FollowUp(NamedTuple):
    """One entry. If an entry is written again, it gets a new `number`."""

    kind: str
    subject: str
    number: int

    @property
    def text(self) -> str:
        """Return the stored form of the entry."""
        return f"{self.kind}:{self.subject}"


class FollowUpStore:
    """The follow-ups of one shard. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard) -> None:
        self._client = shard.client
        self._keys = shard.keys

    async def oldest(self) -> list[FollowUp]:
        """Return the oldest follow-ups."""
        flat = await self._client.command("ZRANGE", self._keys.follow_ups, "0", PER_READ - 1, "WITHSCORES")
        found = []
        for n in range(0, len(flat), 2):
            kind, _, subject = flat[n].decode().partition(":")
            found.append(FollowUp(kind, subject, int(float(flat[n + 1]))))
        return found

    async def end(self, epoch: str, done: Collection[FollowUp], postponed: Collection[FollowUp] = ()) -> None:
        """Remove follow-ups that are done, and postpone those that failed, as the leader of `epoch`. Raise
        StaleEpochError."""
        args: list[Arg] = [epoch]
        for entries, is_done in ((done, 1), (postponed, 0)):
            for entry in entries:
                args += (entry.text, entry.number, is_done)
        k = self._keys
        if len(args) > 1:
            await self._client.run("end_follow_ups", (k.epoch, k.follow_ups), args)
