"""Tells, in one round trip, whether anything changed that dashboards show."""

from dataclasses import dataclass
from typing import Any, Final

from jqmaster.domain.jobs.job import FINISHED, INDEXED
from jqmaster.domain.operations.master import Pace
from jqmaster.live_value import LiveValue
from jqmaster.store.identity.audit import changes_of
from jqmaster.store.link.shard import Shard

# The most entries since the last look that are read from each log.
_MAX_ENTRIES: Final = 50
# The number of replies that follow those on jobs.
_BEHIND_JOBS: Final = 6


@dataclass(frozen=True, slots=True)
class LiveFingerprint:
    """Signs: equal ones mean that nothing changed. `changed`: kinds of things that changed since the last look, by the
    audit log; `running_actions`: IDs of bulk actions under way; `news_of_actions`: IDs of those that began or ended
    since."""

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
    """Watches one shard for one caller, and remembers what it saw last. `stale_ms`: silence after which a worker is not
    fresh any more; `pace` has that of a master. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard, *, stale_ms: LiveValue[int], pace: LiveValue[Pace]) -> None:
        self._client = shard.client
        self._keys = shard.keys
        self._stale_ms = stale_ms
        self._pace = pace
        self._at_ms = 0
        # The newest entry that was seen of each log.
        self._audited = {shard.keys.audit: "", shard.keys.access: ""}

    async def look(self) -> LiveFingerprint:
        k = self._keys
        worker_ms, master_ms = self._stale_ms.current, self._pace.current.fresh_ms
        finished = sorted(k.finished(state) for state in FINISHED)
        indexes = [k.index(state) for state in INDEXED]
        replies = await self._client.pipeline(
            [
                ("TIME",),
                # The instant of the last look is good enough to tell the silent from the others.
                ("ZCOUNT", k.workers, self._at_ms - worker_ms, "+inf"),
                ("ZCARD", k.workers),
                ("ZCOUNT", k.masters, self._at_ms - master_ms, "+inf"),
                ("ZCARD", k.masters),
                ("GET", k.leader),
                ("HMGET", k.rules, "version", "edition", "settled"),
                *(
                    ("XREVRANGE", log, "+", f"({seen}" if seen else "-", "COUNT", _MAX_ENTRIES)
                    for log, seen in self._audited.items()
                ),
                ("SMEMBERS", k.running_actions),
                ("GET", k.fence),
                ("HVALS", k.ready_counts),
                *(("ZCARD", index) for index in indexes),
                *(("ZRANGE", index, -1, -1) for index in finished),
                # Whenever a definition fires, another one is next, or the same one at another time.
                ("ZRANGE", k.definitions_due, 0, 0, "WITHSCORES"),
                # Another event of the same millisecond does not change the score, but the number.
                ("ZRANGE", k.events, -1, -1, "WITHSCORES"),
                ("ZCARD", k.events),
                # Shows a batch that is made, over or removed; the ends of its jobs show as changes of jobs.
                ("ZRANGE", k.batches, -1, -1, "WITHSCORES"),
                ("ZCARD", k.batches),
                ("ZRANGE", k.batches_due, 0, 0, "WITHSCORES"),
            ]
        )  # fmt: skip
        time, *workers_and_masters = replies[:6]
        rules, *logs, actions = replies[6:10]
        changes = {
            change
            for seen, entries in zip(self._audited.values(), logs, strict=True)
            for change in (changes_of(entries) if seen else ())
        }
        for (log, seen), entries in zip(self._audited.items(), logs, strict=True):
            self._audited[log] = entries[0][0].decode() if entries else seen or "0-0"
        self._at_ms = int(time[0]) * 1000 + int(time[1]) // 1000
        ready = sum(map(int, replies[11]))
        return LiveFingerprint(
            at_ms=self._at_ms,
            jobs=(
                replies[10],
                ready,
                *replies[12 : 12 + len(indexes)],
                *map(tuple, replies[12 + len(indexes) : -_BEHIND_JOBS]),
            ),
            workers=tuple(workers_and_masters[:2]),
            masters=tuple(workers_and_masters[2:]),
            constraints=tuple(rules),
            definitions=tuple(replies[-6]),
            events=(*replies[-5], replies[-4]),
            batches=(*replies[-3], replies[-2], *replies[-1]),
            changed=frozenset(kind for kind, _ in changes),
            running_actions=frozenset(raw.decode() for raw in actions),
            news_of_actions=frozenset(target for kind, target in changes if kind == "jobs"),
        )
