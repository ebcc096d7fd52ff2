"""Convert JSON bodies to MessagePack, so that all other code reads MessagePack under one set of limits."""

import base64
import binascii
import json
import math
import re
from typing import Any, Final

import msgpack

from jqmaster.errors import InvalidError, TooLargeError, UnparsableError

# Maximum number of values in a JSON body. A decoded value takes about 80 bytes of memory. People and browsers use
# JSON, and send fewer values.
MAX_JSON_NODES: Final = 250_000
_JSON_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)


def json_to_msgpack(text: bytes) -> bytes:
    """Convert a JSON document to MessagePack. `{"$bin": base64}` is binary, `{"$ext": [code, base64]}` an extension
    value.

    Raise:

    * UnparsableError for text that is not JSON in UTF-8, a duplicate key, NaN or Infinity,
    * InvalidError for a number or a nesting that MessagePack cannot carry,
    * TooLargeError for more than MAX_JSON_NODES values.
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
    # The nesting is too deep. Usually the parser raises one of these errors. If the installed parser accepts deeper
    # nesting than the packer, the packer raises it.
    except (RecursionError, ValueError):
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
    # Longer numbers are out of range anyway, and Python's conversion takes quadratic time.
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
