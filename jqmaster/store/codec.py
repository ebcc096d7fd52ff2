"""The stored form of a job. It is one string, so that 100,000 waiting jobs stay small and a claim reads each with one
command.

Numbers are big endian. Scripts patch the head in place; `lua/lib/layout.lua` gives them the offsets, and is generated
from this file (see `layout`).

      0  u8    version of this layout
      1  u8    state
      2  u8    flags (below)
      3  u8    cause
      4  u32   attempt
      8  u32   failures, which count against max_retry
     12  u16   losses
     14  u16   returned offers, at most 65535
     16  i64   due_at_ms
     24  i64   started_at_ms
     32  i64   finished_at_ms
     40  i64   not_after_ms
     48  i64   fence
     56  16 B  token
     72  16 B  worker ID
     88  i32   priority
     92  u32   max_retry
     96  i64   timeout_ms
    104  i64   created_at_ms
    112  i64   expires_at_ms
    120  8 B   digest of the request
    128  8 B   lane (domain/constraints/lane.py)
    136  u8    length of the name, then the name
         u8    number of keyed gates (255: only the lane knows them), then the ID of each in 24 hexadecimal digits
         u32   length of the extras, then the extras
               the argument

The flags:

      1  keep_result
      2  rerun_lost
      4  confirmed: a heartbeat named the claim
      8  watched: a client waits for the end of the job
     16  unique: the job has a uniqueness key, which its extras name
     32  has_progress
     64  followed: the end of the job has consequences, which its extras name
    128  has_challenge: the attempt opened a challenge; a claim keeps the flag if its worker has to run the callbacks

The extras are empty if all their values are defaults. Otherwise they are MessagePack in one of two forms, told apart by
the first byte. The older form is an array `[tags, headers, [base_s, factor, max_s, jitter]]`, which is all that 0.1 can
read. The newer form is a map with an entry for each value that differs from its default:

* `tags`, `headers`, `retry` (a map as well), and each of `added_extras`.
* `weights`: the job's own weights in thousandths, by ID of the constraint.
* `erased`: the paths of values that people erased.

Readers ignore keys that they do not know. Only `weights` and erased values change later. A job keeps all other extras,
even those that a newer master gave it. docs/upgrading.md says which release writes what.
"""

import functools
import hashlib
import operator
import struct
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, NamedTuple

import msgpack

from jqmaster.domain.ids import ID_LENGTH
from jqmaster.domain.jobs.job import (
    DEFAULT_RETRY,
    STATES,
    Attempt,
    CallbackOf,
    Cause,
    Job,
    JobSpec,
    JobState,
    Notify,
    Origin,
    RetryPolicy,
)
from jqmaster.domain.jobs.outcome import Outcome
from jqmaster.domain.jobs.predecessors import After, AfterWhen
from jqmaster.domain.jobs.unique import OnConflict, Unique, UniqueScope
from jqmaster.domain.matching.fields import JobFields
from jqmaster.domain.matching.requirement import queue_of
from jqmaster.errors import DamagedError

VERSION: Final = 3
# The fields of the head in their order, each with its form for `struct`.
HEAD_FIELDS: Final[Mapping[str, str]] = {
    "version": "B", "state": "B", "flags": "B", "cause": "B", "attempt": "I", "failures": "I", "losses": "H",
    "returned_offers": "H", "due_at_ms": "q", "started_at_ms": "q", "finished_at_ms": "q", "not_after_ms": "q",
    "fence": "q", "token": "16s", "worker_id": "16s", "priority": "i", "max_retry": "I", "timeout_ms": "q",
    "created_at_ms": "q", "expires_at_ms": "q", "digest": "8s", "lane_id": "8s",
}  # fmt: skip
HEAD: Final = struct.Struct(">" + "".join(HEAD_FIELDS.values()))
HEAD_SIZE: Final = HEAD.size

FLAG_KEEP_RESULT: Final = 1
FLAG_RERUN_LOST: Final = 2
FLAG_CONFIRMED: Final = 4
FLAG_WATCHED: Final = 8
FLAG_UNIQUE: Final = 16
FLAG_HAS_PROGRESS: Final = 32
FLAG_FOLLOWED: Final = 64
FLAG_HAS_CHALLENGE: Final = 128
FLAGS: Final[Mapping[str, int]] = {
    "keep_result": FLAG_KEEP_RESULT,
    "rerun_lost": FLAG_RERUN_LOST,
    "confirmed": FLAG_CONFIRMED,
    "watched": FLAG_WATCHED,
    "unique": FLAG_UNIQUE,
    "has_progress": FLAG_HAS_PROGRESS,
    "followed": FLAG_FOLLOWED,
    "has_challenge": FLAG_HAS_CHALLENGE,
}

