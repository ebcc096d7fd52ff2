"""Reads the content of a job that is over, and erases values from it. Also erases the log of the job."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import msgpack

from jqmaster.domain.jobs.job import Attempt, Job
from jqmaster.store import codec
from jqmaster.store.identity.audit import MAX_ENTRIES
from jqmaster.store.jobs.operator_actions import StateConflict
from jqmaster.store.link.shard import Shard
from jqmaster.store.logs.logs import OVER_MS

# Each entry of a history begins with the end time of the attempt, which has this many bytes.
_END_BYTES: Final = 8
# Positions of the message and the error in an entry: see `codec.encode_attempt`.
_MESSAGE: Final = 4
_ERROR: Final = 5
Drop = Literal["progress", "parts", "challenges"]
_LETTERS: Final[Mapping[Drop, str]] = {"progress": "p", "parts": "s", "challenges": "c"}


@dataclass(frozen=True, slots=True)
class StoredContent:
    """A job with its remaining data, as they were read.

    * `extras`: see `store/codec.py`.
    * `history`: each entry with the attempt that it holds.
    * `result`: None if none is kept.
    """

    job: Job
    extras: Mapping[str, Any]
    history: Sequence[tuple[bytes, Attempt]]
    result: bytes | None


@dataclass(slots=True)
class Erasure:
    """New values in place of those in the store; None: unchanged.

    * `errors`: message and encoded error of each entry of the history.
    * `drops`: which data are removed as a whole.
    """

    extras: Mapping[str, Any] | None = None
    argument: bytes | None = None
    result: bytes | None = None
    errors: Sequence[tuple[str, bytes | None]] | None = None
    drops: set[Drop] = field(default_factory=set)


class ErasureStore:
    """Jobs of one shard. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._client = shard.client
        self._keys = shard.keys

    async def read(self, job_id: str) -> StoredContent | None:
        """Return a job with its content, or None if there is no such job. Raise DamagedError."""
        k = self._keys
        record, history, result = await self._client.pipeline(
            [("GET", k.job(job_id)), ("LRANGE", k.history(job_id), 0, -1), ("GET", k.result(job_id))]
        )
        if not record:
            return None
        return StoredContent(
            codec.decode_job(job_id, record),
            codec.extras_fields(record),
            [(entry, codec.decode_attempt(entry)) for entry in history],
            result,
        )

    async def erase_log(self, job_id: str, audit_entry: bytes) -> int:
        """Erase the log of a job that is over, and return 0. If the worker may still send lines, erase nothing, and
        return for how many more milliseconds it may do so.

        Raise StateConflict if the job is not over, and KeyError if it is gone.
        """
        k = self._keys
        word, data = await self._client.run(
            "erase_log",
            (k.job(job_id), k.audit),
            (self._shard.now_arg, k.tag, job_id, OVER_MS, audit_entry, MAX_ENTRIES),
        )
        match word:
            case "state":
                raise StateConflict(codec.state_of(data[0]))
            case "unknown":
                raise KeyError(job_id)
        return int(data[0]) if word == "open" else 0

    async def erase(self, content: StoredContent, erasure: Erasure, audit_entry: bytes) -> bool:
        """Replace values in one step. Return False if the job has changed since it was read; the caller then has to
        read it again. Raise StateConflict if the job is not over, and KeyError if it is gone.
        """
        k, job = self._keys, content.job
        history = [] if erasure.errors is None else _history(content.history, erasure.errors)
        word, data = await self._client.run(
            "erase_values",
            (k.job(job.id), k.history(job.id), k.result(job.id), k.challenged, k.audit),
            (
                self._shard.now_arg,
                k.tag,
                job.id,
                job.attempt,
                job.finished_at_ms,
                _content(content, erasure),
                erasure.result or b"",
                "".join(_LETTERS[drop] for drop in sorted(erasure.drops)),
                audit_entry,
                MAX_ENTRIES,
                *history,
            ),
        )
        match word:
            case "state":
                raise StateConflict(codec.state_of(data[0]))
            case "unknown":
                raise KeyError(job.id)
        return word == "ok"


def _content(content: StoredContent, erasure: Erasure) -> bytes:
    if erasure.extras is None and erasure.argument is None:
        return b""
    extras = content.extras if erasure.extras is None else erasure.extras
    argument = content.job.argument if erasure.argument is None else erasure.argument
    return codec.encode_content(extras, argument)


def _history(
    entries: Sequence[tuple[bytes, Attempt]], errors: Sequence[tuple[str, bytes | None]]
) -> list[bytes]:
    """Return the entries of a history with new messages and errors, and otherwise unchanged."""
    changed = []
    for (raw, _), (message, error) in zip(entries, errors, strict=True):
        fields = msgpack.unpackb(raw[_END_BYTES:])
        fields[_MESSAGE], fields[_ERROR] = message, error
        changed.append(raw[:_END_BYTES] + codec.pack(fields))
    return changed
