"""The codec for packed values that matchers and templates read and write."""

from typing import Any, Final

import msgspec

_decoder: Final = msgspec.msgpack.Decoder()
_encoder: Final = msgspec.msgpack.Encoder()


def decoded(value: bytes) -> Any:
    """Return the decoded value. Raise what the decoder raises."""
    return _decoder.decode(value)


def encoded(value: Any) -> bytes:
    """Return the value as MessagePack."""
    return _encoder.encode(value)
