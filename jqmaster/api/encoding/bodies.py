"""Bodies: which encoding, how large, and how an envelope is read while its argument stays the pusher's bytes.

Everything inside is MessagePack: a JSON body is turned into it when it is read, so one reader with one set of
limits serves both.
"""

import base64
import binascii
import functools
import json
import math
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, TypeVar

import msgpack
import msgspec

from jqmaster.api.encoding.validator import (
    FIXED_SIZE,
    SHORT_STR_SIZE,
    ScanLimits,
    array_header,
    long_key,
    map_header,
    scan,
    truncated,
)
from jqmaster.domain.instant import iso_utc
from jqmaster.errors import (
    FieldError,
    InvalidError,
    JqmasterError,
    TooLargeError,
    UnparsableError,
    UnsupportedMediaTypeError,
    invalid,
)

UsualT = TypeVar("UsualT")
Fields = Mapping[bytes, bytes]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

# A decoded JSON value costs about 80 bytes; JSON is for people and browsers, who send less than this.
MAX_JSON_NODES: Final = 250_000

_NIL: Final = b"\xc0"
_LIST_SPLITTER: Final = msgspec.msgpack.Decoder(dict[str, list[msgspec.Raw]])
# Types of what holds nothing else.
_LEAVES: Final = frozenset({str, int, float, bool, bytes, type(None), datetime})
_PACKER: Final = msgpack.Packer(datetime=True, autoreset=True)
_JSON_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)


class Encoding(StrEnum):
    """The encoding of a body; the value is its content type."""

    MSGPACK = "application/msgpack"
    JSON = "application/json"


class NotAcceptableError(JqmasterError):
    """The client accepts no encoding that the master writes."""

    code = "not_acceptable"


@dataclass(frozen=True, slots=True)
class RawMsgpack:
    """One encoded MessagePack value, anywhere in an answer; it is spliced in unchanged."""

    data: bytes


# --- heads


def join_fields(headers: Iterable[tuple[bytes, bytes]]) -> Fields:
    """The headers of an ASGI scope by name. A repeated one is joined by `, ` (RFC 9110 §5.3).

    Hence a singular field that is given twice (Content-Type, Authorization, Host) has a value that nobody accepts.
    """
    headers = list(headers)
    fields = dict(headers)
    if len(fields) != len(headers):
        fields.clear()
        for name, value in headers:
            fields[name] = fields[name] + b", " + value if name in fields else value
    return fields


def request_encoding(fields: Fields) -> Encoding:
    """The encoding of the request's body by its Content-Type. Raises UnsupportedMediaTypeError."""
    if fields.get(b"content-encoding"):
        raise UnsupportedMediaTypeError("a body with a Content-Encoding is not supported")
    encoding = _media_encoding(fields.get(b"content-type", b""))
    if encoding is None:
        raise UnsupportedMediaTypeError("the body must be application/msgpack or application/json in UTF-8")
    return encoding


def negotiate(fields: Fields, *, strict: bool = True) -> Encoding:
    """Return the encoding of the answer: what Accept names and ranks first, or what the request's body is. JSON where
    neither says: browsers, curl and their like can show nothing else.

    Raises NotAcceptableError when `strict`; otherwise (for problems) an impossible Accept counts as none.
    """
    accepted = _acceptable(fields.get(b"accept", b"*/*")[:1024])
    own = _media_encoding(fields.get(b"content-type", b""))
    if not accepted:
        if strict:
            raise NotAcceptableError("answers are application/msgpack or application/json")
        return own or Encoding.JSON
    return own if own in accepted else accepted[0]


def demand_events(fields: Fields) -> None:
    """Raises NotAcceptableError where the client does not take a stream of events."""
    for item in fields.get(b"accept", b"*/*")[:1024].decode("latin-1").lower().split(","):
        media_range, *parameters = (part.strip() for part in item.split(";"))
        if media_range in ("text/event-stream", "text/*", "*/*") and not any(
            re.fullmatch(r"q=0(\.0*)?", parameter) for parameter in parameters
        ):
            return
    raise NotAcceptableError("the answer is text/event-stream")


@functools.lru_cache(maxsize=256)
def _media_encoding(content_type: bytes) -> Encoding | None:
    if len(content_type) > 256:
        return None
    media_type, *parameters = content_type.decode("latin-1").lower().split(";")
    for parameter in parameters:
        name, _, value = parameter.strip().partition("=")
        if name != "charset" or value.strip('"') not in ("utf-8", "utf8"):
            return None
    return _ENCODINGS.get(media_type.strip())


