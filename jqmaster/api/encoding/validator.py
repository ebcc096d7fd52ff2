"""Check MessagePack without building objects, so that a hostile value costs little memory and event loop time.

A decoder would turn 1 MiB of empty maps into 76 MB. In this module, the limits bound the cost: it counts the
members of a container when it reads the container's header, before it reads any member."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from jqmaster.errors import InvalidError, TooLargeError, UnparsableError


@dataclass(frozen=True, slots=True)
class ScanLimits:
    """Limits of a value.
    * `max_nesting`: depth of nested containers. A scalar has depth 0.
    * `max_nodes`: number of values, map keys included.
    """

    max_nesting: int
    max_nodes: int


# Maximum nesting that MessagePack decoders support. A deeper body counts as unparsable, not as invalid.
_DECODER_NESTING: Final = 1000

# Size of a value by its first byte. 0: the first byte alone does not determine the size, or the value is a
# string.
FIXED_SIZE: Final = [0] * 256
# Size of a short string by its first byte. Strings have their own table because their bytes must be checked as
# UTF-8.
SHORT_STR_SIZE: Final = [0] * 256
for _tag in (*range(0x80), *range(0xE0, 0x100), 0xC0, 0xC2, 0xC3):
    FIXED_SIZE[_tag] = 1
for _tag, _size in zip((0xCA, 0xCB, *range(0xCC, 0xD4)), (5, 9, 2, 3, 5, 9, 2, 3, 5, 9), strict=True):
    FIXED_SIZE[_tag] = _size
for _tag in range(0xA0, 0xC0):
    SHORT_STR_SIZE[_tag] = _tag - 0x9F

# Width of the length field by the first byte of a string, binary or container.
_STR_WIDTH: Final = {0xD9: 1, 0xDA: 2, 0xDB: 4}
_BIN_WIDTH: Final = {0xC4: 1, 0xC5: 2, 0xC6: 4}
_ARRAY_WIDTH: Final = {0xDC: 2, 0xDD: 4}
_MAP_WIDTH: Final = {0xDE: 2, 0xDF: 4}
_EXT_WIDTH: Final = {0xC7: 1, 0xC8: 2, 0xC9: 4}
_FIXEXT_SIZE: Final = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}

_TIMESTAMP_EXT: Final = 0xFF
# The first of the negative extension codes, as an unsigned byte. MessagePack reserves the negative codes and
# defines only one, the timestamp. Decoders refuse the others.
_FIRST_RESERVED_EXT: Final = 0x80
_NS_PER_S: Final = 1_000_000_000
_YEAR_1_S: Final = -62_135_596_800
_YEAR_10000_S: Final = 253_402_300_800


class Header(NamedTuple):
    """Start of a container: the number of members (pairs in a map) and the offset of the first one."""

    members: int
    pos: int


def scan(  # noqa: PLR0912, PLR0915  one loop without a call for the common values: every argument and result passes
    data: bytes, start: int = 0, *, limits: ScanLimits, in_envelope: bool = False
) -> int:
    """Check the value that begins at `start`, and return its end offset.

    Raise:

    * UnparsableError for truncated bytes, a reserved byte, bad UTF-8, or a duplicate key in a map,
    * InvalidError (`too_deep`, `bad_timestamp`, `bad_ext`, `key_not_str`). In the envelope, `key_not_str` is an
      UnparsableError instead,
    * TooLargeError (`too_many_nodes`).

    NaN and application-specific extension types pass. Every later reader can decode a value that passes.
    """
    fixed, short_str = FIXED_SIZE, SHORT_STR_SIZE
    max_nodes, max_nesting = limits.max_nodes, limits.max_nesting
    size = len(data)
    pos = start
    nodes = 1
    left = 1  # number of unread members of the innermost container
    pairs = 0
    keys: set[bytes] | None = None  # None: the innermost container is not a map
    stack: list[tuple[int, int, set[bytes] | None]] = []
    try:
        while True:
            while left:
                left -= 1
                if keys is not None:
                    tag = data[pos]
                    if step := short_str[tag]:
                        end = pos + step
                        key = data[pos + 1 : end]
                    else:
                        begin, end = long_key(data, pos, in_envelope=in_envelope)
                        key = data[begin:end]
                    keys.add(key)
                    if not key.isascii():
                        key.decode()
                    tag = data[pos := end]
                else:
                    tag = data[pos]
                if step := fixed[tag]:
                    pos += step
                    continue
                if step := short_str[tag]:
                    end = pos + step
                    text = data[pos + 1 : end]
                    if not text.isascii():
                        text.decode()
                    pos = end
                    continue
                if tag < 0xA0:
                    count = tag & 0x0F
                    is_map = tag < 0x90
                    pos += 1
                elif tag in _STR_WIDTH:
                    pos = _long_text_end(data, pos, _STR_WIDTH[tag])
                    continue
                elif tag in _ARRAY_WIDTH or tag in _MAP_WIDTH:
                    is_map = tag in _MAP_WIDTH
                    count, pos = _long_header(data, pos, 2 if tag in (0xDC, 0xDE) else 4)
                else:
                    pos = _opaque_end(data, pos)
                    continue
                stack.append((left, pairs, keys))
                if is_map:
                    pairs = count
                    keys = set()
                    nodes += count * 2
                else:
                    keys = None
                    nodes += count
                left = count
                if nodes > max_nodes:
                    raise TooLargeError(f"more than {max_nodes} values", code="too_many_nodes")
                if len(stack) > max_nesting:
                    raise _too_deep(data, start, limits, in_envelope)
            if keys is not None and len(keys) != pairs:
                raise UnparsableError("a map has the same key twice", code="duplicate_key")
            if not stack:
                break
            left, pairs, keys = stack.pop()
    except IndexError:
        raise truncated() from None
    except UnicodeDecodeError:
        raise UnparsableError("a string is not UTF-8") from None
    if pos > size:
        raise truncated()
    return pos


def map_header(data: bytes, pos: int) -> Header | None:
    """Return the header of the map at `pos`, or None if another kind of value is there. Raises UnparsableError."""
    return _header(data, pos, 0x80, _MAP_WIDTH)


def array_header(data: bytes, pos: int) -> Header | None:
    """Return the header of the array at `pos`, or None if another kind of value is there. Raises UnparsableError."""
    return _header(data, pos, 0x90, _ARRAY_WIDTH)


def long_key(data: bytes, pos: int, *, in_envelope: bool) -> tuple[int, int]:
    """Return the start and end of the bytes of a map key that is not a short string. Raises the same errors as
    `scan`."""
    tag = data[pos]
    if tag in _STR_WIDTH:
        return _counted(data, pos, _STR_WIDTH[tag])
    what = "a map has a key that is not text (MessagePack str; bin is not text)"
    if in_envelope or tag == 0xC1:
        raise UnparsableError(what, code="key_not_str")
    raise InvalidError(what, code="key_not_str")


def truncated() -> UnparsableError:
    """Return the error for data that ends too early."""
    return UnparsableError("the message ends before its value does", code="truncated")


def _header(data: bytes, pos: int, first: int, widths: dict[int, int]) -> Header | None:
    if pos >= len(data):
        raise truncated()
    tag = data[pos]
    if first <= tag < first + 16:
        return Header(tag & 0x0F, pos + 1)
    if tag in widths:
        return _long_header(data, pos, widths[tag])
    return None


def _long_header(data: bytes, pos: int, width: int) -> Header:
    begin, end = _counted(data, pos, width)
    # Refuse a count that is larger than the number of remaining bytes at once, because every member takes at
    # least one byte.
    if end > len(data):
        raise truncated()
    return Header(end - begin, begin)


def _counted(data: bytes, pos: int, width: int) -> tuple[int, int]:
    begin = pos + 1 + width
    if begin > len(data):
        raise truncated()
    return begin, begin + int.from_bytes(data[pos + 1 : begin], "big")


def _long_text_end(data: bytes, pos: int, width: int) -> int:
    begin, end = _counted(data, pos, width)
    text = data[begin:end]
    if not text.isascii():
        text.decode()
    return end


def _opaque_end(data: bytes, pos: int) -> int:
    """Return the end of a binary or an extension."""
    tag = data[pos]
    if tag in _BIN_WIDTH:
        return _counted(data, pos, _BIN_WIDTH[tag])[1]
    if tag in _FIXEXT_SIZE:
        begin, length = pos + 2, _FIXEXT_SIZE[tag]
    elif tag in _EXT_WIDTH:
        body, end = _counted(data, pos, _EXT_WIDTH[tag])
        begin, length = body + 1, end - body
    else:
        raise UnparsableError(f"byte {tag:#04x} does not begin a value")
    end = begin + length
    if end > len(data):
        raise truncated()
    code = data[begin - 1]
    if code == _TIMESTAMP_EXT:
        _check_timestamp(data[begin:end])
    elif code >= _FIRST_RESERVED_EXT:
        raise InvalidError(
            f"an extension has the reserved code {code - 256}; the codes are 0 to 127, and -1 for a timestamp",
            code="bad_ext",
        )
    return end


def _check_timestamp(body: bytes) -> None:
    value = int.from_bytes(body[-8:], "big", signed=len(body) == 12)
    if len(body) == 4:
        return
    if len(body) == 8:
        nanoseconds, seconds = value >> 34, value & 0x3_FFFF_FFFF
    elif len(body) == 12:
        nanoseconds, seconds = int.from_bytes(body[:4], "big"), value
    else:
        raise InvalidError("a timestamp must have 4, 8 or 12 bytes", code="bad_timestamp")
    if nanoseconds >= _NS_PER_S or not _YEAR_1_S <= seconds < _YEAR_10000_S:
        raise InvalidError("a timestamp must lie in the years 1 to 9999", code="bad_timestamp")


def _too_deep(
    data: bytes, start: int, limits: ScanLimits, in_envelope: bool
) -> UnparsableError | InvalidError:
    """Return the error for a nesting that is too deep.

    Scan again with a deeper limit for nesting and the same limit for nodes. So broken input is reported as
    unparsable even if the fault is below the first limit.
    """
    if limits.max_nesting >= _DECODER_NESTING:
        return UnparsableError(f"nested deeper than {_DECODER_NESTING}", code="too_deep")
    scan(data, start, limits=ScanLimits(_DECODER_NESTING, limits.max_nodes), in_envelope=in_envelope)
    return InvalidError(f"nested deeper than {limits.max_nesting}", code="too_deep")
