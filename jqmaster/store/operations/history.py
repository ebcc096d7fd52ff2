"""Counts by minute and by hour, and failures by group. No job depends on them.

All methods raise what `StoreClient.run` raises.
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import msgpack

from jqmaster.domain.histogram import BUCKETS
from jqmaster.domain.jobs.failures import MAX_VERSIONS, QUIET_MS, GroupedFailures, Ignore
from jqmaster.domain.jobs.merged_failures import with_merged
from jqmaster.domain.operations.tally import MAX_NAMES, OTHER, NameCounts, WorkerCounts
from jqmaster.store import codec
from jqmaster.store.identity.audit import MAX_ENTRIES
from jqmaster.store.link.pages import pages
from jqmaster.store.link.scripts import Arg, ScriptCall, load
from jqmaster.store.link.shard import Shard
from jqmaster.store.operations.failure_records import decode_group, decode_ignore, encode_ignore
from jqmaster.store.operations.failure_triage import decode_assignment, decode_resolution, merges_in

Step = Literal["minute", "hour"]
STEP_MS: Final[Mapping[Step, int]] = {"minute": 60_000, "hour": 3_600_000}

# How long counts are kept: the longest span of a request and two more steps, because the first and the last step of a
# span are incomplete.
KEEP_MS: Final[Mapping[Step, int]] = {"minute": 24 * 3_600_000 + 120_000, "hour": 30 * 86_400_000 + 7_200_000}
# Maximum number of entries that a call adds.
MAX_PER_CALL: Final = 100
MAX_GROUPS: Final = 500
KEEP_GROUPS_MS: Final = 30 * 86_400_000
KEEP_WORKERS_MS: Final = 600_000
# The lifetime of a sample of the backlog. A leader stores the next sample long before it ends.
BACKLOG_LIVES_MS: Final = 30_000
# The lifetime of a sample without ready jobs. It is longer, because a quiet shard is sampled less often.
EMPTY_BACKLOG_LIVES_MS: Final = 75_000
# Maximum number of arguments of a write that shares a round trip.
_MAX_SHARED: Final = 16
_HASHES_PER_READ: Final = 20
_VALUES_PER_READ: Final = 240
_VERSIONS_KEPT: Final = 5_000


@dataclass(frozen=True, slots=True)
class CountedFailures:
    """Failures of one kind, to be added to their group. `worker_ids`: by worker, how many of these failures it had."""

    id: str
    name: str
    cause: str
    message: str
    count: int
    example_job_id: str
    worker_ids: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Waiting:
    """The number of ready jobs.

    * `since_ms`: the store time since which the first ready job has waited. 0: unknown.
    * `startable_since_ms`: the store time since which the first job that no limit holds back has waited. 0: no such job
      is known.
    * `startable_job_id`: the ID of that job, or empty.
    """

    ready: int
    since_ms: int
    startable_since_ms: int = 0
    startable_job_id: str = ""


@dataclass(frozen=True, slots=True)
class BacklogSample:
    """The leader's sample at one store time. `names`: the names that have ready jobs, at most `MAX_NAMES`."""

    at_ms: int
    whole: Waiting
    names: Mapping[str, Waiting]