@functools.lru_cache(maxsize=256)
def _acceptable(accept: bytes) -> tuple[Encoding, ...]:
    """The encodings of the highest rank that is above 0: of named ones MessagePack first, of those that a range of types
    covers JSON. Empty: none."""
    rank: dict[Encoding, tuple[int, float]] = {}
    for item in accept.decode("latin-1").lower().split(","):
        media_range, *parameters = (part.strip() for part in item.split(";"))
        quality = 1.0
        for parameter in parameters:
            if parameter.startswith("q="):
                try:
                    quality = float(parameter[2:])
                except ValueError:
                    quality = 0.0
        # A named type outweighs a range of types whatever their order (RFC 9110 §12.5.1).
        matches: tuple[Encoding, ...]
        if (named := _ENCODINGS.get(media_range)) is not None:
            matches, weight = (named,), _NAMED
        elif media_range in ("*/*", "application/*"):
            matches, weight = tuple(Encoding), int(media_range != "*/*")
        else:
            continue
        for encoding in matches:
            rank[encoding] = max(rank.get(encoding, (-1, 0.0)), (weight, quality))
    best = max((quality for _, quality in rank.values()), default=0.0)
    found = [e for e in Encoding if best > 0 and e in rank and rank[e][1] == best]
    is_named = any(rank[e][0] == _NAMED for e in found)
    return tuple(found if is_named else reversed(found))


_NAMED: Final = 2
_ENCODINGS: Final = {
    "application/msgpack": Encoding.MSGPACK,
    "application/vnd.msgpack": Encoding.MSGPACK,
    "application/x-msgpack": Encoding.MSGPACK,
    "application/json": Encoding.JSON,
    "application/problem+json": Encoding.JSON,
}


# --- reading


async def read_body(
    fields: Fields, receive: Receive, *, max_bytes: int, hold: Callable[[int], None] | None = None
) -> bytes:
    """The body of a request as MessagePack, of one value not yet checked (JSON is converted). `hold` is told of each piece
    of it, in bytes, and what it raises ends the reading.

    Raises UnsupportedMediaTypeError; TooLargeError, before a byte of an honest Content-Length is asked for and as
    soon as the cap is passed else; UnparsableError for no body and for broken JSON; InvalidError for JSON that has
    no MessagePack form.
    """
    encoding = request_encoding(fields)
    length = fields.get(b"content-length", b"")
    # The first `receive` is what answers `Expect: 100-continue`.
    if length.isdigit() and int(length[:20]) > max_bytes:
        raise _body_too_large(max_bytes)
    message = await receive()
    body: bytes = message.get("body", b"")
    if hold is not None:
        hold(len(body))
    if message.get("more_body", False):
        buffer = bytearray(body)
        while message.get("more_body", False):
            message = await receive()
            piece = message.get("body", b"")
            if hold is not None:
                hold(len(piece))
            buffer += piece
            if len(buffer) > max_bytes:
                break
        body = bytes(buffer)
    if message["type"] == "http.disconnect":
        raise UnparsableError("the request ended before its body", code="truncated")
    if len(body) > max_bytes:
        raise _body_too_large(max_bytes)
    if not body:
        raise UnparsableError("the body is empty", code="empty_body")
    return json_to_msgpack(body) if encoding is Encoding.JSON else body


def read_map(data: bytes, raw_fields: frozenset[str] = frozenset(), *, limits: ScanLimits) -> dict[str, Any]:
    """The one map that `data` is. Fields in `raw_fields` are the exact MessagePack slice, others Python values.

    Raises UnparsableError (also for bytes after the map), InvalidError (not a map; a bad raw field) and TooLargeError.
    """
    fields, end = _read_map_at(data, 0, _as_keys(raw_fields), limits, ())
    if end != len(data):
        raise _trailing()
    return fields


def read_list_of_maps(
    data: bytes,
    list_field: str,
    raw_fields: frozenset[str] = frozenset(),
    *,
    max_items: int,
    limits: ScanLimits,
) -> Iterator[dict[str, Any]]:
    """`read_list` where nothing is usual."""
    for item in read_list(
        data, list_field, raw_fields, lambda _data, _limits: None, max_items=max_items, limits=limits
    ):
        assert isinstance(item, dict)
        yield item