STATE_CODES: Final = {state: STATES[state].code for state in JobState}
_STATES: Final = {code: state for state, code in STATE_CODES.items()}
# A cause that a later release added does not count as damage.
_CAUSES: Final = {int(cause): cause for cause in Cause}

SCOPE_CODES: Final = {UniqueScope.UNTIL_START: 1, UniqueScope.UNTIL_FINISHED: 2, UniqueScope.WINDOW: 3}
CONFLICT_CODES: Final = {OnConflict.REJECT: 1, OnConflict.EXISTING: 2, OnConflict.REPLACE: 3}
# Scripts store these codes for the condition that a job sets for its predecessors.
WHEN_CODES: Final = {AfterWhen.SUCCEEDED: 1, AfterWhen.FINISHED: 2}
_WHENS: Final = {code: when for when, code in WHEN_CODES.items()}
_SCOPES: Final = {code: scope for scope, code in SCOPE_CODES.items()}
_CONFLICTS: Final = {code: on_conflict for on_conflict, code in CONFLICT_CODES.items()}

_NO_ID: Final = bytes(16)
_NO_FAILURES: Final = bytes(6)

MAX_NAME_BYTES: Final = 200
# A record lists at most this many keyed gates. Instead of a higher count, it has GATES_IN_LANE.
MAX_GATES: Final = 16
GATE_BYTES: Final = 24
GATES_IN_LANE: Final = b"\xff"
NO_GATES: Final = b"\0"

# Decoding damaged or hostile bytes can raise any of these.
_UNREADABLE: Final = (
    struct.error, IndexError, KeyError, ValueError, TypeError, AttributeError, msgpack.UnpackException,
)  # fmt: skip
# The fields that a patch may change, in the order of the record, then the flags and the due time. The digest covers all
# of them.
_TERMS: Final = struct.Struct(">iIqqqBqq")
# Reads only attempts, due time, timeout, creation time and length of the name from a head.
_CLAIMED: Final = struct.Struct(">4xI8xq72xqq24xB")
_NO_EXTRAS: Final = bytes(4)
_NO_GATES_NO_EXTRAS: Final = NO_GATES + _NO_EXTRAS
# By length, up to 255: its encoding in one byte.
_LENGTHS: Final = [bytes((length,)) for length in range(256)]
_MATCHED: Final = struct.Struct(">iIq")
_U32: Final = struct.Struct(">I")
_I64: Final = struct.Struct(">q")
_PACKER: Final = msgpack.Packer(autoreset=True)
_RAW_PACKER: Final = msgpack.Packer(autoreset=True, use_bin_type=False)

# Extras longer than this are not cached, so that the cache stays small.
_MAX_CACHED_EXTRAS: Final = 1024

_NIL: Final = b"\xc0"
# Copy this object for each digest: a copy takes three quarters of the time of a new object.
_DIGEST: Final = hashlib.blake2b(digest_size=8)
_ORIGIN_KEY: Final = msgpack.packb("origin")
_BATCH_KEY: Final = msgpack.packb("batch")
_CALLBACK_KEY: Final = msgpack.packb("callback_of")
_AFTER_KEY: Final = msgpack.packb("after")
_REQUIRES_KEY: Final = msgpack.packb("requires")
_WEIGHTS_KEY: Final = msgpack.packb("weights")
_ERASED_KEY: Final = msgpack.packb("erased")
# Extras that begin with this contain only weights.
_ONLY_WEIGHTS: Final = b"\x81" + _WEIGHTS_KEY
_SUCCESS_HEAD: Final = (
    b"\x83" + msgpack.packb("type") + msgpack.packb("success") + msgpack.packb("finished_at")
)
_RESULT_KEY: Final = msgpack.packb("result")
_FAILURE_HEAD: Final = (
    b"\x86" + msgpack.packb("type") + msgpack.packb("failure") + msgpack.packb("finished_at")
)
_CODED_FAILURE_HEAD: Final = (
    b"\x87" + msgpack.packb("type") + msgpack.packb("failure") + msgpack.packb("code")
)
_FINISHED_AT_KEY: Final = msgpack.packb("finished_at")
_REASON_KEY, _SHOULD_RETRY_KEY, _MESSAGE_KEY, _ERROR_KEY = map(
    msgpack.packb, ("reason", "should_retry", "message", "error")
)


