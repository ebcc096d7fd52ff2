"""MessagePack in the form that masters and workers exchange."""

from datetime import UTC, datetime
from typing import Any, Final

import msgpack

CONTENT_TYPE: Final = "application/msgpack"


# Types with values that cannot contain other values.
_PLAIN: Final = frozenset({str, int, float, bool, bytes, datetime, type(None)})
_TEXT: Final = frozenset({str})
_LISTS: Final = (list, tuple)


class DecodeError(ValueError):
    """The bytes are not a single MessagePack value that Python can represent."""


def packer() -> msgpack.Packer:
    """Return a packer for many values. Its `pack` does what `encode` does, at half the cost. Only one thread may use
    the packer."""
    return msgpack.Packer(datetime=True, autoreset=True)


def encode(value: Any) -> bytes:
    """Encode a value. Aware datetimes become timestamps (ext −1). Raise TypeError, ValueError or OverflowError for a
    value without a MessagePack form."""
    return bytes(msgpack.packb(value, datetime=True))


def has_text_keys(value: Any) -> bool:
    """Return whether all keys in a value are text. Masters refuse other keys, although MessagePack allows them.
    `encode` must have accepted the value."""
    if type(value) in _PLAIN:
        return True
    left = [value]
    while left:
        parts = left.pop()
        if isinstance(parts, dict):
            if not _TEXT.issuperset(map(type, parts)) and not all(isinstance(key, str) for key in parts):
                return False
            parts = parts.values()
        elif not isinstance(parts, _LISTS):
            continue
        if not _PLAIN.issuperset(map(type, parts)):
            left += [part for part in parts if type(part) not in _PLAIN]
    return True


def decode(data: bytes) -> Any:
    """Decode a value. Timestamps become aware datetimes, and unknown extensions `msgpack.ExtType`. Raise DecodeError
    for invalid bytes."""
    try:
        return msgpack.unpackb(data, timestamp=3, strict_map_key=False)
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException) as exc:
        raise DecodeError(str(exc)[:200]) from None


class Undecodable:
    """Replaces the argument of a job if it cannot be decoded. `why`: the reason, for people."""

    __slots__ = ("why",)

    def __init__(self, why: str) -> None:
        self.why = why


def decode_jobs(data: bytes) -> Any:
    """Decode a map, and each of its `jobs` separately: an argument that cannot be decoded becomes an `Undecodable`.

    Raise DecodeError if anything else is broken.
    """
    try:
        return msgpack.unpackb(data, timestamp=3, strict_map_key=False)
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException):
        return _decode_each(data)


def _decode_each(data: bytes) -> dict[str, Any]:
    unpacker = msgpack.Unpacker(max_buffer_size=max(1, len(data)))
    unpacker.feed(data)
    fields: dict[str, Any] = {}
    try:
        for _ in range(unpacker.read_map_header()):
            name = unpacker.unpack()
            if name == "jobs":
                fields[name] = [_decode_job(unpacker, data) for _ in range(unpacker.read_array_header())]
            else:
                fields[name] = decode(_skipped(unpacker, data))
    except Exception as exc:  # decoders may raise anything for broken bytes
        raise DecodeError(str(exc)[:200]) from None
    if unpacker.tell() != len(data):
        raise DecodeError("bytes follow the value")
    return fields


def _decode_job(unpacker: msgpack.Unpacker, data: bytes) -> dict[str, Any]:
    job: dict[str, Any] = {}
    faults = []
    for _ in range(unpacker.read_map_header()):
        name = unpacker.unpack()
        try:
            job[name] = decode(_skipped(unpacker, data))
        except DecodeError as exc:
            faults.append(f"{name}: {exc}")
    if faults:
        job.setdefault("headers", {})
        job["argument"] = Undecodable("; ".join(faults))
    return job


def _skipped(unpacker: msgpack.Unpacker, data: bytes) -> bytes:
    """Return the bytes of the next value."""
    begin = unpacker.tell()
    unpacker.skip()
    return data[begin : unpacker.tell()]


def iso(instant: datetime) -> str:
    """Return the instant as ISO 8601 text in UTC, such as `2026-11-21T04:30:00.123Z`."""
    return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