class HistoryStore:
    """The history of one shard, to which the master of `master_id` adds."""

    def __init__(self, shard: Shard, *, master_id: str, max_names: int = MAX_NAMES) -> None:
        self._shard = shard
        self._client = shard.client
        self._keys = shard.keys
        self._master_id = master_id
        self._max_names = max_names
        self._versions: dict[str, str] = {}

    # --- adding

    async def add_counts(self, number: int, names: Sequence[tuple[str, NameCounts]]) -> bool:
        """Add counts to the current minute and hour. `number` grows with each call of this master, including calls of
        `add_failures`. A repeated call with the same number counts only once. Return False for a repeat.
        """
        k = self._keys
        args: list[Arg] = [
            self._shard.now_arg, k.tag, number, self._max_names, OTHER, KEEP_MS["minute"], KEEP_MS["hour"],
        ]  # fmt: skip
        for name, counts in names:
            args += (name, _pack(counts))
        return await self._write("add_counts", (k.flushed(self._master_id), k.counted_names), args) == "ok"

    async def add_failures(self, number: int, groups: Sequence[CountedFailures]) -> bool:
        """Add failures to their groups. `number` and the answer: see `add_counts`."""
        k = self._keys
        versions = await self._versions_of({worker_id for g in groups for worker_id in g.worker_ids})
        args: list[Arg] = [
            self._shard.now_arg, number, MAX_GROUPS, KEEP_GROUPS_MS, MAX_VERSIONS, QUIET_MS,
        ]  # fmt: skip
        for g in groups:
            told: Counter[str] = Counter()
            for worker_id, count in g.worker_ids.items():
                if version := versions.get(worker_id):
                    told[version] += count
            flat = [part for pair in told.most_common(MAX_VERSIONS) for part in pair]
            args += (g.id, g.count, g.example_job_id, g.name, g.cause, g.message, codec.pack(flat))
        word, _ = await self._client.run(
            "add_failures",
            (
                k.flushed(self._master_id),
                k.failure_groups,
                k.failures_seen,
                k.failure_ignores,
                k.failure_triage,
            ),
            args,
            replicas=0,
        )
        return word == "ok"

    async def add_worker_counts(self, number: int, workers: Sequence[tuple[str, WorkerCounts]]) -> bool:
        """Add counts of workers to the current minute. `number` and the answer: see `add_counts`."""
        packed = codec.pack(
            {worker_id: [c.succeeded, c.failed, c.run.max_ms, c.run.span()] for worker_id, c in workers}
        )
        k = self._keys
        word, _ = await self._client.run(
            "add_worker_counts",
            (k.flushed(self._master_id),),
            (self._shard.now_arg, k.tag, self._master_id, number, KEEP_WORKERS_MS, packed),
            replicas=0,
        )
        return word == "ok"

    # --- the backlog (leader only)

    async def sample_backlog(self) -> BacklogSample:
        """Sample the ready jobs."""
        counts, requirements, (seconds, microseconds) = await self._client.pipeline(
            [("HGETALL", self._keys.ready_counts), ("HKEYS", self._keys.requirements), ("TIME",)]
        )
        queues: dict[bytes, list[bytes]] = {}
        for queue in requirements:
            queues.setdefault(queue.partition(b"\t")[0], []).append(queue)
        ready = {name: int(count) for name, count in zip(counts[::2], counts[1::2], strict=True)}
        ready = {name: count for name, count in ready.items() if count > 0}
        most = sorted(ready, key=lambda name: (-ready[name], name))[:MAX_NAMES]
        now_ms = self._shard.now() if self._shard.now else int(seconds) * 1000 + int(microseconds) // 1000
        names = {}
        for page in pages(most, MAX_PER_CALL):
            asked: list[Arg] = [self._shard.now_arg, self._keys.tag]
            for name in page:
                asked += (name, b"\n".join([name, *queues.get(name, ())]))
            _, (now_ms, found) = await self._client.run("sample_backlog", (self._keys.ready_counts,), asked)
            for name, (count, since_ms, startable_ms, job_id) in zip(page, _fours(found), strict=True):
                if count > 0:
                    names[name.decode()] = Waiting(count, since_ms, startable_ms, job_id.decode())
        return BacklogSample(now_ms, _whole(sum(ready.values()), list(names.values())), names)

    async def put_backlog(self, epoch: str, backlog: BacklogSample) -> None:
        """Store a sample for all masters."""
        sample = [
            backlog.at_ms,
            [backlog.whole.ready, backlog.whole.since_ms],
            {name: [waiting.ready, waiting.since_ms] for name, waiting in backlog.names.items()},
            # Store the last two values of each name at the end. Masters of 0.3 expect a list with two values for each
            # name, and ignore the values after this list.
            {
                name: [waiting.startable_since_ms, waiting.startable_job_id]
                for name, waiting in backlog.names.items()
                if waiting.startable_since_ms
            },
        ]
        lives_ms = BACKLOG_LIVES_MS if backlog.whole.ready else EMPTY_BACKLOG_LIVES_MS
        await self._write(
            "put_backlog", (self._keys.epoch, self._keys.backlog), (epoch, codec.pack(sample), lives_ms)
        )

    async def _write(self, script: str, keys: Sequence[str], args: Sequence[Arg]) -> str:
        """Run a script, without waiting until replicas confirm its write, and return its status word. Small writes of
        many shards share a round trip.
        """
        if self._client.quorum_replicas or len(args) > _MAX_SHARED:
            word, _ = await self._client.run(script, keys, args, replicas=0)
        else:
            word, _ = await self._client.together.run(ScriptCall(load(script), keys, args))
        return word

    # --- reading

    async def now_ms(self) -> int:
        """Return the time of the store."""
        return await self._shard.now_ms()

    async def backlog(self) -> BacklogSample | None:
        """Return the leader's last sample, or None if there is none or it is too old."""
        packed = await self._client.command("GET", self._keys.backlog)
        if packed is None:
            return None
        try:
            at_ms, (ready, _), sampled, *added = msgpack.unpackb(packed)
            startable = added[0] if added else {}
            names = {name: Waiting(*values, *startable.get(name, ())) for name, values in sampled.items()}
            return BacklogSample(at_ms, _whole(ready, list(names.values())), names)
        except _UNREADABLE:
            return None

    async def names(self) -> dict[str, int]:
        """Return the counted names, and when each was last counted (store time, to within some seconds)."""
        flat = await self._client.command("ZRANGE", self._keys.counted_names, 0, -1, "WITHSCORES")
        return {flat[n].decode(): int(float(flat[n + 1])) for n in range(0, len(flat), 2)}

    async def series(self, name: str, step: Step, numbers: Sequence[int]) -> list[NameCounts | None]:
        """Return the counts of one name in each of these minutes or hours. None: nothing was counted then. An empty
        name stands for all names.
        """
        found: list[NameCounts | None] = []
        for page in pages(numbers, _VALUES_PER_READ):
            packed = await self._client.pipeline(
                [("HGET", self._key(step, number), name) for number in page], skip_damaged=True
            )
            for value in packed:
                counts = NameCounts()
                found.append(counts if value is not None and _add(counts, value) else None)
            # Unpacking takes long: let other tasks run.
            await asyncio.sleep(0)
        return found

    async def sums(self, step: Step, numbers: Sequence[int]) -> dict[str, NameCounts]:
        """Return, by name, the sums of the counts in these minutes or hours. The empty name has the sums of all
        names."""
        found: dict[str, NameCounts] = {}
        for page in pages(numbers, _HASHES_PER_READ):
            hashes = await self._client.pipeline(
                [("HGETALL", self._key(step, number)) for number in page], skip_damaged=True
            )
            for flat in hashes:
                for name, value in _pairs(flat or ()):
                    text = name.decode()
                    counts = found.get(text)
                    if counts is None:
                        counts = found[text] = NameCounts()
                    _add(counts, value)
                await asyncio.sleep(0)
        return found

    async def worker_counts(self, minute: int) -> dict[str, WorkerCounts]:
        """Return, by worker ID, the attempts that ended in this minute. It must be one of the last ten minutes."""
        found: dict[str, WorkerCounts] = {}
        (parts,) = await self._client.pipeline(
            [("HVALS", self._keys.worker_minute(minute))], skip_damaged=True
        )
        for page in pages(parts or (), _HASHES_PER_READ):
            for packed in page:
                _add_workers(found, packed)
            # Unpacking takes long: let other tasks run.
            await asyncio.sleep(0)
        return found

    async def failure_groups(self) -> list[GroupedFailures]:
        """Return all kept groups, the last seen first. Groups that people merged are one group."""
        k = self._keys
        flat, flat_ignores, flat_triage = await self._client.pipeline(
            [("HGETALL", key) for key in (k.failure_groups, k.failure_ignores, k.failure_triage)],
            skip_damaged=True,
        )
        ignores = {group_id: decode_ignore(value) for group_id, value in _pairs(flat_ignores or ())}
        triage = dict(_pairs(flat_triage or ()))
        found = (
            decode_group(
                group_id,
                value,
                ignores.get(group_id),
                decode_assignment(triage.get(b"a:" + group_id)),
                decode_resolution(triage.get(b"r:" + group_id)),
            )
            for group_id, value in _pairs(flat or ())
        )
        groups = with_merged([g for g in found if g is not None], merges_in(triage))
        return sorted(groups, key=lambda g: (-g.last_seen_ms, g.id))

    async def forget_failures(self, job_ids: Collection[str]) -> None:
        """Remove the groups whose example is one of these jobs."""
        groups = [
            one.id
            for g in await self.failure_groups()
            for one in (g, *g.merged)
            if one.example_job_id in job_ids
        ]
        k = self._keys
        if groups:
            await self._client.run(
                "forget_failures",
                (k.failure_groups, k.failures_seen, k.failure_ignores, k.failure_triage),
                groups,
            )

    # --- ignoring

    async def ignore(self, group_id: str, ignore: Ignore, audit_entry: bytes) -> bool:
        """Ignore a group of failures. Return False if no group has this ID."""
        k = self._keys
        word, _ = await self._client.run(
            "ignore_failure",
            (k.failure_groups, k.failure_ignores, k.audit),
            (self._shard.now_arg, group_id, encode_ignore(ignore), audit_entry, MAX_ENTRIES),
        )
        return word == "ok"

    async def unignore(self, group_id: str, audit_entry: bytes) -> bool:
        """Stop ignoring a group of failures. Return False if no group has this ID."""
        k = self._keys
        word, _ = await self._client.run(
            "unignore_failure",
            (k.failure_groups, k.failure_ignores, k.audit),
            (self._shard.now_arg, group_id, audit_entry, MAX_ENTRIES),
        )
        return word != "unknown"

    async def _versions_of(self, worker_ids: Collection[str]) -> Mapping[str, str]:
        """Return the versions of the workers among these that are registered, or were until recently."""
        unknown = [worker_id for worker_id in worker_ids if worker_id not in self._versions]
        if unknown:
            if len(self._versions) + len(unknown) > _VERSIONS_KEPT:
                self._versions.clear()
            found = await self._client.pipeline(
                [("HGET", self._keys.worker(worker_id), "version") for worker_id in unknown],
                skip_damaged=True,
            )
            for worker_id, version in zip(unknown, found, strict=True):
                if version:
                    self._versions[worker_id] = version.decode()
        return self._versions

    def _key(self, step: Step, number: int) -> str:
        return self._keys.minute(number) if step == "minute" else self._keys.hour(number)


