"""Finds out, in one round trip, whether data that dashboards show have changed."""

from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from jqmaster.domain.jobs.job import FINISHED, INDEXED
from jqmaster.domain.operations.master import Pace
from jqmaster.live_value import LiveValue
from jqmaster.store.identity.audit import changes_of
from jqmaster.store.link.scripts import Arg
from jqmaster.store.link.shard import Shard

# Maximum number of new entries that one look reads from each audit log.
_MAX_ENTRIES: Final = 50


@dataclass(frozen=True, slots=True)
class LiveFingerprint:
    """A short form of the state of a shard. If two fingerprints are equal, nothing has changed.

    * `changed`: by the audit log, the kinds of objects that changed since the last look.
    * `running_actions`: IDs of bulk actions under way.
    * `news_of_actions`: IDs of bulk actions that began or ended since the last look.
    """

    at_ms: int
    jobs: tuple[Any, ...]
    workers: tuple[Any, ...]
    masters: tuple[Any, ...]
    constraints: tuple[Any, ...]
    definitions: tuple[Any, ...]
    events: tuple[Any, ...]
    batches: tuple[Any, ...]
    changed: frozenset[str]
    running_actions: frozenset[str]
    news_of_actions: frozenset[str]


class LiveStore:
    """Watches one shard for one caller, and remembers the last look. Raises what `StoreClient.run` raises.

    * `stale_ms`: the time after which a worker that sends nothing counts as silent.
    * `pace`: has the same limit for masters.
    """

    def __init__(self, shard: Shard, *, stale_ms: LiveValue[int], pace: LiveValue[Pace]) -> None:
        self._client = shard.client
        self._keys = shard.keys
        self._stale_ms = stale_ms
        self._pace = pace
        self._at_ms = 0
        # By log: the ID of the newest entry that a look has seen.
        self._audited = {shard.keys.audit: "", shard.keys.access: ""}

    async def look(self) -> LiveFingerprint:
        reads = self._reads()
        replies = iter(await self._client.pipeline([command for part in reads.values() for command in part]))
        found = {name: [_hashable(one) for one in islice(replies, len(part))] for name, part in reads.items()}
        logs = found["logs"]
        changes = {
            change
            for seen, entries in zip(self._audited.values(), logs, strict=True)
            for change in (changes_of(entries) if seen else ())
        }
        for (log, seen), entries in zip(self._audited.items(), logs, strict=True):
            self._audited[log] = entries[0][0].decode() if entries else seen or "0-0"
        (time,), (ready,), (actions,) = found["time"], found["ready"], found["actions"]
        self._at_ms = int(time[0]) * 1000 + int(time[1]) // 1000
        return LiveFingerprint(
            at_ms=self._at_ms,
            jobs=(sum(map(int, ready)), *found["jobs"]),
            workers=tuple(found["workers"]),
            masters=tuple(found["masters"]),
            constraints=tuple(found["constraints"]),
            definitions=tuple(found["definitions"]),
            events=tuple(found["events"]),
            batches=tuple(found["batches"]),
            changed=frozenset(kind for kind, _ in changes),
            running_actions=frozenset(raw.decode() for raw in actions),
            news_of_actions=frozenset(target for kind, target in changes if kind == "jobs"),
        )

    def _reads(self) -> dict[str, list[tuple[Arg, ...]]]:
        """Return the commands of a look, by the name of the fact that each reads."""
        k = self._keys
        worker_ms, master_ms = self._stale_ms.current, self._pace.current.fresh_ms
        return {
            "time": [("TIME",)],
            # Compare with the time of the last look, which is exact enough to find silent workers.
            "workers": [("ZCOUNT", k.workers, self._at_ms - worker_ms, "+inf"), ("ZCARD", k.workers)],
            "masters": [
                ("ZCOUNT", k.masters, self._at_ms - master_ms, "+inf"), ("ZCARD", k.masters), ("GET", k.leader),
            ],
            "constraints": [("HMGET", k.rules, "version", "edition", "settled")],
            "logs": [
                ("XREVRANGE", log, "+", f"({seen}" if seen else "-", "COUNT", _MAX_ENTRIES)
                for log, seen in self._audited.items()
            ],
            "actions": [("SMEMBERS", k.running_actions)],
            "ready": [("HVALS", k.ready_counts)],
            "jobs": [
                ("GET", k.fence),
                *(("ZCARD", k.index(state)) for state in INDEXED),
                *(("ZRANGE", index, -1, -1) for index in sorted(map(k.finished, FINISHED))),
            ],
            # Read the next due definition: its name or its time changes whenever a definition fires.
            "definitions": [
                ("ZRANGE", key, 0, 0, "WITHSCORES") for key in (k.definitions_due, k.definitions_due_on_days)
            ],
            # Count the events, too: a second event of the same millisecond does not change the newest score.
            "events": [("ZRANGE", k.events, -1, -1, "WITHSCORES"), ("ZCARD", k.events)],
            # These values change when a batch is created, ends or is removed. The end of a job of a batch shows as a
            # change of jobs.
            "batches": [
                ("ZRANGE", k.batches, -1, -1, "WITHSCORES"), ("ZCARD", k.batches),
                ("ZRANGE", k.batches_due, 0, 0, "WITHSCORES"),
            ],
        }  # fmt: skip


def _hashable(reply: Any) -> Any:
    return tuple(reply) if isinstance(reply, list) else reply
