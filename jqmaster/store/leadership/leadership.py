"""The leader's lock and the epoch."""

from dataclasses import dataclass
from enum import Enum, IntEnum

from jqmaster.store import codec
from jqmaster.store.identity.audit import MAX_ENTRIES
from jqmaster.store.link.scripts import ScriptCall, load
from jqmaster.store.link.shard import Shard


@dataclass(frozen=True, slots=True)
class Leadership:
    """The credential of a leader. `epoch` has the form `number:nonce`; every script of the leader compares it for
    equality."""

    epoch: str
    master_id: str

    @property
    def number(self) -> int:
        return codec.epoch_number(self.epoch)

    @property
    def holder(self) -> str:
        return f"{self.epoch}:{self.master_id}"

    @classmethod
    def of(cls, holder: str) -> "Leadership":
        number, nonce, master_id = holder.split(":", 2)
        return cls(f"{number}:{nonce}", master_id)


class Renewed(IntEnum):
    """The outcome of the renewal of a lock. UNREADABLE: this master may still hold the lock."""

    OK = 0
    LOST = 1
    DEMOTED = 2
    UNREADABLE = 3


class Demotion(Enum):
    """The outcome of an operator's demotion of a leader."""

    TOLD = "ok"
    NOT_LEADER = "not_leader"
    ALONE = "alone"


class LeadershipStore:
    """Leadership of one shard. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    async def elect(self, master_id: str, nonce: str, *, ttl_ms: int) -> Leadership | None:
        """Try to become leader. Return the new leadership, or None if another master holds the lock or this master was
        demoted.
        """
        k = self._shard.keys
        call = ScriptCall(
            load("elect"), (k.leader, k.epoch, k.demoted), (self._shard.now_arg, master_id, nonce, ttl_ms)
        )
        word, data = await self._shard.client.together.run(call)
        return Leadership(data[0].decode(), master_id) if word == "ok" else None

    def renewal(self, leadership: Leadership, *, ttl_ms: int) -> ScriptCall:
        """Return the call that renews the lock, for `StoreClient.run_joined`. The answer has a `Renewed` for each
        shard."""
        k = self._shard.keys
        return ScriptCall(
            load("renew_leaderships"),
            (k.leader, k.demoted),
            (leadership.master_id, leadership.holder, ttl_ms),
        )

    async def resign(self, leadership: Leadership) -> bool:
        k = self._shard.keys
        call = ScriptCall(load("resign"), (k.leader,), (leadership.holder, k.wake_channel))
        word, _ = await self._shard.client.together.run(call)
        return word == "ok"

    async def demote(
        self, leadership: Leadership, *, fresh_ms: int, hold_ms: int, audit_entry: bytes
    ) -> Demotion:
        """Demote a leader: it must not lead for `hold_ms`. The leader obeys at once, or when it renews its lock. Do
        nothing if no other master has sent a heartbeat within `fresh_ms`.
        """
        k = self._shard.keys
        word, _ = await self._shard.client.run(
            "demote",
            (k.leader, k.demoted, k.masters, k.audit),
            (self._shard.now_arg, leadership.holder, leadership.master_id, fresh_ms, hold_ms, audit_entry, MAX_ENTRIES,
             k.wake_channel),
        )  # fmt: skip
        return Demotion(word)

    async def depose(
        self, silent: Leadership, seen_ms: int, master_id: str, nonce: str, *, ttl_ms: int, hold_ms: int,
        audit_entry: bytes,
    ) -> Leadership | None:  # fmt: skip
        """Make `master_id` the leader in place of a silent leader, which sent its last heartbeat at `seen_ms`. Return
        the new leadership. Return None if another master leads, or if the silent leader has sent a heartbeat since.
        """
        k = self._shard.keys
        call = ScriptCall(
            load("depose"),
            (k.leader, k.epoch, k.demoted, k.masters, k.audit),
            (self._shard.now_arg, silent.holder, silent.master_id, seen_ms, master_id, nonce, ttl_ms, hold_ms,
             audit_entry, MAX_ENTRIES, k.wake_channel),
        )  # fmt: skip
        # Share round trips with the other shards: a silent master that led many shards is deposed in all of them at
        # about the same time. Meanwhile, other masters have to renew their locks on the same few connections.
        word, data = await self._shard.client.together.run(call)
        return Leadership(data[0].decode(), master_id) if word == "ok" else None

    async def newest_number(self) -> int:
        """Return the number of the newest epoch, or 0 if no master has led yet."""
        return codec.epoch_number(await self._shard.client.command("GET", self._shard.keys.epoch) or "")

    async def current(self) -> Leadership | None:
        """Return the current leader, if there is one."""
        holder = await self._shard.client.command("GET", self._shard.keys.leader)
        return None if holder is None else Leadership.of(holder.decode())
