"""Batches of one shard: creating, sealing, canceling and reading them, and the leader's work for batches that are
over."""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from jqmaster.domain.batches.batch import (
    MAX_DEPTH,
    Batch,
    BatchCallback,
    BatchSpec,
    CallbackState,
    callback_job,
)
from jqmaster.domain.constraints.constraint_set import NO_CONSTRAINTS, ConstraintSet
from jqmaster.domain.jobs.job import FINISHED, JobState
from jqmaster.domain.operations.tally import Tally
from jqmaster.errors import DamagedError, StoreUnavailableError
from jqmaster.store import codec
from jqmaster.store.batches.documents import decode_batch, encode_spec
from jqmaster.store.jobs.placement import LaneTable, StaleConstraints
from jqmaster.store.link.pages import MAX_PER_CALL, newest_first
from jqmaster.store.link.scripts import Arg
from jqmaster.store.link.shard import Shard
from jqmaster.store.link.wake import JobsReady

logger = logging.getLogger(__name__)

BATCHES_PER_READ: Final = 100
# Maximum number of members of a batch that are counted by state. Each count reads all of them.
MAX_COUNTED: Final = 5_000
_UNFINISHED: Final = [state for state in JobState if state not in FINISHED]


class BatchRefused(Exception):  # noqa: N818 - a value for the service, not an error of the store
    """A batch cannot be created. The word says why:

    * `taken`: another request used its ID.
    * `expired`: its `expires_at_ms` has passed. `now_ms` is then the store's time.
    * `unknown`, `over`, `too_deep`: its parent is unknown, over, or nested too deeply.
    """

    def __init__(self, word: str, now_ms: int = 0) -> None:
        super().__init__(word)
        self.word = word
        self.now_ms = now_ms


class EndedBatches(NamedTuple):
    """The result of `end_due`. `next_ms`: ms until the next batch is due. None: none waits."""

    removed: int
    canceled: int
    next_ms: int | None


class MemberState(NamedTuple):
    """A member and its state; None: its record is gone or cannot be read."""

    job_id: str
    state: JobState | None


@dataclass(frozen=True, slots=True)
class DueCallback:
    """A callback that is to be enqueued now."""

    batch: Batch
    callback: BatchCallback


