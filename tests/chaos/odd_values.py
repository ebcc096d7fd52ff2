"""Hostile values from pushers, and sealed ones. A history keeps both as hexadecimal digits, in `odd` and `sealed` of
the argument."""

from typing import Any

import msgpack

VALUES = [
    bytes.fromhex(digits)
    for digits in (
        # Valid but rare.
        "ca7fc00001", "cbfff0000000000000", "cfffffffffffffffff", "d38000000000000000", "d40501", "c7037f616263",
        "c70005",
        "d6ff00000000", "d7ffee6b27fdffffffff", "c70cff3b9ac9ff0000003afff4417f", "c402ff00", "d903e280a8",
        "81a42462696e05",
        "81a95f5f70726f746f5f5f80", "91" * 29 + "c0", "dc000fc0c0c0c0c0c0c0c0c0c0c0c0c0c0c0", "a0", "80",
        # Values that a decoder would refuse or find expensive.
        "d48000", "c7008080", "c70080", "d5fe6162", "81a161d48000", "c1", "91c1", "a1ff", "a3eda080", "8101c0",
        "82a161c0a161c0",
        "d7ffee6b280000000000", "c70cff0000000000000f000000000000", "d4ff00", "91" * 40 + "c0", "ddffffffff",
        "dfffffffff", "c6ffffffff",
        "91" * 2000 + "c0",
    )
]  # fmt: skip


def packed(job: dict[str, Any]) -> bytes:
    """Return the push as sent, with the actual value in place of its digits."""
    body: bytes = msgpack.packb(job)
    sealed = job.get("argument", {}).get("sealed")
    if sealed is not None:
        return body.replace(msgpack.packb(sealed), msgpack.packb(bytes.fromhex(sealed)))
    digits = job.get("argument", {}).get("odd")
    return body if digits is None else body.replace(msgpack.packb(digits), bytes.fromhex(digits))


def unpacked(argument: bytes) -> Any:
    """Return a stored argument as originally drawn."""
    if not (argument[0] >> 4 == 0x8 or argument[0] in (0xDE, 0xDF)):
        return msgpack.unpackb(argument)
    unpacker = msgpack.Unpacker()
    unpacker.feed(argument)
    found: dict[str, Any] = {}
    for _ in range(unpacker.read_map_header()):
        name, begin = unpacker.unpack(), unpacker.tell()
        unpacker.skip()
        value = argument[begin : unpacker.tell()]
        found[name] = value.hex() if name == "odd" else msgpack.unpackb(value)
    if isinstance(found.get("sealed"), bytes):
        found["sealed"] = found["sealed"].hex()
    return found


def is_decodable(digits: str) -> bool:
    """Return whether a plain decoder takes the value: an oracle independent of the system under test."""
    try:
        msgpack.unpackb(bytes.fromhex(digits), timestamp=3)
    except Exception:  # decoders raise arbitrary errors
        return False
    return True