def encode_new(
    spec: JobSpec, gates: bytes = NO_GATES, weights: Mapping[str, int] | None = None
) -> tuple[bytes, bytes, bytes]:
    """Return the terms (offsets 88 to 119 of the record, u8 flags, i64 run_at_ms or -1, i64 delay_ms or -1), the digest
    of the request, and the record from offset 136 on.

    The enqueue script builds the record from these parts, because only the script knows the time. If many jobs share
    the same terms, the script processes these terms once.

    Equal requests have equal digests at any time, because a relative delay enters the digest as it was given. `weights`
    are stored with the job, and lib/constraints/weights.lua reads them. They follow from the constraints, so they do
    not enter the digest.
    """
    flags = (FLAG_KEEP_RESULT if spec.keep_result else 0) | (FLAG_RERUN_LOST if spec.rerun_lost else 0)
    if spec.unique is not None:
        flags |= FLAG_UNIQUE
    if spec.batch is not None or spec.notify is not None or spec.after is not None:
        flags |= FLAG_FOLLOWED
    name = spec.name.encode()
    extras = b""
    # Test identity first, because comparing two dataclasses builds tuples of their fields.
    has_own_retry = spec.retry is not DEFAULT_RETRY and spec.retry != DEFAULT_RETRY
    added = added_extras(spec)
    if spec.tags or spec.headers or has_own_retry:
        extras = _encode_extras(spec, added, has_own_retry)
    elif added:
        extras = _PACKER.pack(added)
    terms = _TERMS.pack(
        spec.priority,
        spec.max_retry,
        spec.timeout_ms,
        0,
        # A negative number is a duration: enqueue.lua replaces it with the present time plus this duration.
        spec.expires_at_ms or -(spec.expires_ms or 0),
        flags,
        -1 if spec.run_at_ms is None else spec.run_at_ms,
        -1 if spec.delay_ms is None else spec.delay_ms,
    )
    extras = _U32.pack(len(extras)) + extras if extras else _NO_EXTRAS
    argument = spec.argument
    digest = _DIGEST.copy()
    digest.update(b"".join((terms, name, extras, argument)))
    if weights:
        # Fast path: most weighted jobs have no other extras, so only the added fields are packed.
        is_alone = extras is _NO_EXTRAS
        added = added | {"weights": weights}
        packed = _PACKER.pack(added) if is_alone else _encode_extras(spec, added, has_own_retry)
        extras = _U32.pack(len(packed)) + packed
    return terms, digest.digest(), b"".join((_LENGTHS[len(name)], name, gates, extras, argument))


def added_extras(spec: JobSpec) -> dict[str, Any]:
    """Return, by key, the fields that were added after 0.1 and do not have their default. They are stored in the job's
    extras. A job without such fields is stored in the form of 0.1, so that masters of that release can read it."""
    values = _added_of(spec)
    # Fast path: most jobs have none of these fields.
    if values == _NONE_ADDED:
        return {}
    return {
        key: encode(value)
        for (key, encode), value in zip(_ADDED.items(), values, strict=True)
        if value is not None
    }


