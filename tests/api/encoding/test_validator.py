"""The scanner: the decoder can read what it accepts, and refusals are cheap."""

import math
import struct
import time
import tracemalloc
from datetime import UTC, datetime
from typing import Any

import msgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jqmaster.api.encoding.validator import ScanLimits, array_header, map_header, scan
from jqmaster.errors import InvalidError, JqmasterError, TooLargeError, UnparsableError

LIMITS = ScanLimits(max_nesting=32, max_nodes=20_000)

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=300)
    | st.binary(max_size=300)
    | st.builds(msgpack.ExtType, st.integers(0, 127), st.binary(max_size=40))
    | st.datetimes(timezones=st.just(UTC))
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=40), inner, max_size=20),
    max_leaves=60,
)


@given(values, st.binary(max_size=5), st.binary(max_size=5))
def test_the_end_of_a_value_is_found_whatever_stands_around_it(
    value: Any, before: bytes, after: bytes
) -> None:
    packed = msgpack.packb(value, datetime=True)
    assert scan(before + packed + after, len(before), limits=LIMITS) == len(before) + len(packed)


@given(values, st.data())
def test_a_value_that_is_cut_off_anywhere_is_unparsable(value: Any, data: st.DataObject) -> None:
    packed = msgpack.packb(value, datetime=True)
    cut = data.draw(st.integers(0, len(packed) - 1))
    with pytest.raises(UnparsableError):
        scan(packed[:cut], limits=LIMITS)


@given(st.binary(max_size=200) | values.map(lambda value: msgpack.packb(value, datetime=True)), st.data())
@example(b"\x81\xa1\xff\xc0", None)
def test_bytes_pass_exactly_if_they_can_be_decoded(raw: bytes, data: st.DataObject | None) -> None:
    if data is not None and raw:
        at = data.draw(st.integers(0, len(raw) - 1))
        raw = raw[:at] + bytes([data.draw(st.integers(0, 255))]) + raw[at + 1 :]
    unpacker = msgpack.Unpacker(timestamp=3, ext_hook=lambda code, body: (code, body))
    unpacker.feed(raw)
    try:
        end = scan(raw, limits=LIMITS)
    except JqmasterError:
        return
    unpacker.unpack()
    assert unpacker.tell() == end


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"\xc1", b"\x91\xc1", b"\x81\xc1\xc0",
        b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff",
        b"\xc9\xff\xff\xff\xff\x01", b"\xdd\xff\xff\xff\xff" + b"\x80" * 1000, b"\xdc\x00", b"\xd9", b"\x81\xd9",
        b"\xa1\xff", b"\xa3\xed\xa0\x80", b"\xd9\x01\xff", b"\x81\xa1\xff\xc0", b"\x81\xd9\x01\xff\xc0",
        b"\xa2\xc0\xaf",
        b"\x82\xa1a\x01\xa1a\x02", b"\x82\xa1a\x01\xd9\x01a\x02", b"\x91\x82\xa1a\xc0\xa1a\xc0",
        b"\xde\x00\x02\xa1a\xc0\xa1a\xc0",
    ],
)  # fmt: skip
def test_broken_messages_are_unparsable_at_no_cost(raw: bytes) -> None:
    tracemalloc.start()
    with pytest.raises(UnparsableError):
        scan(raw, limits=LIMITS)
    assert tracemalloc.get_traced_memory()[1] < 100_000
    tracemalloc.stop()


@pytest.mark.parametrize(
    "key", [b"\x01", b"\xc0", b"\x90", b"\x80", b"\xc4\x01a", b"\xcb" + bytes(8), b"\xff"]
)
def test_keys_are_strings(key: bytes) -> None:
    raw = b"\x81" + key + b"\xc0"
    with pytest.raises(InvalidError) as error:
        scan(raw, limits=LIMITS)
    assert error.value.code == "key_not_str"
    with pytest.raises(UnparsableError):
        scan(raw, limits=LIMITS, in_envelope=True)


def nested(levels: int, innermost: bytes = b"\xc0") -> bytes:
    return b"\x91" * levels + innermost


def test_nesting_is_allowed_up_to_the_limit() -> None:
    assert scan(nested(32), limits=LIMITS) == 33
    assert scan(b"\x81\xa1a" * 32 + b"\xc0", limits=LIMITS) == 97
    for raw in (nested(33), nested(32, b"\x80"), b"\x81\xa1a" * 33 + b"\xc0", nested(900)):
        with pytest.raises(InvalidError) as error:
            scan(raw, limits=LIMITS)
        assert error.value.code == "too_deep"


@pytest.mark.parametrize("raw", [nested(100_000), b"\x91" * 100_000, b"\x91" * 50, nested(50, b"\xc1")])
def test_too_deep_and_broken_is_broken(raw: bytes) -> None:
    with pytest.raises(UnparsableError):
        scan(raw, limits=LIMITS)


