"""The registry of masters."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, NamedTuple

import msgpack

from jqmaster.domain.operations.master import MasterRecord, SeenMaster
from jqmaster.store import codec
from jqmaster.store.leadership.leadership import Leadership
from jqmaster.store.link.scripts import ScriptCall, load
from jqmaster.store.link.shard import Shard

logger = logging.getLogger(__name__)

# How long a silent master stays listed, so that people see which master died. The time is short, because a process that
# dies at every start leaves a new entry each time.
FORGET_MS: Final = 60_000
MAX_MASTERS: Final = 500
# Maximum number of faults in a heartbeat. The number is small, because every other master reads the faults.
MAX_FAULTS: Final = 20
MAX_FAULT_CHARS: Final = 500
_UNREADABLE: Final = (KeyError, ValueError, TypeError, AttributeError, msgpack.UnpackException)


@dataclass(frozen=True, slots=True)
class MasterRegistry:
    """All registered masters at one store time, the longest silent first.

    * `demoted_id`: the ID of the demoted master, which must not lead for a while.
    * `epoch`: the number of the newest epoch; 0 before the first election.
    """

    now_ms: int
    leadership: Leadership | None
    demoted_id: str | None
    epoch: int
    seen: list[SeenMaster]

    def get(self, master_id: str) -> SeenMaster | None:
        return next((m for m in self.seen if m.record.id == master_id), None)


# A named tuple, because it is created for each shard every second, and a frozen dataclass is slower to create.
class BeatAnswer(NamedTuple):
    """The store's answer to a heartbeat: the versions that every master follows, 0 before the first change.

    * `versions`: the versions of settings, targets and namespaces.
    * `mark`: see `generation`. None: it is gone.
    * `leader`: the holder of the lock, and the time of its last heartbeat (negative: it has sent none). None: no master
      leads.
    """

    now_ms: int
    versions: tuple[int, int, int]
    identity: int
    mark: str | None
    leader: tuple[str, int] | None = None


class MasterStore:
    """Masters of one shard. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        k = shard.keys
        self._beat_keys = k.masters, k.master_info, k.settings, k.identity, k.generation, k.leader

    def encoded(self, record: MasterRecord) -> bytes:
        """Return the entry of a master, encoded for a heartbeat."""
        fields: dict[str, Any] = {
            "node_id": record.node_id,
            "pid": record.pid,
            "url": record.url,
            "version": record.version,
            "started_at_ms": record.started_at_ms,
            "listens_sharded": record.listens_sharded,
            "delivers": record.delivers,
            "knows_namespaces": record.knows_namespaces,
            "stores": record.stores,
        }
        if record.duty_faults:
            faults = islice(record.duty_faults.items(), MAX_FAULTS)
            fields["duty_faults"] = {name: fault[:MAX_FAULT_CHARS] for name, fault in faults}
        return codec.pack(fields)

    def heartbeat(self, master_id: str, info: bytes) -> ScriptCall:
        """Return the call that sends a heartbeat; the first one registers the master. It removes masters that have been
        silent for `FORGET_MS`."""
        return ScriptCall(
            load("beat_master"),
            self._beat_keys,
            (self._shard.now_arg, master_id, info, FORGET_MS, MAX_MASTERS),
        )

    def repeated(self, master_id: str) -> ScriptCall:
        """Return the call that repeats a heartbeat with the same entry, for `StoreClient.run_joined`."""
        k = self._shard.keys
        keys = (k.generation, k.leader, k.settings, k.identity, k.masters)
        return ScriptCall(load("repeat_heartbeats"), keys, (self._shard.now_arg, master_id))

    def answer(self, data: Sequence[Any]) -> BeatAnswer:
        """Decode the answer to a heartbeat."""
        removed, now_ms, versions, identity, mark, holder, seen_ms = data
        if removed:
            logger.info("%d masters forgotten: they have been silent for too long", removed)
        leader = (holder.decode(), seen_ms) if holder else None
        return BeatAnswer(
            now_ms, (versions[0], versions[1], versions[2]), identity, mark.decode() or None, leader
        )

    async def beat(self, record: MasterRecord) -> BeatAnswer:
        """Send one heartbeat."""
        call = self.heartbeat(record.id, self.encoded(record))
        _, data = await self._shard.client.together.run(call)
        return self.answer(data)

    async def forget(self, master_id: str) -> None:
        """Unregister a master that shuts down cleanly."""
        k = self._shard.keys
        await self._shard.client.run("forget_master", (k.masters, k.master_info), (master_id,))

    async def all_listen_sharded(self) -> bool:
        """Return whether all registered masters receive messages that are published on only one node of a Cluster, the
        shard's node.
        """
        infos = await self._shard.client.command("HVALS", self._shard.keys.master_info)
        return all(_listens_sharded(info) for info in infos)

    async def look(self) -> MasterRegistry:
        """Return all masters except those whose entries cannot be read. The next heartbeats write such entries
        again."""
        k = self._shard.keys
        flat, infos, holder, demoted, epoch, (seconds, microseconds) = await self._shard.client.pipeline(
            [
                ("ZRANGE", k.masters, 0, -1, "WITHSCORES"),
                ("HGETALL", k.master_info),
                ("GET", k.leader),
                ("GET", k.demoted),
                ("GET", k.epoch),
                ("TIME",),
            ]
        )
        known = {infos[n].decode(): infos[n + 1] for n in range(0, len(infos), 2)}
        seen = []
        for n in range(0, len(flat), 2):
            master_id, seen_ms = flat[n].decode(), int(float(flat[n + 1]))
            try:
                seen.append(SeenMaster(_record(master_id, msgpack.unpackb(known[master_id])), seen_ms))
            except _UNREADABLE:
                logger.warning("master %s: its entry cannot be read", master_id)
        now_ms = self._shard.now() if self._shard.now else int(seconds) * 1000 + int(microseconds) // 1000
        return MasterRegistry(
            now_ms,
            Leadership.of(holder.decode()) if holder else None,
            demoted.decode() if demoted else None,
            codec.epoch_number(epoch or ""),
            seen,
        )


def _listens_sharded(info: bytes) -> bool:
    try:
        return _record("", msgpack.unpackb(info)).listens_sharded
    except _UNREADABLE:
        return False  # the master's next heartbeat replaces the unreadable entry


def _record(master_id: str, fields: Mapping[str, Any]) -> MasterRecord:
    return MasterRecord(
        id=master_id,
        node_id=str(fields["node_id"]),
        pid=int(fields["pid"]),
        url=str(fields["url"]),
        version=str(fields["version"]),
        started_at_ms=int(fields["started_at_ms"]),
        # Masters of older releases do not send these fields.
        listens_sharded=fields.get("listens_sharded") is True,
        delivers=fields.get("delivers") is True,
        knows_namespaces=fields.get("knows_namespaces") is True,
        stores=tuple(str(store) for store in fields.get("stores", ())),
        duty_faults={str(name): str(fault) for name, fault in fields.get("duty_faults", {}).items()},
    )