def decode_job(job_id: str, record: bytes) -> Job:
    """Decode a record. From its beginning alone, the argument is incomplete. Raise DamagedError for other bytes."""
    try:
        (
            version, state, flags, cause, attempt, failures, losses, returned, due_at_ms, started_at_ms, finished_at_ms,
            not_after_ms, fence, token, worker, priority, max_retry, timeout_ms, created_at_ms, expires_at_ms, _digest,
            lane_id,
        ) = HEAD.unpack_from(record)  # fmt: skip
        if version != VERSION:
            raise DamagedError(f"job {job_id}: record version {version} is not known")
        name_end = HEAD_SIZE + 1 + record[HEAD_SIZE]
        extras_at = _gates_end(record, name_end) + _U32.size
        extras_end = extras_at + _U32.unpack_from(record, extras_at - _U32.size)[0]
        tags = erased = tuple[str, ...]()
        headers: dict[str, str] = {}
        retry = DEFAULT_RETRY
        unique = origin = batch = callback_of = notify = after = requires = weights = None
        if extras_end > extras_at:
            extras = record[extras_at:extras_end]
            tags, headers, retry = _decode_extras(extras)
            unique = _decode_unique(extras) if flags & FLAG_UNIQUE else None
            origin, after = _decode_origin(extras), _decode_after(extras)
            batch, callback_of = _decode_batch(extras)
            notify = _decode_notify(extras) if flags & FLAG_FOLLOWED else None
            requires, weights = _decode_requires(extras), _decode_weights(extras)
            erased = _decode_erased(extras)
        return Job(
            id=job_id,
            name=record[HEAD_SIZE + 1 : name_end].decode(),
            state=_STATES[state],
            cause=_CAUSES.get(cause, Cause.ERROR),
            priority=priority,
            max_retry=max_retry,
            timeout_ms=timeout_ms,
            keep_result=bool(flags & FLAG_KEEP_RESULT),
            rerun_lost=bool(flags & FLAG_RERUN_LOST),
            is_confirmed=bool(flags & FLAG_CONFIRMED),
            attempt=attempt,
            failures=failures,
            losses=losses,
            returned_offers=returned,
            created_at_ms=created_at_ms,
            due_at_ms=due_at_ms,
            expires_at_ms=expires_at_ms,
            started_at_ms=started_at_ms,
            finished_at_ms=finished_at_ms,
            not_after_ms=not_after_ms,
            fence=fence,
            token="" if token == _NO_ID else token.hex(),
            worker_id="" if worker == _NO_ID else str(uuid.UUID(bytes=worker)),
            retry=retry,
            tags=tags,
            headers=headers,
            argument=record[extras_end:],
            lane_id=lane_id,
            unique=unique,
            has_progress=bool(flags & FLAG_HAS_PROGRESS),
            has_challenge=bool(flags & FLAG_HAS_CHALLENGE),
            origin=origin,
            batch=batch,
            callback_of=callback_of,
            notify=notify,
            after=after,
            requires=requires,
            weights=weights,
            erased=erased,
        )
    except _UNREADABLE as exc:
        raise DamagedError(f"job {job_id}: its record cannot be read") from exc


def encode_attempt(job: Job, ending: str, message: str, error: bytes | None, code: str = "") -> bytes:
    """Encode the history entry of the attempt that ends now. The script prepends the end time."""
    entry = [job.attempt, job.worker_id, job.started_at_ms, ending, message, error]
    return bytes(_PACKER.pack([*entry, code] if code else entry))


def decode_attempt(entry: bytes) -> Attempt:
    """Decode a history entry: i64 end in ms, then the result of `encode_attempt`, possibly with more fields of a later
    release.

    Raises DamagedError.
    """
    try:
        attempt, worker_id, started_at_ms, ending, message, error, *more = msgpack.unpackb(entry[8:])
        (finished_at_ms,) = struct.unpack_from(">q", entry)
        code = str(more[0]) if more else None
    except _UNREADABLE as exc:
        raise DamagedError("an entry of a job's history cannot be read") from exc
    return Attempt(attempt, worker_id, started_at_ms, finished_at_ms, ending, message or None, error, code)


def id_bytes(worker_id: str) -> bytes:
    """Return the 16 bytes of a canonical UUID."""
    return bytes.fromhex(worker_id.replace("-", ""))


def encode_result(outcome: Outcome) -> bytes:
    """Return the Result for the application that pushed the job, as MessagePack. `result` and `error` are copied from
    the worker's bytes.
    """
    if outcome.type == "success":
        return _success_head(outcome.finished_at) + (outcome.result or _NIL)
    finished_at = _PACKER.pack(outcome.finished_at)
    rest = _PACKER.pack(outcome.reason), _PACKER.pack(outcome.should_retry), _PACKER.pack(outcome.message)
    head = (
        _FAILURE_HEAD
        if not outcome.code
        else _CODED_FAILURE_HEAD + _PACKER.pack(outcome.code) + _FINISHED_AT_KEY
    )
    return b"".join(
        (head, finished_at, _REASON_KEY, rest[0], _SHOULD_RETRY_KEY, rest[1], _MESSAGE_KEY, rest[2],
         _ERROR_KEY, outcome.error or _NIL)
    )  # fmt: skip


# Cached, because results of the same millisecond have the same head.
@functools.lru_cache(maxsize=256)
def _success_head(finished_at: str | None) -> bytes:
    return b"".join((_SUCCESS_HEAD, _PACKER.pack(finished_at), _RESULT_KEY))


def pack(value: Any) -> bytes:
    return bytes(_PACKER.pack(value))


def pack_raw(value: Any) -> bytes:
    """Pack a value that contains bytes for a script. The MessagePack library of Lua has no binary type, only raw
    strings."""
    return bytes(_RAW_PACKER.pack(value))


