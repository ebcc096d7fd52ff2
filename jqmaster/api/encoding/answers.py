"""Answers, written in either encoding."""

import base64
import json
import math
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgpack

from jqmaster.api.encoding.negotiation import Encoding
from jqmaster.domain.instant import iso_utc

# Types with values that contain no other values.
_LEAVES: Final = frozenset({str, int, float, bool, bytes, type(None), datetime})
_JSON: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_PACKER: Final = msgpack.Packer(datetime=True, autoreset=True)


@dataclass(frozen=True, slots=True)
class RawMsgpack:
    """One encoded MessagePack value, anywhere in an answer. It is inserted unchanged."""

    data: bytes


def encode(value: Any, encoding: Encoding) -> bytes:
    """Encode an answer. Datetimes must be aware. RawMsgpack stands for the value that it holds.

    In JSON:

    * Binary becomes `{"$bin": base64}`.
    * An extension value becomes `{"$ext": [code, base64]}`.
    * A datetime becomes ISO 8601 text with milliseconds and `Z`.
    * NaN and infinities, which only arguments and results can hold, become `null`.
    """
    if encoding is Encoding.JSON:
        return _JSON.encode(_plain(value)).encode()
    if not _holds_raw(value):
        packed: bytes = _PACKER.pack(value)
        return packed
    packer = msgpack.Packer(datetime=True, autoreset=False, buf_size=4096)
    chunks: list[bytes] = []
    _pack(value, packer, chunks)
    chunks.append(packer.bytes())
    return b"".join(chunks)


def _holds_raw(value: Any) -> bool:
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list):
        return isinstance(value, RawMsgpack)
    return not _LEAVES.issuperset(map(type, value)) and any(map(_holds_raw, value))


def _pack(value: Any, packer: msgpack.Packer, chunks: list[bytes]) -> None:
    if isinstance(value, RawMsgpack):
        chunks += (packer.bytes(), value.data)
        packer.reset()
    elif isinstance(value, dict):
        packer.pack_map_header(len(value))
        for key, member in value.items():
            packer.pack(key)
            _pack(member, packer, chunks)
    elif isinstance(value, list):
        packer.pack_array_header(len(value))
        for member in value:
            _pack(member, packer, chunks)
    else:
        packer.pack(value)


def _json_ext(code: int, data: bytes) -> dict[str, Any]:
    return {"$ext": [code, base64.b64encode(data).decode()]}


def _plain(value: Any) -> Any:
    match value:
        case RawMsgpack(data):
            return _plain(msgpack.unpackb(data, ext_hook=_json_ext))
        case dict():
            return {key: _plain(member) for key, member in value.items()}
        case list() | tuple():
            return [_plain(member) for member in value]
        case bytes():
            return {"$bin": base64.b64encode(value).decode()}
        case datetime():
            return iso_utc(value)
        case msgpack.Timestamp():
            return iso_utc(value.to_datetime())
        case float() if not math.isfinite(value):
            return None
    return value
