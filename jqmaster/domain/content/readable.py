"""Stored values in a form that every client can decode.

The API refuses values that a decoder may refuse (`api/encoding/validator.py`). A store may still hold some:
earlier releases accepted extension types with reserved codes.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Final

import msgpack
import msgspec

# Decodes a value as our clients do, and raises the same exceptions.
decode_as_clients: Final = functools.partial(msgpack.unpackb, timestamp=3)
_MEMBERS: Final = msgspec.msgpack.Decoder(dict[str, msgspec.Raw])


def is_readable(value: bytes) -> bool:
    """Return whether a client can decode this encoded value."""
    try:
        decode_as_clients(value)
    except Exception:  # decoders raise various exceptions for broken bytes
        return False
    return True


def readable(value: bytes) -> bytes:
    """Return the value itself or, if a client could not decode it, its bytes as a binary value."""
    return value if is_readable(value) else bytes(msgpack.packb(value))


def readable_members(value: bytes) -> bytes:
    """Return the value like `readable`, but replace only the undecodable members of a map."""
    if is_readable(value):
        return value
    try:
        return with_members(value, lambda name, member: readable(member))
    except ValueError:
        return readable(value)


def with_members(value: bytes, change: Callable[[str, bytes], bytes]) -> bytes:
    """Return the encoded map with `change(name, member)` applied to each member. Raise ValueError for all but maps."""
    try:
        members: Mapping[str, msgspec.Raw] = _MEMBERS.decode(value)
    except Exception as exc:  # decoders raise various exceptions for broken bytes
        raise ValueError("not an encoded map") from exc
    packer = msgpack.Packer(autoreset=True)
    parts = [packer.pack_map_header(len(members))]
    for name, member in members.items():
        parts += (packer.pack(name), change(name, bytes(member)))
    return b"".join(parts)