# Not frozen, because each push creates one, and frozen dataclasses are slower to create.
@dataclass(slots=True)
class ClaimedRecord:
    """The fields of a record that a push needs, read on the hot path. `attempt` includes the new claim.
    `ready_since_ms`: the time from which the job could be claimed. 0: unknown.
    """

    attempt: int
    timeout_ms: int
    name: str
    headers: dict[str, str]
    argument: bytes
    # Not compared, because neither pushes nor offers in the mail of a worker contain it.
    ready_since_ms: int = field(default=0, compare=False)
    has_progress: bool = False
    # The ID of the batch that has this job as a member or a callback.
    batch: str | None = None
    # True if the callbacks of its challenge have arrived. Its attempt then continues.
    has_callback: bool = False
    after: After | None = None
    is_unique: bool = False
    # True if a push of the job must contain values that its record does not have: a checkpoint, callbacks, or results
    # of predecessors.
    needs_more: bool = field(default=False, compare=False)
    created_at_ms: int = field(default=0, compare=False)


def decode_claimed(record: bytes) -> ClaimedRecord:
    """Decode a record as it was before the claim. Raise DamagedError."""
    try:
        attempt, ready_since_ms, timeout_ms, created_at_ms, name_length = _CLAIMED.unpack_from(record)
        name_end = HEAD_SIZE + 1 + name_length
        headers: dict[str, str] = {}
        batch = after = None
        if record.startswith(_NO_GATES_NO_EXTRAS, name_end):
            argument_at = name_end + len(_NO_GATES_NO_EXTRAS)
        else:
            extras_at = _gates_end(record, name_end) + 4
            argument_at = extras_at + _U32.unpack_from(record, extras_at - 4)[0]
            if argument_at > extras_at:
                extras = record[extras_at:argument_at]
                if extras.startswith(_ONLY_WEIGHTS) and argument_at <= len(record):
                    # Skip weights: only the store needs them, and they differ from job to job, so a cache would not
                    # help.
                    pass
                elif len(extras) <= _MAX_CACHED_EXTRAS:
                    headers, batch, after = _cached_claimed_extras(extras)
                    # Copy the cached headers, because all jobs with these extras share them.
                    headers = headers.copy()
                else:
                    headers, batch, after = _decode_claimed_extras(extras)
        # At this point, `ready_since_ms` is the due time, if the job had one. A later creation time replaces it, except
        # for a job that an operator retried.
        if (ready_since_ms or not attempt) and created_at_ms > ready_since_ms:
            ready_since_ms = created_at_ms
        flags = record[2]
        has_callback = flags & FLAG_HAS_CHALLENGE != 0
        return ClaimedRecord(
            attempt if has_callback else attempt + 1,
            timeout_ms,
            record[HEAD_SIZE + 1 : name_end].decode(),
            headers,
            record[argument_at:],
            ready_since_ms,
            flags & FLAG_HAS_PROGRESS != 0,
            batch,
            has_callback,
            after,
            flags & FLAG_UNIQUE != 0,
            flags & (FLAG_HAS_PROGRESS | FLAG_HAS_CHALLENGE) != 0 or after is not None,
            created_at_ms,
        )
    except _UNREADABLE as exc:
        raise DamagedError("the record of a claimed job cannot be read") from exc


def _decode_claimed_extras(extras: bytes) -> tuple[dict[str, str], str | None, After | None]:
    """Return the headers of a job, its batch (as a member or a callback), and its predecessors."""
    batch, callback_of = _decode_batch(extras)
    return _decode_extras(extras)[1], callback_of.batch if callback_of else batch, _decode_after(extras)


# Cached, because jobs of one batch have the same extras unless they have headers of their own.
_cached_claimed_extras: Final = functools.lru_cache(maxsize=256)(_decode_claimed_extras)


def fraction_of(text: bytes | None) -> float | None:
    """Return the fraction of a stored progress. None: unknown."""
    try:
        return float(text) if text else None
    except ValueError:
        return None


class OfferedRecord(NamedTuple):
    """A claim that its worker may not have received yet."""

    token: str
    fence: int
    started_at_ms: int
    not_after_ms: int
    claimed: ClaimedRecord