_UNREADABLE: Final = (ValueError, TypeError, IndexError, AttributeError, msgpack.UnpackException)


def _pairs(flat: Sequence[bytes]) -> Iterable[tuple[bytes, bytes]]:
    return zip(flat[::2], flat[1::2], strict=True)


def _fours(flat: Sequence[Any]) -> Iterable[Sequence[Any]]:
    return zip(flat[::4], flat[1::4], flat[2::4], flat[3::4], strict=True)


def _whole(ready: int, names: Sequence[Waiting]) -> Waiting:
    """Return the backlog of all names. `ready` includes jobs of names that were not sampled."""
    since_ms = min((one.since_ms for one in names if one.since_ms), default=0)
    startable = min(
        ((one.startable_since_ms, one.startable_job_id) for one in names if one.startable_since_ms),
        default=(0, ""),
    )
    return Waiting(ready, since_ms, *startable)


def _pack(c: NameCounts) -> bytes:
    """Pack counts in the form of lua/lib/operations/counts.lua."""
    return codec.pack(
        [c.pushed, c.succeeded, c.failed, c.canceled, c.skipped, c.retried, c.wait.max_ms, c.run.max_ms, c.backlog,
         c.oldest_wait_ms, c.wait.span(), c.run.span(), c.discarded]
    )  # fmt: skip