class BatchStore:
    """Batches of one shard. `tally` counts the jobs that they start. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard, tally: Tally) -> None:
        self._shard = shard
        self._tally = tally
        self._client = shard.client
        self._keys = shard.keys

    async def put(
        self, spec: BatchSpec, *, life_ms: int, expires_at_ms: int | None = None, filled_by: str = ""
    ) -> bool:
        """Create a batch, and return whether it is new.

        * `expires_at_ms`: replaces the value in `spec`.
        * `life_ms`: the lifetime of a batch without `expires_at_ms`.
        * `filled_by`: the ID of the call that fills and seals the batch. Until then, this call may `drop` the batch.

        Raise BatchRefused; StoreUnavailableError if the store was emptied or replaced.
        """
        k = self._keys
        until_ms = expires_at_ms or spec.expires_at_ms or 0
        callbacks = [str(callback) for callback in spec.callbacks]
        word, data = await self._client.run(
            "put_batch",
            (k.batch(spec.id), k.batches, k.batches_due, k.rules),
            (self._shard.now_arg, k.tag, spec.id, encode_spec(spec), spec.parent or "", until_ms, life_ms,
             codec.pack(callbacks), MAX_DEPTH, self._shard.mark, filled_by, spec.expires_at_ms or 0),
        )  # fmt: skip
        _raise_other_data(word)
        if word == "expired":
            raise BatchRefused(word, data[0])
        if word in ("taken", "parent"):
            raise BatchRefused(data[0].decode() if data else word)
        return word == "ok"

    async def seal(self, batch_id: str, *, expires_at_ms: int | None = None) -> bool:
        """Seal a batch; return whether it exists."""
        k = self._keys
        word, _ = await self._client.run(
            "seal_batch",
            (k.batch(batch_id), k.batches_due),
            (self._shard.now_arg, k.tag, batch_id, expires_at_ms or ""),
        )
        return word == "ok"

    async def drop(self, batch_id: str, filled_by: str) -> bool:
        """Remove a batch that the call `filled_by` created, and return whether it is gone. The batch stays if it ever
        had a member, or if a repeat of the call is filling it now."""
        word, _ = await self._client.run(
            "drop_batch",
            (self._keys.batch(batch_id),),
            (self._shard.now_arg, self._keys.tag, batch_id, filled_by),
        )
        return word == "ok"

    async def cancel(self, batch_id: str) -> str:
        """Cancel a batch, and return `ok`, `unknown`, or `complete` (too late). The leader then cancels its members."""
        k = self._keys
        word, _ = await self._client.run(
            "cancel_batch",
            (k.batch(batch_id), k.batches_due),
            (self._shard.now_arg, k.tag, batch_id),
        )
        return word

    async def ask_retry(self, batch_id: str) -> bool:
        """Ask the leader to retry the members that have failed so far; return whether the batch exists."""
        k = self._keys
        word, _ = await self._client.run(
            "retry_batch", (k.batch(batch_id),), (self._shard.now_arg, k.tag, batch_id)
        )
        return word == "ok"

    async def get(self, batch_id: str) -> Batch | None:
        """Return a batch. Raise DamagedError."""
        flat = await self._client.command("HGETALL", self._keys.batch(batch_id))
        return decode_batch(batch_id, flat) if flat else None

    async def get_all(self, batch_ids: Sequence[str]) -> dict[str, Batch]:
        """Return the batches among these that exist and can be read."""
        found = {}
        replies = await self._client.pipeline(
            [("HGETALL", self._keys.batch(batch_id)) for batch_id in batch_ids], skip_damaged=True
        )
        for batch_id, flat in zip(batch_ids, replies, strict=True):
            try:
                if flat:
                    found[batch_id] = decode_batch(batch_id, flat)
            except DamagedError as exc:
                logger.error("%s", exc.detail)
        return found

    async def newest(self, before: tuple[int, str] | None, limit: int) -> list[tuple[int, str]]:
        """Return the creation times and IDs of the batches after an earlier page, newest first."""
        return await newest_first(self._client, self._keys.batches, before, limit)

    async def count(self) -> int:
        return int(await self._client.command("ZCARD", self._keys.batches))

    async def unfinished(self, batch: Batch) -> dict[JobState, int] | None:
        """Return the number of a batch's jobs in each state that is not final. None: there are too many to count."""
        counts = dict.fromkeys(_UNFINISHED, 0)
        if not batch.unfinished:
            return counts
        if batch.total - batch.gone > MAX_COUNTED:
            return None
        after = ""
        while page := await self.members(batch.id, after):
            for member in await self.states(page):
                if member.state in counts:
                    counts[member.state] += 1
            after = page[-1]
        return counts

    async def members(self, batch_id: str, after: str = "", limit: int = MAX_PER_CALL) -> list[str]:
        """Return the IDs of members after `after`, in order."""
        least = f"({after}" if after else "-"
        page = await self._client.command(
            "ZRANGE", self._keys.batch_members(batch_id), least, "+", "BYLEX", "LIMIT", "0", limit
        )
        return [raw.decode() for raw in page]

    async def states(self, job_ids: Sequence[str]) -> list[MemberState]:
        """Return the state of each of these jobs."""
        replies = await self._client.pipeline(
            [("GETRANGE", self._keys.job(one), "1", "1") for one in job_ids], skip_damaged=True
        )
        return [
            MemberState(job_id, codec.known_state(code[0]) if code else None)
            for job_id, code in zip(job_ids, replies, strict=True)
        ]

    async def children(self, batch_id: str) -> list[str]:
        """Return the IDs of the batches that are members of a batch."""
        return sorted(
            raw.decode()
            for raw in await self._client.command("SMEMBERS", self._keys.batch_children(batch_id))
        )

    async def retry_until_ms(self, batch_id: str) -> int:
        """Return the instant of the newest request to retry failed members. The request does not cover members that
        failed later."""
        return int(await self._client.command("HGET", self._keys.batch(batch_id), "retry_until_ms") or 0)

    async def start_callbacks(
        self, due: Sequence[DueCallback], constraints: ConstraintSet = NO_CONSTRAINTS, *, epoch: str
    ) -> list[bool]:
        """Enqueue callbacks in one step, as the leader of `epoch`. Return for each callback whether it was still due.

        Raises StaleConstraints, StaleEpochError; StoreUnavailableError if the store was emptied or replaced.
        """
        k = self._keys
        table = LaneTable()
        args: list[Arg] = []
        for one in due:
            job = callback_job(one.batch.spec, one.callback)
            lane, gates, weights = table.place(constraints, job)
            terms, digest, rest = codec.encode_new(job, gates, weights)
            args += (one.batch.id, str(one.callback), job.id, terms + lane.to_bytes(2, "big"), digest, rest)
        word, data = await self._client.run(
            "start_callbacks",
            (k.epoch, k.rules, k.scheduled, k.expiring),
            (self._shard.now_arg, k.tag, epoch, self._shard.wake_channel, constraints.edition, table.packed(),
             self._shard.mark, *args),
        )  # fmt: skip
        if word == "stale_constraints":
            raise StaleConstraints
        _raise_other_data(word)
        started = [status == 1 for status in data[0]]
        names = Counter(
            one.batch.spec.callbacks[one.callback].name
            for one, is_new in zip(due, started, strict=True)
            if is_new
        )
        for name, count in names.items():
            self._tally.of(name).pushed += count
        if names:
            self._shard.leader.wake(JobsReady())
        return started

    async def end_due(self, epoch: str, *, retention_ms: int) -> EndedBatches:
        """Cancel batches that expire, and remove those whose retention is over, as the leader of `epoch`. Raise
        StaleEpochError."""
        k = self._keys
        _, (removed, canceled, next_ms) = await self._client.run(
            "end_batches",
            (k.epoch, k.batches, k.batches_due),
            (self._shard.now_arg, k.tag, epoch, BATCHES_PER_READ, retention_ms),
        )
        return EndedBatches(removed, canceled, None if next_ms < 0 else next_ms)


def due_callbacks(batches: Mapping[str, Batch]) -> list[DueCallback]:
    """Return the callbacks of these batches that are due."""
    return [
        DueCallback(batch, callback)
        for batch in batches.values()
        for callback, state in batch.callbacks.items()
        if state is CallbackState.DUE
    ]


def _raise_other_data(word: str) -> None:
    if word == "other_data":
        raise StoreUnavailableError(
            "the store's data are gone or were replaced; no batch was created",
            code="store_unfit",
            retry_after_s=5.0,
        )