def decode_offered(record: bytes) -> OfferedRecord:
    """Decode the record of a running job. Raise DamagedError."""
    claimed = decode_claimed(record)
    if not claimed.has_callback:
        claimed.attempt -= 1  # the claim has already counted this attempt
    not_after_ms, fence = _I64.unpack_from(record, 40)[0], _I64.unpack_from(record, 48)[0]
    return OfferedRecord(record[56:72].hex(), fence, _I64.unpack_from(record, 24)[0], not_after_ms, claimed)


def decode_matched(record: bytes, decode: Callable[[bytes], object]) -> tuple[bytes, JobFields]:
    """Return the lane of a job, and the fields that decide where it has to wait. Raise DamagedError.

    `record`: whole, or with its argument cut off; `decode`: see `JobFields`.
    """
    try:
        name_end = HEAD_SIZE + 1 + record[HEAD_SIZE]
        gates_end = _gates_end(record, name_end)
        extras_at = gates_end + 4
        extras_end = extras_at + _U32.unpack_from(record, gates_end)[0]
        name = record[HEAD_SIZE + 1 : name_end].decode()
        tags: tuple[str, ...] = ()
        headers: Mapping[str, str] = {}
        queue = name
        if extras_end > extras_at:
            extras = record[extras_at:extras_end]
            tags, headers, _ = _decode_extras(extras)
            queue = queue_of(name, _decode_requires(extras))
        priority, max_retry, timeout_ms = _MATCHED.unpack_from(record, 88)
        fields = JobFields(
            name=name,
            priority=priority,
            tags=tags,
            max_retry=max_retry,
            timeout_s=timeout_ms / 1000,
            keep_result=bool(record[2] & FLAG_KEEP_RESULT),
            headers=headers,
            argument=record[extras_end:],
            decode=decode,
            queue=queue,
        )
    except _UNREADABLE as exc:
        raise DamagedError("the record of a job cannot be read") from exc
    return record[128:136], fields


def reweighed(record: bytes, weights: Mapping[str, int]) -> bytes | None:
    """Return the extras of a record with these weights, or None if the record already has these weights. All other
    extras stay. Raise DamagedError."""
    try:
        extras = _extras_of(record)
        if not weights and _WEIGHTS_KEY not in extras:
            return None
        fields = _fields_of_extras(extras)
        if fields.get("weights", {}) == weights:
            return None
        fields.pop("weights", None)
        if weights:
            fields["weights"] = weights
        return bytes(_PACKER.pack(fields)) if fields else b""
    except _UNREADABLE as exc:
        raise DamagedError("the record of a job cannot be read") from exc


def extras_fields(record: bytes) -> dict[str, Any]:
    """Return the extras of a whole record by key, as the newer form has them. Raise DamagedError."""
    try:
        return _fields_of_extras(_extras_of(record))
    except _UNREADABLE as exc:
        raise DamagedError("the record of a job cannot be read") from exc


def encode_content(extras: Mapping[str, Any], argument: bytes) -> bytes:
    """Return the last part of a record: the length of the extras, the extras, and the argument."""
    packed = _PACKER.pack(dict(extras)) if extras else b""
    return _U32.pack(len(packed)) + packed + argument


def _extras_of(record: bytes) -> bytes:
    gates_end = _gates_end(record, HEAD_SIZE + 1 + record[HEAD_SIZE])
    return record[gates_end + 4 : gates_end + 4 + _U32.unpack_from(record, gates_end)[0]]


def _fields_of_extras(extras: bytes) -> dict[str, Any]:
    """Return extras in the newer form."""
    stored = msgpack.unpackb(extras) if extras else {}
    if isinstance(stored, dict):
        return stored
    tags, headers, retry = stored
    former = {"tags": tags, "headers": headers, "retry": dict(zip(RetryPolicy.__slots__, retry, strict=True))}
    return {key: value for key, value in former.items() if value}


def may_have_failed(record: bytes) -> bool:
    """Return whether a record of at least HEAD_SIZE bytes may have a failure or a loss, without decoding it."""
    return record[1] == STATE_CODES[JobState.FAILED] or record[8:14] != _NO_FAILURES


def head_length(job_id: str, record: bytes) -> int:
    """Return the length of a record without its argument. `record` is its beginning, at least up to the end of the
    name. Raise DamagedError.
    """
    try:
        name_end = HEAD_SIZE + 1 + record[HEAD_SIZE]
        gates_end = _gates_end(record, name_end)
        return gates_end + 4 + int(_U32.unpack_from(record, gates_end)[0])
    except _UNREADABLE as exc:
        raise DamagedError(f"job {job_id}: its record cannot be read") from exc