def read_list(
    data: bytes,
    list_field: str,
    raw_fields: frozenset[str],
    usual: Callable[[msgspec.Raw, ScanLimits], UsualT | None],
    *,
    max_items: int,
    limits: ScanLimits,
    all_usual: Callable[[bytes, ScanLimits], Sequence[UsualT] | None] | None = None,
) -> Iterator[UsualT | dict[str, Any]]:
    """The maps of `{list_field: [{…}, …]}`, one at a time: what `usual` makes of an item's bytes or, where that is None,
    its fields, as `read_map` gives them; the limits hold for each. `all_usual` does the same for the whole message, or
    is None where it cannot do it for each of them.

    Take no effect of an item before the iterator has ended: what follows the list is checked last. Validate each item
    before taking the next, or the decoded fields of all may be held at once. Raises as `read_map`, with the index
    in `errors`, and TooLargeError `too_many_items`.
    """
    members, count, pos = _list_header(data, list_field, max_items, limits)
    if all_usual is not None and (known_items := all_usual(data, limits)) is not None:
        yield from known_items
        return
    raw_keys = _as_keys(raw_fields)
    slices = _split_list(data, list_field) if members == 1 else None
    if slices is not None:
        for index, part in enumerate(slices):
            if (known := usual(part, limits)) is not None:
                yield known
                continue
            item_data = bytes(part)
            item, _ = _read_map_at(item_data, 0, raw_keys, limits, (list_field, index))
            yield item
        return
    for index in range(count):
        item, pos = _read_map_at(data, pos, raw_keys, limits, (list_field, index))
        yield item
    if members > 1:
        _expect_key(data, pos, list_field)
        raise UnparsableError("a map has the same key twice", code="duplicate_key")
    if pos != len(data):
        raise _trailing()


def _list_header(data: bytes, list_field: str, max_items: int, limits: ScanLimits) -> tuple[int, int, int]:
    """Members of the map, items of its list, and the offset of the first."""
    header = map_header(data, 0)
    if header is None:
        raise _not_a_map(data, limits, ())
    members, pos = header
    if members == 0:
        raise _field_error((list_field,), "field required")
    pos = _expect_key(data, pos, list_field)
    items = array_header(data, pos)
    if items is None:
        raise _field_error((list_field,), "must be an array")
    count, pos = items
    if count == 0:
        raise _field_error((list_field,), "must not be empty")
    if count > max_items:
        raise TooLargeError(f"more than {max_items} {list_field}", code="too_many_items")
    return members, count, pos


def _split_list(data: bytes, list_field: str) -> list[msgspec.Raw] | None:
    """The members of the list as they stand; None where the message is malformed somewhere."""
    try:
        return _LIST_SPLITTER.decode(data)[list_field]
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None


def _read_map_at(
    data: bytes, pos: int, raw_keys: frozenset[bytes], limits: ScanLimits, loc: tuple[str | int, ...]
) -> tuple[dict[str, Any], int]:
    header = map_header(data, pos)
    if header is None:
        raise _not_a_map(data, limits, loc, pos)
    if header.members * 2 > limits.max_nodes:
        raise TooLargeError(f"more than {limits.max_nodes} values", code="too_many_nodes")
    # The raw fields are cut out; one call decodes what is left of the map with nil in their places.
    left_over: list[bytes] = []
    raw: dict[str, bytes] = {}
    keys: set[bytes] = set()
    mark = pos
    pos = header.pos
    key = b""
    try:
        for _ in range(header.members):
            if step := SHORT_STR_SIZE[data[pos]]:
                end = pos + step
                key = data[pos + 1 : end]
            else:
                begin, end = long_key(data, pos, in_envelope=True)
                key = data[begin:end]
            keys.add(key)
            pos = end
            if key in raw_keys:
                end = _scan_field(data, pos, limits, loc, key)
                raw[key.decode()] = data[pos:end]
                left_over += (data[mark:pos], _NIL)
                mark = pos = end
            else:
                tag = data[pos]
                step = FIXED_SIZE[tag] or SHORT_STR_SIZE[tag]
                pos = pos + step if step else _scan_field(data, pos, limits, loc, key, in_envelope=True)
        if len(keys) != header.members:
            raise UnparsableError("a map has the same key twice", code="duplicate_key")
        left_over.append(data[mark:pos])
        rest = b"".join(left_over)
        # A value has a byte at least, so only a longer rest can hold too many of them.
        if len(rest) > limits.max_nodes:
            scan(rest, limits=limits, in_envelope=True)
        fields: dict[str, Any] = msgpack.unpackb(rest, timestamp=3)
    except IndexError:
        raise truncated() from None
    except ValueError:  # of the decoder: a string is not UTF-8, or the last value is cut off
        raise UnparsableError("the message is malformed") from None
    fields.update(raw)
    return fields, pos


def _scan_field(
    data: bytes,
    pos: int,
    limits: ScanLimits,
    loc: tuple[str | int, ...],
    key: bytes,
    *,
    in_envelope: bool = False,
) -> int:
    """`scan` of the field `key` of the map at `loc`, which the errors name."""
    try:
        return scan(data, pos, limits=limits, in_envelope=in_envelope)
    except (UnparsableError, InvalidError, TooLargeError) as error:
        error.errors = (FieldError((*loc, key.decode(errors="replace")), error.detail),)
        raise


@functools.lru_cache(maxsize=64)
def _as_keys(names: frozenset[str]) -> frozenset[bytes]:
    return frozenset(name.encode() for name in names)


