"""Read the body of a request, up to its limit."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from jqmaster.api.encoding.json_bridge import json_to_msgpack
from jqmaster.api.encoding.negotiation import Encoding, Fields, body_encoding
from jqmaster.errors import TooLargeError, UnparsableError

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


async def read_body(
    fields: Fields, receive: Receive, *, max_bytes: int, hold: Callable[[int], None] | None = None
) -> bytes:
    """Return the body of a request as one unchecked MessagePack value. JSON is converted.

    `hold` is called with the size in bytes of each piece of the body. If `hold` raises an exception, reading
    stops.

    Raise:

    * UnsupportedMediaTypeError,
    * TooLargeError: if Content-Length exceeds the limit, before the first byte is requested. Otherwise, as soon
      as the received bytes exceed the limit,
    * UnparsableError for a missing body and for broken JSON,
    * InvalidError for JSON that has no MessagePack form.
    """
    encoding = body_encoding(fields.get(b"content-type", b""), fields.get(b"content-encoding", b""))
    length = fields.get(b"content-length", b"")
    # Check the length before the first `receive`, because that call answers `Expect: 100-continue`.
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


def _body_too_large(max_bytes: int) -> TooLargeError:
    return TooLargeError(f"the body is larger than {max_bytes} bytes", code="body_too_large")
