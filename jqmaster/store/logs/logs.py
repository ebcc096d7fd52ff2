"""Logs of jobs. Only the claim that holds a job adds lines."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from jqmaster.domain.logs.lines import LEVELS, LogChunk, LogLimits
from jqmaster.domain.logs.page import LogFacts, LogSlice, NumberedLine
from jqmaster.live_value import LiveValue
from jqmaster.store import codec
from jqmaster.store.link.scripts import Arg, ScriptCall, load
from jqmaster.store.link.shard import Shard

# Number of chunks in one read. Together, they have about 1 MiB.
CHUNKS_PER_READ: Final = 16
CHUNKS_PER_SWEEP: Final = 200
# Lines of a claim are still accepted for this long after the claim has ended or another one has begun.
LATE_MS: Final = 60_000
# Lines of a job are still accepted for this long after the job has ended.
OVER_MS: Final = 60_000
_PACKER: Final = msgspec.msgpack.Encoder()
_UNPACKER: Final = msgspec.msgpack.Decoder(list[tuple[int, int, int, str]])


@dataclass(frozen=True, slots=True)
class ClaimLines:
    """Lines of one claim, in order. The caller has already checked the job ID and the token."""

    job_id: str
    token: str
    chunks: Sequence[LogChunk]


@dataclass(frozen=True, slots=True)
class SavedLines:
    """The result of a call.

    * `kept`: how many lines were kept.
    * `left_out`: how many lines the worker left out before them.
    * `made_room`: how many lines of any log were removed.
    * `is_stale`: the claim is over, and nothing was kept.
    * `behind`: nothing was done, because a chunk contains both old and new lines. Its value is the last line that the
      claim has already sent.
    """

    kept: int = 0
    left_out: int = 0
    made_room: int = 0
    is_stale: bool = False
    behind: int | None = None


class LogStore:
    """Logs of one shard. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard, limits: LiveValue[LogLimits]) -> None:
        self._shard = shard
        self._client = shard.client
        self._keys = shard.keys
        self._limits = limits

    async def save(self, worker_id: str, claims: Sequence[ClaimLines]) -> list[SavedLines]:
        """Store lines of claims of this worker, in one round trip. The call does not wait for replicas, because the
        loss of a line does little harm.
        """
        replies = await self._client.run_all([self._save(worker_id, claim) for claim in claims], replicas=0)
        return [_saved(word, data) for word, data in replies]

    def _save(self, worker_id: str, claim: ClaimLines) -> ScriptCall:
        k, limits = self._keys, self._limits.current
        args: list[Arg] = [
            self._shard.now_arg,
            k.tag,
            claim.job_id,
            bytes.fromhex(claim.token),
            codec.id_bytes(worker_id),
            LATE_MS,
            OVER_MS,
            limits.max_job_bytes,
            limits.max_bytes,
            k.finished_channel,
        ]
        for chunk in claim.chunks:
            args += (chunk.first, chunk.last, len(chunk.lines), chunk.size, _PACKER.encode(chunk.lines))
        return ScriptCall(
            load("save_logs"),
            (
                k.job(claim.job_id),
                k.log(claim.job_id),
                k.logs(claim.job_id),
                k.log_times,
                k.logged,
                k.log_totals,
            ),
            args,
        )

    async def read(self, job_id: str, after: int, *, watch: bool) -> LogSlice | None:
        """Return entries after a line, or None if there is no such job. `watch` requests a message when the job
        ends.
        """
        k = self._keys
        word, data = await self._client.run(
            "read_logs",
            (k.job(job_id), k.log(job_id), k.logs(job_id)),
            (self._shard.now_arg, after, CHUNKS_PER_READ, int(watch)),
        )
        if word == "unknown":
            return None
        state, over_ms, attempt, facts, chunks = data
        return LogSlice(
            codec.state_of(state),
            over_ms,
            attempt,
            facts_of(facts),
            [entry for _, *chunk in chunks for entry in entries_of(*chunk) if entry.seq > after],
            int(chunks[-1][0]) if chunks else after,
            len(chunks) == CHUNKS_PER_READ,
        )

    async def sweep(self, epoch: str, retention_ms: int, wait_ms: int = 0) -> tuple[int, bool]:
        """Remove the logs of jobs whose newest line is older than this, and the logs of deleted jobs that have waited
        to be archived for `wait_ms`. Return the number of removed lines, and whether there may be more.
        """
        k = self._keys
        _, (dropped, has_more) = await self._client.run(
            "sweep_logs",
            (k.epoch, k.log_times, k.log_waits),
            (self._shard.now_arg, k.tag, epoch, retention_ms, wait_ms, CHUNKS_PER_SWEEP),
        )
        return dropped, has_more == 1

    async def due_since_ms(self, retention_ms: int) -> int | None:
        """Return the time from which the first log has to be archived, even if it is in the future. None: no log."""
        k = self._keys
        gone, others = await self._client.pipeline(
            [("ZRANGE", key, 0, 0, "WITHSCORES") for key in (k.log_waits, k.log_times)]
        )
        due_ms = [int(float(gone[1]))] if gone else []
        due_ms += [int(float(others[1])) + retention_ms] if others else []
        return min(due_ms, default=None)

    async def total_bytes(self) -> int:
        """Return the size of all logs in the store, in bytes."""
        size = await self._client.command("HGET", self._keys.log_totals, "size") or b""
        return int(size) if size.isdigit() else 0


def entries_of(attempt: bytes, base: bytes, chunk: bytes) -> list[NumberedLine]:
    """Return the entries of a stored chunk; none if it is damaged."""
    try:
        return read_entries(attempt, base, chunk)
    except ValueError:
        return []


def read_entries(attempt: bytes, base: bytes, chunk: bytes) -> list[NumberedLine]:
    """Return the entries of a stored chunk. Raise ValueError if it is damaged."""
    try:
        lines = _UNPACKER.decode(chunk)
    except msgspec.MsgspecError as exc:
        raise ValueError(str(exc)) from exc
    number, before = int(attempt), int(base)
    if not all(0 <= rank < len(LEVELS) for _, _, rank, _ in lines):
        raise ValueError("no such level")
    return [NumberedLine(before + seq, number, at_ms, rank, text) for seq, at_ms, rank, text in lines]


def _saved(word: str, data: list[Any]) -> SavedLines:
    if word == "stale":
        return SavedLines(is_stale=True)
    if word == "behind":
        return SavedLines(behind=data[0])
    return SavedLines(*data)


def facts_of(fields: Sequence[bytes]) -> LogFacts:
    """Return the facts about a log in the store. A damaged number becomes 0."""
    *numbers, ref = fields
    last, dropped, size, archived = (int(raw) if raw.isdigit() else 0 for raw in numbers)
    # The reference is stored before the first piece, so it leads to nothing until a piece is archived.
    return LogFacts(last, dropped, size, archived, ref.decode() if ref and archived else None)
