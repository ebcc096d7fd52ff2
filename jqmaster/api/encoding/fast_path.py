"""The fast path: decode usual jobs, events and results with one typed decode in C. This is several times as fast
as the models.

Each function returns None for every message that is not usual: for invalid messages, and for valid messages with
rare features. The models then check that message and write the error texts. So the rules and error texts are the
same on both paths."""

import functools
import re
from datetime import datetime
from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from jqmaster.api.encoding.validator import FIXED_SIZE, SHORT_STR_SIZE, ScanLimits, scan
from jqmaster.api.schemas import NAME_PATTERN, is_instant
from jqmaster.domain.definitions.event_trigger import TYPE_PATTERN
from jqmaster.domain.events.event import MAX_DEDUPE_KEY, MAX_TEXT, Event
from jqmaster.domain.ids import ID_LENGTH, TOKEN_BYTES, are_ids, id_match, is_id, new_id
from jqmaster.domain.jobs.job import JobSpec
from jqmaster.domain.jobs.job_terms import MAX_RETRY, PRIORITY, TIMEOUT_S, Term
from jqmaster.domain.jobs.outcome import Outcome
from jqmaster.domain.jobs.reserved_names import RESERVED_PREFIX
from jqmaster.domain.jobs.unique import (
    MAX_UNIQUE_KEY_BYTES,
    TTL_S,
    OnConflict,
    Unique,
    UniqueScope,
    unique_digest,
)
from jqmaster.errors import JqmasterError

# These types check only lengths. Later code matches the patterns for all jobs or results at once. Matching them
# one by one would take half of the decoding time.
_ID: Final = msgspec.Meta(min_length=ID_LENGTH, max_length=ID_LENGTH)
_TOKEN: Final = msgspec.Meta(min_length=2 * TOKEN_BYTES, max_length=2 * TOKEN_BYTES)
_NAME: Final = re.compile(NAME_PATTERN)
_EVENT_TYPE: Final = re.compile(TYPE_PATTERN)
# A time in the form that workers write. `is_instant` accepts the same years.
_WRITTEN_TIME: Final = re.compile(r"(?:19[7-9]\d|20\d\d)-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_NIL: Final = b"\xc0"
# Defaults of fields, looked up once here, because every job needs them.
_DEFAULT_PRIORITY: Final = PRIORITY.default
_DEFAULT_MAX_RETRY: Final = MAX_RETRY.default
_DEFAULT_TIMEOUT_MS: Final = round(TIMEOUT_S.default * 1000)

# Exceptions that the decoder raises if data is broken or does not have the usual types.
_NOT_USUAL: Final = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, JqmasterError)


class _Unique(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    key: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_UNIQUE_KEY_BYTES)] | UnsetType | None = (
        UNSET
    )
    scope: UniqueScope | UnsetType = UNSET
    ttl_s: msgspec.Raw | UnsetType = UNSET
    on_conflict: OnConflict | UnsetType = UNSET


class _Job(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    name: str
    argument: msgspec.Raw | UnsetType = UNSET
    id: Annotated[str, _ID] | UnsetType = UNSET
    priority: Annotated[int, msgspec.Meta(ge=PRIORITY.least, le=PRIORITY.most)] | UnsetType = UNSET
    max_retry: Annotated[int, msgspec.Meta(ge=MAX_RETRY.least, le=MAX_RETRY.most)] | UnsetType = UNSET
    keep_result: bool | UnsetType = UNSET
    # The encoded number. If the decoded number encodes to other bytes, the message is not usual.
    timeout: msgspec.Raw | UnsetType = UNSET
    batch: Annotated[str, _ID] | UnsetType = UNSET
    unique: _Unique | UnsetType = UNSET


class _Jobs(msgspec.Struct, forbid_unknown_fields=True):
    jobs: list[_Job]


class _Event(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    event_type: str
    payload: msgspec.Raw | UnsetType = UNSET
    dedupe_key: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_DEDUPE_KEY)] | UnsetType = UNSET
    source: Annotated[str, msgspec.Meta(max_length=MAX_TEXT)] | UnsetType = UNSET
    subject: Annotated[str, msgspec.Meta(max_length=MAX_TEXT)] | UnsetType = UNSET


class _Events(msgspec.Struct, forbid_unknown_fields=True):
    events: list[_Event]