def keyed_gates(record: bytes) -> bytes:
    """Return the keyed gates of a job as its record has them. `record` is its beginning, at least up to the end of the
    name. Raise DamagedError.
    """
    try:
        name_end = HEAD_SIZE + 1 + record[HEAD_SIZE]
        return record[name_end : _gates_end(record, name_end)]
    except _UNREADABLE as exc:
        raise DamagedError("the keyed gates of a record cannot be read") from exc


def _gates_end(record: bytes, name_end: int) -> int:
    count = record[name_end]
    return name_end + 1 if count == GATES_IN_LANE[0] else name_end + 1 + count * GATE_BYTES


def _encode_extras(spec: JobSpec, added: dict[str, Any], has_own_retry: bool) -> bytes:
    """Encode the extras in the older form if possible, otherwise in the newer form. Return empty bytes if all extras
    have their defaults."""
    headers, retry = dict(sorted(spec.headers.items())), spec.retry
    if added:
        former = {"tags": spec.tags, "headers": headers, "retry": asdict(retry) if has_own_retry else None}
        return bytes(_PACKER.pack({key: value for key, value in former.items() if value} | added))
    if not (spec.tags or headers or has_own_retry):
        return b""
    return bytes(_PACKER.pack([spec.tags, headers, [retry.base_s, retry.factor, retry.max_s, retry.jitter]]))


def _decode_extras(extras: bytes) -> tuple[tuple[str, ...], dict[str, str], RetryPolicy]:
    """Decode tags, headers and retry from either form."""
    stored = msgpack.unpackb(extras)
    if isinstance(stored, dict):
        tags, headers, known = stored.get("tags", ()), stored.get("headers", {}), stored.get("retry", {})
        retry = [known.get(name, getattr(DEFAULT_RETRY, name)) for name in RetryPolicy.__slots__]
    else:
        tags, headers, retry = stored
    base_s, factor, max_s, jitter = retry
    numbers = (float(base_s), float(factor), float(max_s))
    if not all(isinstance(t, str) for t in [*tags, *headers.keys(), *headers.values()]):
        raise TypeError("tags and headers are text")
    return tuple(tags), headers, RetryPolicy(*numbers, bool(jitter))


def unique_requests(jobs: Iterable[tuple[int, Unique]]) -> bytes:
    """Return the argument of the enqueue script with the uniqueness keys of jobs: see lib/jobs/unique_requests.lua.

    `jobs`: each with its number within the push.
    """
    rules: dict[tuple[int, int, int, int], int] = {}
    digests: set[str] = set()
    fields: list[Any] = [rules, False]
    for number, unique in jobs:
        rule = SCOPE_CODES[unique.scope], CONFLICT_CODES[unique.on_conflict], unique.ttl_ms, unique.max_ms
        fields += (number, unique.digest, rules.setdefault(rule, len(rules) + 1))
        digests.add(unique.digest)
    fields[0], fields[1] = list(rules), 3 * len(digests) == len(fields) - 2
    return pack(fields)


def _encode_unique(unique: Unique) -> list[Any]:
    return [
        unique.digest,
        SCOPE_CODES[unique.scope],
        unique.key,
        unique.ttl_ms,
        CONFLICT_CODES[unique.on_conflict],
        unique.wait_ms,
        unique.max_ms,
    ]


def _decode_origin(extras: bytes) -> Origin | None:
    # Extras of the older form never have this key.
    if _ORIGIN_KEY not in extras:
        return None
    stored = msgpack.unpackb(extras)
    if not isinstance(stored, dict) or "origin" not in stored:
        return None
    definition, due_at_ms, *_ = stored["origin"]
    return Origin(str(definition), int(due_at_ms))


def _decode_requires(extras: bytes) -> dict[str, str] | None:
    if _REQUIRES_KEY not in extras:
        return None
    stored = msgpack.unpackb(extras)
    if not isinstance(stored, dict) or not stored.get("requires"):
        return None
    return {str(key): str(value) for key, value in stored["requires"].items()}


def _decode_weights(extras: bytes) -> dict[str, int] | None:
    if _WEIGHTS_KEY not in extras:
        return None
    stored = msgpack.unpackb(extras)
    if not isinstance(stored, dict) or not stored.get("weights"):
        return None
    return {str(cid): int(weight) for cid, weight in stored["weights"].items()}


def _decode_erased(extras: bytes) -> tuple[str, ...]:
    if _ERASED_KEY not in extras:
        return ()
    stored = msgpack.unpackb(extras)
    return tuple(map(str, stored.get("erased", ()))) if isinstance(stored, dict) else ()


