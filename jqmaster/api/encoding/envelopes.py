"""Envelopes: maps with an argument or result that stays exactly the bytes that the client sent."""

import functools
from collections.abc import Callable, Iterator
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
from jqmaster.errors import FieldError, InvalidError, JqmasterError, TooLargeError, UnparsableError, invalid

UsualT = TypeVar("UsualT")
_NIL: Final = b"\xc0"
_MEMBERS: Final = msgspec.msgpack.Decoder(dict[str, msgspec.Raw])
_LIST_SPLITTER: Final = msgspec.msgpack.Decoder(dict[str, list[msgspec.Raw]])


def read_map(data: bytes, raw_fields: frozenset[str] = frozenset(), *, limits: ScanLimits) -> dict[str, Any]:
    """Read the one map in `data`. Return the fields in `raw_fields` as their exact MessagePack bytes, and other
    fields as Python values.

    Raises UnparsableError (also for bytes after the map), InvalidError (not a map, or a bad raw field) and
    TooLargeError.
    """
    fields, end = _read_map_at(data, 0, _as_keys(raw_fields), limits, ())
    if end != len(data):
        raise _trailing()
    return fields


def cut_field(data: bytes, field: str) -> tuple[bytes | None, bytes]:
    """Cut a field out of a map with two members. Return the field's value and the remaining map. Return None as
    the value if the map has another shape.

    This function does not check the value. The code that reads the remaining map finds errors in the map.
    """
    try:
        header = map_header(data, 0)
        members = _MEMBERS.decode(data) if header is not None and header.members == 2 else {}
    except (IndexError, ValueError, msgspec.MsgspecError, RecursionError):
        return None, data
    if len(members) != 2 or field not in members:
        return None, data
    value = bytes(members.pop(field))
    ((other, rest),) = members.items()
    return value, b"".join((b"\x81", msgpack.packb(other), bytes(rest)))


def read_list(
    data: bytes,
    list_field: str,
    raw_fields: frozenset[str],
    usual: Callable[[msgspec.Raw, ScanLimits], UsualT | None],
    *,
    max_items: int,
    limits: ScanLimits,
    all_usual: Callable[[bytes, ScanLimits], list[UsualT] | None] | None = None,
    on_bad: Callable[[int, JqmasterError], None] | None = None,
) -> list[UsualT] | Iterator[UsualT | dict[str, Any]]:
    """Return the maps of `{list_field: [{…}, …]}`, each within the limits.

    * `usual`: decodes the bytes of a usual item quickly. For any other item, it returns None, and `read_map`
      reads the item.
    * `all_usual`: decodes the whole message at once, or returns None if any item is unusual.
    * `on_bad`: called with the error and the index of a bad item, which is then left out. Without it, the
      iteration raises the error.

    If the result is a list, it is complete, and all its items were usual. Any other iterable reads one item at a
    time. Let no item take effect before the iterable is exhausted, because the bytes after the list are checked
    last. Validate each item before you take the next one. Otherwise, the decoded fields of all items may be in
    memory at once.

    The iteration raises the errors of `read_map`, with the index in `errors`. This function raises the same
    errors, and TooLargeError `too_many_items`.
    """
    header = _list_header(data, list_field, max_items, limits)
    if all_usual is not None and (known_items := all_usual(data, limits)) is not None:
        return known_items
    return _items(data, header, list_field, raw_fields, usual, limits=limits, on_bad=on_bad)


def _items(
    data: bytes,
    header: tuple[int, int, int],
    list_field: str,
    raw_fields: frozenset[str],
    usual: Callable[[msgspec.Raw, ScanLimits], UsualT | None],
    *,
    limits: ScanLimits,
    on_bad: Callable[[int, JqmasterError], None] | None,
) -> Iterator[UsualT | dict[str, Any]]:
    """Yield the items. `header`: the return value of `_list_header`."""
    members, count, pos = header
    raw_keys = _as_keys(raw_fields)
    slices = _split_list(data, list_field) if members == 1 else None
    if slices is not None:
        for index, part in enumerate(slices):
            if (known := usual(part, limits)) is not None:
                yield known
                continue
            try:
                item, _ = _read_map_at(bytes(part), 0, raw_keys, limits, (list_field, index))
            except JqmasterError as exc:
                if on_bad is None:
                    raise
                on_bad(index, exc)
                continue
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
    """Return the number of members in the map, the number of items in the list, and the offset of the first item."""
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
    """Return the encoded members of the list unchanged, or None if the message is malformed."""
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
    # Cut out the raw fields and put nil in their place, so that one call can decode the rest of the map.
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
        # Each value takes at least one byte. So count the values of the remaining bytes only if there are more
        # than `max_nodes` bytes.
        if len(rest) > limits.max_nodes:
            scan(rest, limits=limits, in_envelope=True)
        fields: dict[str, Any] = msgpack.unpackb(rest, timestamp=3)
    except IndexError:
        raise truncated() from None
    except ValueError:  # a string is not UTF-8, or the last value is cut off
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
    """Scan the field `key` of the map at `loc`. Errors name that field."""
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
    # Report trailing bytes if the body does not end after its first value. The first byte of JSON text, a pickle
    # or an archive may be a complete small value in MessagePack.
    if not loc and end != len(data):
        return _trailing()
    return (
        _field_error(loc, "must be a map")
        if loc
        else InvalidError("the body must be a map", code="not_a_map")
    )


def _trailing() -> UnparsableError:
    return UnparsableError("bytes follow the value", code="trailing_bytes")