class _Success(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    type: Literal["success"]
    job_id: Annotated[str, _ID]
    token: Annotated[str, _TOKEN]
    finished_at: str
    result: msgspec.Raw


class _Successes(msgspec.Struct, forbid_unknown_fields=True):
    results: list[_Success]


_JOB: Final = msgspec.msgpack.Decoder(_Job)
_JOBS: Final = msgspec.msgpack.Decoder(_Jobs)
_EVENT: Final = msgspec.msgpack.Decoder(_Event)
_EVENTS: Final = msgspec.msgpack.Decoder(_Events)
_SUCCESS: Final = msgspec.msgpack.Decoder(_Success)
_SUCCESSES: Final = msgspec.msgpack.Decoder(_Successes)
_SECONDS: Final = msgspec.msgpack.Decoder(float)
_ARGUMENT: Final = msgspec.msgpack.Decoder()
_ENCODER: Final = msgspec.msgpack.Encoder()
# Offset of the list in an encoded report that has only this field.
_LIST_AT: Final = len(_ENCODER.encode({"results": None})) - 1
_SUCCESS_HEADER: Final = 0x80 | len(_Success.__struct_fields__)


def usual_job(data: bytes | msgspec.Raw, limits: ScanLimits) -> JobSpec | None:
    """Return the job in `data`, which is one whole message. Generate an ID if the job has none. Return None if
    the job is not usual."""
    try:
        job = _JOB.decode(data)
        # Encode the job again to detect duplicate keys: if the data has a key twice, the new map has fewer
        # members.
        written = _ENCODER.encode(job)
        if written[0] != memoryview(data)[0] or not _is_name(job.name):
            return None
        # The nested map may have a key twice, too. In this case, the encoded job is shorter than the data.
        if job.unique is not UNSET and len(written) != len(memoryview(data)):
            return None
        return _spec(job, limits) if job.id is UNSET or id_match(job.id) else None
    except _NOT_USUAL:
        return None


def usual_jobs(data: bytes, limits: ScanLimits) -> list[JobSpec] | None:
    """Return all jobs of a bulk. None: not every job is usual."""
    try:
        bulk = _JOBS.decode(data)
        jobs = bulk.jobs
        if (
            _is_canonical(bulk, data)
            and are_ids([job.id for job in jobs if job.id is not UNSET])
            and all(map(_is_name, {job.name for job in jobs}))
        ):
            return [_spec(job, limits) for job in jobs]
    except _NOT_USUAL:
        pass
    return None


def usual_event(data: bytes | msgspec.Raw, limits: ScanLimits) -> Event | None:
    """Return the event in `data`, or None if it is not usual."""
    try:
        item = _EVENT.decode(data)
        if _ENCODER.encode(item)[0] != memoryview(data)[0] or not _is_event_type(item.event_type):
            return None
        return _event(item, limits)
    except _NOT_USUAL:
        return None


def usual_events(data: bytes, limits: ScanLimits) -> list[Event] | None:
    """Return all events of one message. None: not every event is usual."""
    try:
        batch = _EVENTS.decode(data)
        items = batch.events
        if _is_canonical(batch, data) and all(map(_is_event_type, {item.event_type for item in items})):
            return [_event(item, limits) for item in items]
    except _NOT_USUAL:
        pass
    return None


def usual_success(data: bytes | msgspec.Raw, limits: ScanLimits) -> Outcome | None:
    """Return the result in `data` of an attempt that succeeded, or None if it is not usual."""
    try:
        item = _SUCCESS.decode(data)
        if memoryview(data)[0] != _SUCCESS_HEADER or not (is_id(item.job_id) and _are_hex(item.token)):
            return None
        return _outcome(item, limits)
    except _NOT_USUAL:
        return None


def usual_successes(data: bytes, limits: ScanLimits) -> list[Outcome] | None:
    """Return all results of one message. None: not every result is usual."""
    try:
        report = _SUCCESSES.decode(data)
        items = report.results
        if (
            len(_ENCODER.encode(report)) == len(data) - _count_surplus(data, len(items))
            and are_ids([item.job_id for item in items])
            and _are_hex("".join([item.token for item in items]))
        ):
            return [_outcome(item, limits) for item in items]
    except _NOT_USUAL:
        pass
    return None


def _count_surplus(data: bytes, count: int) -> int:
    """Return how many bytes the header of the list in a report has more than the shortest form. Workers write the
    count in two bytes, because they do not know the count when they begin."""
    return 2 if data[0] == 0x81 and data[_LIST_AT] == 0xDC and count < 16 else 0


class _NotUsualError(JqmasterError):
    """A message that is not usual. It never leaves this module."""


def _is_canonical(value: msgspec.Struct, data: bytes) -> bool:
    """Return whether `value`, encoded in its shortest form, has as many bytes as `data`, its original encoding.

    If so, decoding lost nothing. If `data` has a map with a duplicate key, `data` is longer."""
    return len(_ENCODER.encode(value)) == len(data)


def _spec(job: _Job, limits: ScanLimits) -> JobSpec:
    """Raises one of `_NOT_USUAL`."""
    argument = _NIL if job.argument is UNSET else bytes(job.argument)
    if not _is_plain(argument):
        scan(argument, limits=limits)
    spec = JobSpec(
        new_id() if job.id is UNSET else job.id,
        job.name,
        argument,
        _DEFAULT_PRIORITY if job.priority is UNSET else job.priority,
        _DEFAULT_MAX_RETRY if job.max_retry is UNSET else job.max_retry,
        job.keep_result is True,
        _DEFAULT_TIMEOUT_MS if job.timeout is UNSET else _timeout_ms(job.timeout),
    )
    if job.unique is not UNSET:
        spec.unique = _unique(job.unique, job.name, argument)
    if job.batch is not UNSET:
        if not _is_batch(job.batch):
            raise _NotUsualError("the ID of a batch has another form")
        spec.batch = job.batch
    return spec


def _unique(asked: _Unique, name: str, argument: bytes) -> Unique:
    """Raises one of `_NOT_USUAL`."""
    key = None if asked.key is UNSET else asked.key
    if key is not None and len(key.encode()) > MAX_UNIQUE_KEY_BYTES:
        raise _NotUsualError("a key is too long")
    scope = UniqueScope.UNTIL_FINISHED if asked.scope is UNSET else asked.scope
    if (scope is UniqueScope.WINDOW) != (asked.ttl_s is not UNSET):
        raise _NotUsualError("a window requires its length, and no other scope has a length")
    return Unique(
        unique_digest(name, key, argument, _ARGUMENT.decode),
        key,
        scope,
        OnConflict.REJECT if asked.on_conflict is UNSET else asked.on_conflict,
        0 if asked.ttl_s is UNSET else _milliseconds(asked.ttl_s, TTL_S),
    )


def _event(item: _Event, limits: ScanLimits) -> Event:
    """Raises one of `_NOT_USUAL`."""
    payload = _NIL if item.payload is UNSET else bytes(item.payload)
    if not _is_plain(payload):
        scan(payload, limits=limits)
    return Event(
        new_id(),
        item.event_type,
        payload,
        "" if item.dedupe_key is UNSET else item.dedupe_key,
        "" if item.source is UNSET else item.source,
        "" if item.subject is UNSET else item.subject,
    )


def _timeout_ms(encoded: msgspec.Raw) -> int:
    """Raises one of `_NOT_USUAL`."""
    return _milliseconds(encoded, TIMEOUT_S)


def _milliseconds(encoded: msgspec.Raw, term: Term[float]) -> int:
    """Raises one of `_NOT_USUAL`."""
    seconds = _SECONDS.decode(encoded)
    if not term.least <= seconds <= term.most:
        raise _NotUsualError("a time is out of bounds")
    return round(seconds * 1000)


def _outcome(item: _Success, limits: ScanLimits) -> Outcome:
    """Raises one of `_NOT_USUAL`."""
    if not _is_reported_time(item.finished_at):
        raise _NotUsualError("a time has another form")
    result = bytes(item.result)
    if not _is_plain(result):
        scan(result, limits=limits)
    return Outcome(item.job_id, item.token, "success", result, finished_at=item.finished_at)


def _is_plain(value: bytes) -> bool:
    """Return whether this complete encoded value is a number, a boolean, nil or an ASCII string."""
    tag = value[0]
    if FIXED_SIZE[tag]:
        return True
    if SHORT_STR_SIZE[tag]:
        return value[1:].isascii()
    return tag == 0xD9 and value[2:].isascii()


# Cached because results that finish in the same millisecond have the same text.
@functools.lru_cache(maxsize=256)
def _is_reported_time(text: str) -> bool:
    if _WRITTEN_TIME.fullmatch(text) is None:
        return is_instant(text)
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


# Cached because most jobs share a few names.
@functools.lru_cache(maxsize=1024)
def _is_name(text: str) -> bool:
    # A job with a reserved name is not usual. So the model reads the job and refuses it.
    return _NAME.fullmatch(text) is not None and not text.startswith(RESERVED_PREFIX)


# Cached because most jobs of a push belong to one batch.
@functools.lru_cache(maxsize=1024)
def _is_batch(text: str) -> bool:
    return is_id(text)


# Cached because most events share a few types.
@functools.lru_cache(maxsize=1024)
def _is_event_type(text: str) -> bool:
    return _EVENT_TYPE.fullmatch(text) is not None


def _are_hex(digits: str) -> bool:
    """Return whether the text is an even number of lower-case hexadecimal digits."""
    try:
        return bytes.fromhex(digits).hex() == digits
    except ValueError:
        return False
