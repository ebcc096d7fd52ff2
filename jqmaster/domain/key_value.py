"""A value of a constraint's key: which values are one, and how people read it."""

import reprlib
import struct
from typing import Final, NamedTuple

MAX_KEY_TEXT: Final = 128


class KeyValue(NamedTuple):
    """A value that splits a constraint: equal values have equal `canonical` bytes, `text` is for people."""

    canonical: bytes
    text: str


def key_value(value: object) -> KeyValue:
    """Of a decoded value. 1.0 is 1; a boolean is no number, binary no text; NaN is one value; the order of a map is none.

    `text` has at most MAX_KEY_TEXT characters and none that a terminal would act on.
    """
    return KeyValue(canonical(value), _text(value))


def canonical(value: object) -> bytes:
    """Bytes that begin with the type and tell each value from every other. An extension value counts by its repr."""
    kind = type(value)
    if kind is str:
        # No decoder makes half a surrogate pair; should one, it is a value like others.
        return _sized(b"s", value.encode("utf-8", "surrogatepass"))  # type: ignore[attr-defined]
    if kind is int:
        return b"i%d;" % value  # type: ignore[str-format]
    if value is None:
        return b"n"
    if kind is bool:
        return b"t" if value else b"f"
    if kind is float:
        return _canonical_float(value)  # type: ignore[arg-type]
    if kind is bytes:
        return _sized(b"b", value)  # type: ignore[arg-type]
    if kind is list:
        return b"a%d:" % len(value) + b"".join(map(canonical, value))  # type: ignore[arg-type,call-overload]
    if kind is dict:
        members = sorted((canonical(key), canonical(member)) for key, member in value.items())  # type: ignore[attr-defined]
        return b"m%d:" % len(members) + b"".join(key + member for key, member in members)
    return _sized(b"x", repr(value).encode("utf-8", "surrogatepass"))


def _sized(tag: bytes, data: bytes) -> bytes:
    return b"%b%d:%b" % (tag, len(data), data)


def _canonical_float(value: float) -> bytes:
    if value.is_integer():
        return b"i%d;" % int(value)
    return b"d" + (b"nan" if value != value else struct.pack(">d", value))  # noqa: PLR0124  # NaN alone differs from itself


def _text(value: object) -> str:
    match value:
        case str():
            text = value
        case None:
            text = "null"
        case bool():
            text = "true" if value else "false"
        case int() if -(2**64) < value < 2**64:
            text = str(value)
        case bytes():
            text = f"0x{value[:MAX_KEY_TEXT].hex()}"
        case float() if value.is_integer() and abs(value) < 2**64:
            text = str(int(value))
        case _:
            text = reprlib.repr(value)
    if len(text) <= MAX_KEY_TEXT and text.isprintable():
        return text
    shown = "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode()
        for char in text[: MAX_KEY_TEXT + 1]
    )
    return shown if len(shown) <= MAX_KEY_TEXT else shown[: MAX_KEY_TEXT - 1] + "…"