def _expect_key(data: bytes, pos: int, name: str) -> int:
    try:
        step = SHORT_STR_SIZE[data[pos]]
        begin, end = (pos + 1, pos + step) if step else long_key(data, pos, in_envelope=True)
    except IndexError:
        raise truncated() from None
    if end > len(data):
        raise truncated()
    try:
        key = data[begin:end].decode()
    except UnicodeDecodeError:
        raise UnparsableError("a string is not UTF-8") from None
    if key != name:
        raise _field_error((key,), "unknown field")
    return end


def _field_error(loc: tuple[str | int, ...], rule: str) -> InvalidError:
    return invalid([FieldError(loc, rule)])


def _not_a_map(data: bytes, limits: ScanLimits, loc: tuple[str | int, ...], pos: int = 0) -> JqmasterError:
    end = scan(data, pos, limits=limits, in_envelope=True)
    # JSON text, a pickle or an archive begins with some small value; then the rest gives it away.
    if not loc and end != len(data):
        return _trailing()
    return (
        _field_error(loc, "must be a map")
        if loc
        else InvalidError("the body must be a map", code="not_a_map")
    )


def _trailing() -> UnparsableError:
    return UnparsableError("bytes follow the value", code="trailing_bytes")


def _body_too_large(max_bytes: int) -> TooLargeError:
    return TooLargeError(f"the body is larger than {max_bytes} bytes", code="body_too_large")


# --- JSON


def json_to_msgpack(text: bytes) -> bytes:
    """A JSON document as MessagePack. `{"$bin": base64}` is binary, `{"$ext": [code, base64]}` an extension value.

    Raises UnparsableError (not JSON in UTF-8, a key twice, NaN or Infinity), InvalidError (a number or a nesting that
    MessagePack cannot carry) and TooLargeError (more than MAX_JSON_NODES values).
    """
    if _separators(text) > MAX_JSON_NODES and _separators(_JSON_STRING.sub(b"", text)) > MAX_JSON_NODES:
        raise TooLargeError(f"more than {MAX_JSON_NODES} values", code="too_many_nodes")
    try:
        value = _JSON_DECODER.decode(text.decode())
        packed: bytes = msgpack.packb(value)
    except UnicodeError:
        raise UnparsableError("a string is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise UnparsableError(f"not JSON: {error.msg} at character {error.pos}") from None
    except OverflowError:
        raise InvalidError("an integer exceeds 64 bits", code="integer_out_of_range") from None
    except (
        RecursionError,
        ValueError,
    ):  # of the parser or, in versions whose parser goes deeper, of the packer
        raise UnparsableError("nested too deeply", code="too_deep") from None
    return packed


def _separators(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _json_object(pairs: list[tuple[str, Any]]) -> Any:
    if len(pairs) == 1:
        [(key, value)] = pairs
        if key == "$bin":
            return _from_base64(value)
        if key == "$ext":
            return _json_extension(value)
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise UnparsableError("a map has the same key twice", code="duplicate_key")
    return fields


def _json_extension(value: object) -> msgpack.ExtType:
    match value:
        case [int(code), data] if -128 <= code <= 127 and not isinstance(code, bool):
            if code >= 0:
                return msgpack.ExtType(code, _from_base64(data))
            if code == -1:
                try:
                    return msgpack.Timestamp.from_bytes(_from_base64(data))
                except ValueError:
                    pass
    raise InvalidError(
        "$ext must be [code, base64] with a code of 0 to 127, or -1 for a timestamp", code="bad_ext"
    )


def _from_base64(text: object) -> bytes:
    try:
        if isinstance(text, str):
            return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        pass
    raise InvalidError("$bin must be base64", code="bad_base64")


def _json_int(digits: str) -> int:
    # Longer ones are out of range too, and Python's conversion of them is quadratic.
    if len(digits) > 20:
        raise OverflowError
    return int(digits)


def _json_float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise InvalidError("a number exceeds the range of a double", code="number_out_of_range")
    return number


def _json_constant(name: str) -> None:
    raise UnparsableError(f"{name} is not JSON")


_JSON_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_json_object,
    parse_int=_json_int,
    parse_float=_json_float,
    parse_constant=_json_constant,
)


# --- writing


def encode(value: Any, encoding: Encoding) -> bytes:
    """An answer. Datetimes must be aware; RawMsgpack stands for the value it holds.

    In JSON, binary is `{"$bin": base64}`, an extension value `{"$ext": [code, base64]}`, a datetime ISO 8601 with
    milliseconds and `Z`, and NaN or an infinity, which only arguments and results can hold, `null`.
    """
    if encoding is Encoding.JSON:
        return json.dumps(_plain(value), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
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
