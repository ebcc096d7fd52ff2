"""Values of a constraint's key: their equality, and their texts for people."""

import json
import re
import reprlib
import struct
from base64 import b64encode
from collections.abc import Iterator
from typing import Final, NamedTuple

MAX_KEY_TEXT: Final = 128
# Numbers of at least this size are shown in a short form.
_LONG_INT: Final = 2**64
# Matches texts that look like a number, true, false, null or binary data.
_LIKE_ANOTHER: Final = re.compile(
    r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?|true|false|null|nan|-?inf|NaN|-?Infinity|0x.*"
)


class KeyValue(NamedTuple):
    """A value that splits a constraint. Equal values have equal `canonical` bytes. `text` is for people."""

    canonical: bytes
    text: str


def key_value(value: object) -> KeyValue:
    """Return the key value of a decoded value. 1.0 equals 1. A boolean is not a number, and binary is not text. NaN
    equals itself. Maps are unordered.

    `text` has at most MAX_KEY_TEXT characters, and no character that a terminal would act on. A text below that length
    stands for exactly one value.
    """
    return KeyValue(canonical(value), _text(value))


def canonical(value: object) -> bytes:
    """Return bytes that begin with the type and differ for each value. An extension value is represented by its
    repr."""
    kind = type(value)
    if kind is str:
        # Encode lone surrogates like other characters, although decoders produce none.
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


# --- as people read it


def _text(value: object) -> str:
    """Return the value as text. Text stays unchanged if no other value looks like it. Binary becomes `0x` and
    hexadecimal digits; all other values become JSON."""
    if type(value) is str and _is_plain(value):
        shown = value
    elif type(value) is int and -_LONG_INT < value < _LONG_INT:
        # Fast path for the most common keys besides text, without the generator.
        return str(value)
    elif type(value) is bytes:
        shown = f"0x{value[:MAX_KEY_TEXT].hex()}"
    else:
        shown = ""
        for piece in _json(value):
            shown += piece
            if len(shown) > MAX_KEY_TEXT:
                break
    return shown if len(shown) <= MAX_KEY_TEXT else shown[: MAX_KEY_TEXT - 1] + "…"


def _is_plain(text: str) -> bool:
    head = text[: MAX_KEY_TEXT + 1]
    if not head or '"' in head or not head.isprintable() or head[0] == " " or head[-1] == " ":
        return False
    if head[0] not in "[{":
        return not _LIKE_ANOTHER.fullmatch(head)
    if len(head) > MAX_KEY_TEXT:
        # Quote the text. Once it is cut, it could look like a cut list or map.
        return False
    try:
        json.loads(head)
    except ValueError:
        return True
    return False


def _json(value: object) -> Iterator[str]:
    """Yield the JSON text in pieces, so that only the beginning of a huge value is formatted."""
    match value:
        case str():
            yield _quoted(value[: MAX_KEY_TEXT + 1])
        case None:
            yield "null"
        case bool():
            yield "true" if value else "false"
        case int() if -_LONG_INT < value < _LONG_INT:
            yield str(value)
        case float() if value.is_integer() and abs(value) < _LONG_INT:
            yield str(int(value))
        case bytes():
            yield f'{{"$bin":"{b64encode(value[:MAX_KEY_TEXT]).decode()}"}}'
        case list():
            yield "["
            for i, member in enumerate(value):
                yield "," if i else ""
                yield from _json(member)
            yield "]"
        case dict():
            yield "{"
            # Sort the members, so that equal maps are shown alike.
            for i, (key, member) in enumerate(sorted(value.items(), key=_place)):
                yield "," if i else ""
                yield from _json(key)
                yield ":"
                yield from _json(member)
            yield "}"
        case _:
            yield _escaped(reprlib.repr(value))


def _place(member: tuple[object, object]) -> tuple[bool, object]:
    key, _ = member
    return (False, key) if isinstance(key, str) else (True, canonical(key))


def _quoted(text: str) -> str:
    return _escaped(json.dumps(text, ensure_ascii=False))


def _escaped(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)
