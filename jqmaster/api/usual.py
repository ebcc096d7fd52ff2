"""The usual job and the usual result, read in one typed decode in C: several times as fast as the models of `schemas`.

They say yes or nothing. Whatever is not plainly valid, be it wrong or only rare, is left to those models, which judge it
and have the words for it; so no rule and no text of an error depends on which way a message took.
"""

import functools
from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from jqmaster.api.scan import FIXED_SIZE, SHORT_STR_SIZE, ScanLimits, scan
from jqmaster.api.schemas import DAY_S, is_instant
from jqmaster.domain.ids import ID_PATTERN, new_id
from jqmaster.domain.job import JobSpec
from jqmaster.domain.outcome import Outcome
from jqmaster.errors import JqmasterError

# `$` of Python's patterns lets a line feed follow.
_ID: Final = msgspec.Meta(pattern=ID_PATTERN.removesuffix("$") + r"\Z")
_NAME: Final = msgspec.Meta(pattern=r"^[A-Za-z0-9_.:/-]{1,200}\Z")
_TOKEN: Final = msgspec.Meta(pattern=r"^[0-9a-f]{32}\Z")
_NIL: Final = b"\xc0"
_LEAST_TIMEOUT_S: Final = 0.001
_MOST_TIMEOUT_S: Final = 7.0 * DAY_S

# What is broken in a way that the decoder sees, or not of the type.
_NOT_USUAL: Final = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, JqmasterError)


class _Job(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    name: Annotated[str, _NAME]
    argument: msgspec.Raw | UnsetType = UNSET
    id: Annotated[str, _ID] | UnsetType = UNSET
    priority: Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)] | UnsetType = UNSET
    max_retry: Annotated[int, msgspec.Meta(ge=0, le=1000)] | UnsetType = UNSET
    keep_result: bool | UnsetType = UNSET
    timeout: float | UnsetType = UNSET


class _Success(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    type: Literal["success"]
    job_id: Annotated[str, _ID]
    token: Annotated[str, _TOKEN]
    finished_at: str
    result: msgspec.Raw


_JOB: Final = msgspec.msgpack.Decoder(_Job)
_SUCCESS: Final = msgspec.msgpack.Decoder(_Success)
_ENCODER: Final = msgspec.msgpack.Encoder()
_SUCCESS_HEADER: Final = 0x80 | len(_Success.__struct_fields__)


def usual_job(data: bytes | msgspec.Raw, limits: ScanLimits) -> JobSpec | None:
    """The job that `data`, one whole message, asks for; without an ID it gets one. None: see above."""
    try:
        job = _JOB.decode(data)
        # Written again it has as many members as it came with, or one of them came twice.
        if _ENCODER.encode(job)[0] != memoryview(data)[0]:
            return None
        argument = _NIL
        if job.argument is not UNSET:
            argument = bytes(job.argument)
            if not _is_plain(argument):
                scan(argument, limits=limits)
        timeout_ms = 30_000
        if job.timeout is not UNSET:
            if not _LEAST_TIMEOUT_S <= job.timeout <= _MOST_TIMEOUT_S:
                return None
            timeout_ms = round(job.timeout * 1000)
    except _NOT_USUAL:
        return None
    return JobSpec(
        new_id() if job.id is UNSET else job.id,
        job.name,
        argument,
        0 if job.priority is UNSET else job.priority,
        5 if job.max_retry is UNSET else job.max_retry,
        job.keep_result is True,
        timeout_ms,
    )


def usual_success(data: bytes | msgspec.Raw, limits: ScanLimits) -> Outcome | None:
    """The same of one result of an attempt that went well."""
    try:
        item = _SUCCESS.decode(data)
        if memoryview(data)[0] != _SUCCESS_HEADER or not _is_reported_time(item.finished_at):
            return None
        result = bytes(item.result)
        if not _is_plain(result):
            scan(result, limits=limits)
    except _NOT_USUAL:
        return None
    return Outcome(item.job_id, item.token, "success", result, finished_at=item.finished_at)


def _is_plain(value: bytes) -> bool:
    """Whether this encoded value, known to be whole, is a number, a boolean, nil or a string of ASCII."""
    tag = value[0]
    if FIXED_SIZE[tag]:
        return True
    if SHORT_STR_SIZE[tag]:
        return value[1:].isascii()
    return tag == 0xD9 and value[2:].isascii()


# Results that end in one millisecond bear the same text.
@functools.lru_cache(maxsize=256)
def _is_reported_time(text: str) -> bool:
    return is_instant(text)