def test_nodes_are_allowed_up_to_the_limit() -> None:
    assert scan(msgpack.packb([1] * 19_999), limits=LIMITS)
    assert scan(msgpack.packb({str(n): n for n in range(9_999)}), limits=LIMITS)
    for value in ([1] * 20_000, {str(n): n for n in range(10_000)}, [[1] * 10_000] * 2):
        with pytest.raises(TooLargeError) as error:
            scan(msgpack.packb(value), limits=LIMITS)
        assert error.value.code == "too_many_nodes"


@pytest.mark.parametrize(
    "bomb",
    [
        b"\xdd" + (2**20).to_bytes(4, "big") + b"\x80" * 2**20,
        b"\x9f" * 1 + (b"\xdc\x10\x00" + b"\x80" * 4096) * 256,
        (b"\xdd" + (2**16).to_bytes(4, "big")) + (b"\x9f" + b"\x80" * 15) * 65536,
    ],
    ids=["one array", "many arrays", "small arrays"],
)
def test_a_mebibyte_of_empty_maps_is_refused_in_time_and_memory(bomb: bytes) -> None:
    begun = time.thread_time()
    with pytest.raises(TooLargeError):
        scan(bomb, limits=LIMITS)
    assert time.thread_time() - begun < 0.1  # 0.02 s on an idle machine
    tracemalloc.start()
    with pytest.raises(TooLargeError):
        scan(bomb, limits=LIMITS)
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


def timestamp96(nanoseconds: int, seconds: int) -> bytes:
    return b"\xc7\x0c\xff" + struct.pack(">Iq", nanoseconds, seconds)


@pytest.mark.parametrize(
    "raw",
    [
        msgpack.packb(datetime.max.replace(tzinfo=UTC), datetime=True),
        msgpack.packb(datetime.min.replace(tzinfo=UTC), datetime=True),
        b"\xd6\xff" + bytes(4),
        b"\xd7\xff" + ((999_999_999 << 34) | 1).to_bytes(8, "big"),
        timestamp96(999_999_999, -1),
    ],
)
def test_timestamps_of_the_years_1_to_9999_pass(raw: bytes) -> None:
    assert scan(raw, limits=LIMITS) == len(raw)
    assert msgpack.unpackb(raw, timestamp=3).year <= 9999


@pytest.mark.parametrize(
    "raw",
    [
        b"\xd7\xff" + (1_000_000_000 << 34).to_bytes(8, "big"),
        timestamp96(1_000_000_000, 0),
        timestamp96(0, 253_402_300_800),
        timestamp96(0, -62_135_596_801),
        timestamp96(0, -(2**63)),
        b"\xd4\xff\x00",
        b"\xd5\xff\x00\x00",
        b"\xd8\xff" + bytes(16),
        b"\xc7\x00\xff",
        b"\xc7\x05\xff" + bytes(5),
    ],
)
def test_other_timestamps_are_refused(raw: bytes) -> None:
    with pytest.raises(InvalidError) as error:
        scan(raw, limits=LIMITS)
    assert error.value.code == "bad_timestamp"


@pytest.mark.req("J3")
@pytest.mark.parametrize(
    "raw",
    [
        b"\xcb\x7f\xf8\x00\x00\x00\x00\x00\x01", msgpack.packb(-math.inf), b"\xd4\x7fx", b"\xc7\x00\x05",
        b"\xc9\x00\x00\x00\x02\x07ab",
    ],
)  # fmt: skip
def test_nan_infinity_and_unknown_extensions_pass(raw: bytes) -> None:
    assert scan(raw, limits=LIMITS) == len(raw)


@pytest.mark.parametrize("code", [-128, -127, -2])
@pytest.mark.parametrize("head", [b"\xd4", b"\xc7\x01", b"\xc8\x00\x01", b"\xc9\x00\x00\x00\x01"])
def test_reserved_extension_codes_are_refused(head: bytes, code: int) -> None:
    with pytest.raises(InvalidError) as error:
        scan(b"\x91" + head + struct.pack("b", code) + b"x", limits=LIMITS)
    assert error.value.code == "bad_ext"


def test_headers_of_containers() -> None:
    assert map_header(b"\x82", 0) == (2, 1)
    assert map_header(b"\x00\xde\x00\x01ab", 1) == (1, 4)
    assert map_header(b"\x92", 0) is None
    assert array_header(b"\x92", 0) == (2, 1)
    assert array_header(b"\xdd\x00\x00\x00\x01a", 0) == (1, 5)
    assert array_header(b"\x82", 0) is None
    for raw in (b"", b"\xdf\x00", b"\xdf\x00\x00\x00\x02a"):
        with pytest.raises(UnparsableError):
            map_header(raw, 0)