def _decode_batch(extras: bytes) -> tuple[str | None, CallbackOf | None]:
    """Return the batch of a member, and the batch that a callback belongs to."""
    if _BATCH_KEY not in extras and _CALLBACK_KEY not in extras:
        return None, None
    stored = msgpack.unpackb(extras)
    if not isinstance(stored, dict):
        return None, None
    batch, callback_of = stored.get("batch"), stored.get("callback_of")
    if not isinstance(batch, str | None):
        raise TypeError("the batch of a job is text")
    return batch, None if callback_of is None else CallbackOf(str(callback_of[0]), str(callback_of[1]))


def _encode_notify(notify: Notify) -> list[Any]:
    return [notify.url, [STATE_CODES[state] for state in notify.on], notify.with_result]


def _decode_notify(extras: bytes) -> Notify | None:
    stored = msgpack.unpackb(extras)
    if not isinstance(stored, dict) or "notify" not in stored:
        return None
    url, on, with_result, *_ = stored["notify"]
    return Notify(str(url), tuple(_STATES[code] for code in on if code in _STATES), bool(with_result))


def _encode_after(after: After) -> list[Any]:
    return [WHEN_CODES[after.when], "".join(after.jobs)]


# Fields that were added after 0.1. Key: the name of the field, both in JobSpec and in the extras. Value: the function
# that encodes it.
_ADDED: Final[Mapping[str, Callable[[Any], Any]]] = {
    # lib/jobs/uniqueness.lua reads the first, second and fourth part.
    "unique": _encode_unique,
    "origin": lambda origin: [origin.definition, origin.due_at_ms],
    # lib/jobs/followed.lua reads this field.
    "batch": str,
    "callback_of": list,
    # lib/jobs/followed.lua reads the second part.
    "notify": _encode_notify,
    # lib/jobs/dependents.lua reads both parts.
    "after": _encode_after,
    "requires": lambda labels: dict(sorted(labels.items())),
}
_NONE_ADDED: Final = (None,) * len(_ADDED)
_added_of: Final[Callable[[JobSpec], tuple[Any, ...]]] = operator.attrgetter(*_ADDED)


def _decode_after(extras: bytes) -> After | None:
    if _AFTER_KEY not in extras:
        return None
    stored = msgpack.unpackb(extras)
    if not isinstance(stored, dict) or "after" not in stored:
        return None
    when, joined, *_ = stored["after"]
    ids = tuple(joined[at : at + ID_LENGTH] for at in range(0, len(joined), ID_LENGTH))
    return After(ids, _WHENS[when])


def predecessor_requests(jobs: Iterable[tuple[int, After]], own: frozenset[str]) -> bytes:
    """Return the argument of the enqueue script with the predecessors of jobs: see lib/jobs/predecessor_pushes.lua.

    `jobs`: each with its number within the push. `own`: IDs of the jobs of the same push.
    """
    return pack(
        [
            [number, WHEN_CODES[after.when], after.jobs, [int(job_id in own) for job_id in after.jobs]]
            for number, after in jobs
        ]
    )


def _decode_unique(extras: bytes) -> Unique | None:
    stored = msgpack.unpackb(extras)
    if not isinstance(stored, dict) or "unique" not in stored:
        return None
    digest, scope, key, ttl_ms, on_conflict, wait_ms, max_ms, *_ = stored["unique"]
    return Unique(digest, key, _SCOPES[scope], _CONFLICTS[on_conflict], ttl_ms, wait_ms, max_ms)


def state_of(code: int) -> JobState:
    return _STATES[code]


def known_state(code: int) -> JobState | None:
    """Return the state with this code, or None if this release does not know it."""
    return _STATES.get(code)


def id_text(raw: bytes) -> str:
    return str(uuid.UUID(bytes=raw))


def epoch_number(epoch: bytes | str) -> int:
    """Return the number of an epoch `number:nonce`, or 0 if no master has led yet. Workers receive this number."""
    text = epoch.decode() if isinstance(epoch, bytes) else epoch
    return int(text.partition(":")[0] or 0)


def leading_move(leader: bytes | None) -> str:
    """Return the ID of the move that holds the lead, read from the value of the leader's lock. Empty: no move holds the
    lead.

    A move holds the lead while the data are frozen, even if the store has lost the key that names the move.
    """
    _, is_move, move_id = (leader or b"").partition(b":moved:")
    return move_id.decode() if is_move else ""