def _add(counts: NameCounts, packed: Any) -> bool:
    """Add the counts that a master packed. If they cannot be read, add none and return False."""
    try:
        (
            pushed, succeeded, failed, canceled, skipped, retried, wait_ms, run_ms, backlog, oldest_ms, waits, runs,
            *added,
        ) = msgpack.unpackb(packed)  # fmt: skip
        discarded = added[0] if added else 0
        for span in (waits, runs):
            if span and not (span[0] >= 0 and span[0] + len(span) - 1 <= BUCKETS):
                return False
    except _UNREADABLE:
        return False
    counts.pushed += pushed
    counts.succeeded += succeeded
    counts.discarded += discarded
    counts.failed += failed
    counts.canceled += canceled
    counts.skipped += skipped
    counts.retried += retried
    counts.backlog = max(counts.backlog, backlog)
    counts.oldest_wait_ms = max(counts.oldest_wait_ms, oldest_ms)
    counts.wait.add_span(waits, wait_ms)
    counts.run.add_span(runs, run_ms)
    return True


def _add_workers(found: dict[str, WorkerCounts], packed: bytes) -> None:
    """Add the counts that a master packed, except those of workers whose counts cannot be read."""
    try:
        parts = msgpack.unpackb(packed)
        for worker_id, (succeeded, failed, max_ms, runs, *_) in parts.items():
            if runs and not (runs[0] >= 0 and runs[0] + len(runs) - 1 <= BUCKETS):
                continue
            counts = found.setdefault(str(worker_id), WorkerCounts())
            counts.succeeded += succeeded
            counts.failed += failed
            counts.run.add_span(runs, max_ms)
    except _UNREADABLE:
        return
