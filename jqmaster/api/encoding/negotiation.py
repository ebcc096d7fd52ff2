"""Determine the encoding of a request's body and of its answer."""

import functools
import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from jqmaster.errors import JqmasterError, UnsupportedMediaTypeError

Fields = Mapping[bytes, bytes]
# A request without an Accept header is treated as if it had this value.
ANY: Final = b"*/*"
# Maximum number of bytes to read of a header field. Results are cached by these fields, so the fields must be
# short.
MAX_FIELD_BYTES: Final = 1024
_NAMED: Final = 2


class Encoding(StrEnum):
    """The encoding of a body; the value is its content type."""

    MSGPACK = "application/msgpack"
    JSON = "application/json"


class NotAcceptableError(JqmasterError):
    """The client accepts no encoding that the master writes."""

    code = "not_acceptable"


def join_fields(headers: Iterable[tuple[bytes, bytes]]) -> Fields:
    """Return the headers of an ASGI scope by name. Repeated headers are joined with `, ` (RFC 9110 §5.3).

    If a client repeats a header that may occur only once, such as Host, the joined value is not valid. So the
    request is refused.
    """
    headers = list(headers)
    fields = dict(headers)
    if len(fields) != len(headers):
        fields.clear()
        for name, value in headers:
            fields[name] = fields[name] + b", " + value if name in fields else value
    return fields


def request_encoding(fields: Fields) -> Encoding:
    """Return the encoding that Content-Type gives the request's body. Raises UnsupportedMediaTypeError."""
    return body_encoding(fields.get(b"content-type", b""), fields.get(b"content-encoding", b""))


# Cached because clients send few combinations of these fields. Errors are not cached.
@functools.lru_cache(maxsize=256)
def body_encoding(content_type: bytes, content_encoding: bytes) -> Encoding:
    """Return the encoding of a body with these two header fields, in the same way as `request_encoding`."""
    if content_encoding:
        raise UnsupportedMediaTypeError("a body with a Content-Encoding is not supported")
    encoding = _media_encoding(content_type)
    if encoding is None:
        raise UnsupportedMediaTypeError("the body must be application/msgpack or application/json in UTF-8")
    return encoding


def negotiate(fields: Fields, *, strict: bool = True) -> Encoding:
    """Return the encoding of the answer: the encoding that Accept ranks first, or else the encoding of the
    request's body. If neither decides, return JSON, because tools such as browsers and curl can show only JSON.

    If no encoding is acceptable, raise NotAcceptableError if `strict`. Otherwise, ignore Accept: problems are
    always sent.
    """
    accept, content_type = fields.get(b"accept", ANY), fields.get(b"content-type", b"")
    return answer_encoding(accept[:MAX_FIELD_BYTES], content_type[:MAX_FIELD_BYTES], strict)


@functools.lru_cache(maxsize=256)
def answer_encoding(accept: bytes, content_type: bytes, strict: bool) -> Encoding:
    """Return the encoding of the answer for these fields, in the same way as `negotiate`. The fields are cut to
    `MAX_FIELD_BYTES`."""
    accepted = _acceptable(accept)
    own = _media_encoding(content_type)
    if not accepted:
        if strict:
            raise NotAcceptableError("answers are application/msgpack or application/json")
        return own or Encoding.JSON
    return own if own in accepted else accepted[0]


def demand_events(fields: Fields) -> None:
    """Raise NotAcceptableError if the client does not accept an event stream."""
    for item in fields.get(b"accept", ANY)[:1024].decode("latin-1").lower().split(","):
        media_range, *parameters = (part.strip() for part in item.split(";"))
        if media_range in ("text/event-stream", "text/*", "*/*") and not any(
            re.fullmatch(r"q=0(\.0*)?", parameter) for parameter in parameters
        ):
            return
    raise NotAcceptableError("the answer is text/event-stream")


def takes_gzip(fields: Fields) -> bool:
    """Return whether the client accepts an answer that is compressed by gzip."""
    for entry in fields.get(b"accept-encoding", b"").lower().split(b","):
        coding, _, weight = entry.partition(b";")
        if coding.strip() == b"gzip":
            return weight.replace(b" ", b"") not in (b"q=0", b"q=0.0", b"q=0.00", b"q=0.000")
    return False


def has_tag(fields: Fields, etag: bytes) -> bool:
    """Return whether If-None-Match contains this tag: the client already has this content."""
    held = fields.get(b"if-none-match", b"")
    return held.strip() == b"*" or etag in [tag.strip().removeprefix(b"W/") for tag in held.split(b",")]


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
    """Return the encodings with the highest rank above 0. The result may be empty.

    MessagePack comes first among encodings that Accept names. JSON comes first among encodings that only a media
    range covers."""
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
        # A named type outranks a media range, regardless of their order (RFC 9110 §12.5.1).
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


_ENCODINGS: Final = {
    "application/msgpack": Encoding.MSGPACK,
    "application/vnd.msgpack": Encoding.MSGPACK,
    "application/x-msgpack": Encoding.MSGPACK,
    "application/json": Encoding.JSON,
    "application/problem+json": Encoding.JSON,
}
